/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unacknowledged stripes of one rail of a lane: see tracker.h. Shard thread.
 */
#include "engine/split/tracker.h"

#include <assert.h>

void mpib_tracker_init(struct mpib_tracker *t)
{
	*t = (struct mpib_tracker){ 0 };
	t->sum = &t->own;
	TAILQ_INIT(&t->unacked);
}

void mpib_tracker_round(struct mpib_tracker *t, uint64_t now)
{
	t->ends = (struct mpib_track_ends){ .since = now,
					    .bytes = t->sum->bytes,
					    .ns = t->sum->ns };
}

void mpib_tracker_post(struct mpib_tracker *t, struct mpib_stripe *c,
		       uint32_t bytes, uint64_t now)
{
	struct mpib_track_sum *sum = t->sum;

	c->posted = now;
	c->bytes = bytes;
	c->alone = TAILQ_EMPTY(&t->unacked);
	if (c->alone)
		t->busy_since = now;
	c->before = sum->acked;
	t->inflight += bytes;
	sum->inflight += bytes;
	if (bytes > MPIB_TRACK_SMALL && sum->large++ == 0)
		sum->from = now;
	TAILQ_INSERT_TAIL(&t->unacked, c, link);
}

static void tracker_take_out(struct mpib_tracker *t, struct mpib_stripe *c,
			     uint64_t now)
{
	struct mpib_track_sum *sum = t->sum;

	TAILQ_REMOVE(&t->unacked, c, link);
	assert(c->bytes <= t->inflight && c->bytes <= sum->inflight);
	t->inflight -= c->bytes;
	sum->inflight -= c->bytes;
	if (c->bytes > MPIB_TRACK_SMALL) {
		sum->large--;
		sum->from = now;
	}
	if (TAILQ_EMPTY(&t->unacked))
		t->busy_ns += now - t->busy_since;
	c->posted = 0;
}

static void tracker_sample(struct mpib_tracker *t, uint64_t rtt)
{
	uint64_t off = rtt > t->srtt ? rtt - t->srtt : t->srtt - rtt;

	if (!t->srtt) {
		t->srtt = rtt;
		t->rttvar = rtt / 2;
		return;
	}
	t->rttvar = (3 * t->rttvar + off) / 4;
	t->srtt = (7 * t->srtt + rtt) / 8;
}

/* An answer that came late says less than one that came soon: the process may
 * not have run meanwhile. */
static void tracker_latency(struct mpib_tracker *t, uint64_t rtt)
{
	uint64_t most = 4 * t->latency;

	if (!t->latency)
		t->latency = rtt;
	else if (rtt <= t->latency)
		t->latency = (3 * t->latency + rtt) / 4;
	else
		t->latency +=
			((rtt < most ? rtt : most) - t->latency + 15) / 16;
}

static void tracker_end(struct mpib_tracker *t, const struct mpib_stripe *c,
			uint64_t now)
{
	/* One that stays in flight, as on a lane whose peer stands still, takes
	 * no time of those that come after it. */
	t->sum->ns +=
		now - (c->posted > t->sum->from ? c->posted : t->sum->from);
	t->sum->bytes += c->bytes;
	if (c->posted >= t->ends.since)
		t->ends.n++;
}

void mpib_tracker_ack(struct mpib_tracker *t, struct mpib_stripe *c,
		      uint64_t now)
{
	/* An ack in the same turn still took some time; 0 means no sample. */
	uint64_t rtt = now > c->posted ? now - c->posted : 1;

	t->acked++;
	t->acked_bytes += c->bytes;
	t->sum->acked += c->bytes;
	tracker_sample(t, rtt);
	if (c->bytes > MPIB_TRACK_SMALL) {
		tracker_end(t, c, now);
	} else if (c->alone) {
		tracker_latency(t, rtt);
		t->latency_at = now;
	}
	t->last_ack = now;
	tracker_take_out(t, c, now);
}

void mpib_tracker_drop(struct mpib_tracker *t, struct mpib_stripe *c,
		       uint64_t now)
{
	if (c->posted)
		tracker_take_out(t, c, now);
}

uint64_t mpib_tracker_busy(const struct mpib_tracker *t, uint64_t now)
{
	if (TAILQ_EMPTY(&t->unacked))
		return t->busy_ns;
	return t->busy_ns + (now - t->busy_since);
}
