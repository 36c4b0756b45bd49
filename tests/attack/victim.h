/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A user whom the attacks must not hurt: a process of its own, of the uid
 * VICTIM, that moves checked messages between two nodes, and beside that attaches
 * anew and opens a connection every now and then.
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
	_Atomic bool killed; /* its proxies are: a newcomer may find none */
	_Atomic uint64_t messages, wrong;
	_Atomic uint64_t attached, refused; /* tries to attach and connect */
	_Atomic int error; /* of a connection that was open before */
	_Atomic bool said;
	char why[320]; /* of the first failure */
	struct mpib_hist took; /* messages, from isend to arrival */
	/* Two nodes that are not attacked, where the environment has
	 * VICTIM_ELSEWHERE: it moves between these, beside what the same attack
	 * takes of the machine. */
	struct node elsewhere[2];
};

/* Start it, in memory that both processes see; returns when it moves. */
struct victim *victim_start(const struct node *from, const struct node *to);
bool victim_is_here(const struct victim *v);
/* Start nodes 1 and 2 with these arguments, and a victim between them; NULL
 * unless the test runs as root. victim_leave() ends it and what attackers are left,
 * and stops both. */
struct victim *victim_between(struct node node[2], const char *const *args);
void victim_leave(struct victim *v, struct node node[2]);
/* The same for cmocka, of the last victim_between(). */
int victim_teardown(void **state);
/* Wait until it has moved so many more messages, and attached once more. */
void victim_goes_on(struct victim *v, uint64_t messages);
/* Stop it, and tell the p99 of its messages: none was wrong, no attach refused, no
 * connection broken. */
void victim_end(struct victim *v);
/* One that begins only now moves so many messages. */
void victim_newcomer(const struct node *from, const struct node *to,
		     uint64_t messages);

#endif
