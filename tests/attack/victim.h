/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A victim is a user that the attacks must not affect. The victim is a separate
 * process with the uid VICTIM. It moves messages between two nodes and checks
 * their data. Now and then the victim also attaches again and opens a
 * connection.
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
	/* the proxies were killed, so an attach may find no proxy */
	_Atomic bool killed;
	_Atomic uint64_t messages, wrong;
	/* number of attaches that succeeded, and number that failed; each
	 * attach includes a connect */
	_Atomic uint64_t attached, refused;
	/* first error of the connection that carries messages */
	_Atomic int error;
	_Atomic bool said;
	char why[320]; /* the first failure */
	struct mpib_hist took; /* time of each message, from isend to arrival */
	/* If the environment has VICTIM_ELSEWHERE, the victim moves its
	 * messages between these two nodes, which are not attacked. In that
	 * case the attack and the victim share only the machine. */
	struct node elsewhere[2];
};

/* Start a victim that shares this structure with the test. Return after the
 * victim has begun to move messages. */
struct victim *victim_start(const struct node *from, const struct node *to);
bool victim_is_here(const struct victim *v);
/* Start nodes 1 and 2 with these arguments, and a victim that moves messages
 * between them. Return NULL if the test does not run as root. */
struct victim *victim_between(struct node node[2], const char *const *args);
/* End the victim and the remaining attackers, and stop both nodes. */
void victim_leave(struct victim *v, struct node node[2]);
/* Call victim_leave() for the last victim_between(), as a cmocka teardown. */
int victim_teardown(void **state);
/* Wait until the victim has moved this number of further messages and has
 * attached once more. */
void victim_goes_on(struct victim *v, uint64_t messages);
/* Stop the victim and report the p99 of its messages. Check that no message was
 * wrong, no attach was refused, and no connection broke. */
void victim_end(struct victim *v);
/* Start another victim, wait until it has moved `messages` messages, and stop
 * it. */
void victim_newcomer(const struct node *from, const struct node *to,
		     uint64_t messages);

#endif
