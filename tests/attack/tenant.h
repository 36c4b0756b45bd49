/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The users that attack, and those that are attacked. Their uids own nothing on
 * the machine, and their group (nogroup, see attack_start()) may attach. If one
 * of these functions fails, the test fails, unless the function's comment says
 * otherwise.
 */
#ifndef MPIB_TESTS_TENANT_H
#define MPIB_TESTS_TENANT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "node.h"

#define ATTACKER 61001
#define VICTIM 61002
#define TENANT_GROUP 65534

/* Skip the test with a message if it does not run as root. */
void attack_needs_root(void);
/* Start node number `n` with further arguments `args`, which end with a NULL.
 * Tenants may use the node's sockets, and the node accepts their memfds. */
void attack_start(struct node *node, unsigned n, const char *const *args);

/* Return the CPU time of the proxy's first thread, the control thread. */
uint64_t control_us(pid_t pid);
/* Return the CPU time of the proxy's shards. */
uint64_t shards_us(pid_t pid);
/* Run fn(`arg`) in a child process of user `uid`, in the tenants' group, and
 * without capabilities. */
pid_t tenant_begin(uid_t uid, int (*fn)(void *arg), void *arg);
/* Kill the attackers that a failed test has left running, but not the victim.
 * Call this function before the proxies are stopped. A proxy that closes a file
 * of a running attacker can block. */
void attackers_end(void);
/* Call tenant_begin() and child_end(). */
int tenant_run(uid_t uid, int (*fn)(void *arg), void *arg);

/* Call this only in a child process. Raise the descriptor limit to its
 * maximum. */
void tenant_many_descriptors(void);
/* Call this only in a child process. Write to the pipe to tell the test, then
 * wait until the test kills the child. */
int tenant_stay(int pipe);
/* Run fn(arg) as ATTACKER. Return when the attacker has written to the pipe
 * whose reading end is `ready`. Fail the test if the child ends without a
 * write. */
pid_t attacker_begin(int (*fn)(void *arg), void *arg, int ready);
/* Wait until the attacker has written a byte to the pipe, and return the byte.
 * Fail the test if the attacker ends without a write. */
char attacker_told(pid_t pid, int ready);
/* Fail the test if the attacker has ended, because without an attack the test
 * proves nothing. */
void attacker_check(pid_t pid);

/* Connect to a socket of the node. An error does not end the test, so children
 * may call this function. Return the socket or -errno. */
int tenant_dial(const char *dir, const char *name, int type);
/* Wait for an answer on the control socket. Return the answer's status, or 1 if
 * no answer came. */
int tenant_answer(int sock);
/* Attach without the library. Return the control socket, or -1. */
int tenant_hello(const char *dir);
/* Attach as tenant_hello() does, but retry if the proxy refuses, because the
 * proxy may still be closing the descriptors of an earlier attacker. */
int tenant_hello_again(const char *dir);
/* Register the memfd over `sock`. Return the answer's status, or 1 if no answer
 * came. */
int tenant_reg_fd(int sock, int fd, uint64_t offset, uint64_t size);
/* Attach to the node. Return NULL on failure. */
struct mpib_client *tenant_attach(const struct node *n);

#endif
