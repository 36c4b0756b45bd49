/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes the callers of a listening socket. One that cannot be taken, as there is
 * no descriptor or no memory for it, waits: the socket stays readable, and a loop
 * that looked at once again would spin. So do those of a flood, which leaves the
 * thread to others, and users while very many sockets of theirs cannot be closed. The
 * thread of the loop.
 */
#ifndef MPIB_BASE_ACCEPTOR_H
#define MPIB_BASE_ACCEPTOR_H

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
	uint64_t paid; /* see rate.h */
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

#endif
