/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The firmware of a device of one end no longer answers. Each blocking call is
 * tested: the call does not return until the test lets it return. The engine
 * stops using the rail, and the control thread continues its other work.
 * Checked traffic uses the other rail without an error. When the call returns,
 * the object that it made is destroyed and the device is closed. If the device
 * hangs at the start, its rail counts as down. The devices are fake: fake_ibv.h
 * is a provider that libibverbs calls.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake_ibv.h"
#include "traffic.h"
#include "verbs/hca/hca.h"

#define LIMIT_MS 60000
#define MESSAGES 16 /* messages of each connection */
/* Timeout of a call while another call hangs. */
#define WAIT_MS 500
#define START_MS 2500 /* timeout for the calls of all devices together */

static struct nodes nodes;
static struct traffic traffic;
static uint64_t limit;
static unsigned hung = 1; /* number of the hung rail of node 0 */

static void in_time(const char *what)
{
	if (now_ns() > limit)
		die("%s: nothing happened within the time limit", what);
}

static void move(const char *what)
{
	uint64_t goal = traffic.messages + MESSAGES * traffic.conns;

	while (traffic.messages < goal || !traffic_dry(&traffic)) {
		traffic_turn(&traffic, traffic.messages < goal);
		in_time(what);
	}
}

static void look_dead(struct node *node, void *arg)
{
	*(bool *)arg = node->engine->shard[0].rail[hung].dead;
}

/* Wait until the control thread reports that only this rail hangs. */
static void until_given_up(const char *what)
{
	bool dead = false;

	while (!dead) {
		traffic_turn(&traffic, true);
		node_call(&nodes.node[0], look_dead, &dead);
		in_time(what);
	}
	for (unsigned i = 0; i < 2; i++) {
		while (node_live(&nodes.node[i]) != 1u << !hung) {
			traffic_turn(&traffic, true);
			in_time(what);
		}
	}
}

static void look_awake(struct node *node, void *arg)
{
	struct pollfd fd = { .fd = mpib_engine_fd(node->engine),
			     .events = POLLIN };

	*(bool *)arg = poll(&fd, 1, 0) != 0;
}

/* Wait until no timer wakes the control thread repeatedly. */
static void until_asleep(const char *what)
{
	bool awake = true;

	while (awake) {
		node_call(&nodes.node[0], look_awake, &awake);
		in_time(what);
	}
}

static void nobody_waits(void *arg, int status)
{
	(void)arg;
	(void)status;
}

static uint32_t region;
static char *memory;

static void reg(struct node *node, void *arg)
{
	struct mpib_mr_attr attr = { .addr = memory,
				     .len = 4096,
				     .dmabuf_fd = -1 };

	(void)arg;
	if (mpib_mr_add(node->engine_client, &attr, &region, nobody_waits,
			NULL) < 0)
		die("memory is not registered");
}

static void dereg(struct node *node, void *arg)
{
	(void)arg;
	if (mpib_mr_del(node->engine_client, region, nobody_waits, NULL) < 0)
		die("memory is not deregistered");
}

static void do_reg(void)
{
	node_call(&nodes.node[0], reg, NULL);
}

static void do_dereg(void)
{
	node_call(&nodes.node[0], dereg, NULL);
}

/* Fail a QP of the peer. This makes both ends fence the rail, move its QPs to
 * ERR, and make new QPs after the hold-down. */
static void do_fence(void)
{
	if (!node_kill_qp(&nodes.node[1], 1, 0))
		die("there is no QP to kill");
}

/* Wait until the objects of the hung calls are closed. Only then can the device
 * be opened again. */
static void until_healthy(const char *device)
{
	struct mpib_rail_spec spec = { .provider = MPIB_PROVIDER_RDMA,
				       .port = 1 };
	struct ibv_context *ctx;

	snprintf(spec.name, sizeof(spec.name), "%s", device);
	while (mpib_verbs_rdma.open(&spec, &ctx) < 0) {
		usleep(1000);
		in_time("the device is opened");
	}
	mpib_verbs_rdma.close(ctx);
	while (fake_ibv_contexts() > 0) {
		usleep(1000);
		in_time("devices are closed");
	}
}

static void play(const char *call, void (*provoke)(void))
{
	struct mpib_engine_config cfg;
	unsigned before = fake_ibv_hung();

	limit = now_ns() + LIMIT_MS * MS;
	mpib_engine_config_init(&cfg);
	cfg.hold_ms = 10;
	nodes_open(&nodes, &cfg, TRAFFIC_MEM, false);
	traffic_open(&traffic, &nodes, TRAFFIC_CONNS);
	nodes_start(&nodes);
	do_reg();
	move(call);

	mpib_hca_wait_ms = WAIT_MS;
	fake_ibv_hang("fake_1", call);
	provoke();
	until_given_up(call);
	mpib_hca_wait_ms = FAKE_IBV_PATIENCE_MS;
	if (fake_ibv_hung() != before + 1)
		die("%s: %u calls hang", call, fake_ibv_hung() - before);
	if (provoke == do_reg)
		do_dereg(); /* the region has no object on the hung rail */
	move(call);
	until_asleep(call);

	fake_ibv_release();
	nodes_close(&nodes);
	until_healthy("fake_1");
	printf("%s hangs: the rail is lost, the other works\n", call);
}

/* Raise an event that cannot be read, as firmware does while it recovers. */
static void raise_event(struct node *node, void *arg)
{
	const struct mpib_rail *rail = &node->engine->shard[0].rail[hung];
	uint64_t one = 1;

	(void)arg;
	if (rail->ctx && write(rail->ctx->async_fd, &one, sizeof(one)) < 0)
		die("no event of the device");
}

/* Let a call that every device must answer hang at the start. The rail must
 * count as down. */
static void play_start(unsigned rail, const char *call)
{
	struct mpib_engine_config cfg;

	limit = now_ns() + LIMIT_MS * MS;
	mpib_engine_config_init(&cfg);
	mpib_hca_wait_ms = START_MS;
	hung = rail;
	fake_ibv_hang(rail ? "fake_1" : "fake_0", call);
	nodes_open(&nodes, &cfg, TRAFFIC_MEM, false);
	mpib_hca_wait_ms = FAKE_IBV_PATIENCE_MS;
	traffic_open(&traffic, &nodes, TRAFFIC_CONNS);
	nodes_start(&nodes);
	until_given_up(call);
	node_call(&nodes.node[0], raise_event, NULL);
	move(call);
	until_asleep(call);
	if (mpib_engine_lost(nodes.node[0].engine) != 1u << rail)
		die("%s: expected the hung rail, and only that rail, to be lost",
		    call);

	fake_ibv_release();
	nodes_close(&nodes);
	until_healthy(rail ? "fake_1" : "fake_0");
	printf("%s hangs at the start: the other rail works\n", call);
}

int main(void)
{
	setenv("MPIB_TEST_RAILS",
	       "rdma:fake_0,rdma:fake_1 rdma:fake_2,rdma:fake_3", 1);
	memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		die("no memory");
	play_start(0, "ibv_open_device");
	play_start(1, "ibv_open_device");
	play_start(1, "ibv_query_port");
	play_start(1, "ibv_create_qp");
	play("ibv_reg_mr", do_reg);
	play("ibv_dereg_mr", do_dereg);
	play("ERR", do_fence);
	play("ibv_destroy_qp", do_fence);
	play("ibv_create_qp", do_fence);
	play("RTR", do_fence);
	return 0;
}
