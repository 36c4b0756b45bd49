/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fixed little-endian fields in a byte buffer. One function lists the fields of
 * an object, for writing and for reading, so that both always handle the same
 * fields. The caller owns the buffer. Neither writing nor reading goes beyond
 * the buffer's end. A field that does not fit sets `failed` permanently, and
 * later reads return zeros. Writing does not change the object.
 */
#ifndef MPIB_PEER_CODEC_H
#define MPIB_PEER_CODEC_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct mpib_codec {
	uint8_t *to; /* where to write; NULL when reading */
	const uint8_t *from; /* where to read */
	size_t left; /* bytes up to the end of the buffer */
	bool failed;
};

static inline void mpib_code(struct mpib_codec *c, void *v, size_t n)
{
	if (c->failed || c->left < n) {
		c->failed = true;
		if (!c->to)
			memset(v, 0, n);
		return;
	}
	c->left -= n;
	if (c->to) {
		memcpy(c->to, v, n);
		c->to += n;
	} else {
		memcpy(v, c->from, n);
		c->from += n;
	}
}

static inline void mpib_code8(struct mpib_codec *c, uint8_t *v)
{
	mpib_code(c, v, sizeof(*v));
}

static inline void mpib_code_bool(struct mpib_codec *c, bool *v)
{
	uint8_t b = *v;

	mpib_code8(c, &b);
	if (!c->to)
		*v = b != 0;
}

static inline void mpib_code16(struct mpib_codec *c, uint16_t *v)
{
	uint16_t le = htole16(*v);

	mpib_code(c, &le, sizeof(le));
	if (!c->to)
		*v = le16toh(le);
}

static inline void mpib_code32(struct mpib_codec *c, uint32_t *v)
{
	uint32_t le = htole32(*v);

	mpib_code(c, &le, sizeof(le));
	if (!c->to)
		*v = le32toh(le);
}

static inline void mpib_code64(struct mpib_codec *c, uint64_t *v)
{
	uint64_t le = htole64(*v);

	mpib_code(c, &le, sizeof(le));
	if (!c->to)
		*v = le64toh(le);
}

/* If `bad` is true, make the decoding fail. Return whether this call made the
 * decoding fail. When encoding, do nothing: the values come from this
 * program, not from a peer. */
static inline bool mpib_code_bad(struct mpib_codec *c, bool bad)
{
	if (c->to || !bad)
		return false;
	c->failed = true;
	return true;
}

/* Return the length field at the start of a frame: the number of bytes that
 * follow the field. */
static inline uint32_t mpib_frame_len(const uint8_t *frame)
{
	uint32_t le;

	memcpy(&le, frame, sizeof(le));
	return le32toh(le);
}

static inline void mpib_frame_set_len(uint8_t *frame, size_t len)
{
	uint32_t le = htole32((uint32_t)len);

	memcpy(frame, &le, sizeof(le));
}

#endif
