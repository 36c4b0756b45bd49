/* SPDX-License-Identifier: Apache-2.0 */
/* Taking a snapshot: see snapshot.h. The control thread sends a mailbox message
 * to one shard at a time. The shard thread adds its counters. Then the message
 * returns to the control thread, which sends it to the next shard. */
#include "engine/measure/snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/conn/conn.h"
#include "engine/lane/spread.h"

/* A snapshot being taken. Only the thread that handles `msg` accesses this
 * struct. */
struct taking {
	struct mpib_msg msg;
	struct mpib_engine *engine;
	unsigned shard; /* the next shard to ask */
	struct mpib_snapshot *snap;
	uint32_t lanes_max, conns_max, clients_max;
	uint64_t older_ns; /* minimum age of listed requests */
	mpib_snapshot_fn *fn;
	void *arg;
};

static void add_failover(struct mpib_snap_failover *sum,
			 const struct mpib_snap_failover *n)
{
	for (unsigned i = 0; i < MPIB_CAUSES; i++)
		sum->count[i] += n->count[i];
	MPIB_FAILOVER_COUNTERS(MPIB_COUNTER_ADD)
	if (n->last_at > sum->last_at) {
		sum->last_at = n->last_at;
		sum->last_ns = n->last_ns;
	}
	sum->max_ns = n->max_ns > sum->max_ns ? n->max_ns : sum->max_ns;
	sum->sum_ns += n->sum_ns;
}

static void add_rail(struct mpib_snap_rail *sum, const struct mpib_snap_rail *n)
{
	add_failover(&sum->failover, &n->failover);
	MPIB_RAIL_COUNTERS(MPIB_COUNTER_ADD, MPIB_COUNTER_ADD)
	sum->qps += n->qps;
}

/* Add the counts of the lane and of its connections on a rail. */
static void add_counts(struct mpib_rail_counts *sum,
		       const struct mpib_lane *lane, unsigned r)
{
	const struct engine_conn *f;

	mpib_rail_counts_add(sum, &lane->n[r]);
	TAILQ_FOREACH(f, &lane->conns, lane_link)
	mpib_rail_counts_add(sum, &f->n[r]);
}

void mpib_rail_counted(const struct mpib_shard *s, unsigned rail,
		       struct mpib_rail_counts *sum)
{
	const struct mpib_lane *lane;

	mpib_rail_counts_add(sum, &s->rail[rail].n.n);
	TAILQ_FOREACH(lane, &s->lanes, link)
	add_counts(sum, lane, rail);
}

static void add_rails(struct taking *t, struct mpib_shard *s)
{
	struct mpib_snap_rail *sum = &t->snap->rail[mpib_rail_number(s, 0)];
	struct mpib_tenant *tenant;

	for (unsigned r = 0; r < t->snap->rails; r++) {
		add_rail(&sum[r], &s->rail[r].n);
		mpib_rail_counted(s, r, &sum[r].n);
	}
	TAILQ_FOREACH(tenant, &s->tenants, link)
	{
		for (unsigned r = 0; r < t->snap->rails; r++)
			sum[r].srq_posted += tenant->srq_posted[r];
	}
}

static void add_conn(struct taking *t, struct engine_conn *f)
{
	struct mpib_snap_conn *out;

	if (t->snap->conns == t->conns_max)
		return;
	out = &t->snap->conn[t->snap->conns++];
	*out = (struct mpib_snap_conn){
		.client = f->client->id,
		.index = f->index,
		.lane = t->snap->lanes - 1, /* just added by add_lane() */
		.shard = f->shard->index,
		.sender = f->is_sender,
		.broken = f->state == ENGINE_CONN_BROKEN,
		.local_rank = f->is_sender ? f->rank : -1,
		.remote_rank = f->is_sender ? -1 : f->rank,
		.outstanding = f->outstanding,
		.messages = f->messages,
		.oldest_ns = engine_conn_oldest_ns(f),
	};
	memcpy(out->peer, f->lane->peer, sizeof(out->peer));
	memcpy(out->n, f->n, sizeof(out->n));
	memcpy(out->stalls, f->stalls, sizeof(out->stalls));
	memcpy(out->stall_ns, f->stall_ns, sizeof(out->stall_ns));
	if (f->stall != MPIB_STALL_NONE)
		out->stall_ns[f->stall] += f->shard->now - f->stall_since;
	mpib_policy_why(f, &out->why);
	if (t->snap->request)
		mpib_stuck_add(f, t->older_ns, t->snap);
}

static void snapshot_add_track(struct mpib_snap_track *out,
			       const struct mpib_tracker *t, uint64_t now)
{
	const struct mpib_stripe *oldest = mpib_tracker_oldest(t);

	*out = (struct mpib_snap_track){
		.acked = t->acked,
		.acked_bytes = t->acked_bytes,
		.busy_ns = mpib_tracker_busy(t, now),
		.inflight = t->inflight,
		.srtt = t->srtt,
		.latency = t->latency,
		.oldest_ns = oldest ? now - oldest->posted : 0,
	};
}

/* If a lane or connection was created after snapshot_room() and does not fit,
 * leave it out. */
static void add_lane(struct taking *t, const struct mpib_lane *lane)
{
	struct mpib_snap_lane *out;
	struct engine_conn *f;

	if (t->snap->lanes == t->lanes_max)
		return;
	out = &t->snap->lane[t->snap->lanes++];
	*out = (struct mpib_snap_lane){
		.shard = lane->shard->index,
		.uid = lane->tenant->uid,
		.imm_version = lane->imm_version,
		.path = lane->path,
		.spread = lane->spread,
		.traffic_class = lane->traffic_class,
		.broken = lane->broken,
		.conns = lane->nconns,
		.messages = lane->messages,
	};
	memcpy(out->peer, lane->peer, sizeof(out->peer));
	memcpy(out->peer_gid, lane->peer_gid, sizeof(out->peer_gid));
	memcpy(out->qps, lane->qps, sizeof(out->qps));
	out->live = lane->open;
	for (unsigned r = 0; r < lane->rails; r++) {
		add_counts(&out->n[r], lane, r);
		out->spread_above[r] = mpib_spread_above(lane, r);
		out->late += mpib_spread_late(lane, r);
		snapshot_add_track(&out->track[r], &lane->track[r],
				   lane->shard->now);
	}
	TAILQ_FOREACH(f, &lane->conns, lane_link)
	{
		out->messages += f->messages;
		add_conn(t, f);
	}
}

static void add_client(struct taking *t, const struct engine_client *a)
{
	struct mpib_snap_client *out;

	if (t->snap->clients == t->clients_max)
		return;
	out = &t->snap->client[t->snap->clients++];
	out->id = a->id;
	out->held = a->drr.held + a->tenant->drr.held;
	out->closed_messages = a->closed_messages;
	memcpy(out->closed, a->closed, sizeof(out->closed));
}

/* Fill in what the control thread knows of the rail. The port's state is what
 * the first shard of the device sees. Also fill in how often the shards saw the
 * port go down. */
static void snapshot_state(struct mpib_engine *e, unsigned r,
			   struct mpib_snap_rail *out)
{
	const struct mpib_rail *rail = mpib_engine_rail(e, r);
	const struct mpib_shard *s =
		&e->shard[(size_t)(r / e->cfg.rails) * e->cfg.shards];

	for (unsigned i = 0; i < e->cfg.shards; i++)
		out->downs += s[i].rail[r % e->cfg.rails].downs;
	out->up = e->rail_up[r];
	out->drained = mpib_engine_drained(e) >> r & 1;
	if (!rail->ctx)
		return;
	out->speed_mbps = rail->port.speed_mbps;
	out->mtu = (uint8_t)rail->port.mtu;
	out->gid = rail->port.gid;
}

static void on_shard(struct mpib_msg *msg);

/* Make room for n entries of `size` bytes each in `list`, which has room for
 * *max entries. If memory is short, the list does not change. */
static void *snapshot_grow(void *list, uint32_t *max, uint32_t n, size_t size)
{
	void *more = n > *max ? realloc(list, n * size) : NULL;

	if (!more)
		return list;
	*max = n;
	return more;
}

/* Make room for the shard's entries after the present ones. The control thread
 * counts the lanes, connections and clients that it creates. So its counts
 * include every object that the shard has. */
static void snapshot_room(struct taking *t, const struct mpib_shard *s)
{
	struct mpib_snapshot *snap = t->snap;

	snap->lane =
		snapshot_grow(snap->lane, &t->lanes_max,
			      snap->lanes + s->lanes_made, sizeof(*snap->lane));
	snap->conn =
		snapshot_grow(snap->conn, &t->conns_max,
			      snap->conns + s->conns_made, sizeof(*snap->conn));
	snap->client = snapshot_grow(snap->client, &t->clients_max,
				     snap->clients + s->clients_made,
				     sizeof(*snap->client));
}

static void on_control(struct mpib_msg *msg)
{
	struct taking *t = container_of(msg, struct taking, msg);
	struct mpib_engine *e = t->engine;

	if (t->shard < e->shards) {
		snapshot_room(t, &e->shard[t->shard]);
		mpib_mailbox_send(&e->shard[t->shard].mailbox, &t->msg,
				  on_shard);
		return;
	}
	for (unsigned r = 0; r < mpib_snap_rails(t->snap); r++)
		snapshot_state(e, r, &t->snap->rail[r]);
	t->fn(t->arg, t->snap);
	free(t);
}

static void on_shard(struct mpib_msg *msg)
{
	struct taking *t = container_of(msg, struct taking, msg);
	struct mpib_shard *s = &t->engine->shard[t->shard];
	struct engine_client *a;
	struct mpib_lane *lane;

	add_rails(t, s);
	t->snap->shard[s->index] = s->n;
	TAILQ_FOREACH(lane, &s->lanes, link)
	add_lane(t, lane);
	TAILQ_FOREACH(a, &s->clients, link)
	add_client(t, a);
	t->shard++;
	mpib_mailbox_send(&t->engine->mailbox, &t->msg, on_control);
}

/* Count the entries that the buffers currently need. */
static void snapshot_count(struct taking *t)
{
	for (unsigned i = 0; i < t->engine->shards; i++) {
		t->lanes_max += t->engine->shard[i].lanes_made;
		t->conns_max += t->engine->shard[i].conns_made;
		t->clients_max += t->engine->shard[i].clients_made;
	}
}

static int snapshot_take(struct mpib_engine *engine, bool requests,
			 uint64_t older_ns, mpib_snapshot_fn *fn, void *arg)
{
	struct taking *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->engine = engine;
	t->older_ns = older_ns;
	t->fn = fn;
	t->arg = arg;
	snapshot_count(t);
	t->snap = calloc(1, sizeof(*t->snap));
	if (!t->snap)
		goto err_free;
	t->snap->rails = engine->cfg.rails;
	t->snap->devices = engine->cfg.devices;
	t->snap->shards = engine->shards;
	t->snap->lane = calloc(t->lanes_max + 1, sizeof(*t->snap->lane));
	t->snap->conn = calloc(t->conns_max + 1, sizeof(*t->snap->conn));
	t->snap->client = calloc(t->clients_max + 1, sizeof(*t->snap->client));
	if (requests)
		t->snap->request =
			calloc(MPIB_SNAP_REQUESTS, sizeof(*t->snap->request));
	if (!t->snap->lane || !t->snap->conn || !t->snap->client ||
	    (requests && !t->snap->request))
		goto err_snap;
	mpib_mailbox_send(&engine->shard[0].mailbox, &t->msg, on_shard);
	return 0;

err_snap:
	mpib_snapshot_free(t->snap);
err_free:
	free(t);
	return -ENOMEM;
}

int mpib_engine_snapshot(struct mpib_engine *engine, mpib_snapshot_fn *fn,
			 void *arg)
{
	return snapshot_take(engine, false, 0, fn, arg);
}

int mpib_engine_snapshot_requests(struct mpib_engine *engine, uint64_t older_ns,
				  mpib_snapshot_fn *fn, void *arg)
{
	return snapshot_take(engine, true, older_ns, fn, arg);
}

void mpib_snapshot_free(struct mpib_snapshot *snap)
{
	free(snap->request);
	free(snap->lane);
	free(snap->conn);
	free(snap->client);
	free(snap);
}
