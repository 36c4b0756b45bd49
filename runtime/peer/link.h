/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer link: one TCP connection between two proxies, as a stream of messages.
 * Control thread only; nothing blocks. If the other end was silent for a
 * quarter of the time limit, the link sends a PING each second. A link that is
 * up answers PINGs, and does not pass PINGs and PONGs to the message() handler.
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

/* A common limit for several queues. `waits`: number of bytes in all these
 * queues. `most`: maximum of `waits`. */
struct mpib_fifo_sum {
	size_t waits, most;
};

/* A first-in, first-out queue of bytes that wait to be sent to one peer. A
 * zeroed queue is empty. Without a limit, the queue of a peer that does not
 * read would grow forever. A buffer of more than MPIB_FIFO_SMALL bytes is at
 * most four times as large as the queued data. So a limit on the queued data
 * limits the memory. */
struct mpib_fifo {
	uint8_t *buf;
	/* buf[at] to buf[len - 1] are queued; `cap`: size of buf */
	size_t at, len, cap;
	struct mpib_fifo_sum *sum; /* NULL: no common limit */
};

/* Every queue can grow to this number of bytes. The common limit applies to
 * larger queues, see mpib_fifo_room(). */
#define MPIB_FIFO_SMALL (64u << 10)

static inline size_t mpib_fifo_waits(const struct mpib_fifo *f)
{
	return f->len - f->at;
}

/* Add the bytes in the queue to sum->waits, and update sum->waits whenever the
 * queue changes. */
void mpib_fifo_count(struct mpib_fifo *f, struct mpib_fifo_sum *sum);
/* Return whether `n` more bytes fit into the queue. Every queue can grow to
 * MPIB_FIFO_SMALL bytes. Beyond this size, a queue can hold at most an eighth
 * of the bytes that are free, which are sum->most minus the bytes in all
 * queues. As a result, large queues stop growing while small queues still have
 * room. */
bool mpib_fifo_room(const struct mpib_fifo *f, size_t n);
/* Free the queue's memory. Afterwards the queue is empty, and can be used
 * again. */
void mpib_fifo_fini(struct mpib_fifo *f);

/* Maximum number of bytes that wait to be sent on one link, including seals.
 * Without the limit, a peer that does not read could fill this proxy's memory.
 * If a link exceeds the limit, this proxy closes the link and kills all lanes
 * to this peer. Four users with the default quotas can close all their
 * connections at once without exceeding the limit. */
#define MPIB_OUTBOX_MAX (32u << 20)

struct mpib_link;

struct mpib_link_events {
	/* Called when the TCP connection is established, but only for a link
	 * from mpib_link_connect(). */
	void (*up)(void *ctx, struct mpib_link *link);
	/* Called when a message has arrived. The handler may close the link. */
	void (*message)(void *ctx, struct mpib_link *link,
			const struct mpib_peer_msg *m);
	/* Called when the link has ended. The link is freed after the handler
	 * returns. */
	void (*down)(void *ctx, struct mpib_link *link, const char *why);
};

struct mpib_link {
	struct mpib_loop *loop;
	struct mpib_io watch;
	struct mpib_timer tick;
	unsigned silent; /* seconds since the last byte was received */
	unsigned patience; /* seconds of silence after which the link is dead */
	int fd;
	/* -errno if the TCP connect failed. -EPROTO if the peer broke the
	 * protocol, so a new link would not help. Otherwise 0. */
	int error;
	bool connecting, writing;
	bool up; /* the handshake is complete */
	bool *gone; /* *gone is set if a handler frees the link */
	const struct mpib_link_events *events;
	void *ctx;
	struct in6_addr addr; /* address of the other end */
	char label[MPIB_ADDRESS_MAX]; /* "address:port" of the other end */
	struct mpib_seal tx_seal, rx_seal; /* set after the handshake */
	uint8_t in[2 * MPIB_PEER_FRAME_MAX];
	size_t in_len;
	struct mpib_fifo out; /* whole frames to be sent */
	/* why nothing more can be queued; NULL: not full */
	const char *overflow;
};

/* Connect to a peer from the local address `from`, or from any address if
 * `from` is NULL. Return 0 or -errno. */
int mpib_link_connect(struct mpib_loop *loop, const struct in6_addr *from,
		      const struct in6_addr *addr, uint16_t port,
		      const struct mpib_link_events *events, void *ctx,
		      struct mpib_link **link);
/* Make a link from an accepted socket, which the link then owns. Return 0 or
 * -errno. */
int mpib_link_accept(struct mpib_loop *loop, int fd,
		     const struct mpib_link_events *events, void *ctx,
		     struct mpib_link **link);
/* Set time limits, in seconds. `silent`: maximum time without a byte from the
 * peer. `unacked`: maximum time until the peer's kernel acknowledges sent
 * bytes. If either limit is exceeded, the link is dead. Both defaults are
 * MPIB_SILENCE_S. If `silent` were below MPIB_SILENCE_LEAST_S, the link of a
 * quiet peer would be dead before the first PING. */
#define MPIB_SILENCE_S 60
#define MPIB_SILENCE_LEAST_S 2
void mpib_link_set_patience(struct mpib_link *link, unsigned silent,
			    unsigned unacked);
/* Send a message. This function never fails. If the message does not fit into
 * the queue (see mpib_fifo_room()), this function cuts the link, and the loop
 * calls down() later. */
void mpib_link_send(struct mpib_link *link, const struct mpib_peer_msg *m);
/* Close the link without calling down(). Queued messages are still sent if the
 * kernel accepts them immediately. */
void mpib_link_close(struct mpib_link *link);

#endif
