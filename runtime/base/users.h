/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accept connections from a listening socket, on the loop's thread. A caller is
 * a process that connects. If descriptors or memory are short, the loop stops
 * watching the socket for a while, because it would stay readable and the loop
 * would spin. Accepting also pauses during a flood of callers, so that the
 * thread can do other work. Accepting also pauses while very many sockets of
 * users wait to be closed.
 */
#ifndef MPIB_BASE_USERS_H
#define MPIB_BASE_USERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/loop.h"

/* An acceptor. Zeroed memory is an acceptor that is not open. */
struct mpib_acceptor {
	struct mpib_loop *loop;
	int fd; /* the listening socket; the caller closes it */
	unsigned at_once; /* callers accepted per turn of the loop; 0: one */
	/* Callers accepted per second, after a burst of an eighth of that; 0:
	 * no limit. */
	unsigned a_second;
	/* the callers are ordinary users: pause accepting while
	 * mpib_closers_full() */
	bool of_users;
	const char *who; /* for the log: "a client" */
	/* Called for each accepted caller. fn() owns `fd`, which is
	 * close-on-exec and non-blocking. */
	void (*fn)(void *arg, int fd);
	/* Called when no descriptor is left. Returns true if it has turned the
	 * next caller away, which it does with a spare descriptor. NULL:
	 * callers wait in the kernel's queue. */
	bool (*full)(void *arg);
	void *arg;
	struct mpib_io watch;
	struct mpib_timer pause;
	uint64_t paid; /* see clock.h */
};

/* Enough for the processes of a job that start together. */
#define MPIB_ACCEPTS_A_SECOND 4000

/* Start accepting. The fields before `watch` must be set. Return 0 or
 * -errno. */
int mpib_acceptor_open(struct mpib_acceptor *a);
/* No effect if not open. */
void mpib_acceptor_close(struct mpib_acceptor *a);

/* Replace the listening socket by `fd`. The new socket gets the old descriptor
 * number, and `fd` is closed. Return 0 or -errno. */
int mpib_acceptor_renew(struct mpib_acceptor *a, int fd);

/* Return the user at the other end of a Unix socket; -1: unknown. */
uid_t mpib_accepted_uid(int fd);

/* Limit the cost of waking the waiters at the other end of a user's socket.
 * Each send or receive on the socket walks the list of these waiters, and the
 * user can make this list very long. Control thread. */

/* Record of one socket. Zeroed memory: no calls yet. */
struct mpib_waking {
	/* grows with each long call, shrinks with each short one */
	unsigned slow;
	unsigned calls; /* number of long calls since `slow` was 0 */
	uint64_t took_ns; /* CPU time of these calls */
};

/* Return the CPU time of this thread, ns. */
uint64_t mpib_waking_begin(void);
/* Record the end of a call on the socket; `began_ns` is from
 * mpib_waking_begin(). Return false if the caller must hang up, because nearly
 * every call takes long, the sum of their times is too large, and calls on a
 * socket without waiters are much faster now. In a virtual machine, CPU time
 * includes time taken by the host, so all calls can be slow. */
bool mpib_waking_end(struct mpib_waking *w, uint64_t began_ns);

/* Unread messages that a user sent over a Unix socket. Any thread. */

/* Return whether sock is a Unix socket that was shut down and is empty. Such a
 * socket stays empty, and closing it frees nothing else. */
bool mpib_unread_none(int sock);
/* Like recv() of a Unix socket, with MSG_DONTWAIT added to `flags`. Closes the
 * descriptors that arrive with the message, as mpib_close_received() does. */
ssize_t mpib_recv_of(uid_t user, int sock, void *to, size_t len, int flags);

/* The entries that every bounded table of the proxy reserves for root. Any
 * thread. */

/* A table with room for `places` entries refuses this user when it has the
 * returned number of entries. The last 1/32 is reserved for root, so that users
 * cannot lock root out. */
static inline uint32_t mpib_places_for(uint32_t places, uid_t uid)
{
	return uid == 0 ? places : places - places / 32;
}

#endif
