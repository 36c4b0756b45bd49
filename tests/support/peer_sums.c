/* SPDX-License-Identifier: Apache-2.0 */
/* Add up a broker's lanes, connections, pending connects and queued bytes. See
 * sums.h. */
#include "peer/internal.h"
#include "sums.h"

struct peer_sums {
	uint64_t peers, conns; /* `conns`: connections that have a peer */
	/* connects that hold a lane, and connects that wait for an accept */
	uint64_t offers, waiting;
	uint64_t up; /* lanes in state UP */
	uint64_t waits; /* bytes queued on peer links */
};

static bool peer_lane_fits(const struct peer_lane *l, struct peer_sums *sums,
			   struct sum *wrong)
{
	const struct mpib_pending_connect *w;
	const struct peer_conn *c;
	uint64_t uses = 0;

	TAILQ_FOREACH(c, &l->conns, lane_entry)
	uses++;
	LIST_FOREACH(w, &l->offers, lane_entry)
	{
		uses++;
		sums->offers++;
	}
	sums->up += l->state == PEER_LANE_UP;
	return sum_fits(wrong, "uses of a lane", l->uses, uses);
}

static bool peer_fits(const struct mpib_peer *p, struct peer_sums *sums,
		      struct sum *wrong)
{
	const struct peer_lane *l;

	TAILQ_FOREACH(l, &p->lanes, entry)
	{
		if (!peer_lane_fits(l, sums, wrong))
			return false;
	}
	sums->peers++;
	sums->conns += p->conns;
	if (p->state == MPIB_PEER_UP)
		sums->waits += mpib_fifo_waits(&p->link->out);
	return true;
}

static bool listener_fits(const struct mpib_listener_entry *l,
			  struct peer_sums *sums, struct sum *wrong)
{
	const struct mpib_pending_connect *w;
	uint64_t n = 0;

	TAILQ_FOREACH(w, &l->backlog, entry)
	n++;
	sums->waiting += n;
	return sum_fits(wrong, "connects that wait for an accept", l->waiting,
			n);
}

/* Check the broker's counters, which cover the objects of all peers. */
static bool broker_fits(const struct mpib_broker *b,
			const struct peer_sums *sums, struct sum *wrong)
{
	uint64_t with_peer = 0, running = 0;

	for (const struct peer_conn *c = b->conns; c; c = c->hh.next) {
		with_peer += c->peer != NULL;
		running += c->conn != NULL;
	}
	return sum_fits(wrong, "peers", HASH_COUNT(b->by_key), sums->peers) &&
	       sum_fits(wrong, "bytes that wait for peers", b->waits.waits,
			sums->waits) &&
	       sum_fits(wrong, "connections with peers", sums->conns,
			with_peer) &&
	       sum_fits(wrong, "connects on lanes", sums->offers,
			sums->waiting) &&
	       sum_fits(wrong, "lanes of the engine",
			HASH_CNT(hh_lane, b->by_lane), sums->up) &&
	       sum_fits(wrong, "connections of the engine",
			HASH_CNT(hh_engine, b->by_engine), running);
}

bool sums_of_broker(const struct mpib_broker *broker, struct sum *wrong)
{
	struct peer_sums sums = { 0 };
	const struct mpib_peer *p;

	TAILQ_FOREACH(p, &broker->peers, entry)
	{
		if (!peer_fits(p, &sums, wrong))
			return false;
	}
	for (const struct mpib_listener_entry *l = broker->listeners; l;
	     l = l->hh.next) {
		if (!listener_fits(l, &sums, wrong))
			return false;
	}
	return broker_fits(broker, &sums, wrong);
}
