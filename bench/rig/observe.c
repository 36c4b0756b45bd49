/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the latency histograms cost a small message, for bench/stats-cost: two
 * engines in one process, turned by hand, play ping-pong with 8 bytes. Blocks
 * of round trips run with histograms on and off in turn, so that other load of
 * the machine affects both alike.
 *
 *   bench-observe NET PAIRS BLOCK   PAIRS of blocks of BLOCK round trips
 *
 * Prints a line per block: "on|off NS", this thread's CPU time for half a round
 * trip. That includes the work of both nodes, since one thread turns both.
 */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "engine/shard.h"
#include "peers/args.h"
#include "peers/peer.h"
#include "rig/rig.h"

#define PING 8

static struct rig_node node[2];

static double cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static void connect_both(void)
{
	bool more = true;

	while (more) {
		bool a = rig_connect(&node[0]), b = rig_connect(&node[1]);

		more = a || b;
	}
}

static void message(struct rig_end *tx, struct rig_end *rx)
{
	rig_post(rx, MPIB_OP_RECV, 0, 0, PING);
	rig_post(tx, MPIB_OP_SEND, 0, PING, PING);
	while (!rig_done(rx, 0) || !rig_done(tx, 0)) {
		rig_turn(&node[0]);
		rig_turn(&node[1]);
	}
}

static double block(unsigned rounds, bool times)
{
	double start;

	for (unsigned i = 0; i < 2; i++) {
		struct mpib_engine_config cfg = node[i].engine->cfg;

		cfg.times = times;
		mpib_engine_tune(node[i].engine, &cfg);
	}
	start = cpu_ns();
	for (unsigned i = 0; i < rounds; i++) {
		message(&node[0].tx[0], &node[1].rx[0]);
		message(&node[1].tx[0], &node[0].rx[0]);
	}
	return (cpu_ns() - start) / (2.0 * rounds);
}

int main(int argc, char **argv)
{
	struct rig_card *cards = peer_shared(2 * sizeof(*cards));
	unsigned pairs, rounds;

	peer_args(argc, argv, 3, 3, "NET PAIRS BLOCK");
	pairs = (unsigned)peer_size("PAIRS", argv[2], 1, 1 << 20);
	rounds = (unsigned)peer_size("BLOCK", argv[3], 1, 1 << 30);
	for (unsigned i = 0; i < 2; i++)
		rig_open(&node[i], i, argv[1], false, 1, 4096, cards);
	connect_both();
	block(rounds, true); /* warm-up */
	for (unsigned i = 0; i < pairs; i++) {
		bool first = i & 1; /* alternate which comes first */

		for (unsigned k = 0; k < 2; k++) {
			bool on = first ^ k;

			printf("%s %.1f\n", on ? "on" : "off",
			       block(rounds, on));
		}
	}
	fflush(stdout);
	_exit(0); /* do not measure tearing down */
}
