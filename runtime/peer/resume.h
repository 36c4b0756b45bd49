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

#include "peer/fifo.h"

/* Bytes on a link, each frame with a seal, whether it has one or not. */
#define MPIB_KEEP_MAX (1u << 20)

struct mpib_resume {
	uint64_t id; /* 0: there is none */
	uint64_t sent, acked; /* messages of ours; of these, those they have */
	uint64_t seen; /* messages of theirs */
	/* Frames from acked on, each with its length in front. */
	struct mpib_fifo kept;
};

/* With nothing sent or seen; id 0 for none. */
void mpib_resume_begin(struct mpib_resume *r, uint64_t id);
void mpib_resume_end(struct mpib_resume *r);
/* A frame, with its length, is being sent. False: too much is kept already, or
 * memory is short. Then the session will not outlive its link: id becomes 0, and
 * what was kept is dropped. */
bool mpib_resume_keep(struct mpib_resume *r, const uint8_t *frame, size_t n);
/* The other end has so many messages of ours. False: it cannot. */
bool mpib_resume_acked(struct mpib_resume *r, uint64_t seen);
/* The kept frames, oldest first: NULL after the last. *pos is 0 at first. */
const uint8_t *mpib_resume_next(const struct mpib_resume *r, size_t *pos,
				size_t *n);
/* All of it; unpacked into one that was not begun. */
void mpib_resume_serial(struct mpib_serial *p, struct mpib_resume *r);

#endif
