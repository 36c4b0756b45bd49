/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sender must remember of a send op to write again what a fence lost.
 * Pure: no I/O, no time.
 *
 * A send op is split over the rails: stripe k is what rail k was given. A slot of
 * the receiver is ended by one IMM per stripe, each covering all writes before
 * it on its QP; the receiver's bitmap of a slot is which of these it has seen.
 * A stripe is carried by the rail it was last posted on.
 */
#ifndef MPIB_FAILOVER_STRIPES_H
#define MPIB_FAILOVER_STRIPES_H

#include <mpib/abi.h>
#include <stdbool.h>
#include <stdint.h>

struct mpib_stripes {
	uint8_t all; /* stripes that it has */
	uint8_t pending; /* not known to be placed */
	uint8_t lost; /* of these: to be posted again */
	uint8_t imm; /* stripes of the slot's end that this send op posted */
	uint8_t spread; /* stripes that go by more than one QP of their rail */
	uint8_t carrier[MPIB_RAILS];
	uint8_t cover[MPIB_RAILS]; /* which stripe's IMM tells of it */
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
 * Both ends of rail are drained, and the receiver has said what it has: all of
 * the slot (done), or the stripes seen. Returns the stripes that turn out to be
 * placed; those that are not become lost. held: so do those that the rail
 * acknowledged, for what they were written from is as it was.
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

/*
 * May IMMs that end the stripes of ends be posted on rail, as far as an earlier
 * send op of the slot is concerned? Not while what they cover is under way on
 * another rail, or on several QPs: nothing would order the two.
 */
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
 * The same where send ops are held: an acknowledgement proves nothing there, so
 * an IMM may tell only of what is on its own rail. What another rail has
 * acknowledged becomes lost here, to go ahead of the IMM; without that a fence
 * of that rail would also take for lost what an IMM under way on this one ends.
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

/*
 * What was lost is posted on rail. open: the slot's IMMs are not posted yet,
 * so the one that will be posted on rail, on the same QP, covers it. Returns
 * which stripes.
 */
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
