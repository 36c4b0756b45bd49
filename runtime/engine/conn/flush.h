/* SPDX-License-Identifier: Apache-2.0 */
/* Flushes of a receiving connection: data in a dma-buf region is read back
 * through every rail on which the connection may ever have received something,
 * and the client is told when all have answered. Shard thread. */
#ifndef MPIB_ENGINE_FLUSH_H
#define MPIB_ENGINE_FLUSH_H

#include <mpib/abi.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct engine_conn;
struct mpib_desc;
struct mpib_mr;
struct mpib_shard;

#define MPIB_FLUSHES 32u /* per connection at a time */

struct mpib_flush {
	struct mpib_mr *mr; /* held until all READs have completed */
	uint64_t addr;
	uint64_t arrived[MPIB_RAILS]; /* as below, at the time of the flush */
	uint8_t unread; /* rails on which a READ is due */
	uint8_t reading; /* rails whose READ is in flight */
};

struct mpib_flushes {
	struct mpib_flush at[MPIB_FLUSHES];
	uint32_t taken, ended; /* free-running; the client is told of ended */
	/* When data last came on the rail, or when the rail was fenced, because
	 * then unreported writes may have arrived; 0: neither. */
	uint64_t arrived[MPIB_RAILS];
	/* Descriptors of the ring before this one were checked. */
	uint64_t looked;
	uint32_t early; /* taken, but still in the ring */
	bool queued; /* on shard->flushing */
	TAILQ_ENTRY(engine_conn) link;
};

/* Like mpib_receiver_take(), and its room. */
int mpib_flush_take(struct engine_conn *f, const struct mpib_desc *d);
static inline bool mpib_flush_room(const struct mpib_flushes *fl)
{
	return fl->taken - fl->ended < MPIB_FLUSHES;
}
/* Take the next flush that is in the ring after receives without a slot: these
 * may wait for what the client does after it. 0: none, or no room; else as
 * mpib_flush_take(), and *d is its descriptor. */
int mpib_flush_early(struct engine_conn *f, struct mpib_desc *d);
/* Post the READs that wait; return how many. */
int mpib_flush_turn(struct mpib_shard *s);
/* The READ of flush op on the rail completed. bad: it would fail on any QP. */
void mpib_flush_read(struct engine_conn *f, unsigned rail, uint32_t op, bool ok,
		     bool bad);
/* The rail's device is lost: data that it had not written will not come. */
void mpib_flush_lost(struct engine_conn *f, unsigned rail);
/* The connection accepts no more work: post nothing more. */
void mpib_flush_quit(struct engine_conn *f);
/* Return whether no READ is in flight. */
bool mpib_flush_idle(const struct engine_conn *f);
bool mpib_flush_uses(const struct engine_conn *f, const struct mpib_mr *mr);
/* Release all regions; no READ is in flight. */
void mpib_flush_drop(struct engine_conn *f);

#endif
