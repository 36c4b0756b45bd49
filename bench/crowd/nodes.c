/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other nodes. Each has a broker with its own address, and all share one
 * engine. One thread runs the brokers, and another one the engine's shard. Node
 * i has CROWD_CLIENTS connections of an engine client. An engine client serves
 * as many nodes as its connections suffice for.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "crowd/crowd.h"
#include "peer/internal.h"
#include "peers/peer.h"
#include "rig/rig.h"

#define TICK_NS MPIB_MSEC
/* Number of nodes that share an engine client. */
#define SHARE (MPIB_CONNS_MAX / CROWD_CLIENTS)
#define INFLIGHT 4u /* receives posted for each node */

struct crowd_node {
	struct mpib_broker *broker;
	struct peer_client client;
	struct rig_end end; /* receives messages from the first client */
	uint32_t listener;
};

/* An entry of the cache that maps a lane to its node. */
struct crowd_lane {
	struct mpib_lane *lane;
	unsigned node;
	UT_hash_handle hh;
};

struct crowd {
	struct crowd_world *w;
	struct mpib_loop loop;
	struct mpib_engine *engine;
	struct mpib_io watch;
	struct mpib_timer tick;
	struct crowd_node *node;
	/* Array of rig nodes, each with an engine client. */
	struct rig_node *part;
	struct crowd_lane *lanes;
	bool called, talking;
};

static uint32_t first_of(unsigned node)
{
	return node % SHARE * CROWD_CLIENTS;
}

static void crowd_must(int rc, const char *what, const char *why)
{
	if (rc < 0)
		peer_die("%s: %s (%s)", what, strerror(-rc), why);
}

static bool has_lane(const struct crowd_node *n, const struct mpib_lane *lane)
{
	struct peer_lane *l;

	HASH_FIND(hh_lane, n->broker->by_lane, &lane, sizeof(lane), l);
	return l;
}

/* Find the broker of a lane: the engine has only one callback for all brokers.
 * The result is cached, since a failing rail causes a search for all lanes at
 * once. */
static struct mpib_broker *owner_of(struct crowd *c, struct mpib_lane *lane)
{
	struct crowd_lane *l;
	unsigned i = 0;

	HASH_FIND_PTR(c->lanes, &lane, l);
	if (l && has_lane(&c->node[l->node], lane))
		return c->node[l->node].broker;
	while (i < c->w->nodes && !has_lane(&c->node[i], lane))
		i++;
	if (i == c->w->nodes)
		return NULL;
	if (!l) {
		l = calloc(1, sizeof(*l));
		if (!l)
			peer_die("no memory for a lane");
		l->lane = lane;
		HASH_ADD_PTR(c->lanes, lane, l);
	}
	l->node = i;
	return c->node[i].broker;
}

static void crowd_lane_send(void *ctx, struct mpib_lane *lane,
			    const struct mpib_rail_msg *msg)
{
	struct mpib_broker *b = owner_of(ctx, lane);

	if (b)
		mpib_broker_events.lane_send(&b, lane, msg);
}

/* Report a broken connection. At the end, connections break because the clients
 * leave. An earlier break is a fault. */
static void crowd_conn_broken(void *ctx, struct engine_conn *conn, int error,
			      const char *why)
{
	struct crowd *c = ctx;

	mpib_warn("a connection broke: %s", why);
	for (unsigned i = 0; i < c->w->nodes; i++)
		mpib_broker_events.conn_broken(&c->node[i].broker, conn, error,
					       why);
}

static void crowd_lane_broken(void *ctx, struct mpib_lane *lane, int error,
			      const char *why)
{
	struct mpib_broker *b = owner_of(ctx, lane);

	if (b)
		mpib_broker_events.lane_broken(&b, lane, error, why);
}

static const struct mpib_engine_events crowd_events = {
	.lane_send = crowd_lane_send,
	.conn_broken = crowd_conn_broken,
	.lane_broken = crowd_lane_broken,
};

static void on_region(void *arg, int status)
{
	crowd_must(status, "registration", "");
	*(bool *)arg = true;
}

static void open_part(struct crowd *c, struct mpib_tenant *tenant, unsigned i)
{
	struct rig_node *n = &c->part[i];
	struct rig_user *u = &n->user[0];
	struct mpib_mr_attr attr = { .len = CROWD_BYTES, .dmabuf_fd = -1 };
	bool ready = false;

	n->engine = c->engine;
	u->tenant = tenant;
	n->threaded = true;
	n->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	u->submit = peer_shared(sizeof(*u->submit));
	u->reply = peer_shared(sizeof(*u->reply));
	n->mem = peer_shared(CROWD_BYTES);
	attr.addr = n->mem;
	crowd_must(engine_client_open(tenant, i + 1, u->submit, u->reply,
				      n->bell, &u->engine_client),
		   "client", "");
	crowd_must(
		mpib_mr_add(u->engine_client, &attr, &u->mr, on_region, &ready),
		"region", "");
	while (!ready)
		mpib_engine_dispatch(c->engine);
}

static void open_engine(struct crowd *c)
{
	unsigned parts = (c->w->nodes + SHARE - 1) / SHARE;
	struct mpib_engine_config cfg;
	struct mpib_tenant *tenant;
	char spec[64], why[200] = "";

	mpib_engine_config_init(&cfg);
	for (unsigned r = 0; r < cfg.rails; r++) {
		snprintf(spec, sizeof(spec), "soft:%s.%u.1", c->w->net,
			 250 + r);
		crowd_must(mpib_rail_spec_parse(spec, &cfg.rail[r], why,
						sizeof(why)),
			   spec, why);
	}
	crowd_must(mpib_engine_open(&cfg, &crowd_events, c, &c->engine, why,
				    sizeof(why)),
		   "engine", why);
	crowd_must(mpib_tenant_get(c->engine, 0, getuid(), &tenant), "tenant",
		   "");
	for (unsigned i = 0; i < parts; i++)
		open_part(c, tenant, i);
}

/* Answer a peer that asks for a node's state. */
static void crowd_on_asked(void *arg)
{
	static struct mpib_node_report own = {
		.version = "0",
		.host = "crowd",
		.devices = 1,
		.rails = MPIB_RAILS,
		.rail = { { .flags = MPIB_REPORT_UP },
			  { .flags = MPIB_REPORT_UP } },
	};

	mpib_broker_report(((struct crowd_node *)arg)->broker, &own);
}

static void open_node(struct crowd *c, unsigned i)
{
	struct mpib_inquirer asked = { .asked = crowd_on_asked };
	struct crowd_node *n = &c->node[i];
	struct rig_node *part = &c->part[i / SHARE];
	struct rig_user *user = &part->user[0];
	struct mpib_broker_opts opts = {
		.loop = &c->loop,
		.engine = c->engine,
	};
	char addr[64], why[200] = "";

	snprintf(addr, sizeof(addr), "%s.%u.%u", c->w->net, 200 + i / 250,
		 1 + i % 250);
	if (!mpib_address_parse(addr, &opts.addr))
		peer_die("%s is no address", addr);
	crowd_must(mpib_broker_open(&opts, &n->broker, why, sizeof(why)), addr,
		   why);
	crowd_must(mpib_broker_serve(n->broker, NULL, why, sizeof(why)), addr,
		   why);
	asked.arg = n;
	mpib_broker_inquirer(n->broker, &asked);
	/* All brokers share the engine, so no broker watches it. */
	mpib_loop_del(&c->loop, &n->broker->engine_watch);
	n->client = (struct peer_client){
		.uid = getuid(),
		.tenant = user->tenant,
		.engine_client = user->engine_client,
		.reply = user->reply,
	};
	n->end = (struct rig_end){
		.node = part,
		.user = user,
		.index = first_of(i),
		.completion = user->reply->completion[first_of(i)],
		.ring = {
			.slot = user->submit->ring[first_of(i)],
			.head = &user->reply->conn[first_of(i)].head,
			.mask = MPIB_RING_SLOTS - 1,
		},
	};
	crowd_must(mpib_broker_listen(n->broker, &n->client, 0, &n->listener,
				      &c->w->node[i]),
		   "listen", "");
	for (unsigned k = 0; k < CROWD_SENDERS; k++)
		crowd_must(mpib_broker_accept(n->broker, &n->client,
					      n->listener, first_of(i) + k),
			   "accept", "");
}

static void call_clients(struct crowd *c)
{
	for (unsigned i = 0; i < c->w->nodes; i++) {
		struct crowd_node *n = &c->node[i];

		for (unsigned k = CROWD_SENDERS; k < CROWD_CLIENTS; k++) {
			const struct mpib_ctl_connect ask = {
				.conn = first_of(i) + k,
				.key = 1 + i * CROWD_CLIENTS + k,
				.number = 1,
				.handle = c->w->client[k],
			};

			crowd_must(mpib_broker_connect(n->broker, &n->client,
						       &ask, true),
				   "connect", "");
		}
	}
}

static void receive(struct crowd *c, bool first)
{
	for (unsigned i = 0; i < c->w->nodes; i++) {
		struct rig_end *e = &c->node[i].end;

		for (unsigned q = 0; q < INFLIGHT; q++) {
			if (first || rig_done(e, q))
				rig_post(e, MPIB_OP_RECV, q, 0, CROWD_BYTES);
		}
	}
}

static void crowd_on_tick(void *arg)
{
	struct crowd *c = arg;
	int stage = atomic_load(&c->w->stage);

	if (stage == CROWD_CALLING && !c->called) {
		c->called = true;
		call_clients(c);
	}
	if (c->talking)
		receive(c, false);
	if (stage == CROWD_TALKING && !c->talking) {
		c->talking = true;
		receive(c, true);
		crowd_say(c->w, CROWD_READY);
	}
	/* Between two ticks the nodes must be idle. */
	mpib_timer_arm(&c->loop, &c->tick, c->talking ? TICK_NS : 20 * TICK_NS,
		       crowd_on_tick, c);
}

static void crowd_on_engine(void *arg, uint32_t events)
{
	(void)events;
	mpib_engine_dispatch(((struct crowd *)arg)->engine);
}

void crowd_nodes(struct crowd_world *w)
{
	static struct crowd c;

	c.w = w;
	mpib_log_set_level(MPIB_LOG_ERROR);
	c.node = calloc(w->nodes, sizeof(*c.node));
	c.part = calloc((w->nodes + SHARE - 1) / SHARE, sizeof(*c.part));
	if (!c.node || !c.part)
		peer_die("no memory for %u nodes", w->nodes);
	crowd_must(mpib_loop_init(&c.loop), "loop", "");
	open_engine(&c);
	for (unsigned i = 0; i < w->nodes; i++)
		open_node(&c, i);
	crowd_must(mpib_loop_add(&c.loop, &c.watch, mpib_engine_fd(c.engine),
				 EPOLLIN, crowd_on_engine, &c),
		   "engine", "loop");
	mpib_timer_arm(&c.loop, &c.tick, 0, crowd_on_tick, &c);
	crowd_say(w, CROWD_ACCEPTING);
	crowd_must(mpib_loop_run(&c.loop), "loop", "");
}
