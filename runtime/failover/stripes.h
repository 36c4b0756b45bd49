/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sender's record of a send op, for replaying the stripes that were lost at
 * a fence. The functions do no I/O and read no clock.
 *
 * A send op is split over the rails: stripe k is the part that was first posted
 * on rail k. A receiver's slot ends with one IMM per stripe. An IMM covers all
 * earlier writes on its QP. The receive bitmap tells which IMMs of a slot the
 * receiver has seen. A stripe's carrier is the rail on which the stripe was
 * posted last.
 */
#ifndef MPIB_FAILOVER_STRIPES_H
#define MPIB_FAILOVER_STRIPES_H

#include <mpib/abi.h>
#include <stdbool.h>
#include <stdint.h>

struct mpib_stripes {
	uint8_t all; /* stripes that the send op has */
	/* stripes of `all` that may not have arrived at the receiver */
	uint8_t pending;
	uint8_t lost; /* stripes of `pending` that must be posted again */
	uint8_t imm; /* stripes whose slot-ending IMM is in this send op */
	uint8_t spread; /* stripes that use several QPs of their rail */
	uint8_t carrier[MPIB_RAILS]; /* the rail that carries each stripe */
	uint8_t cover[MPIB_RAILS]; /* the stripe whose IMM covers each stripe */
};

static inline void mpib_stripes_post(struct mpib_stripes *c, uint8_t stripes,
				     uint8_t imm)
{
	*c = (struct mpib_stripes){ .all = stripes,
				    .pending = stripes,
				    .imm = imm,
				    .carrier = { 0, 1 },
				    .cover = { 0, 1 } };
}

/*
 * Update the record after both ends of `rail` have stopped. If `done`, the
 * receiver has the whole slot; else it has the stripes in `seen`. Return the
 * stripes that `rail` carries and the receiver has. The other stripes of `rail`
 * become lost. If `held`, stripes that the rail has acknowledged may become
 * lost, too. They can be replayed, because the client may not reuse their
 * buffer yet.
 */
static inline uint8_t mpib_stripes_find_lost(struct mpib_stripes *c,
					     unsigned rail, bool done,
					     uint8_t seen, bool held)
{
	uint8_t of = held ? c->all : c->pending, placed = 0;

	for (unsigned k = 0; k < MPIB_RAILS; k++) {
		uint8_t bit = (uint8_t)(1u << k);

		if (!(of & bit) || c->lost & bit || c->carrier[k] != rail)
			continue;
		if (done || seen & 1u << c->cover[k])
			placed |= bit;
		else
			c->lost |= bit;
	}
	c->pending |= c->lost;
	return placed;
}

/* Return whether IMMs for the stripes in the mask `ends` may be posted on
 * `rail`, given an earlier send op of the same slot. An IMM must not cover a
 * stripe that could arrive after the IMM. These are the stripes of the earlier
 * send op that are lost, are in flight on another rail, or use several QPs. */
static inline bool mpib_stripes_ordered(const struct mpib_stripes *earlier,
					uint8_t ends, unsigned rail)
{
	for (unsigned k = 0; k < MPIB_RAILS; k++) {
		if (earlier->pending >> k & 1 &&
		    ends >> earlier->cover[k] & 1 &&
		    (earlier->lost >> k & 1 || earlier->spread >> k & 1 ||
		     earlier->carrier[k] != rail))
			return false;
	}
	return true;
}

/*
 * Prepare the earlier send op for IMMs on `rail`, on lanes with end-to-end
 * acks. On such a lane a send op is kept after the rails acknowledged it, and
 * an IMM may cover only stripes on its own rail. So stripes that another rail
 * has acknowledged become lost here, and are posted again before the IMM on
 * `rail`. Otherwise a later fence of the other rail could mark these stripes as
 * lost, although an IMM in flight on this rail ends them. Return the stripes
 * that become lost.
 */
static inline uint8_t mpib_stripes_reclaim(struct mpib_stripes *earlier,
					   uint8_t ends, unsigned rail)
{
	uint8_t again = 0;

	for (unsigned k = 0; k < MPIB_RAILS; k++) {
		if ((earlier->all & ~earlier->pending) >> k & 1 &&
		    ends >> earlier->cover[k] & 1 &&
		    earlier->carrier[k] != rail)
			again |= (uint8_t)(1u << k);
	}
	earlier->lost |= again;
	earlier->pending |= again;
	return again;
}

/* Mark the lost stripes as posted on `rail`, and return them. If `open`, no IMM
 * of the slot is posted yet. Then the IMM that follows on the same QP of `rail`
 * will cover these stripes. */
static inline uint8_t mpib_stripes_repost(struct mpib_stripes *c, unsigned rail,
					  bool open)
{
	uint8_t again = c->lost;

	for (unsigned k = 0; k < MPIB_RAILS; k++) {
		if (!(again & 1u << k))
			continue;
		c->carrier[k] = (uint8_t)rail;
		if (open)
			c->cover[k] = (uint8_t)rail;
	}
	c->spread &= (uint8_t)~again;
	c->lost = 0;
	return again;
}

#endif
