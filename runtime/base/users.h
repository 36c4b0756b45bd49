/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes the callers of a listening socket. One that cannot be taken, as there is
 * no descriptor or no memory for it, waits: the socket stays readable, and a loop
 * that looked at once again would spin. So do those of a flood, which leaves the
 * thread to others, and users while very many sockets of theirs cannot be closed. The
 * thread of the loop.
 */
#ifndef MPIB_BASE_USERS_H
#define MPIB_BASE_USERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/loop.h"

/* Zeroed memory is one that is not open. */
struct mpib_acceptor {
	struct mpib_loop *loop;
	int fd; /* the listening socket, which stays the caller's */
	unsigned at_once; /* callers in a turn of the loop; 0: one */
	/* Callers that are taken in a second, after those of an 8th of one; 0: as
	 * many as there are. */
	unsigned a_second;
	bool of_users; /* by whose sockets, see mpib_closers_full(), they wait */
	const char *who; /* in the log: "a client" */
	/* fd is of the caller, close-on-exec and not blocking; fn owns it. */
	void (*fn)(void *arg, int fd);
	/* No descriptor is left: whether the next caller was turned away all the
	 * same. NULL: it waits. */
	bool (*full)(void *arg);
	void *arg;
	struct mpib_io watch;
	struct mpib_timer pause;
	uint64_t paid; /* see clock.h */
};

/* Enough for processes of a job that begin at once. */
#define MPIB_ACCEPTS_A_SECOND 4000

/* Begin, with what is above the watch filled in. 0 or -errno. */
int mpib_acceptor_open(struct mpib_acceptor *a);
/* No effect on one that is not open. */
void mpib_acceptor_close(struct mpib_acceptor *a);

/* Take callers of the listening socket fd instead, which is closed; its place is that
 * of the old one, which keeps its number. 0 or -errno. */
int mpib_acceptor_renew(struct mpib_acceptor *a, int fd);

/* The user at the other end of a Unix socket; -1: it is not known. */
uid_t mpib_accepted_uid(int fd);

/*
 * What it costs to wake those who wait at the other end of a user's socket. Whoever
 * sends to it, or reads from it, goes through the list of them, which is as long as
 * the user likes. Control thread.
 */

/* Of a socket. Zeroed memory is one on which there were no calls. */
struct mpib_waking {
	unsigned
		slow; /* grows with each call that was, and shrinks with others */
	uint64_t took_ns; /* by those that were, since it was 0 */
};

/* CPU time of this thread, ns. */
uint64_t mpib_waking_begin(void);
/* A call on the socket, that began then, is over. False: nearly each takes much, and
 * all did so much that the socket is to be hung up on. A few that do say nothing: a
 * machine whose CPUs are others', too, counts what it has them for, and it may be at any
 * place. */
bool mpib_waking_end(struct mpib_waking *w, uint64_t began_ns);

/* What a user sent by a Unix socket, and nobody has read. Any thread. */

/* Whether it is a Unix socket, which was shut down, and there is nothing in it, so
 * that there will be nothing: its close lets go of nothing. */
bool mpib_unread_none(int sock);
/* As recv() of a Unix socket, with MSG_DONTWAIT and what flags says, but what
 * descriptors come along are closed so. */
ssize_t mpib_recv_of(uid_t user, int sock, void *to, size_t len, int flags);

/* What the bounded tables of a proxy have in common: who may take the last
 * place. Any thread. */

/* How many of a table's places may be taken when one of the user comes: a few
 * are root's, who is to get in when users have taken all others. */
static inline uint32_t mpib_places_for(uint32_t places, uid_t uid)
{
	return uid == 0 ? places : places - places / 32;
}

#endif
