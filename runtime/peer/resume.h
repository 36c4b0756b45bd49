/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session between two proxies, which outlives a link: each end numbers the
 * session's messages from its beginning, keeps those it sent until the other
 * end says that it has them, and after a break sends again from the first that
 * the other end lacks. So a link may break and be made again without the lanes
 * noticing. Control thread; no I/O.
 */
#ifndef MPIB_PEER_RESUME_H
#define MPIB_PEER_RESUME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "peer/fifo.h"

/* The most that a session keeps, in bytes as on a link, with a seal for each
 * frame whether there are seals or not: closes of all connections that four users
 * have, if nobody says otherwise, for beyond it everybody's lanes are lost. */
#define MPIB_KEEP_MAX (32u << 20)

struct mpib_resume {
	uint64_t id; /* 0: there is no session */
	uint64_t sent, acked; /* messages sent, and acked by the other end */
	uint64_t seen; /* messages received from the other end */
	/* Frames of the messages that are not acked yet, each with its length
	 * in front. */
	struct mpib_fifo kept;
};

/* Begin session id, with nothing sent or seen; id 0: no session. */
void mpib_resume_begin(struct mpib_resume *r, uint64_t id);
void mpib_resume_end(struct mpib_resume *r);
/* The other end has said nothing in the session, and may never have heard of it:
 * its process may have been replaced before. Then a session of another id may
 * begin with all that was sent. */
bool mpib_resume_unheard(const struct mpib_resume *r);
/* Keep a frame (with its length) that is being sent. False: too much is kept
 * already, or memory is short. Then id becomes 0, the kept frames are dropped,
 * and the session will not outlive its link. */
bool mpib_resume_keep(struct mpib_resume *r, const uint8_t *frame, size_t n);
/* The other end has so many of this end's messages: drop those. False: that
 * many were never sent. */
bool mpib_resume_acked(struct mpib_resume *r, uint64_t seen);
/* Walk the kept frames, oldest first; NULL after the last. *pos is 0 at
 * first. */
const uint8_t *mpib_resume_next(const struct mpib_resume *r, size_t *pos,
				size_t *n);
/* Serialize the session. Unpacks into one that was not begun. */
void mpib_resume_serial(struct mpib_serial *p, struct mpib_resume *r);

#endif
