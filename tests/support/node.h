/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real mpib-proxy for a test. The proxy has two software rails on addresses
 * that no other test uses, and its own run directory. The proxy ends with the
 * test. If a call fails, the test fails.
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
	char base[64]; /* directory that the test makes and removes */
	char dir[80]; /* run directory, which the proxy makes in `base` */
	char conf[80]; /* path of the configuration file */
	char sout[32], sup[32]; /* names of the rails */
	char ready[512]; /* the proxy's ready line */
	char *args[20]; /* further arguments, which end with a NULL */
	/* groups of the user "nobody", who runs the proxy; NULL: the test's
	 * user runs it */
	const char *groups;
	pid_t pid;
};

/* Write the name of rail `i` (1 to 254) to `buf`: "soft:127.A.B.i", see addr.h.
 * Node number n has the rails 10 * n and 10 * n + 1. If MPIB_TEST_RAILS is set
 * (see rails.h), nodes with odd numbers use the rails that this variable names
 * for the first node. */
void node_rail(char *buf, size_t len, unsigned i);
/* Return the address of a rail "soft:ADDRESS", in network byte order. */
uint32_t node_address(const char *rail);
/* Start node number `n` with further arguments, which end with a NULL. Wait for
 * its ready line. */
void node_start(struct node *node, unsigned n, ...);
/* Do the same as node_start(), with an array that ends with NULL. */
void node_start_with(struct node *node, unsigned n, const char *const *args);
/* Do the same as root, but let the user "nobody" run the proxy, in these groups
 * ("65534,60") and with the rights that mpib-proxy(8) names. */
void node_start_as_nobody(struct node *node, unsigned n, const char *groups,
			  const char *const *args);
/* node_kill() kills the proxy with SIGKILL and waits until it has ended.
 * node_again() starts it again with the same arguments. */
void node_kill(struct node *node);
void node_again(struct node *node);
/* Call node_kill(), then remove the node's files. */
void node_wipe(struct node *node);
/* Stop the proxy with SIGTERM and wait. Fail the test if the exit status is not
 * 0, or if the run directory contains files that run_dir_remove() does not
 * remove. */
void node_stop(struct node *node);
/* Wait until a new proxy has replaced the node's proxy, and the old proxy has
 * ended. The calling process must be a subreaper, so that it becomes the parent
 * of the new proxy when the process that started the new proxy ends. */
void node_succeeded(struct node *node);
/* Remove a run directory, with the files that a proxy leaves there. */
void run_dir_remove(const char *dir);

/* Wait for a child to end. Return the child's exit status, or 128 + the
 * signal. */
int child_end(pid_t pid);
/* Kill a child of the test with SIGKILL and wait. Fail the test if the child
 * had already ended. */
void child_kill(pid_t pid);
/* Stop a child with SIGSTOP, and wait until it is stopped. */
void child_freeze(pid_t pid);
/* Count the entries of the directory `what` in /proc/PID. */
unsigned proc_entries(pid_t pid, const char *what);

/* The output and exit status of one process. */
struct run {
	int status; /* exit status, or 128 + the signal */
	/* large enough for the JSON of all events that a proxy keeps */
	char out[1 << 18];
	char err[2048];
	pid_t pid; /* only valid while the process runs */
	FILE *outfile, *errfile;
};

/* Run a program until it ends. "mpib-proxy" and "mpibctl" as argv[0] mean the
 * programs of the build. The program does not get the test's MPIB_* variables
 * except MPIB_SOFT_*. */
void run_wait(struct run *run, const char *const *argv);
/* The two steps of run_wait(): run_begin() starts the program, and run_over()
 * returns whether it has ended. */
void run_begin(struct run *run, const char *const *argv);
bool run_over(struct run *run);

/* Return the data of the answer to a command on the admin socket. */
json_t *node_ask(const struct node *node, const char *command);
/* Return one number of "usage" in the answer to "info". */
json_int_t node_usage(const struct node *node, const char *key);
/* Ask until this number is `n`. If it is not `n` after a minute, fail the
 * test. */
void node_until_usage(const struct node *node, const char *key, json_int_t n);

/* Connect to a control or stats socket. Return the socket. */
int node_dial(const struct node *node, const char *name, int type);

/* Connect to the admin socket, as root or as the proxy's user. */
int node_dial_admin(const struct node *node);

/* Return the time of a monotonic clock in milliseconds. */
unsigned long long node_ms(void);

#endif
