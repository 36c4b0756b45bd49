/* SPDX-License-Identifier: Apache-2.0 */
/* The benchmarks' engines without a proxy, see rig.h. */
#include "rig/rig.h"

#include <mpib/wire.h>
#include <stdio.h>
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

/* The user with number uid has a region that is the node's memory. */
static void open_user(struct rig_node *n, unsigned uid, size_t mem)
{
	struct mpib_mr_attr attr = { .addr = n->mem,
				     .len = mem,
				     .dmabuf_fd = -1 };
	struct rig_user *u = &n->user[uid];
	bool ready = false;

	u->submit = zeroed(sizeof(*u->submit));
	u->reply = zeroed(sizeof(*u->reply));
	must(mpib_tenant_get(n->engine, 0, uid, &u->tenant), "tenant", "");
	must(engine_client_open(u->tenant, 2 * uid + n->me + 1, u->submit,
				u->reply, uid == 0 ? n->bell : -1,
				&u->engine_client),
	     "client", "");
	must(mpib_mr_add(u->engine_client, &attr, &u->mr, set_flag, &ready),
	     "region", "");
	while (!ready)
		rig_turn(n);
}

static void open_node(struct rig_node *n, const char *net, size_t mem,
		      struct rig_card cards[2],
		      const struct mpib_engine_config *cfg)
{
	n->mine = &cards[n->me];
	n->theirs = &cards[!n->me];
	open_engine(n, net, cfg);
	n->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	n->mem = zeroed(mem);
	memset(n->mem, (int)n->me, mem);
	for (unsigned i = 0; i < n->users; i++)
		open_user(n, i, mem);
}

void rig_open_as(struct rig_node *n, unsigned me, const char *net,
		 bool threaded, unsigned conns, size_t mem,
		 struct rig_card cards[2], const struct mpib_engine_config *cfg,
		 enum mpib_path path)
{
	memset(n, 0, sizeof(*n));
	n->me = me;
	n->users = 1;
	n->conns = conns;
	n->threaded = threaded;
	n->path = path;
	open_node(n, net, mem, cards, cfg);
}

void rig_open_users(struct rig_node *n, unsigned me, const char *net,
		    unsigned users, unsigned conns, size_t mem,
		    struct rig_card cards[2],
		    const struct mpib_engine_config *cfg)
{
	memset(n, 0, sizeof(*n));
	n->me = me;
	n->users = users;
	n->conns = conns;
	n->path = MPIB_PATH_UNKNOWN;
	open_node(n, net, mem, cards, cfg);
}

/* An end of pair i, back: of its connection from node 1 to node 0. */
static void make_end(struct rig_node *n, unsigned i, unsigned back,
		     struct rig_end *e)
{
	unsigned each = n->conns / n->users;
	struct rig_user *u = &n->user[i / each];

	e->index = 2 * (i % each) + back;
	must(engine_conn_create(u->engine_client, e->index, back == n->me,
				MPIB_TABLE_SLOTS, u->lane, &e->conn),
	     "connection", "");
	engine_conn_local(e->conn, &n->mine->conn[2 * i + back]);
	e->node = n;
	e->user = u;
	e->completion = u->reply->completion[e->index];
	e->ring = (struct mpib_producer){
		.slot = u->submit->ring[e->index],
		.head = &u->reply->conn[e->index].head,
		.mask = MPIB_RING_SLOTS - 1,
	};
}

static void make_conns(struct rig_node *n)
{
	for (unsigned i = 0; i < n->conns; i++) {
		make_end(n, i, n->me, &n->tx[i]);
		make_end(n, i, !n->me, &n->rx[i]);
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
				  &n->theirs->conn[2 * i + n->me]);
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
				  &n->theirs->conn[2 * i + !n->me]);
	for (int i = 0; i < 8; i++)
		rig_turn(n);
}

static void connect_lanes(struct rig_node *n)
{
	char why[200] = "";

	for (unsigned i = 0; i < n->users; i++)
		must(mpib_lane_connect(n->user[i].lane, &n->theirs->lane[i],
				       why, sizeof(why)),
		     "lane", why);
	make_conns(n);
	say(n, SAID_CONNS);
}

/* want: what node 0 has said of its lanes; NULL: this is node 0. */
static void create_lanes(struct rig_node *n, const struct mpib_lane_info *want)
{
	for (unsigned i = 0; i < n->users; i++) {
		struct rig_user *u = &n->user[i];

		must(mpib_lane_create(u->tenant, want ? 0 : MPIB_IMM_V2,
				      n->path, want ? &want[i] : NULL,
				      &u->lane),
		     "lane", "");
		mpib_lane_local(u->lane, &n->mine->lane[i]);
	}
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
			create_lanes(n, n->me ? n->theirs->lane : NULL);
		return true;
	case SAID_LANE:
		if (there >= SAID_LANE)
			connect_lanes(n);
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
