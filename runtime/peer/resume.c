/* SPDX-License-Identifier: Apache-2.0 */
#include "peer/resume.h"

#include <stdlib.h>
#include <string.h>

#include "peer/codec.h"

/* As much as a link may have waiting. */
#define KEEP_MAX (1u << 20)

void mpib_resume_begin(struct mpib_resume *r, uint64_t id)
{
	mpib_resume_end(r);
	r->id = id;
}

void mpib_resume_end(struct mpib_resume *r)
{
	free(r->buf);
	*r = (struct mpib_resume){ 0 };
}

static bool reserve(struct mpib_resume *r, size_t n)
{
	uint8_t *buf;

	if (r->at > 0 && r->len + n > r->cap) {
		r->len -= r->at;
		memmove(r->buf, r->buf + r->at, r->len);
		r->at = 0;
	}
	if (r->len + n <= r->cap)
		return true;
	if (r->len + n > KEEP_MAX)
		return false;
	buf = realloc(r->buf, 2 * (r->len + n));
	if (!buf)
		return false;
	r->buf = buf;
	r->cap = 2 * (r->len + n);
	return true;
}

void mpib_resume_keep(struct mpib_resume *r, const uint8_t *frame, size_t n)
{
	if (!r->id)
		return;
	if (!reserve(r, n)) {
		free(r->buf);
		r->buf = NULL;
		r->at = r->len = r->cap = 0;
		r->id = 0;
		return;
	}
	memcpy(r->buf + r->len, frame, n);
	r->len += n;
	r->sent++;
}

static size_t frame_at(const struct mpib_resume *r, size_t pos)
{
	struct mpib_reader len = { r->buf + pos, r->buf + pos + 4, false };

	return 4 + (size_t)mpib_get32(&len);
}

bool mpib_resume_acked(struct mpib_resume *r, uint64_t seen)
{
	if (!r->id)
		return true;
	if (seen < r->acked || seen > r->sent)
		return false;
	for (; r->acked < seen; r->acked++)
		r->at += frame_at(r, r->at);
	if (r->at == r->len)
		r->at = r->len = 0;
	return true;
}

const uint8_t *mpib_resume_next(const struct mpib_resume *r, size_t *pos,
				size_t *n)
{
	const uint8_t *frame;

	if (r->at + *pos == r->len)
		return NULL;
	frame = r->buf + r->at + *pos;
	*n = frame_at(r, r->at + *pos);
	*pos += *n;
	return frame;
}
