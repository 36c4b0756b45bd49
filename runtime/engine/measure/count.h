/* SPDX-License-Identifier: Apache-2.0 */
/* Engine-internal: count each event for its connection. A snapshot adds up the
 * connections of a lane, and the lanes of a rail. Shard thread. The counters
 * are not atomic, because only the shard thread reads them. */
#ifndef MPIB_ENGINE_COUNT_H
#define MPIB_ENGINE_COUNT_H

#include "engine/conn/conn.h"
#include "engine/kept.h"
#include "engine/trace.h"

/* Count a chain that was posted to QP q of the rail for connection f: its
 * number of WRs and its bytes of payload. If `imm` is true, the chain ends with
 * a WRITE_WITH_IMM. */
__attribute__((always_inline)) static inline void
mpib_count_post(struct engine_conn *f, const struct mpib_lane_qp *q,
		unsigned rail, unsigned wrs, uint32_t bytes, bool imm)
{
	struct mpib_rail_counts *n = &f->n[rail];

	n->posts++;
	n->tx_wrs += wrs;
	n->tx_bytes += bytes;
	n->tx_imms += imm;
	MPIB_TRACE(post, f->client->id, f->index, rail, q->qpn, wrs, bytes,
		   imm);
}

static inline void mpib_record(struct engine_conn *f, enum mpib_time which,
			       uint64_t ns)
{
	mpib_hist_record(mpib_kept(&f->times.hist[which]), ns);
}

/* If f was waiting, add the time of that wait. Call this when f continues or
 * starts to wait for something else. */
static inline void mpib_unstall(struct engine_conn *f)
{
	if (f->stall != MPIB_STALL_NONE) {
		f->stall_ns[f->stall] += f->shard->now - f->stall_since;
		f->stall = MPIB_STALL_NONE;
	}
}

/* Record that connection f must wait for the cause `why`. If f already waits
 * for `why`, do nothing, so that each wait is counted once. */
static inline void mpib_stall(struct engine_conn *f, enum mpib_stall why)
{
	if (f->stall == why)
		return;
	mpib_unstall(f);
	f->stall = why;
	f->stalls[why]++;
	f->stall_since = f->shard->now;
}

#endif
