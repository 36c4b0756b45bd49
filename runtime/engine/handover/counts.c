/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hand-over of counters and histograms, so that totals do not drop when another
 * process takes over. Gauges are not serialized: the new process has its own
 * values. Control thread, shards halted.
 */
#include "engine/conn/conn.h"
#include "engine/handover/handover.h"

static void counts_u64s(struct mpib_serial *p, uint64_t *n, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		mpib_serial_u64(p, &n[i]);
}

#define COUNTER(field, ...) mpib_serial_u64(p, &n->field);

static void counts_moved(struct mpib_serial *p, struct mpib_rail_counts *n)
{
	MPIB_MOVED_COUNTERS(COUNTER, COUNTER)
}

/* The counters that a connection, a lane or a client has per rail. */
static void on_rails(struct mpib_serial *p, struct mpib_rail_counts *n)
{
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		counts_moved(p, &n[r]);
}

MPIB_SERIAL_SIZE(struct mpib_snap_failover, 120);
static void counts_failover(struct mpib_serial *p, struct mpib_snap_failover *n)
{
	counts_u64s(p, n->count, MPIB_CAUSES);
	MPIB_FAILOVER_COUNTERS(COUNTER)
	mpib_serial_u64(p, &n->last_ns);
	mpib_serial_u64(p, &n->last_at);
	mpib_serial_u64(p, &n->max_ns);
	mpib_serial_u64(p, &n->sum_ns);
}

/* But for what it is now: up, drained, port, QPs and receives. */
MPIB_SERIAL_SIZE(struct mpib_snap_rail, 312);
static void counts_rail(struct mpib_serial *p, struct mpib_snap_rail *n)
{
	counts_moved(p, &n->n);
	counts_failover(p, &n->failover);
	MPIB_RAIL_COUNTERS(COUNTER, COUNTER)
}

MPIB_SERIAL_SIZE(struct mpib_snap_shard, 48);
static void counts_turns(struct mpib_serial *p, struct mpib_snap_shard *n)
{
	MPIB_SHARD_COUNTERS(COUNTER)
	MPIB_SHARD_TIMES(COUNTER)
}

static void closed_times(struct mpib_serial *p, struct mpib_hist_counts *h)
{
	mpib_serial_u64(p, &h->count);
	mpib_serial_u64(p, &h->sum);
	mpib_serial_u64(p, &h->max);
	counts_u64s(p, h->bucket, MPIB_HIST_BUCKETS);
}

/* Relaxed: no shard runs now, and every other access is relaxed, too. */
static void shared_u64(struct mpib_serial *p, _Atomic uint64_t *n)
{
	uint64_t v = atomic_load_explicit(n, memory_order_relaxed);

	mpib_serial_u64(p, &v);
	if (!p->packing)
		atomic_store_explicit(n, v, memory_order_relaxed);
}

static void counts_times(struct mpib_serial *p, struct mpib_hist *h)
{
	shared_u64(p, &h->sum);
	shared_u64(p, &h->max);
	for (unsigned i = 0; i < MPIB_HIST_BUCKETS; i++)
		shared_u64(p, &h->bucket[i]);
}

void engine_conn_counts_serialize(struct mpib_serial *p, struct engine_conn *f)
{
	mpib_serial_u64(p, &f->messages);
	on_rails(p, f->n);
	counts_u64s(p, f->stalls, MPIB_STALLS);
	counts_u64s(p, f->stall_ns, MPIB_STALLS);
	for (unsigned i = 0; i < MPIB_TIMES; i++)
		counts_times(p, &f->times.hist[i]);
}

void mpib_lane_counts_serialize(struct mpib_serial *p, struct mpib_lane *lane)
{
	mpib_serial_u64(p, &lane->messages);
	on_rails(p, lane->n);
}

/* NULL if the client has left since it was handed over. */
static struct engine_client *counts_find(struct mpib_shard *s, uint32_t id)
{
	struct engine_client *a;

	TAILQ_FOREACH(a, &s->clients, link)
	{
		if (a->id == id)
			return a;
	}
	return NULL;
}

static void counts_client(struct mpib_serial *p, struct mpib_shard *s,
			  struct engine_client *a)
{
	struct mpib_rail_counts closed[MPIB_RAILS] = { 0 };
	uint64_t messages = a ? a->closed_messages : 0;
	uint64_t stall_ns = a ? a->closed_stall_ns : 0;
	uint32_t id = a ? a->id : 0;
	struct mpib_hist_counts done[2] = { 0 };

	for (unsigned r = 0; a && r < MPIB_RAILS; r++)
		closed[r] = a->closed[r];
	for (unsigned i = 0; a && i < 2; i++)
		done[i] = a->closed_done[i];
	mpib_serial_u32(p, &id);
	mpib_serial_u64(p, &messages);
	mpib_serial_u64(p, &stall_ns);
	on_rails(p, closed);
	for (unsigned i = 0; i < 2; i++)
		closed_times(p, &done[i]);
	a = p->packing || p->failed ? NULL : counts_find(s, id);
	if (!a)
		return;
	a->closed_messages = messages;
	a->closed_stall_ns = stall_ns;
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		a->closed[r] = closed[r];
	for (unsigned i = 0; i < 2; i++)
		a->closed_done[i] = done[i];
}

static void counts_clients(struct mpib_serial *p, struct mpib_shard *s)
{
	struct engine_client *a = TAILQ_FIRST(&s->clients);
	uint32_t n = s->clients_made;

	mpib_serial_u32(p, &n);
	while (n-- > 0 && !p->failed) {
		counts_client(p, s, p->packing ? a : NULL);
		a = p->packing ? TAILQ_NEXT(a, link) : NULL;
	}
}

void mpib_shard_counts_serialize(struct mpib_serial *p, struct mpib_shard *s)
{
	mpib_serial_mark(p, "counts");
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		counts_rail(p, &s->rail[r].n);
	counts_turns(p, &s->n);
	for (unsigned i = 0; i < 2 * MPIB_TIMES; i++)
		closed_times(p,
			     &s->closed_times[i / MPIB_TIMES][i % MPIB_TIMES]);
	counts_clients(p, s);
}
