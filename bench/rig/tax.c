/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine without the proxy: linked into two processes that stream or play
 * ping-pong. bench/tax compares the result with mpib-perf through two proxies.
 *
 *   bench-tax NET polled|threaded SIZE TOTAL    bw (GB/s), cpu (s/GB)
 *   bench-tax NET polled|threaded lat ROUNDS    8 bytes, half a round trip
 *
 * polled: the process turns its shard between looks at its completions, like a
 * plugin that owns its HCAs would. threaded: the shard has its own thread, like
 * in the proxy, but in the same process.
 */
#include <sched.h>
#include <string.h>

#include "peers/args.h"
#include "peers/peer.h"
#include "perf/pin.h"
#include "rig/rig.h"

#define INFLIGHT 8
#define PING 8

struct tax_test {
	const char *net;
	bool threaded, latency;
	uint32_t size;
	uint64_t count;
	double sender_cpu;
	_Atomic int over[2];
	struct rig_card cards[2];
};

static struct rig_node node;

static void open_node(struct tax_test *t, unsigned me)
{
	int rc = perf_pin((int)me, 2);

	if (rc < 0)
		peer_die("a CPU for end %u: %s", me, strerror(-rc));
	rig_open(&node, me, t->net, t->threaded, 1, (size_t)t->size * INFLIGHT,
		 t->cards);
	while (rig_connect(&node))
		;
}

/* Turn until both ends are through: each end needs the other's shard. */
static void leave(struct tax_test *t)
{
	atomic_store(&t->over[node.me], 1);
	while (!atomic_load(&t->over[!node.me])) {
		if (rig_turn(&node) == 0)
			sched_yield();
	}
	rig_close(&node);
}

/* Send or receive count messages at one end, INFLIGHT at a time. */
static void stream(struct tax_test *t, struct rig_end *e, enum mpib_op op,
		   uint64_t count)
{
	uint64_t head = 0, tail = 0;

	while (tail < count) {
		bool moved = false;

		if (head < count && head - tail < INFLIGHT) {
			unsigned at = (unsigned)(head++ % INFLIGHT);

			rig_post(e, op, at, (uint64_t)at * t->size, t->size);
			moved = true;
		}
		if (head != tail && rig_done(e, tail % INFLIGHT)) {
			tail++;
			moved = true;
		}
		moved |= rig_turn(&node) > 0;
		if (!moved)
			sched_yield();
	}
}

static void send_stream(void *arg)
{
	struct tax_test *t = arg;
	double cpu;

	open_node(t, 0);
	stream(t, &node.tx[0], MPIB_OP_SEND, 2 * INFLIGHT);
	cpu = peer_cpu();
	stream(t, &node.tx[0], MPIB_OP_SEND, t->count);
	t->sender_cpu = peer_cpu() - cpu;
	leave(t);
}

static void recv_stream(void *arg)
{
	struct tax_test *t = arg;
	double gb = (double)t->count * t->size / 1e9, cpu;
	uint64_t begun;

	open_node(t, 1);
	stream(t, &node.rx[0], MPIB_OP_RECV, 2 * INFLIGHT);
	begun = peer_ns();
	cpu = peer_cpu();
	stream(t, &node.rx[0], MPIB_OP_RECV, t->count);
	peer_say("bw", gb * 1e9 / (double)(peer_ns() - begun));
	cpu = peer_cpu() - cpu;
	leave(t);
	peer_say("cpu", (cpu + t->sender_cpu) / gb);
}

static void until(const struct rig_end *e)
{
	while (!rig_done(e, 0)) {
		if (rig_turn(&node) == 0)
			sched_yield();
	}
}

static void ping_pong(struct tax_test *t, unsigned me)
{
	static struct perf_hist hist;
	struct rig_end *tx = &node.tx[0], *rx = &node.rx[0];
	uint64_t warm = t->count / 10;

	for (uint64_t i = 0; i < t->count + warm; i++) {
		uint64_t begun = peer_ns();

		rig_post(rx, MPIB_OP_RECV, 0, 0, PING);
		if (me)
			until(rx);
		rig_post(tx, MPIB_OP_SEND, 0, PING, PING);
		if (!me)
			until(rx);
		if (i >= warm)
			perf_hist_add(&hist, (peer_ns() - begun) / 2);
		until(tx);
	}
	if (!me)
		peer_say_latency(&hist);
}

static void ping(void *arg)
{
	open_node(arg, 0);
	ping_pong(arg, 0);
	leave(arg);
}

static void pong(void *arg)
{
	open_node(arg, 1);
	ping_pong(arg, 1);
	leave(arg);
}

int main(int argc, char **argv)
{
	struct tax_test *t = peer_shared(sizeof(*t));

	peer_args(argc, argv, 4, 4,
		  "NET polled|threaded SIZE TOTAL\n"
		  "NET polled|threaded lat ROUNDS");
	if (strcmp(argv[2], "polled") && strcmp(argv[2], "threaded"))
		peer_wrong("%s is neither polled nor threaded", argv[2]);
	t->net = argv[1];
	t->threaded = !strcmp(argv[2], "threaded");
	t->latency = !strcmp(argv[3], "lat");
	if (t->latency) {
		t->size = 2 * PING;
		t->count = peer_size("ROUNDS", argv[4], 1, UINT32_MAX);
		peer_pair(ping, pong, t);
		return 0;
	}
	t->size = (uint32_t)peer_size("SIZE", argv[3], 1, 1 << 30);
	t->count = peer_size("TOTAL", argv[4], t->size, 1ull << 43) / t->size;
	peer_pair(recv_stream, send_stream, t);
	return 0;
}
