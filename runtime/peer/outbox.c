/* SPDX-License-Identifier: Apache-2.0 */
#include "peer/outbox.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "peer/codec.h"

bool mpib_outbox_put(struct mpib_outbox *o, struct mpib_seal *seal,
		     const uint8_t *frame, size_t n)
{
	size_t sealed = n + (seal->on ? MPIB_SEAL_BYTES : 0);
	uint8_t *to;

	if (o->overflow)
		return false;
	if (!mpib_fifo_room(&o->bytes, sealed, MPIB_FIFO_SMALL,
			    MPIB_OUTBOX_MAX)) {
		o->overflow = "it does not read what it is sent";
		return false;
	}
	to = mpib_fifo_add(&o->bytes, sealed);
	if (!to) {
		o->overflow = "no memory for what it should be sent";
		return false;
	}
	memcpy(to, frame, n);
	if (seal->on) {
		mpib_seal_close(seal, to + 4, n - 4, to + n);
		mpib_frame_set_len(to, sealed - 4);
	}
	return true;
}

ssize_t mpib_outbox_send(struct mpib_outbox *o, int fd)
{
	ssize_t n;

	if (mpib_outbox_empty(o))
		return 0;
	n = send(fd, mpib_fifo_head(&o->bytes), mpib_fifo_waits(&o->bytes),
		 MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0)
		return errno == EAGAIN ? 0 : -errno;
	mpib_fifo_take(&o->bytes, (size_t)n);
	return n;
}

void mpib_outbox_fini(struct mpib_outbox *o)
{
	mpib_fifo_fini(&o->bytes);
	o->overflow = NULL;
}
