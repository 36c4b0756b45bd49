/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The users of the attacks: uids that own nothing on the machine, in the group
 * that may attach (nogroup, see attack_start()). A call that fails ends the test.
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

/* Skip the test, and say so, unless it runs as root. */
void attack_needs_root(void);
/* Start node number n, whose sockets the tenants may use, and whose memfds it takes,
 * with further arguments up to a NULL. */
void attack_start(struct node *node, unsigned n, const char *const *args);

/* CPU time of the proxy's first thread, which is the control thread. */
uint64_t control_us(pid_t pid);
/* That of its threads that move messages. */
uint64_t shards_us(pid_t pid);
/* Run fn(arg) in a child with the uid and the tenants' group, without any
 * capability. */
pid_t tenant_begin(uid_t uid, int (*fn)(void *arg), void *arg);
/* Kill those but VICTIM that a test which failed has left: a proxy that closes a file
 * of one does not end before him. */
void attackers_end(void);
/* And child_end(). */
int tenant_run(uid_t uid, int (*fn)(void *arg), void *arg);

/* For children: as many descriptors as they may have at most. */
void tenant_many_descriptors(void);
/* For children: tell the test by the pipe, and stay until killed. */
int tenant_stay(int pipe);
/* Begin as ATTACKER; returns when the child has written to the pipe whose reading end
 * is ready. Fails the test if the child ends before. */
pid_t attacker_begin(int (*fn)(void *arg), void *arg, int ready);
/* Fail the test if the attacker has ended: nothing may be waited for then. */
void attacker_check(pid_t pid);

/* For children, which must not end the test: connect to a socket of the node;
 * the socket or -errno. */
int tenant_dial(const char *dir, const char *name, int type);
/* Wait for an answer on the control socket: its status; 1: there is none. */
int tenant_answer(int sock);
/* Attach without the library: the control socket, or -1. */
int tenant_hello(const char *dir);
/* Register memory by that socket as a memfd: the answer's status, or 1 if there
 * was none. */
int tenant_reg_fd(int sock, int fd, uint64_t offset, uint64_t size);
/* Attach to the node; NULL if that fails. */
struct mpib_client *tenant_attach(const struct node *n);

#endif
