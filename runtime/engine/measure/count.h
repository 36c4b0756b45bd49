/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the engine: what happened, counted wherever somebody may look for it.
 * Shard thread; plain adds, for only the shard itself reads them.
 */
#ifndef MPIB_ENGINE_COUNT_H
#define MPIB_ENGINE_COUNT_H

#include "base/trace.h"
#include "engine/flow/flow.h"

/* A chain of wrs went to q for f; bytes of payload, and whether it ends with
 * an immediate value. */
static inline void mpib_count_post(struct mpib_flow *f, struct mpib_lane_qp *q,
				   unsigned wrs, uint32_t bytes, bool imm)
{
	struct mpib_rail_counts *n[] = { &f->n[q->rail], &q->lane->n[q->rail],
					 &f->shard->rail[q->rail].n.n };

	for (unsigned i = 0; i < 3; i++) {
		n[i]->posts++;
		n[i]->tx_wrs += wrs;
		n[i]->tx_bytes += bytes;
		n[i]->tx_imms += imm;
	}
	MPIB_TRACE(post, f->attachment->id, f->index, q->rail, q->qpn, wrs,
		   bytes, imm);
}

/* A chunk that another rail lost goes by rail. */
static inline void mpib_count_replay(struct mpib_flow *f, unsigned rail,
				     uint32_t bytes)
{
	struct mpib_rail_counts *n[] = { &f->n[rail], &f->lane->n[rail],
					 &f->shard->rail[rail].n.n };

	for (unsigned i = 0; i < 3; i++) {
		n[i]->replays++;
		n[i]->replayed_bytes += bytes;
	}
}

static inline void mpib_count_messages(struct mpib_flow *f, unsigned n)
{
	f->messages += n;
	f->lane->messages += n;
}

static inline void mpib_record(struct mpib_flow *f, enum mpib_time which,
			       uint64_t ns)
{
	/* Relaxed: mpib_engine_tune() may switch it between any two. */
	if (__atomic_load_n(&f->shard->engine->cfg.times, __ATOMIC_RELAXED))
		mpib_hist_record(&f->times.hist[which], ns);
}

/* f goes on, or waits for something else: how long it waited. */
static inline void mpib_unstall(struct mpib_flow *f)
{
	if (__builtin_expect(f->stall != MPIB_STALL_NONE, 0)) {
		f->stall_ns[f->stall] += f->shard->now - f->stall_since;
		f->stall = MPIB_STALL_NONE;
	}
}

/* f cannot go on. Counted when the cause is a new one. */
static inline void mpib_stall(struct mpib_flow *f, enum mpib_stall why)
{
	if (f->stall == why)
		return;
	mpib_unstall(f);
	f->stall = why;
	f->stalls[why]++;
	f->stall_since = f->shard->now;
}

#endif
