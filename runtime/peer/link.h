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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/loop.h"
#include "peer/auth.h"
#include "peer/protocol.h"

/*
 * A queue of bytes, in the order they came. All data that a peer can make wait
 * in this proxy's memory is in such a queue, and nothing else counts it but the sum
 * of several queues. Control thread only.
 */

/* What waits in all queues that are counted in it, and how much may. */
struct mpib_fifo_sum {
	size_t waits, most;
};

/* A zeroed queue is empty. Its memory is four times what waits at most, beyond
 * MPIB_FIFO_SMALL: what waits can be counted for it. */
struct mpib_fifo {
	uint8_t *buf;
	size_t at, len, cap; /* bytes at..len-1 wait */
	struct mpib_fifo_sum *sum; /* NULL: it is counted in none */
};

/* So much is little: what fills a sum are others. */
#define MPIB_FIFO_SMALL (64u << 10)

static inline size_t mpib_fifo_waits(const struct mpib_fifo *f)
{
	return f->len - f->at;
}

/* The oldest byte; valid until bytes are added or taken. */
static inline const uint8_t *mpib_fifo_head(const struct mpib_fifo *f)
{
	return f->buf + f->at;
}

/* Count the queue in sum, until it is freed with its owner. */
void mpib_fifo_count(struct mpib_fifo *f, struct mpib_fifo_sum *sum);
/* Whether n bytes more fit into a queue that may have max, where its sum allows
 * it, and little in any case. The sum allows a queue a part of what is free, so
 * that those who fill it have no more while there is room for who comes next. */
bool mpib_fifo_room(const struct mpib_fifo *f, size_t n, size_t little,
		    size_t max);
/* Append n bytes, which the caller fills in, and return where. NULL: no
 * memory. */
uint8_t *mpib_fifo_add(struct mpib_fifo *f, size_t n);
/* Remove the oldest n of the bytes that wait. */
void mpib_fifo_take(struct mpib_fifo *f, size_t n);
/* Free the queue's memory; the queue is empty then, and still counted. */
void mpib_fifo_fini(struct mpib_fifo *f);

/*
 * The bytes that wait to be sent on one peer link: whole frames go in, and
 * bytes leave as the kernel takes them. The queue has a limit, so that a peer
 * that does not read cannot fill this proxy's memory. Control thread only.
 */

/* The most bytes that wait, seals included: room for the closes of all
 * connections that four users have by default, since all users' lanes end with a
 * peer that lets more wait. */
#define MPIB_OUTBOX_MAX (32u << 20)

/* A zeroed outbox is empty. */
struct mpib_outbox {
	struct mpib_fifo bytes;
	const char *overflow; /* why it takes no more; NULL: it does */
};

static inline bool mpib_outbox_empty(const struct mpib_outbox *o)
{
	return mpib_fifo_waits(&o->bytes) == 0;
}

/* Add a frame of n bytes from mpib_peer_encode(), sealed if seal is on. False:
 * it does not fit, and no later frame will either. */
bool mpib_outbox_put(struct mpib_outbox *o, struct mpib_seal *seal,
		     const uint8_t *frame, size_t n);
/* Send as much as the socket takes. Returns bytes, 0 if the socket is full, or
 * -errno. */
ssize_t mpib_outbox_send(struct mpib_outbox *o, int fd);
void mpib_outbox_fini(struct mpib_outbox *o);

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
