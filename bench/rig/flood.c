/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A user's messages of 8 bytes, one at a time, alone and beside another user's
 * flood over the same rails, where each shard has a core: two nodes, each a
 * process on a core of its own that turns its shard all the time, and plays the
 * ranks between turns. Phases alone and phases beside the flood by turns.
 *
 *   bench-flood NET SIZE SECONDS [INFLIGHT]
 *
 * SIZE is the flood's messages', of which each of 8 connections has INFLIGHT
 * (32) under way; SECONDS in all. Prints what a message took from its isend to
 * its end, in us, alone_* and flood_*, and the flood's messages a second. What
 * a node lost its core meanwhile says nothing, and is left out: dropped, in
 * percent.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "peers/args.h"
#include "peers/peer.h"
#include "rig/rig.h"

#define CONNS 8 /* the flood's */
#define EACH CONNS /* the rig has as many of the other user */
#define SMALL 8
#define PHASE_NS 250000000ull
#define SETTLE_NS 50000000ull /* of a phase; what moves then does not count */
/* A turn that took longer, of which so much was no CPU time: the core was
 * another's. */
#define LONG_NS 40000
#define LOST_NS 15000
#define CHECK_NS 1000000
/* On a machine that has no cores to spare it goes on until this many count. */
#define FEW 100
#define MOST_NS 30000000000ull

enum who {
	ALONE,
	FLOODED,
};

struct flood_test {
	const char *net;
	uint32_t size;
	unsigned inflight;
	uint64_t ns;
	_Atomic unsigned lost; /* times that a node lost its core */
	_Atomic int over[2];
	struct rig_card cards[2];
};

static struct rig_node node;
static unsigned head[CONNS]; /* messages of the flood, by connection */

/* The core of this process, since when it was looked at last. */
static struct {
	uint64_t wall, cpu, turn;
} core;

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* A turn; the CPU time costs a system call, so it is asked for seldom. */
static uint64_t turn(struct flood_test *t)
{
	uint64_t now, cpu;
	bool slow;

	rig_turn(&node);
	now = peer_ns();
	slow = now - core.turn > LONG_NS;
	if (slow || now - core.wall > CHECK_NS) {
		cpu = cpu_ns();
		if (slow && now - core.wall > cpu - core.cpu + LOST_NS)
			atomic_fetch_add(&t->lost, 1);
		core.cpu = cpu;
		core.wall = now = peer_ns();
	}
	core.turn = now;
	return now;
}

static void open_node(struct flood_test *t, unsigned me)
{
	struct mpib_engine_config cfg;

	peer_pin(me);
	mpib_engine_config_init(&cfg);
	cfg.qps[MPIB_RAIL_SOUT] = cfg.qps[MPIB_RAIL_SUP] = 1; /* as a proxy's */
	rig_open_users(&node, me, t->net, 2, CONNS + EACH, t->size + SMALL,
		       t->cards, &cfg);
	while (rig_connect(&node))
		;
}

/* Each connection of the flood has all its requests under way. Returns how many
 * were begun. */
static uint64_t top_up(const struct flood_test *t, struct rig_end *end,
		       enum mpib_op op)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < CONNS; i++) {
		unsigned req = head[i] % t->inflight;

		while (head[i] < t->inflight || rig_done(&end[i], req)) {
			rig_post(&end[i], op, req, 0, t->size);
			req = ++head[i] % t->inflight;
			n++;
		}
	}
	return n;
}

struct phase {
	enum who who;
	uint64_t begun, last;
	uint64_t messages, dropped, flooded, ns; /* of phases of who */
	struct perf_hist hist;
};

static void say(const char *name, const struct phase *p)
{
	static const struct {
		const char *name;
		double q;
	} quantile[] = {
		{ "p50", 0.5 },
		{ "p90", 0.9 },
		{ "p99", 0.99 },
	};
	char metric[32];

	for (unsigned i = 0; i < sizeof(quantile) / sizeof(*quantile); i++) {
		snprintf(metric, sizeof(metric), "%s_%s", name,
			 quantile[i].name);
		peer_say(metric,
			 perf_hist_quantile(&p->hist, quantile[i].q) / 1000);
	}
}

/* The user's message that is under way. */
struct small {
	uint64_t posted;
	unsigned lost, req;
};

static void next_small(struct flood_test *t, struct small *m, uint64_t now)
{
	m->req = (m->req + 1) % 2;
	m->posted = now;
	m->lost = atomic_load(&t->lost);
	rig_post(&node.tx[0], MPIB_OP_SEND, m->req, 0, SMALL);
}

static void small_over(struct flood_test *t, struct phase *p,
		       const struct small *m, uint64_t now)
{
	if (m->posted < p->begun + SETTLE_NS)
		return;
	p->messages++;
	if (m->lost == atomic_load(&t->lost))
		perf_hist_add(&p->hist, now - m->posted);
	else
		p->dropped++;
}

static void one_phase(struct flood_test *t, struct phase *p, struct small *m)
{
	uint64_t now = peer_ns();

	p->begun = now;
	while (now - p->begun < PHASE_NS) {
		uint64_t n = p->who == FLOODED
				     ? top_up(t, &node.tx[EACH], MPIB_OP_SEND)
				     : 0;

		if (now - p->begun >= SETTLE_NS)
			p->flooded += n;
		now = turn(t);
		if (!rig_done(&node.tx[0], m->req))
			continue;
		small_over(t, p, m, now);
		next_small(t, m, now);
	}
	p->ns += PHASE_NS - SETTLE_NS;
}

static void leave(struct flood_test *t)
{
	atomic_store(&t->over[node.me], 1);
	while (!atomic_load(&t->over[!node.me]))
		rig_turn(&node);
	rig_close(&node);
}

static bool has_few(const struct phase *a, const struct phase *b)
{
	return a->hist.count < FEW || b->hist.count < FEW;
}

static void send_end(void *arg)
{
	static struct phase phase[] = { { .who = ALONE }, { .who = FLOODED } };
	struct phase *alone = &phase[ALONE], *beside = &phase[FLOODED];
	struct flood_test *t = arg;
	struct small m = { 0 };

	open_node(t, 0);
	next_small(t, &m, peer_ns());
	for (uint64_t ns = 0;
	     ns < t->ns || (has_few(alone, beside) && ns < MOST_NS);
	     ns += 2 * PHASE_NS) {
		one_phase(t, alone, &m);
		one_phase(t, beside, &m);
	}
	say("alone", alone);
	say("flood", beside);
	peer_say("flood_messages",
		 (double)beside->flooded * 1e9 / (double)beside->ns);
	peer_say("dropped",
		 100.0 * (double)(alone->dropped + beside->dropped) /
			 (double)(alone->messages + beside->messages));
	leave(t);
}

static void recv_end(void *arg)
{
	struct flood_test *t = arg;
	unsigned req = 0;

	open_node(t, 1);
	rig_post(&node.rx[0], MPIB_OP_RECV, req, 0, SMALL);
	while (!atomic_load(&t->over[0])) {
		top_up(t, &node.rx[EACH], MPIB_OP_RECV);
		turn(t);
		if (!rig_done(&node.rx[0], req))
			continue;
		req = (req + 1) % 2;
		rig_post(&node.rx[0], MPIB_OP_RECV, req, 0, SMALL);
	}
	leave(t);
}

int main(int argc, char **argv)
{
	struct flood_test *t = peer_shared(sizeof(*t));

	peer_args(argc, argv, 3, 4, "NET SIZE SECONDS [INFLIGHT]");
	t->net = argv[1];
	t->size = (uint32_t)peer_size("SIZE", argv[2], 1, 1 << 30);
	t->ns = (uint64_t)(peer_number("SECONDS", argv[3]) * 1e9);
	t->inflight = argc > 4 ? (unsigned)peer_size("INFLIGHT", argv[4], 1,
						     MPIB_REQUESTS)
			       : MPIB_REQUESTS;
	peer_pair(send_end, recv_end, t);
	return 0;
}
