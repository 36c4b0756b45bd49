/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spreading of a stripe (one rail's part of a send op) over the lane's QPs of
 * the rail. Shard thread unless noted.
 *
 * Mode split: one QP carries the stripe and then its IMM. Mode split uses
 * nothing from this file.
 *
 * Mode spray: fragments go over all QPs. After all fragments have completed,
 * the IMM is posted on the QP of the slot.
 *
 * Mode dqplb: numbered fragments go over all QPs except the first. The IMM is
 * posted immediately, on the first QP. At the receiver the IMM waits for the
 * fragments.
 *
 * Mode auto: split or spray, by the lane's measurements for the stripe's size
 * (split/adapt.h).
 *
 * A stripe of at most one fragment is sent as in mode split, and so is every
 * stripe on a rail with one QP. For other stripes the lane has a virtual QP per
 * rail (mpib/vqp.h), which posts to the lane's own QPs. So CTS, small stripes
 * and fragments use the same QPs and share send queue space and doorbells. A
 * failed QP stops all of them. The IMM is the same in every mode. If the stripe
 * was spread, the IMM has a record.
 *
 * On a dqplb lane, an IMM waits for its fragments if its payload has 0 bytes or
 * the size of a record. The receiver checks only the length of the payload. So
 * if the IMM of an unspread stripe would have one of these lengths, the stripe
 * is spread, see chain_is_bare().
 *
 * A fence covers all QPs of the rail. So a spread stripe has either arrived or
 * is lost, as a whole. recovery/replay.c posts a lost stripe on one QP of the
 * other rail. The virtual QP restarts with the rail's next QPs.
 */
#ifndef MPIB_ENGINE_SPREAD_H
#define MPIB_ENGINE_SPREAD_H

#include <mpib/vqp.h>
#include <mpib/wire.h>

#include "engine/lane/lane.h"

/* Return the configured spread. With adaptive routing, spray replaces dqplb,
 * because dqplb's IMMs carry payload. Any thread. */
enum mpib_spread mpib_engine_spread(const struct mpib_engine *engine);
/* Create the lane's virtual QPs. Control thread. -ENOMEM. */
int mpib_spread_make(struct mpib_lane *lane);
void mpib_spread_free(struct mpib_lane *lane);

/* Drop all fragments and IMMs of the rail, because the rail is fenced or the
 * lane is broken. */
void mpib_spread_reset(struct mpib_lane *lane, unsigned rail);
/* Return the mask of rails on which the stripes of a send op must be spread.
 * The stripe on rail r has `bytes[r]` bytes. `imm` is the mask of rails on
 * which this send op ends the slot. `before` is the mask of rails on which
 * earlier stripes of the slot were spread. */
uint8_t mpib_spread_rails(struct mpib_lane *lane, uint8_t before,
			  const uint32_t *bytes, uint8_t imm);
/* Return the length above which stripes on the rail are spread; UINT32_MAX:
 * never. */
uint32_t mpib_spread_above(const struct mpib_lane *lane, unsigned rail);
/* Return how many of the rail's fragments were dropped because they came late
 * or twice. */
uint64_t mpib_spread_late(const struct mpib_lane *lane, unsigned rail);
/* dqplb: return whether an IMM with a payload of this length waits at the
 * receiver. */
static inline bool mpib_spread_waits(uint32_t bytes)
{
	return bytes == 0 || bytes == sizeof(struct mpib_record);
}
/* Sender: handle the completion of a fragment, or of the WRITE with the IMM. */
void mpib_spread_sent(struct mpib_lane_qp *q, uint64_t wr_id, bool ok);
/* Receiver, dqplb lane: handle an IMM. 1: the IMM was the number of a fragment,
 * or it waits for fragments. 0: the caller must handle the IMM. -EPROTO: the
 * number is invalid, or more IMMs wait than a correct peer would send. */
int mpib_spread_received(struct mpib_lane_qp *q, uint32_t imm, uint32_t bytes);
/* Receiver: return the next waiting IMM whose fragments have all arrived.
 * False: none. */
bool mpib_spread_next(struct mpib_lane_qp *q, uint32_t *imm, uint32_t *bytes);

#endif
