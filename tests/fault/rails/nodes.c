/* SPDX-License-Identifier: Apache-2.0 */
#include "nodes.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "addr.h"
#include "base/clock.h"
#include "engine/lane/lane.h"
#include "peer/internal.h"
#include "rails.h"
#include "verbs/soft/ctx.h"

void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

uint64_t now_ns(void)
{
	return mpib_now_ns();
}

static struct node *node_of(void *ctx)
{
	return (struct node *)((char *)ctx - offsetof(struct node, broker));
}

/* Send the message as the broker does. If the message is a FENCE, record the
 * time. */
static void on_lane_send(void *ctx, struct mpib_lane *lane,
			 const struct mpib_rail_msg *msg)
{
	struct node *node = node_of(ctx);

	if (msg->type == MPIB_RAIL_FENCE) {
		atomic_store(&node->fenced_ns, now_ns());
		atomic_fetch_add(&node->fences, 1);
	}
	mpib_broker_events.lane_send(ctx, lane, msg);
}

static void on_box(void *arg, uint32_t events)
{
	struct node *node = arg;

	(void)events;
	mpib_mailbox_run(&node->box);
}

static void *zeroed(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("no memory");
	return p;
}

static struct mpib_engine_events events;

static void open_engine(struct node *node, struct mpib_engine_config cfg)
{
	char why[300] = "", spec[64];

	for (unsigned r = 0; r < cfg.rails; r++) {
		struct in_addr in = { htonl(
			test_addr(10 * r + node->number + 1)) };

		if (!test_rail(spec, sizeof(spec), node->number, r))
			snprintf(spec, sizeof(spec), "soft:%s", inet_ntoa(in));
		if (mpib_rail_spec_parse(spec, &cfg.rail[r], why, sizeof(why)) <
		    0)
			die("%s", why);
	}
	events = mpib_broker_events;
	events.lane_send = on_lane_send;
	if (mpib_engine_open(&cfg, &events, &node->broker, &node->engine, why,
			     sizeof(why)) < 0)
		die("%s", why);
}

static void open_broker(struct node *node, bool private_lanes)
{
	char why[300] = "";
	struct mpib_broker_opts opts = {
		.loop = &node->loop,
		.engine = node->engine,
		.addr = mpib_address_of_ip(htonl(test_addr(node->number + 1))),
		.private_lanes = private_lanes,
	};

	if (mpib_broker_open(&opts, &node->broker, why, sizeof(why)) < 0 ||
	    mpib_broker_serve(node->broker, NULL, why, sizeof(why)) < 0)
		die("%s", why);
}

static void set_flag(void *arg, int status)
{
	if (status)
		die("a call returned %d", status);
	*(bool *)arg = true;
}

static void turn(struct nodes *n)
{
	for (unsigned i = 0; i < 2; i++)
		mpib_loop_turn(&n->node[i].loop, 0);
	usleep(100);
}

static void until(struct nodes *n, const bool *flag)
{
	uint64_t end = now_ns() + 60 * MPIB_SEC;

	while (!*flag) {
		if (now_ns() > end)
			die("the nodes do not come up");
		turn(n);
	}
}

static void open_client(struct nodes *n, struct node *node)
{
	struct mpib_mr_attr attr = { .len = n->mem, .dmabuf_fd = -1 };
	bool ready = false;

	if (mpib_tenant_get(node->engine, 0, 0, &node->tenant) < 0)
		die("no tenant");
	node->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	node->submit = zeroed(sizeof(*node->submit));
	node->reply = zeroed(sizeof(*node->reply));
	node->mem = attr.addr = zeroed(n->mem);
	if (engine_client_open(node->tenant, node->number + 1, node->submit,
			       node->reply, node->bell,
			       &node->engine_client) < 0 ||
	    mpib_mr_add(node->engine_client, &attr, &node->mr, set_flag,
			&ready) < 0)
		die("no client");
	until(n, &ready);
	node->client =
		(struct peer_client){ .tenant = node->tenant,
				      .engine_client = node->engine_client,
				      .reply = node->reply };
}

void nodes_open(struct nodes *n, const struct mpib_engine_config *cfg,
		size_t mem, bool private_lanes)
{
	memset(n, 0, sizeof(*n));
	n->mem = mem;
	for (unsigned i = 0; i < 2; i++) {
		struct node *node = &n->node[i];

		node->number = i;
		if (mpib_loop_init(&node->loop) < 0 ||
		    mpib_mailbox_init(&node->box) < 0 ||
		    mpib_loop_add(&node->loop, &node->box_watch,
				  node->box.bell.fd, EPOLLIN, on_box, node) < 0)
			die("no loop");
		open_engine(node, *cfg);
		open_broker(node, private_lanes);
		node->status = node->engine->status;
	}
	for (unsigned i = 0; i < 2; i++)
		open_client(n, &n->node[i]);
}

void nodes_connect(struct nodes *n, unsigned from, uint32_t index)
{
	struct node *tx = &n->node[from], *rx = &n->node[!from];
	struct mpib_ctl_connect ask = {
		.conn = index,
		.key = 1 + 2 * (uint64_t)index + from,
		.number = 1,
	};
	uint64_t end = now_ns() + 60 * MPIB_SEC;
	uint32_t id;

	if (mpib_broker_listen(rx->broker, &rx->client, 0, &id, &ask.handle) <
		    0 ||
	    mpib_broker_connect(tx->broker, &tx->client, &ask, true) < 0 ||
	    mpib_broker_accept(rx->broker, &rx->client, id, index) < 0)
		die("cannot connect");
	while (atomic_load(&tx->reply->conn[index].state) != MPIB_CONN_READY ||
	       atomic_load(&rx->reply->conn[index].state) != MPIB_CONN_READY) {
		if (now_ns() > end)
			die("connection %u: %s", index, tx->reply->why[index]);
		turn(n);
	}
	mpib_broker_close_listen(rx->broker, &rx->client, id);
}

static void *run(void *arg)
{
	struct node *node = arg;

	mpib_loop_run(&node->loop);
	return NULL;
}

void nodes_start(struct nodes *n)
{
	for (unsigned i = 0; i < 2; i++) {
		if (pthread_create(&n->node[i].thread, NULL, run, &n->node[i]))
			die("no thread");
	}
}

static void stop(struct node *node, void *arg)
{
	(void)arg;
	node->loop.stop = true;
}

void nodes_close(struct nodes *n)
{
	for (unsigned i = 0; i < 2; i++) {
		node_call(&n->node[i], stop, NULL);
		pthread_join(n->node[i].thread, NULL);
	}
	for (unsigned i = 0; i < 2; i++) {
		struct node *node = &n->node[i];

		mpib_engine_close(node->engine);
		mpib_broker_close(node->broker);
		mpib_loop_del(&node->loop, &node->box_watch);
		mpib_mailbox_fini(&node->box);
		mpib_loop_fini(&node->loop);
		close(node->bell);
		munmap(node->submit, sizeof(*node->submit));
		munmap(node->reply, sizeof(*node->reply));
		munmap(node->mem, n->mem);
	}
}

struct call {
	struct mpib_msg msg;
	struct node *node;
	void (*fn)(struct node *node, void *arg);
	void *arg;
	_Atomic bool done;
};

static void on_call(struct mpib_msg *msg)
{
	struct call *c = container_of(msg, struct call, msg);

	c->fn(c->node, c->arg);
	atomic_store(&c->done, true);
}

void node_call(struct node *node, void (*fn)(struct node *node, void *arg),
	       void *arg)
{
	struct call c = { .node = node, .fn = fn, .arg = arg };

	mpib_mailbox_send(&node->box, &c.msg, on_call);
	while (!atomic_load(&c.done))
		usleep(20);
}

void node_fault(struct node *node, unsigned rail,
		const struct mpib_soft_fault *fault)
{
	mpib_soft_set_fault(node->engine->shard[0].rail[rail].ctx, fault);
}

struct victim {
	unsigned rail, which;
	bool found;
};

static void kill_qp(struct node *node, void *arg)
{
	struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR };
	struct mpib_lane *lane = TAILQ_FIRST(&node->engine->lanes);
	struct victim *v = arg;

	if (!lane || lane->ctl.rail[v->rail].fence.state != MPIB_FENCE_LIVE)
		return;
	v->found = true;
	lane->shard->rail[v->rail].verbs->modify_qp(
		lane->qp[v->rail][v->which % lane->qps[v->rail]].qp, &err,
		IBV_QP_STATE);
}

bool node_kill_qp(struct node *node, unsigned rail, unsigned which)
{
	struct victim v = { .rail = rail, .which = which };

	node_call(node, kill_qp, &v);
	return v.found;
}

void node_ring(struct node *node)
{
	if (atomic_load(&node->status->shard[0].sleeping))
		eventfd_write(node->bell, 1);
}

static void look(struct node *node, void *arg)
{
	struct mpib_lane *lane;
	uint8_t live = 3;

	TAILQ_FOREACH(lane, &node->engine->lanes, made_link)
	{
		for (unsigned r = 0; r < lane->rails; r++) {
			if (lane->ctl.rail[r].fence.state != MPIB_FENCE_LIVE)
				live &= (uint8_t) ~(1u << r);
		}
	}
	*(uint8_t *)arg = live;
}

uint8_t node_live(struct node *node)
{
	uint8_t live = 0;

	node_call(node, look, &live);
	return live;
}

struct taking {
	struct mpib_snapshot *snap;
	_Atomic bool done;
};

static void on_snapshot(void *arg, struct mpib_snapshot *snap)
{
	struct taking *t = arg;

	t->snap = snap;
	atomic_store(&t->done, true);
}

static void take(struct node *node, void *arg)
{
	if (mpib_engine_snapshot(node->engine, on_snapshot, arg) < 0)
		die("no snapshot");
}

struct mpib_snapshot *node_snapshot(struct node *node)
{
	struct taking t = { 0 };

	node_call(node, take, &t);
	while (!atomic_load(&t.done))
		usleep(20);
	return t.snap;
}
