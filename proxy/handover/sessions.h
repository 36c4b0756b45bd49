/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The attached clients, from one proxy to the next: their sockets, segments and
 * regions. Control thread.
 */
#ifndef MPIB_PROXY_HANDOVER_SESSIONS_H
#define MPIB_PROXY_HANDOVER_SESSIONS_H

#include "base/parcel.h"
#include "session/session.h"

/* Listen to nobody, or to all again. What they say meanwhile waits in their
 * sockets. */
void mpib_sessions_pause(struct mpib_sessions *all, bool on);
/* 0, or -EAGAIN: why names who is coming, leaving or registering. */
int mpib_sessions_settled(const struct mpib_sessions *all, char *why,
			  size_t why_len);
/* Unpacked into sessions with no listening socket, their engine being halted;
 * nobody is listened to yet. */
void mpib_sessions_parcel(struct mpib_parcel *p, struct mpib_sessions *all);
/* Whose attachment has the id, or NULL; arg is the sessions. */
struct mpib_owner *mpib_sessions_owner(void *arg, uint32_t client);
/* Listen to them, and to those who come to the socket fd. -errno. */
int mpib_sessions_go_on(struct mpib_sessions *all, int fd);

#endif
