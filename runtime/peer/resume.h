/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What outlives a link between two proxies: a session. Both ends count its
 * messages from its beginning, keep what they sent until the other end says
 * that it has it, and after a break go on with the first that it lacks. So a
 * link may break and be made again without the lanes noticing. Control thread;
 * no I/O.
 */
#ifndef MPIB_PEER_RESUME_H
#define MPIB_PEER_RESUME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mpib_resume {
	uint64_t id; /* 0: there is none */
	uint64_t sent, acked; /* messages of ours; of these, those they have */
	uint64_t seen; /* messages of theirs */
	/* Frames from acked on, each with its length in front. */
	uint8_t *buf;
	size_t at, len, cap;
};

/* With nothing sent or seen; id 0 for none. */
void mpib_resume_begin(struct mpib_resume *r, uint64_t id);
void mpib_resume_end(struct mpib_resume *r);
/* A frame, with its length, is being sent. When too much is kept already, or
 * memory is short, the session will not outlive its link: id becomes 0. */
void mpib_resume_keep(struct mpib_resume *r, const uint8_t *frame, size_t n);
/* The other end has so many messages of ours. False: it cannot. */
bool mpib_resume_acked(struct mpib_resume *r, uint64_t seen);
/* The kept frames, oldest first: NULL after the last. *pos is 0 at first. */
const uint8_t *mpib_resume_next(const struct mpib_resume *r, size_t *pos,
				size_t *n);

#endif
