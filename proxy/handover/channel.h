/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The channel between the old proxy and the new one that takes over: a stream
 * socket with messages of any size and any number of descriptors. Both
 * processes belong to the same user.
 *
 *   old                          new
 *    |------ BASE ---------------->|  what the new proxy needs to get ready
 *    |<----- READY, or FAILED -----|  its rails are open; the old one serves
 *    |  clients' sockets paused    |
 *    |------ CLIENTS ------------->|  clients with segments and regions
 *    |<----- MAPPED, or FAILED ----|
 *    |  all rails are fenced       |
 *    |------ STATE --------------->|  lanes, listeners and connections
 *    |<----- PREPARED, or FAILED --|
 *    |------ GO ------------------>|
 *    |<----- TAKEN ----------------|  from here on the new proxy serves
 *
 * Whatever fails before TAKEN, the old proxy kills the new one and goes on.
 * GO is why the old proxy may give up at any time before: the new proxy cannot
 * have sent TAKEN yet.
 */
#ifndef MPIB_PROXY_HANDOVER_CHANNEL_H
#define MPIB_PROXY_HANDOVER_CHANNEL_H

#include "base/serial.h"

enum mpib_channel_type {
	MPIB_CHANNEL_BASE = 1,
	MPIB_CHANNEL_READY,
	MPIB_CHANNEL_CLIENTS,
	MPIB_CHANNEL_MAPPED,
	MPIB_CHANNEL_STATE,
	MPIB_CHANNEL_PREPARED,
	MPIB_CHANNEL_GO,
	MPIB_CHANNEL_TAKEN,
	MPIB_CHANNEL_FAILED, /* a text; the same in all versions */
};

/* Time limit for each later send and receive on sock: -ETIMEDOUT after ms. */
int mpib_channel_patience(int sock, unsigned ms);
/* Send p, or no content where p is NULL. -errno. */
int mpib_channel_send(int sock, enum mpib_channel_type type,
		      const struct mpib_serial *p);
int mpib_channel_fail(int sock, const char *why);
/*
 * Waits for a message. 0: *p is set up for unpacking its content, and the
 * caller ends it with mpib_serial_fini(); -EREMOTEIO: FAILED came, its text is
 * in p->why; -EPROTO: another message than want; -ENOTSUP: a message of another
 * MPIB_HANDOVER_VERSION; -EPIPE: the process at the other end is gone; -errno.
 */
int mpib_channel_recv(int sock, enum mpib_channel_type want,
		      struct mpib_serial *p);
/* Like mpib_channel_recv(), but only for a message that has arrived already:
 * shuts the socket down for receiving first, so that a later send at the other
 * end fails there with EPIPE. -ETIMEDOUT: no message was there. */
int mpib_channel_last(int sock, enum mpib_channel_type want,
		      struct mpib_serial *p);

#endif
