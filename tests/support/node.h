/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real mpib-proxy for a test: two software rails on addresses that belong to
 * the test's process, and a run directory of its own. It dies with the test. Every call ends the test
 * when it cannot do what it says.
 */
#ifndef MPIB_TESTS_NODE_H
#define MPIB_TESTS_NODE_H

#include <jansson.h>
#include <mpib/control.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct node {
	char base[64]; /* ours */
	char dir[80]; /* the run directory in it, the proxy's to make */
	char conf[80]; /* an empty file: the machine's own must not matter */
	char sout[32], sup[32]; /* its rails */
	char ready[512]; /* its ready line */
	char *args[20]; /* further ones, up to a NULL */
	pid_t pid;
};

/* "soft:127.24.P.i", for i from 1 to 254; number n has i of 10 n and 10 n + 1.
 * Where rails.h has rails, odd numbers have the first node's. */
void node_rail(char *buf, size_t len, unsigned i);
/* Start number n, with further arguments up to a NULL, and wait for ready. */
void node_start(struct node *node, unsigned n, ...);
/* SIGKILL and wait; and start it again where it was. */
void node_kill(struct node *node);
void node_again(struct node *node);
/* As node_kill(), and nothing of it is left. */
void node_wipe(struct node *node);
/* SIGTERM and wait; the exit status is 0 or the test fails. Nothing of the
 * run directory is left. Returns how long it took in ms. */
unsigned node_stop(struct node *node);

/* SIGKILL and wait for a child of the test's; it must not have ended by itself. */
void child_kill(pid_t pid);

/* What one process wrote and how it ended. */
struct run {
	int status; /* exit status, 128 + signal */
	char out[32768], err[2048];
	pid_t pid; /* while it runs */
	FILE *outfile, *errfile;
};

/* argv[0] "mpib-proxy" and "mpibctl" are those of the build. Environment
 * variables MPIB_* of the test do not reach them. */
void run_wait(struct run *run, const char *const *argv);
/* The same in two steps: start it, and look whether it has ended. */
void run_begin(struct run *run, const char *const *argv);
bool run_over(struct run *run);

/* Data of a stats command. */
json_t *node_ask(const struct node *node, const char *command);
/* One number of info's ledger. */
json_int_t node_usage(const struct node *node, const char *key);
/* Ask until the ledger's key is n; fails the test after 10 s. */
void node_until_usage(const struct node *node, const char *key, json_int_t n);

/* A connected control or stats socket. */
int node_dial(const struct node *node, const char *name, int type);

/* Milliseconds since some moment. */
unsigned long long node_ms(void);

#endif
