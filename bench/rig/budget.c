/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two engines in one process, turned by hand, for bench/budget: callgrind
 * counts the instructions of budget_sender() and budget_receiver() alone.
 *
 *   bench-budget NET SIZE MESSAGES INFLIGHT IDLE [RAILS]
 *
 * prints the turns of either node a message.
 *
 * INFLIGHT 0: no message, but MESSAGES turns that find nothing to do.
 *
 * Between turns the process sleeps, so that each turn finds what the kernel has
 * moved meanwhile, and the number of turns follows from the work, not from
 * timing. There are IDLE pairs of connections beside the one that is used.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/shard.h"
#include "engine/split/policy.h"
#include "peers/args.h"
#include "peers/peer.h"
#include "rig/rig.h"

#define PAUSE_US 200

static struct rig_node node[2];
static unsigned turns[2];

/* budget_sender() and budget_receiver() are not inlined, so that callgrind,
 * which is told these names, can count them alone. */
__attribute__((noinline)) static void budget_sender(void)
{
	mpib_shard_turn(&node[0].engine->shard[0]);
	turns[0]++; /* after it: a tail call would hide the name */
}

__attribute__((noinline)) static void budget_receiver(void)
{
	mpib_shard_turn(&node[1].engine->shard[0]);
	turns[1]++; /* after it: a tail call would hide the name */
}

/* n turns of both nodes without work: what polling costs. */
static void idle_turns(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		budget_receiver();
		budget_sender();
	}
}

static void turn_both(void)
{
	budget_receiver();
	usleep(PAUSE_US);
	budget_sender();
	usleep(PAUSE_US);
	for (unsigned i = 0; i < 2; i++)
		mpib_engine_dispatch(node[i].engine);
}

static bool all_done(struct rig_end *e, unsigned n)
{
	while (n > 0 && rig_done(e, n - 1))
		n--;
	return n == 0;
}

/* Post n messages at both ends and turn both nodes until all are over. */
static void batch(uint32_t size, unsigned n)
{
	struct rig_end *tx = &node[0].tx[0], *rx = &node[1].rx[0];

	for (unsigned i = 0; i < n; i++)
		rig_post(rx, MPIB_OP_RECV, i, (uint64_t)i * size, size);
	for (unsigned i = 0; i < n; i++)
		rig_post(tx, MPIB_OP_SEND, i, (uint64_t)i * size, size);
	while (!all_done(rx, n) || !all_done(tx, n))
		turn_both();
}

static void connect_both(void)
{
	bool more[2] = { true, true };

	while (more[0] || more[1]) {
		for (unsigned i = 0; i < 2; i++)
			more[i] = more[i] && rig_connect(&node[i]);
	}
}

int main(int argc, char **argv)
{
	struct rig_card *cards = peer_shared(2 * sizeof(*cards));
	struct mpib_engine_config cfg;
	unsigned messages, inflight, idle;
	uint32_t size;

	peer_args(argc, argv, 5, 6, "NET SIZE MESSAGES INFLIGHT IDLE [RAILS]");
	size = (uint32_t)peer_size("SIZE", argv[2], 0, 1 << 30);
	messages = (unsigned)peer_size("MESSAGES", argv[3], 1, UINT32_MAX / 2);
	inflight = (unsigned)peer_size("INFLIGHT", argv[4], 0, MPIB_REQUESTS);
	idle = (unsigned)peer_size("IDLE", argv[5], 0, MPIB_CONNS_MAX / 2 - 1);
	if (messages < inflight)
		peer_wrong("INFLIGHT is more than MESSAGES");
	mpib_engine_config_init(&cfg);
	if (argc > 6)
		cfg.rails =
			(unsigned)peer_size("RAILS", argv[6], 1, MPIB_RAILS);
	cfg.mode = MPIB_MODE_ADAPTIVE; /* what mpib-proxy begins with */
	for (unsigned i = 0; i < 2; i++)
		rig_open_as(&node[i], i, argv[1], false, idle + 1,
			    (size_t)size * inflight + 4096, cards, &cfg,
			    MPIB_PATH_UNKNOWN);
	connect_both();
	if (inflight == 0)
		idle_turns(messages);
	for (unsigned i = 0; inflight && i < messages; i += inflight)
		batch(size, inflight);
	peer_say("turns_sender", (double)turns[0] / messages);
	peer_say("turns_receiver", (double)turns[1] / messages);
	_exit(0); /* do not measure tearing down */
}
