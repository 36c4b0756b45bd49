/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A user that the attacks must not affect: a separate process with the uid
 * VICTIM that moves checked messages between two nodes. It also attaches again
 * and opens a connection every now and then.
 */
#ifndef MPIB_TESTS_VICTIM_H
#define MPIB_TESTS_VICTIM_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/hist.h"
#include "tenant.h"

struct victim {
	pid_t pid;
	char from[80], to[80]; /* run directories */
	_Atomic bool stop;
	_Atomic bool killed; /* its proxies: a newcomer may find none */
	_Atomic uint64_t messages, wrong;
	_Atomic uint64_t attached, refused; /* attempts to attach and connect */
	_Atomic int error; /* of the connection with messages */
	_Atomic bool said;
	char why[320]; /* of the first failure */
	struct mpib_hist took; /* messages, from isend to arrival */
	/* Two nodes that are not attacked, if the environment has
	 * VICTIM_ELSEWHERE: the victim moves between these, and only shares the
	 * machine with the attack. */
	struct node elsewhere[2];
};

/* Start it, in memory shared by both processes. Returns when it moves
 * messages. */
struct victim *victim_start(const struct node *from, const struct node *to);
bool victim_is_here(const struct victim *v);
/* Start nodes 1 and 2 with these arguments, and a victim between them. Returns
 * NULL unless the test runs as root. victim_leave() ends the victim and
 * remaining attackers, and stops both nodes. */
struct victim *victim_between(struct node node[2], const char *const *args);
void victim_leave(struct victim *v, struct node node[2]);
/* victim_leave() as a cmocka teardown, for the last victim_between(). */
int victim_teardown(void **state);
/* Wait until it has moved this many more messages, and attached once more. */
void victim_goes_on(struct victim *v, uint64_t messages);
/* Stop it, and report the p99 of its messages. Checks that no message was
 * wrong, no attach refused, and no connection broken. */
void victim_end(struct victim *v);
/* Start a new victim, and wait until it has moved this many messages. */
void victim_newcomer(const struct node *from, const struct node *to,
		     uint64_t messages);

#endif
