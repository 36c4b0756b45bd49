/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real mpib-proxy for a test. It has two software rails on addresses that no
 * other test uses, and its own run directory. The proxy ends with the test. A
 * failed call ends the test.
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
	char base[64]; /* the test makes and removes it */
	char dir[80]; /* run directory within base; the proxy makes it */
	char conf[80]; /* an empty file that replaces the machine's file */
	char sout[32], sup[32]; /* names of its rails */
	char ready[512]; /* its ready line */
	char *args[20]; /* further arguments, up to a NULL */
	pid_t pid;
};

/* Write the name of rail i (1 to 254), which is "soft:127.A.B.i", see addr.h.
 * Node number n has the rails 10 n and 10 n + 1. If rails.h names rails, nodes
 * with an odd number have the rails of the first node. */
void node_rail(char *buf, size_t len, unsigned i);
/* Return the address of such a rail, in network byte order. */
uint32_t node_address(const char *rail);
/* Start node number n with further arguments, up to a NULL. Wait for its ready
 * line. */
void node_start(struct node *node, unsigned n, ...);
/* Do the same with an array that ends with NULL. */
void node_start_with(struct node *node, unsigned n, const char *const *args);
/* Kill the proxy with SIGKILL and wait until it has ended. Start it again with
 * the same arguments. */
void node_kill(struct node *node);
void node_again(struct node *node);
/* Call node_kill(), then remove the node's files. */
void node_wipe(struct node *node);
/* Stop the proxy with SIGTERM and wait. The test fails if the exit status is
 * not 0, or if the run directory has files that run_dir_remove() does not
 * remove. */
void node_stop(struct node *node);
/* Wait until another process has taken over from the node's proxy and the proxy
 * has ended. This process must be a subreaper. It becomes the parent of the new
 * proxy when the process that started that proxy ends. */
void node_succeeded(struct node *node);
/* Remove a run directory with the files that its proxy leaves. */
void run_dir_remove(const char *dir);

/* Wait for a child to end. Return its exit status, or 128 + the signal. */
int child_end(pid_t pid);
/* Kill a child of the test with SIGKILL and wait. The child must not have ended
 * before. */
void child_kill(pid_t pid);
/* Stop a child with SIGSTOP, and wait until it is stopped. */
void child_freeze(pid_t pid);
/* Count the entries of the directory /proc/PID/`what`. */
unsigned proc_entries(pid_t pid, const char *what);

/* The output and exit status of one process. */
struct run {
	int status; /* exit status, or 128 + the signal */
	/* large enough for all events that a proxy keeps, as JSON */
	char out[1 << 18];
	char err[2048];
	pid_t pid; /* set while it runs */
	FILE *outfile, *errfile;
};

/* Run a program until it ends. "mpib-proxy" and "mpibctl" as argv[0] mean the
 * programs of the build. The program does not get the test's MPIB_* variables
 * except MPIB_SOFT_*. */
void run_wait(struct run *run, const char *const *argv);
/* These are the two steps of run_wait(): start the program, and ask whether it
 * has ended. */
void run_begin(struct run *run, const char *const *argv);
bool run_over(struct run *run);

/* Return the data of the answer to a command on the admin socket. */
json_t *node_ask(const struct node *node, const char *command);
/* Return one number of "usage" in the answer to "info". */
json_int_t node_usage(const struct node *node, const char *key);
/* Ask until that number is n. Fail the test after 10 s. */
void node_until_usage(const struct node *node, const char *key, json_int_t n);

/* Connect to a control or stats socket. Return the socket. */
int node_dial(const struct node *node, const char *name, int type);

/* Do the same for the admin socket, as root or as the proxy's user. */
int node_dial_admin(const struct node *node);

/* Return the time of a monotonic clock in milliseconds. */
unsigned long long node_ms(void);

#endif
