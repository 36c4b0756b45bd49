/* SPDX-License-Identifier: Apache-2.0 */
/* The benchmarks' engines without a proxy, see rig.h. */
#include "rig/rig.h"

#include <mpib/wire.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/measure/snapshot.h"
#include "engine/shard.h"
#include "peers/peer.h"

/* How much of a card is published, in this order. */
enum {
	SAID_NOTHING,
	SAID_LANE,
	SAID_CONNS,
	SAID_SENDING
};

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

static void *zeroed(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		peer_die("no memory for %zu bytes", bytes);
	return p;
}

int rig_turn(struct rig_node *n)
{
	int moved = 0;

	if (!n->threaded)
		moved = mpib_shard_turn(&n->engine->shard[0]);
	mpib_engine_dispatch(n->engine);
	return moved;
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
	if (n->threaded)
		must(mpib_engine_open(&cfg, &events, n, &n->engine, why,
				      sizeof(why)),
		     "engine", why);
	else
		must(mpib_engine_open_idle(&cfg, &events, n, &n->engine, why,
					   sizeof(why)),
		     "engine", why);
}

void rig_open(struct rig_node *n, unsigned me, const char *net, bool threaded,
	      unsigned conns, size_t mem, struct rig_card cards[2])
{
	struct mpib_engine_config cfg;

	mpib_engine_config_init(&cfg);
	rig_open_as(n, me, net, threaded, conns, mem, cards, &cfg,
		    MPIB_PATH_UNKNOWN);
}

void rig_open_as(struct rig_node *n, unsigned me, const char *net,
		 bool threaded, unsigned conns, size_t mem,
		 struct rig_card cards[2], const struct mpib_engine_config *cfg,
		 enum mpib_path path)
{
	struct mpib_mr_attr attr = { .len = mem, .dmabuf_fd = -1 };
	bool ready = false;

	memset(n, 0, sizeof(*n));
	n->me = me;
	n->conns = conns;
	n->threaded = threaded;
	n->mine = &cards[me];
	n->theirs = &cards[!me];
	n->path = path;
	open_engine(n, net, cfg);
	n->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	n->submit = zeroed(sizeof(*n->submit));
	n->reply = zeroed(sizeof(*n->reply));
	n->mem = zeroed(mem);
	memset(n->mem, (int)me, mem);
	must(mpib_tenant_get(n->engine, 0, 0, &n->tenant), "tenant", "");
	must(engine_client_open(n->tenant, me + 1, n->submit, n->reply, n->bell,
				&n->engine_client),
	     "client", "");
	attr.addr = n->mem;
	must(mpib_mr_add(n->engine_client, &attr, &n->mr, set_flag, &ready),
	     "region", "");
	while (!ready)
		rig_turn(n);
}

static void make_end(struct rig_node *n, unsigned index, bool sender,
		     struct rig_end *e)
{
	must(engine_conn_create(n->engine_client, index, sender, n->lane,
				&e->conn),
	     "connection", "");
	engine_conn_local(e->conn, &n->mine->conn[index]);
	e->node = n;
	e->index = index;
	e->completion = n->reply->completion[index];
	e->ring = (struct mpib_producer){
		.slot = n->submit->ring[index],
		.head = &n->reply->conn[index].head,
		.mask = MPIB_RING_SLOTS - 1,
	};
}

/* Connection 2 i goes from node 0 to node 1, connection 2 i + 1 back. */
static void make_conns(struct rig_node *n)
{
	for (unsigned i = 0; i < n->conns; i++) {
		make_end(n, 2 * i + n->me, true, &n->tx[i]);
		make_end(n, 2 * i + !n->me, false, &n->rx[i]);
	}
}

static void say(struct rig_node *n, int what)
{
	/* Release, pairs with the acquire in rig_connect(): the part of the
	 * card that `what` stands for has been written. */
	atomic_store_explicit(&n->mine->said, what, memory_order_release);
}

static void got_snapshot(void *arg, struct mpib_snapshot *snap)
{
	mpib_snapshot_free(snap);
	*(bool *)arg = true;
}

/* Start the sending ends before the other node starts its receiving ends, which
 * write CTS into the senders' tables. The snapshot shows that the shard has
 * taken all sending ends. */
static void start_sending(struct rig_node *n)
{
	bool there = false;

	for (unsigned i = 0; i < n->conns; i++)
		engine_conn_start(n->tx[i].conn,
				  &n->theirs->conn[n->tx[i].index]);
	must(mpib_engine_snapshot(n->engine, got_snapshot, &there), "snapshot",
	     "");
	while (!there)
		rig_turn(n);
	say(n, SAID_SENDING);
}

static void start_receiving(struct rig_node *n)
{
	for (unsigned i = 0; i < n->conns; i++)
		engine_conn_start(n->rx[i].conn,
				  &n->theirs->conn[n->rx[i].index]);
	for (int i = 0; i < 8; i++)
		rig_turn(n);
}

static void connect_lane(struct rig_node *n)
{
	char why[200] = "";

	must(mpib_lane_connect(n->lane, &n->theirs->lane, why, sizeof(why)),
	     "lane", why);
	make_conns(n);
	say(n, SAID_CONNS);
}

static void create_lane(struct rig_node *n, const struct mpib_lane_info *want)
{
	must(mpib_lane_create(n->tenant, want ? 0 : MPIB_IMM_V2, n->path, want,
			      &n->lane),
	     "lane", "");
	mpib_lane_local(n->lane, &n->mine->lane);
	say(n, SAID_LANE);
}

bool rig_connect(struct rig_node *n)
{
	int there =
		atomic_load_explicit(&n->theirs->said, memory_order_acquire);

	rig_turn(n);
	switch (atomic_load_explicit(&n->mine->said, memory_order_relaxed)) {
	case SAID_NOTHING:
		if (n->me == 0 || there >= SAID_LANE)
			create_lane(n, n->me ? &n->theirs->lane : NULL);
		return true;
	case SAID_LANE:
		if (there >= SAID_LANE)
			connect_lane(n);
		return true;
	case SAID_CONNS:
		if (there >= SAID_CONNS)
			start_sending(n);
		return true;
	default:
		if (there < SAID_SENDING)
			return true;
		start_receiving(n);
		return false;
	}
}

void rig_close(struct rig_node *n)
{
	mpib_engine_close(n->engine);
	close(n->bell);
}

void rig_post(struct rig_end *e, enum mpib_op op, unsigned req, uint64_t off,
	      uint32_t len)
{
	struct mpib_summary *sum = &e->node->submit->summary;
	struct mpib_desc d = {
		.op = (uint8_t)op,
		.req = (uint8_t)req,
		.n = 1,
		.gen = ++e->next_gen,
		.mr = e->node->mr,
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
