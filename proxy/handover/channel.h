/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between a proxy and the one that takes over from it: a stream socket, and
 * messages of any size with any number of descriptors. Both are one user's.
 *
 *   old                          new
 *    |------ BASE ---------------->|  what is needed to get ready
 *    |<----- READY, or FAILED -----|  rails are open; nothing of ours is touched
 *    |  nobody attaches any more   |
 *    |------ CLIENTS ------------->|  who is attached, with segments and regions
 *    |<----- MAPPED, or FAILED ----|
 *    |  all rails are fenced       |
 *    |------ STATE --------------->|  lanes, listeners and connections
 *    |<----- PREPARED, or FAILED --|
 *    |------ GO ------------------>|
 *    |<----- TAKEN ----------------|  from here on it is the other's
 *
 * Whatever goes wrong before TAKEN, the old one ends the new one and goes on.
 * Without GO it could not give up waiting: TAKEN might just be on its way.
 */
#ifndef MPIB_PROXY_HANDOVER_CHANNEL_H
#define MPIB_PROXY_HANDOVER_CHANNEL_H

#include <stddef.h>
#include <stdint.h>

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

/* What has not come, or left, within so many ms never will. */
int mpib_channel_patience(int sock, unsigned ms);
/* p may be NULL. -errno. */
int mpib_channel_send(int sock, enum mpib_channel_type type,
		      const struct mpib_serial *p);
int mpib_channel_fail(int sock, const char *why);
/*
 * Waits. 0: *p is an unpacking serialized state with what came, to be ended by
 * mpib_serial_fini(); -EREMOTEIO: FAILED came, with its text in p->why;
 * -EPROTO: something else than want; -ENOTSUP: of another version; -EPIPE: the
 * other one ended; -errno.
 */
int mpib_channel_recv(int sock, enum mpib_channel_type want,
		      struct mpib_serial *p);
/* The same of what is there already; from now on the other one can send nothing,
 * and is told so. -ETIMEDOUT: there was nothing. */
int mpib_channel_last(int sock, enum mpib_channel_type want,
		      struct mpib_serial *p);

#endif
