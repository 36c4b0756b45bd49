/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes and reads fixed little-endian fields in a byte buffer. Neither side
 * goes past the end of the buffer: a field that does not fit sets failed for
 * good, and a decoder gives zeros from then on.
 */
#ifndef MPIB_PEER_CODEC_H
#define MPIB_PEER_CODEC_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct mpib_encoder {
	uint8_t *at, *end;
	bool failed;
};

struct mpib_decoder {
	const uint8_t *at, *end;
	bool failed;
};

static inline void mpib_put(struct mpib_encoder *w, const void *p, size_t n)
{
	if (w->failed || (size_t)(w->end - w->at) < n) {
		w->failed = true;
		return;
	}
	memcpy(w->at, p, n);
	w->at += n;
}

static inline void mpib_get(struct mpib_decoder *r, void *p, size_t n)
{
	if (r->failed || (size_t)(r->end - r->at) < n) {
		r->failed = true;
		memset(p, 0, n);
		return;
	}
	memcpy(p, r->at, n);
	r->at += n;
}

static inline void mpib_put8(struct mpib_encoder *w, uint8_t v)
{
	mpib_put(w, &v, sizeof(v));
}

static inline void mpib_put16(struct mpib_encoder *w, uint16_t v)
{
	v = htole16(v);
	mpib_put(w, &v, sizeof(v));
}

static inline void mpib_put32(struct mpib_encoder *w, uint32_t v)
{
	v = htole32(v);
	mpib_put(w, &v, sizeof(v));
}

static inline void mpib_put64(struct mpib_encoder *w, uint64_t v)
{
	v = htole64(v);
	mpib_put(w, &v, sizeof(v));
}

static inline uint8_t mpib_get8(struct mpib_decoder *r)
{
	uint8_t v;

	mpib_get(r, &v, sizeof(v));
	return v;
}

static inline uint16_t mpib_get16(struct mpib_decoder *r)
{
	uint16_t v;

	mpib_get(r, &v, sizeof(v));
	return le16toh(v);
}

static inline uint32_t mpib_get32(struct mpib_decoder *r)
{
	uint32_t v;

	mpib_get(r, &v, sizeof(v));
	return le32toh(v);
}

static inline uint64_t mpib_get64(struct mpib_decoder *r)
{
	uint64_t v;

	mpib_get(r, &v, sizeof(v));
	return le64toh(v);
}

#endif
