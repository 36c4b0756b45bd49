/* SPDX-License-Identifier: Apache-2.0 */
#include "peer/outbox.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "peer/codec.h"

#define LIMIT (1u << 20)

static bool reserve(struct mpib_outbox *o, size_t more)
{
	size_t want;
	uint8_t *grown;

	if (o->len + more > o->cap && o->at > 0) {
		o->len -= o->at;
		memmove(o->buf, o->buf + o->at, o->len);
		o->at = 0;
	}
	want = o->len + more;
	if (want <= o->cap)
		return true;
	if (want > LIMIT) {
		o->overflow = "it does not read what it is sent";
		return false;
	}
	grown = realloc(o->buf, want * 2);
	if (!grown) {
		o->overflow = "no memory for what it should be sent";
		return false;
	}
	o->buf = grown;
	o->cap = want * 2;
	return true;
}

bool mpib_outbox_put(struct mpib_outbox *o, struct mpib_seal *seal,
		     const uint8_t *frame, size_t n)
{
	struct mpib_writer len;
	uint8_t *to;

	if (o->overflow || !reserve(o, n + MPIB_SEAL_BYTES))
		return false;
	to = o->buf + o->len;
	memcpy(to, frame, n);
	if (seal->on) {
		mpib_seal_make(seal, to + 4, n - 4, to + n);
		n += MPIB_SEAL_BYTES;
		len = (struct mpib_writer){ to, to + 4, false };
		mpib_put32(&len, (uint32_t)n - 4);
	}
	o->len += n;
	return true;
}

ssize_t mpib_outbox_send(struct mpib_outbox *o, int fd)
{
	ssize_t n;

	if (mpib_outbox_empty(o))
		return 0;
	n = send(fd, o->buf + o->at, o->len - o->at,
		 MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0)
		return errno == EAGAIN ? 0 : -errno;
	o->at += (size_t)n;
	if (mpib_outbox_empty(o))
		o->at = o->len = 0;
	return n;
}

void mpib_outbox_parcel(struct mpib_parcel *p, struct mpib_outbox *o)
{
	uint32_t n = (uint32_t)(o->len - o->at);

	mpib_parcel_count(p, &n, LIMIT);
	if (!p->packing) {
		if (!reserve(o, n)) {
			mpib_parcel_fail(p, "no memory for a link");
			return;
		}
		o->len = n;
	}
	if (n)
		mpib_parcel_raw(p, o->buf + o->at, n);
}

void mpib_outbox_fini(struct mpib_outbox *o)
{
	free(o->buf);
	*o = (struct mpib_outbox){ 0 };
}
