/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sender must record of a send op to replay what a fence lost. Pure: no
 * I/O, no time.
 *
 * A send op is split over the rails: stripe k is the part that rail k was given
 * at first. A slot of the receiver is ended by one IMM per stripe, each
 * covering all writes before it on its QP; the receive bitmap says which of a
 * slot's IMMs the receiver has seen. A stripe's carrier is the rail on which
 * the stripe was posted last.
 */
#ifndef MPIB_FAILOVER_STRIPES_H
#define MPIB_FAILOVER_STRIPES_H

#include <mpib/abi.h>
#include <stdbool.h>
#include <stdint.h>

struct mpib_stripes {
	uint8_t all; /* stripes that the send op has */
	uint8_t pending; /* of all: not known to be placed at the receiver */
	uint8_t lost; /* of pending: must be posted again */
	uint8_t imm; /* stripes whose slot-ending IMM is in this send op */
	uint8_t spread; /* stripes that use several QPs of their rail */
	uint8_t carrier[MPIB_RAILS]; /* by stripe: rail */
	uint8_t cover[MPIB_RAILS]; /* by stripe: stripe whose IMM covers it */
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
 * Both ends of rail have stopped, and the receive bitmap says what the receiver
 * has: all of the slot (done), or the stripes in seen. Of the stripes that rail
 * carries, return those that the receiver has; the others become lost. held:
 * stripes that the rail acknowledged may become lost, too. They can be
 * replayed, because the client has not got their bytes back.
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

/* Return whether IMMs that end the stripes in ends may be posted on rail with
 * respect to an earlier send op of the same slot. False while a stripe of the
 * earlier send op that these IMMs cover is lost, or in flight on another rail
 * or on several QPs: nothing would order the stripe before the IMM. */
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
 * The same on lanes with end-to-end acks, where a send op is held after the
 * rails acknowledged it. There an IMM may cover only stripes on its own rail.
 * Stripes that another rail has acknowledged become lost here, so that they are
 * posted before the IMM on rail. Otherwise a later fence of the other rail
 * would mark them lost while an IMM in flight on this rail ends them. Returns
 * these stripes.
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

/* Post the lost stripes on rail. open: the slot's IMMs are not posted yet, so
 * the IMM that will be posted on rail, on the same QP, covers them. Returns the
 * stripes. */
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
