/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer link: one TCP connection between two proxies, as a stream of messages.
 * Control thread only; nothing blocks. While the other end is silent the link
 * sends a PING each second, but for the first quarter of its patience, to see that
 * it still lives, and answers the other end's; once it is up PING and PONG are not
 * passed to message().
 */
#ifndef MPIB_PEER_LINK_H
#define MPIB_PEER_LINK_H

#include "base/loop.h"
#include "peer/outbox.h"
#include "peer/protocol.h"

struct mpib_link;

struct mpib_link_events {
	/* The TCP connection stands. Only for a link from
	 * mpib_link_connect(). */
	void (*up)(void *ctx, struct mpib_link *link);
	/* A message came. May close the link. */
	void (*message)(void *ctx, struct mpib_link *link,
			const struct mpib_peer_msg *m);
	/* The link is over; it is freed when this returns. */
	void (*down)(void *ctx, struct mpib_link *link, const char *why);
};

struct mpib_link {
	struct mpib_loop *loop;
	struct mpib_io watch;
	struct mpib_timer tick;
	unsigned silent; /* seconds without a byte received */
	unsigned patience; /* silent seconds that make it dead */
	int fd;
	/* -errno of a failed connect, 0 once connected. -EPROTO: bytes that
	 * arrived intact are no message, and would be none if sent again. */
	int error;
	bool connecting, closing, writing;
	bool up; /* the greeting is over */
	bool *gone; /* set when a handler frees the link */
	const struct mpib_link_events *events;
	void *ctx;
	struct in6_addr addr; /* of the other end */
	char label[MPIB_ADDRESS_MAX]; /* "address:port" of the other end */
	uint64_t tx_bytes, rx_bytes;
	struct mpib_seal tx_seal, rx_seal; /* set after the greeting */
	uint8_t in[2 * MPIB_PEER_FRAME_MAX];
	size_t in_len;
	struct mpib_outbox out;
};

/* Connect from the local address from (NULL: any) to a peer. 0 or -errno. */
int mpib_link_connect(struct mpib_loop *loop, const struct in6_addr *from,
		      const struct in6_addr *addr, uint16_t port,
		      const struct mpib_link_events *events, void *ctx,
		      struct mpib_link **link);
/* Make a link of an accepted socket, which becomes the link's. 0 or -errno. */
int mpib_link_accept(struct mpib_loop *loop, int fd,
		     const struct mpib_link_events *events, void *ctx,
		     struct mpib_link **link);
/* Seconds that the other end may be silent before the link is dead, and that its
 * kernel may take to acknowledge what was sent; MPIB_SILENCE_S if not set. With
 * fewer than MPIB_SILENCE_LEAST_S a quiet one would be dead before it is asked. */
#define MPIB_SILENCE_S 60
#define MPIB_SILENCE_LEAST_S 2
void mpib_link_set_patience(struct mpib_link *link, unsigned silent,
			    unsigned unacked);
/* Send a message. Never fails: a peer that does not read until more than
 * MPIB_OUTBOX_MAX bytes wait, or than its share of what may wait for all, is
 * cut off, and the loop calls down(). */
void mpib_link_send(struct mpib_link *link, const struct mpib_peer_msg *m);
/* Send a PING or PONG, unless so much waits for the peer that it hears of this
 * end as soon as it reads. */
void mpib_link_say(struct mpib_link *link, enum mpib_peer_type type);
/* Close the link without calling down(). What was sent before still leaves, as
 * far as the kernel takes it at once. */
void mpib_link_close(struct mpib_link *link);

#endif
