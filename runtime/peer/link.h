/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One TCP connection between two proxies, as a stream of messages. Control
 * thread only; nothing blocks. It asks each second whether the other end still
 * lives, and answers when asked; messages of that kind go no further.
 */
#ifndef MPIB_PEER_LINK_H
#define MPIB_PEER_LINK_H

#include "base/loop.h"
#include "peer/outbox.h"
#include "peer/protocol.h"

struct mpib_link;

struct mpib_link_events {
	/* The connection stands (a connecting link only). */
	void (*up)(void *ctx, struct mpib_link *link);
	/* May close the link. */
	void (*message)(void *ctx, struct mpib_link *link,
			const struct mpib_peer_msg *m);
	/* The other end has so many messages of the session; may close the
	 * link. Only where seen is set. */
	void (*acked)(void *ctx, struct mpib_link *link, uint64_t seen);
	/* It is over; the link is freed when this returns. */
	void (*down)(void *ctx, struct mpib_link *link, const char *why);
};

struct mpib_link {
	struct mpib_loop *loop;
	struct mpib_io watch;
	struct mpib_timer tick;
	unsigned silent; /* seconds without a byte */
	unsigned patience; /* how many make it dead */
	int fd;
	/* Of a connect, -errno; 0 once it stands; -EPROTO: what came, unharmed,
	 * is no message, nor would it be when it comes again. */
	int error;
	bool connecting, closing, writing;
	bool *gone; /* set when freed under a handler */
	const struct mpib_link_events *events;
	void *ctx;
	uint32_t addr; /* of the other end, network order */
	char label[32]; /* "address:port" of the other end */
	uint64_t tx_bytes, rx_bytes;
	/* Messages of the session that came, counted here; NULL: there is none.
	 * Of these, as many as the other end was told of. */
	uint64_t *seen, told;
	struct mpib_seal tx_seal, rx_seal; /* set after the greeting */
	uint8_t in[2 * MPIB_PEER_FRAME_MAX];
	size_t in_len;
	struct mpib_outbox out;
};

/* From addr (NULL: any) to a peer; -errno. */
int mpib_link_connect(struct mpib_loop *loop, uint32_t from, uint32_t addr,
		      uint16_t port, const struct mpib_link_events *events,
		      void *ctx, struct mpib_link **link);
/* Of an accepted socket, which becomes the link's. */
int mpib_link_accept(struct mpib_loop *loop, int fd,
		     const struct mpib_link_events *events, void *ctx,
		     struct mpib_link **link);
/* One that is connected goes on in another process, which sets its events:
 * packed, the link is still ours. NULL on failure. */
void mpib_link_serialize(struct mpib_serial *p, struct mpib_loop *loop,
			 struct mpib_link **link);
/* Whether it takes what comes. */
int mpib_link_listen(struct mpib_link *link, bool on);
/* How long the other end may be silent before the link is dead; MPIB_SILENCE_S
 * unless it is told. */
#define MPIB_SILENCE_S 5
void mpib_link_set_patience(struct mpib_link *link, unsigned seconds);
/* Never fails: a peer that does not read until 1 MiB waits is cut off, and
 * down() is called from the loop. */
void mpib_link_send(struct mpib_link *link, const struct mpib_peer_msg *m);
/* The same with a message that mpib_peer_encode() made. */
void mpib_link_send_frame(struct mpib_link *link, const uint8_t *frame,
			  size_t n);
/* Tell how many messages of the session came; it is done once a second, and
 * once in a while when many come. */
void mpib_link_tell_seen(struct mpib_link *link);
/* Without down(); what was sent before still leaves, if the kernel takes it. */
void mpib_link_close(struct mpib_link *link);

#endif
