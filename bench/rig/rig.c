/* SPDX-License-Identifier: Apache-2.0 */
/* Two engines without a proxy, see rig.h. */
#include "rig/rig.h"

#include <mpib/wire.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/measure/snapshot.h"
#include "engine/shard.h"
#include "peers/peer.h"

static void conn_broken(void *ctx, struct engine_conn *conn, int error,
			const char *why)
{
	(void)ctx;
	(void)conn;
	peer_die("connection: %s (%d)", why, error);
}

static void lane_broken(void *ctx, struct mpib_lane *lane, int error,
			const char *why)
{
	(void)ctx;
	(void)lane;
	peer_die("lane: %s (%d)", why, error);
}

static const struct mpib_engine_events events = {
	.conn_broken = conn_broken,
	.lane_broken = lane_broken,
};

static void must(int rc, const char *what, const char *why)
{
	if (rc < 0)
		peer_die("%s: %s %s", what, strerror(-rc), why);
}

static void turn(struct rig_node *n)
{
	mpib_shard_turn(&n->engine->shard[0]);
	mpib_engine_dispatch(n->engine);
}

static void set_flag(void *arg, int status)
{
	must(status, "registration", "");
	*(bool *)arg = true;
}

static void open_engine(struct rig_node *n, const char *net,
			const struct mpib_engine_config *base)
{
	struct mpib_engine_config cfg = *base;
	char spec[64], why[200] = "";

	for (unsigned r = 0; r < cfg.rails; r++) {
		snprintf(spec, sizeof(spec), "soft:%s.%u.%u", net, r,
			 n->me + 1);
		must(mpib_rail_spec_parse(spec, &cfg.rail[r], why, sizeof(why)),
		     spec, why);
	}
	must(mpib_engine_open_idle(&cfg, &events, n, &n->engine, why,
				   sizeof(why)),
	     "engine", why);
}

/* Create user `uid`, and register the node's memory as the user's region. */
static void open_user(struct rig_node *n, unsigned uid, size_t mem)
{
	struct mpib_mr_attr attr = { .addr = n->mem,
				     .len = mem,
				     .dmabuf_fd = -1 };
	struct rig_user *u = &n->user[uid];
	bool ready = false;

	u->submit = peer_shared(sizeof(*u->submit));
	u->reply = peer_shared(sizeof(*u->reply));
	must(mpib_tenant_get(n->engine, 0, uid, &u->tenant), "tenant", "");
	must(engine_client_open(u->tenant, 2 * uid + n->me + 1, u->submit,
				u->reply, uid == 0 ? n->bell : -1,
				&u->engine_client),
	     "client", "");
	must(mpib_mr_add(u->engine_client, &attr, &u->mr, set_flag, &ready),
	     "region", "");
	while (!ready)
		turn(n);
}

static void open_node(struct rig_node *n, const char *net, size_t mem,
		      const struct mpib_engine_config *cfg)
{
	open_engine(n, net, cfg);
	n->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	n->mem = peer_shared(mem);
	memset(n->mem, (int)n->me, mem);
	for (unsigned i = 0; i < n->users; i++)
		open_user(n, i, mem);
}

/* Connect the nodes by a lane for each user. */
static void connect_lanes(struct rig_node node[2])
{
	struct mpib_lane_info info[2];
	char why[200] = "";

	for (unsigned i = 0; i < node[0].users; i++) {
		for (unsigned k = 0; k < 2; k++) {
			struct rig_user *u = &node[k].user[i];

			must(mpib_lane_create(u->tenant, k ? 0 : MPIB_IMM_V2,
					      MPIB_PATH_UNKNOWN,
					      k ? &info[0] : NULL, &u->lane),
			     "lane", "");
			mpib_lane_local(u->lane, &info[k]);
		}
		for (unsigned k = 0; k < 2; k++)
			must(mpib_lane_connect(node[k].user[i].lane, &info[!k],
					       why, sizeof(why)),
			     "lane", why);
	}
}

/* Make an end of a connection of pair `i`. If `back` is 1, the connection is
 * from node 1 to node 0. */
static void make_end(struct rig_node *n, unsigned i, unsigned back,
		     struct rig_end *e, struct engine_conn_info *info)
{
	unsigned each = n->conns / n->users;
	struct rig_user *u = &n->user[i / each];

	e->index = 2 * (i % each) + back;
	must(engine_conn_create(u->engine_client, e->index, back == n->me,
				u->lane, &e->conn),
	     "connection", "");
	engine_conn_local(e->conn, info);
	e->node = n;
	e->user = u;
	e->completion = u->reply->completion[e->index];
	e->ring = (struct mpib_producer){
		.slot = u->submit->ring[e->index],
		.head = &u->reply->conn[e->index].head,
		.mask = MPIB_RING_SLOTS - 1,
	};
}

static void got_snapshot(void *arg, struct mpib_snapshot *snap)
{
	mpib_snapshot_free(snap);
	*(bool *)arg = true;
}

/* Wait until the shard has handled all messages sent to it. Only then is a
 * snapshot complete. */
static void settle(struct rig_node *n)
{
	bool there = false;

	must(mpib_engine_snapshot(n->engine, got_snapshot, &there), "snapshot",
	     "");
	while (!there)
		turn(n);
}

/* Start the sending ends before the receiving ends, because the receiving ends
 * write CTS into the senders' tables. */
static void connect_conns(struct rig_node node[2])
{
	static struct engine_conn_info tx[2][RIG_CONNS], rx[2][RIG_CONNS];

	for (unsigned k = 0; k < 2; k++) {
		for (unsigned i = 0; i < node[k].conns; i++) {
			make_end(&node[k], i, k, &node[k].tx[i], &tx[k][i]);
			make_end(&node[k], i, !k, &node[k].rx[i], &rx[k][i]);
		}
	}
	for (unsigned k = 0; k < 2; k++) {
		for (unsigned i = 0; i < node[k].conns; i++)
			engine_conn_start(node[k].tx[i].conn, &rx[!k][i]);
		settle(&node[k]);
	}
	for (unsigned k = 0; k < 2; k++) {
		for (unsigned i = 0; i < node[k].conns; i++)
			engine_conn_start(node[k].rx[i].conn, &tx[!k][i]);
	}
	for (unsigned i = 0; i < 16; i++)
		turn(&node[i % 2]);
}

void rig_open(struct rig_node node[2], const char *net, unsigned users,
	      unsigned conns, size_t mem, const struct mpib_engine_config *cfg)
{
	for (unsigned k = 0; k < 2; k++) {
		node[k].me = k;
		node[k].users = users;
		node[k].conns = conns;
		open_node(&node[k], net, mem, cfg);
	}
	connect_lanes(node);
	connect_conns(node);
}

void rig_post(struct rig_end *e, enum mpib_op op, unsigned req, uint64_t off,
	      uint32_t len)
{
	struct mpib_summary *sum = &e->user->submit->summary;
	struct mpib_desc d = {
		.op = (uint8_t)op,
		.req = (uint8_t)req,
		.n = 1,
		.gen = ++e->next_gen,
		.mr = e->user->mr,
		.off = off,
		.len = len,
		.total = len,
	};
	struct mpib_shard *s = &e->node->engine->shard[0];
	uint64_t one = 1;

	if (mpib_ring_room(&e->ring, 1) <= 0)
		peer_die("the ring is full: more is in flight than it holds");
	e->gen[req] = d.gen;
	mpib_ring_push(&e->ring, &d);
	if (mpib_summary_tell(&sum->word[e->index / 64], 1ull << e->index % 64,
			      &sum->top, 1ull << e->index / 64,
			      &s->status->sleeping) &&
	    e->node->threaded && write(e->node->bell, &one, sizeof(one)) < 0)
		peer_die("doorbell: %m");
}

bool rig_done(const struct rig_end *e, unsigned req)
{
	int32_t res;

	if (!mpib_completion_poll(&e->completion[req], e->gen[req], &res))
		return false;
	if (res < 0)
		peer_die("request %u: %s", req, strerror(-res));
	return true;
}
