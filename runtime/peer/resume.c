/* SPDX-License-Identifier: Apache-2.0 */
#include "peer/resume.h"

#include <string.h>

#include "peer/auth.h"
#include "peer/codec.h"

void mpib_resume_begin(struct mpib_resume *r, uint64_t id)
{
	mpib_resume_end(r);
	r->id = id;
}

void mpib_resume_end(struct mpib_resume *r)
{
	mpib_fifo_fini(&r->kept);
	*r = (struct mpib_resume){ .kept = r->kept };
}

bool mpib_resume_unheard(const struct mpib_resume *r)
{
	return r->id && !r->seen && !r->acked;
}

/* Bytes on a link of one more frame, of n bytes, with the seals of all. */
static size_t on_a_link(const struct mpib_resume *r, size_t n)
{
	return n + (size_t)(r->sent - r->acked + 1) * MPIB_SEAL_BYTES;
}

bool mpib_resume_keep(struct mpib_resume *r, const uint8_t *frame, size_t n)
{
	uint8_t *to;

	if (!r->id)
		return false;
	to = mpib_fifo_room(&r->kept, on_a_link(r, n), MPIB_FIFO_SMALL,
			    MPIB_KEEP_MAX)
		     ? mpib_fifo_add(&r->kept, n)
		     : NULL;
	if (!to) {
		mpib_fifo_fini(&r->kept);
		r->id = 0;
		return false;
	}
	memcpy(to, frame, n);
	r->sent++;
	return true;
}

static size_t frame_at(const struct mpib_resume *r, size_t pos)
{
	return 4 + (size_t)mpib_frame_len(mpib_fifo_head(&r->kept) + pos);
}

bool mpib_resume_acked(struct mpib_resume *r, uint64_t seen)
{
	if (!r->id)
		return true;
	if (seen < r->acked || seen > r->sent)
		return false;
	for (; r->acked < seen; r->acked++)
		mpib_fifo_take(&r->kept, frame_at(r, 0));
	return true;
}

const uint8_t *mpib_resume_next(const struct mpib_resume *r, size_t *pos,
				size_t *n)
{
	const uint8_t *frame;

	if (*pos == mpib_fifo_waits(&r->kept))
		return NULL;
	frame = mpib_fifo_head(&r->kept) + *pos;
	*n = frame_at(r, *pos);
	*pos += *n;
	return frame;
}

void mpib_resume_serial(struct mpib_serial *p, struct mpib_resume *r)
{
	mpib_serial_u64(p, &r->id);
	mpib_serial_u64(p, &r->sent);
	mpib_serial_u64(p, &r->acked);
	mpib_serial_u64(p, &r->seen);
	mpib_fifo_serial(p, &r->kept, MPIB_KEEP_MAX);
}
