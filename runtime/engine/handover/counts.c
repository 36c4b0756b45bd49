/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was counted and timed, so that totals do not drop when another process
 * goes on. Gauges are not handed over: they are what they are there.
 */
#include "engine/flow/flow.h"
#include "engine/handover/handover.h"

static void u64s(struct mpib_parcel *p, uint64_t *n, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		mpib_parcel_u64(p, &n[i]);
}

static void moved(struct mpib_parcel *p, struct mpib_rail_counts *n)
{
	mpib_parcel_u64(p, &n->tx_bytes);
	mpib_parcel_u64(p, &n->rx_bytes);
	mpib_parcel_u64(p, &n->tx_wrs);
	mpib_parcel_u64(p, &n->rx_imms);
	mpib_parcel_u64(p, &n->cts);
	mpib_parcel_u64(p, &n->posts);
	mpib_parcel_u64(p, &n->tx_imms);
	mpib_parcel_u64(p, &n->tx_cqes);
	mpib_parcel_u64(p, &n->replays);
	mpib_parcel_u64(p, &n->replayed_bytes);
}

/* By whoever counts it, on each rail. */
static void on_rails(struct mpib_parcel *p, struct mpib_rail_counts *n)
{
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		moved(p, &n[r]);
}

static void failover(struct mpib_parcel *p, struct mpib_snap_failover *n)
{
	u64s(p, n->count, MPIB_CAUSES);
	mpib_parcel_u64(p, &n->failbacks);
	mpib_parcel_u64(p, &n->lost_bytes);
	mpib_parcel_u64(p, &n->lost_chunks);
	mpib_parcel_u64(p, &n->acked_chunks);
	mpib_parcel_u64(p, &n->replayed_bytes);
	mpib_parcel_u64(p, &n->last_ns);
	mpib_parcel_u64(p, &n->max_ns);
	mpib_parcel_u64(p, &n->sum_ns);
}

static void rail(struct mpib_parcel *p, struct mpib_snap_rail *n)
{
	moved(p, &n->n);
	failover(p, &n->failover);
	mpib_parcel_u64(p, &n->cqes);
	mpib_parcel_u64(p, &n->cqe_errors);
	mpib_parcel_u64(p, &n->posts);
	mpib_parcel_u64(p, &n->srq_refills);
	mpib_parcel_u64(p, &n->stale_imms);
	mpib_parcel_u64(p, &n->bad_imms);
	mpib_parcel_u64(p, &n->srq_limits);
	mpib_parcel_u64(p, &n->downs);
	mpib_parcel_u64(p, &n->failovers);
	mpib_parcel_u64(p, &n->failover_ns);
}

static void turns(struct mpib_parcel *p, struct mpib_snap_shard *n)
{
	mpib_parcel_u64(p, &n->turns);
	mpib_parcel_u64(p, &n->busy_turns);
	mpib_parcel_u64(p, &n->sleeps);
	mpib_parcel_u64(p, &n->busy_ns);
	mpib_parcel_u64(p, &n->idle_ns);
	mpib_parcel_u64(p, &n->slept_ns);
}

static void closed_times(struct mpib_parcel *p, struct mpib_hist_counts *h)
{
	mpib_parcel_u64(p, &h->count);
	mpib_parcel_u64(p, &h->sum);
	mpib_parcel_u64(p, &h->max);
	u64s(p, h->bucket, MPIB_HIST_BUCKETS);
}

/* Relaxed: whoever reads it meanwhile takes each for itself. */
static void shared_u64(struct mpib_parcel *p, _Atomic uint64_t *n)
{
	uint64_t v = atomic_load_explicit(n, memory_order_relaxed);

	mpib_parcel_u64(p, &v);
	if (!p->packing)
		atomic_store_explicit(n, v, memory_order_relaxed);
}

static void times(struct mpib_parcel *p, struct mpib_hist *h)
{
	shared_u64(p, &h->sum);
	shared_u64(p, &h->max);
	for (unsigned i = 0; i < MPIB_HIST_BUCKETS; i++)
		shared_u64(p, &h->bucket[i]);
}

void mpib_flow_counts_parcel(struct mpib_parcel *p, struct mpib_flow *f)
{
	mpib_parcel_u64(p, &f->messages);
	on_rails(p, f->n);
	u64s(p, f->stalls, MPIB_STALLS);
	u64s(p, f->stall_ns, MPIB_STALLS);
	for (unsigned i = 0; i < MPIB_TIMES; i++)
		times(p, &f->times.hist[i]);
}

void mpib_lane_counts_parcel(struct mpib_parcel *p, struct mpib_lane *lane)
{
	mpib_parcel_u64(p, &lane->messages);
	on_rails(p, lane->n);
}

/* It may have left since its client was handed over. */
static struct mpib_attachment *find(struct mpib_shard *s, uint32_t id)
{
	struct mpib_attachment *a;

	TAILQ_FOREACH(a, &s->attachments, link)
	{
		if (a->id == id)
			return a;
	}
	return NULL;
}

static void client(struct mpib_parcel *p, struct mpib_shard *s,
		   struct mpib_attachment *a)
{
	struct mpib_rail_counts closed[MPIB_RAILS] = { 0 };
	uint64_t messages = a ? a->closed_messages : 0;
	uint32_t id = a ? a->id : 0;

	for (unsigned r = 0; a && r < MPIB_RAILS; r++)
		closed[r] = a->closed[r];
	mpib_parcel_u32(p, &id);
	mpib_parcel_u64(p, &messages);
	on_rails(p, closed);
	a = p->packing || p->failed ? NULL : find(s, id);
	if (!a)
		return;
	a->closed_messages = messages;
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		a->closed[r] = closed[r];
}

static void clients(struct mpib_parcel *p, struct mpib_shard *s)
{
	struct mpib_attachment *a = TAILQ_FIRST(&s->attachments);
	uint32_t n = s->attachments_made;

	mpib_parcel_u32(p, &n);
	while (n-- > 0 && !p->failed) {
		client(p, s, p->packing ? a : NULL);
		a = p->packing ? TAILQ_NEXT(a, link) : NULL;
	}
}

void mpib_shard_counts_parcel(struct mpib_parcel *p, struct mpib_shard *s)
{
	mpib_parcel_mark(p, "counts");
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		rail(p, &s->rail[r].n);
	turns(p, &s->n);
	for (unsigned i = 0; i < 2 * MPIB_TIMES; i++)
		closed_times(p,
			     &s->closed_times[i / MPIB_TIMES][i % MPIB_TIMES]);
	clients(p, s);
}
