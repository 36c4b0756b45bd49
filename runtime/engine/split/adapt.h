/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The adaptive split of one lane: join the shortest queue by whole messages,
 * cut a message only where that ends it sooner. docs/split.md has the law, its
 * source and why it settles.
 *
 * A message goes whole to the rail that will end it first: the one whose bytes
 * in flight, with the message's own, are the fewest for its weight. It is cut
 * only while a rail is about to run dry, nothing else waits to be posted, and
 * messages of its size were seen to end sooner when cut; then both parts are to
 * end together.
 *
 * The weights follow the difference of the two rails' ends. A round collects,
 * per rail, the bytes that ended and the time from end to end; the weights under
 * which both rails would have ended alike are where the next round's weights go, as
 * far as the differences have one sign.
 * What they lack of that is noise, and the more noise, the more the weights
 * return to the middle. So a rail that gets little is not taken for a slow one,
 * and equal rails stay equal where cores are the limit.
 *
 * A small message goes to the rail that answers small messages sooner, unless
 * much is in flight there.
 *
 * Shard thread, integers only; the caller passes the time. Asking changes
 * nothing that counts tries: a send op that finds no room asks again.
 */
#ifndef MPIB_ENGINE_ADAPT_H
#define MPIB_ENGINE_ADAPT_H

#include <mpib/abi.h>

#include "engine/split/choice.h"
#include "engine/split/tracker.h"

#define MPIB_ADAPT_SMALL MPIB_TRACK_SMALL
#define MPIB_ADAPT_ONE 65536u /* both rails' weights together */

enum mpib_adapt_answer {
	MPIB_ADAPT_NONE,
	MPIB_ADAPT_BY_LATENCY,
	MPIB_ADAPT_BY_QUEUE,
	MPIB_ADAPT_BY_CUT, /* as cut says, be it whole or not */
};

struct mpib_adapt {
	uint32_t weight; /* SUP's, of MPIB_ADAPT_ONE */
	int32_t off, noise; /* differences of rounds: their mean, mean size */
	uint64_t round; /* when the present round began */
	uint32_t share; /* weight as told, in parts of 1024 */
	uint64_t since; /* when share last changed, ns */
	int64_t lead; /* bytes that SUP got beyond its weight */
	struct mpib_choice cut; /* cut (spread) or whole, by size */
	uint32_t cut_weight; /* weight for which cut holds */
	uint64_t
		before; /* the last answer: bytes that both rails had carried */
	uint8_t answer; /* enum mpib_adapt_answer: the last, not posted yet */
	uint8_t fast; /* the rail for small messages */
	uint32_t run; /* small messages in a row that went there */
};

/* A send op that is about to be posted. */
struct mpib_adapt_op {
	uint32_t total; /* bytes of the message it belongs to */
	uint32_t len; /* its own bytes, of which the split is asked */
	const uint32_t *planned; /* bytes of the same chains, by rail */
	bool more; /* other send ops wait to be posted */
	uint64_t now;
};

/* One that was, and ended. */
struct mpib_adapt_end {
	uint32_t bytes;
	bool cut;
	uint64_t ns; /* from its post */
	uint64_t before; /* what mpib_adapt_posted() returned */
};

/* track as for mpib_adapt_share(). */
void mpib_adapt_init(struct mpib_adapt *a, struct mpib_tracker *track,
		     uint64_t now);

/* SUP's parts per 1024 of the send op. track has one entry per rail; a round
 * that is complete ends here. */
uint32_t mpib_adapt_share(struct mpib_adapt *a, struct mpib_tracker *track,
			  const struct mpib_adapt_op *op);

/* As mpib_adapt_posted(), when there was an answer. */
int64_t mpib_adapt_follow(struct mpib_adapt *a, uint32_t sout, uint32_t sup);
/* A send op was posted, with so many bytes by rail: the one that was asked for
 * last, if any was asked for since the last post. Not below 0:
 * mpib_adapt_ended() is to be told of its end, with this. */
static inline int64_t mpib_adapt_posted(struct mpib_adapt *a, uint32_t sout,
					uint32_t sup)
{
	return a->answer ? mpib_adapt_follow(a, sout, sup) : -1;
}
/* All of its stripes are acknowledged. Not for one that was posted again. */
void mpib_adapt_ended(struct mpib_adapt *a, const struct mpib_tracker *track,
		      const struct mpib_adapt_end *end);

#endif
