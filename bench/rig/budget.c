/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run two engines in one process, for bench/budget. The program makes the turns
 * of both engines. callgrind counts only the instructions of budget_sender()
 * and budget_receiver().
 *
 *   bench-budget NET SIZE MESSAGES INFLIGHT IDLE [RAILS ACKS BUSY USERS]
 *
 * The program prints how many turns each node made per message. ACKS is "wire"
 * or "delivered".
 *
 * If INFLIGHT is 0, no message is sent, and the program makes MESSAGES turns
 * without work.
 *
 * Between turns the process sleeps, so that the kernel has transferred all data
 * before the next turn. So the number of turns depends on the work, not on
 * timing. IDLE is the number of idle pairs of connections. BUSY is the number
 * of pairs that carry messages. Each of their connections has INFLIGHT
 * messages. A pair has a connection in each direction, so each node sends and
 * receives. A message counts once. USERS tenants share the pairs.
 */
#include <string.h>
#include <unistd.h>

#include "engine/shard.h"
#include "engine/split/mode.h"
#include "peers/peer.h"
#include "rig/rig.h"

#define PAUSE_US 200

static struct rig_node node[2];
static unsigned turns[2];

/* budget_sender() and budget_receiver() must not be inlined, so that callgrind
 * can count only these functions, by their names. */
__attribute__((noinline)) static void budget_sender(void)
{
	mpib_shard_turn(&node[0].engine->shard[0]);
	/* Count after the call. Otherwise the call would be a tail call, and
	 * callgrind would not see this function's name. */
	turns[0]++;
}

__attribute__((noinline)) static void budget_receiver(void)
{
	mpib_shard_turn(&node[1].engine->shard[0]);
	/* Count after the call. Otherwise the call would be a tail call, and
	 * callgrind would not see this function's name. */
	turns[1]++;
}

/* Make `n` turns of both nodes without work, to measure the cost of polling. */
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

static void post(struct rig_end *e, enum mpib_op op, uint32_t size, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		rig_post(e, op, i, (uint64_t)i * size, size);
}

/* Post `n` messages on each connection of the first `pairs` pairs, and make
 * turns of both nodes until all messages have completed. If `ways` is 1, only
 * node 0 sends. If `ways` is 2, both nodes send. */
static void batch(uint32_t size, unsigned n, unsigned pairs, unsigned ways)
{
	for (unsigned i = 0; i < ways * pairs; i++)
		post(&node[!(i % ways)].rx[i / ways], MPIB_OP_RECV, size, n);
	for (unsigned i = 0; i < ways * pairs; i++)
		post(&node[i % ways].tx[i / ways], MPIB_OP_SEND, size, n);
	for (unsigned i = 0; i < ways * pairs; i++) {
		struct rig_end *tx = &node[i % ways].tx[i / ways];
		struct rig_end *rx = &node[!(i % ways)].rx[i / ways];

		while (!all_done(rx, n) || !all_done(tx, n))
			turn_both();
	}
}

/* Parse a word of failover.completion, which says when a send completes. */
static uint32_t ends_at(const char *word)
{
	if (!strcmp(word, "wire"))
		return MPIB_COMPLETION_WIRE;
	if (strcmp(word, "delivered"))
		peer_wrong("%s is neither wire nor delivered", word);
	return MPIB_COMPLETION_DELIVERED;
}

int main(int argc, char **argv)
{
	struct mpib_engine_config cfg;
	unsigned messages, inflight, idle, busy = 0, users = 1, step;
	uint32_t size;

	peer_args(argc, argv, 5, 9,
		  "NET SIZE MESSAGES INFLIGHT IDLE "
		  "[RAILS ACKS BUSY USERS]");
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
	if (argc > 7)
		cfg.completion = ends_at(argv[7]);
	if (argc > 8)
		busy = (unsigned)peer_size("BUSY", argv[8], 1, RIG_CONNS - 1);
	if (argc > 9)
		users = (unsigned)peer_size("USERS", argv[9], 1, RIG_USERS);
	if (busy % users || busy / users > MPIB_CONNS_MAX / 2)
		peer_wrong("USERS does not divide BUSY, or has too many each");
	cfg.mode = MPIB_MODE_ADAPTIVE; /* the default of mpib-proxy */
	rig_open(node, argv[1], users, busy ? busy : idle + 1,
		 (size_t)size * inflight + 4096, &cfg);
	if (inflight == 0)
		idle_turns(messages);
	step = inflight * (busy ? 2 * busy : 1);
	for (unsigned i = 0; inflight && i < messages; i += step)
		batch(size, inflight, busy ? busy : 1, busy ? 2 : 1);
	peer_say("turns_sender", (double)turns[0] / messages);
	peer_say("turns_receiver", (double)turns[1] / messages);
	_exit(0); /* do not measure the clean-up */
}
