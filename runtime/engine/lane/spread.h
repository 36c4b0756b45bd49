/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a rail's part of a send op is spread over the QPs that a lane has on it.
 *
 *   split  one QP carries it, its IMM comes last: nothing here is used
 *   spray  fragments over all QPs, and on the slot's own QP the IMM when all of
 *          them are answered
 *   dqplb  numbered fragments over all QPs but the first; the IMM follows at
 *          once on the first, and waits at the receiver for the numbers
 *   auto   split or spray, by what the lane measured for the size
 *          (split/choice.h)
 *
 * A part of at most a fragment goes as in split, for there is nothing to
 * spread, and so does all of a rail with one QP. A lane has a virtual QP per
 * rail (vqp/vqp.h), which goes via the lane's own QPs: so CTS, small parts and
 * fragments share their room, their doorbells and their drain. The IMM is the
 * same in every mode, and comes with a record when a part was spread.
 *
 * In a lane of dqplb the receiver knows an IMM that waits by its length: it
 * carries nothing or a record, and any other part is sent so that it does not.
 *
 * When the rail is fenced all of its QPs are, so the part is lost or seen as a
 * whole; it is written again over one QP of the other rail (replay.c), and the
 * virtual QP begins anew with the rail's next QPs.
 */
#ifndef MPIB_ENGINE_SPREAD_H
#define MPIB_ENGINE_SPREAD_H

#include <mpib/wire.h>

#include "engine/lane/lane.h"
#include "vqp/vqp.h"

/* Control thread. -ENOMEM. */
int mpib_spread_make(struct mpib_lane *lane);
void mpib_spread_free(struct mpib_lane *lane);

/* Shard. The rail's QPs carry nothing any more that counts. */
void mpib_spread_reset(struct mpib_lane *lane, unsigned rail);
/* Rails whose part is to be spread, where imm ends the slot on some and before
 * are those on which some of it was spread. The lane is not split. */
uint8_t mpib_spread_some(struct mpib_lane *lane, uint8_t before,
			 const uint32_t *bytes, uint8_t imm);
/* The same of any lane. */
static inline uint8_t mpib_spread_rails(struct mpib_lane *lane, uint8_t before,
					const uint32_t *bytes, uint8_t imm)
{
	if (__builtin_expect(lane->spread == MPIB_SPREAD_SPLIT, 1))
		return 0;
	return mpib_spread_some(lane, before, bytes, imm);
}
/* Parts of the rail longer than that are spread; UINT32_MAX: none is. */
uint32_t mpib_spread_above(const struct mpib_lane *lane, unsigned rail);
/* Numbered fragments of the rail that were dropped. */
uint64_t mpib_spread_late(const struct mpib_lane *lane, unsigned rail);
/* Chains that fit into the rail's virtual QP. */
uint32_t mpib_spread_room(const struct mpib_lane *lane, unsigned rail);
/* Whether the receiver takes an IMM of this length for one that waits. */
static inline bool mpib_spread_waits(uint32_t bytes)
{
	return bytes == 0 || bytes == sizeof(struct mpib_record);
}
/* The completion of a fragment or a notice. */
void mpib_spread_sent(struct mpib_lane_qp *q, uint64_t wr_id, bool ok);
/* An IMM on a lane of dqplb. 1: it is taken, for a fragment or for one that
 * waits; 0: it is not; -EPROTO: more wait than can be under way, or a number is
 * further ahead than any can be. */
int mpib_spread_received(struct mpib_lane_qp *q, uint32_t imm, uint32_t bytes);
/* The next IMM that waits no longer. */
bool mpib_spread_next(struct mpib_lane_qp *q, uint32_t *imm, uint32_t *bytes);

#endif
