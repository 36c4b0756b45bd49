/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real mpib-proxy for a test: two software rails on addresses that no other
 * test uses, and a run directory of its own. The proxy ends with the test. A
 * call that fails ends the test.
 */
#ifndef MPIB_TESTS_NODE_H
#define MPIB_TESTS_NODE_H

#include <jansson.h>
#include <mpib/control.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct node {
	char base[64]; /* made and removed by the test */
	char dir[80]; /* the run directory in base, made by the proxy */
	char conf[80]; /* empty, replaces the machine's file */
	char sout[32], sup[32]; /* its rails */
	char ready[512]; /* its ready line */
	char *args[20]; /* further arguments, up to a NULL */
	pid_t pid;
};

/* Write rail i (1 to 254), "soft:127.A.B.i", see addr.h. Node number n has
 * rails 10 n and 10 n + 1. If rails.h names rails, nodes of odd number have the
 * rails of the first node. */
void node_rail(char *buf, size_t len, unsigned i);
/* Return the address of such a rail, in network byte order. */
uint32_t node_address(const char *rail);
/* Start node number n, with further arguments up to a NULL, and wait for its
 * ready line. */
void node_start(struct node *node, unsigned n, ...);
/* The same with an array that ends with NULL. */
void node_start_with(struct node *node, unsigned n, const char *const *args);
/* SIGKILL the proxy and wait. Start it again with the same arguments. */
void node_kill(struct node *node);
void node_again(struct node *node);
/* node_kill(), then remove the node's files. */
void node_wipe(struct node *node);
/* SIGTERM and wait; the test fails unless the exit status is 0 and the run
 * directory has no more than run_dir_remove() removes. */
void node_stop(struct node *node);
/* Wait until another process has taken over from the node's proxy and this
 * proxy has ended. This process must be a subreaper: it becomes the parent of
 * the new proxy once its starter has ended. */
void node_succeeded(struct node *node);
/* Remove a run directory with the files that its proxy leaves. */
void run_dir_remove(const char *dir);

/* Wait for a child to end. Returns its exit status, or 128 + signal. */
int child_end(pid_t pid);
/* SIGKILL a child of the test and wait; it must not have ended by itself. */
void child_kill(pid_t pid);
/* SIGSTOP a child, and wait until it is stopped. */
void child_freeze(pid_t pid);
/* Count the entries of the directory /proc/PID/what. */
unsigned proc_entries(pid_t pid, const char *what);

/* The output and exit status of one process. */
struct run {
	int status; /* exit status, 128 + signal */
	char out[1 << 18]; /* holds all events that a proxy keeps, as JSON */
	char err[2048];
	pid_t pid; /* while it runs */
	FILE *outfile, *errfile;
};

/* Run a program until it ends. argv[0] "mpib-proxy" and "mpibctl" mean the
 * programs of the build. The program does not get the test's MPIB_* variables,
 * except MPIB_SOFT_*. */
void run_wait(struct run *run, const char *const *argv);
/* run_wait() in two steps: start the program; ask whether it has ended. */
void run_begin(struct run *run, const char *const *argv);
bool run_over(struct run *run);

/* Return the data of the answer to a command on the admin socket. */
json_t *node_ask(const struct node *node, const char *command);
/* Return one number of "usage" in the answer to "info". */
json_int_t node_usage(const struct node *node, const char *key);
/* Ask until that number is n; fails the test after 10 s. */
void node_until_usage(const struct node *node, const char *key, json_int_t n);

/* Connect to a control or stats socket; returns the socket. */
int node_dial(const struct node *node, const char *name, int type);

/* The same for the admin socket, as root or the user of the proxy. */
int node_dial_admin(const struct node *node);

/* Return the milliseconds of a monotonic clock. */
unsigned long long node_ms(void);

#endif
