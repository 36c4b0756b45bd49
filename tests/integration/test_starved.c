/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of a rail that makes no progress because a shard's thread or a control
 * thread gets no CPU time. Further tests break the peer link while a rail is
 * being fenced. The tests make the turns of each thread, deliver the messages
 * of the peer link, and set the time.
 */
#include "engine/recovery/stop.h"
#include "engine_pair.h"
#include "test.h"
#include "verbs/soft/soft.h"

#define RAIL MPIB_RAIL_SUP
#define MESSAGES 64
#define MANY 1000 /* number of turns */

static struct pair pair;
static struct pair_end tx, rx;
static struct {
	unsigned to;
	struct mpib_rail_msg msg;
} sent[MESSAGES];
static unsigned sents, taken;

static struct mpib_shard *shard(unsigned node)
{
	return &pair.node[node].engine->shard[0];
}

static enum mpib_fence_state state_of(unsigned node)
{
	return pair.node[node].lane->ctl.rail[RAIL].fence.state;
}

static void on_send(void *ctx, struct mpib_lane *lane,
		    const struct mpib_rail_msg *msg)
{
	assert_in_range(sents, 0, MESSAGES - 1);
	sent[sents].to = lane == pair.node[0].lane;
	sent[sents++].msg = *msg;
}

static const struct mpib_engine_events events = { .lane_send = on_send };

static void carry_one(unsigned i)
{
	assert_true(
		mpib_lane_receive(pair.node[sent[i].to].lane, &sent[i].msg));
}

/* Deliver the peer link's messages. */
static void carry(void)
{
	for (; taken < sents; taken++)
		carry_one(taken);
}

static unsigned count(enum mpib_rail_msg_type type, unsigned to)
{
	unsigned n = 0;

	for (unsigned i = 0; i < sents; i++)
		n += sent[i].msg.type == type && sent[i].to == to;
	return n;
}

static void turn_control(unsigned node)
{
	mpib_engine_dispatch(pair.node[node].engine);
}

static void turn_shard(unsigned node, unsigned turns)
{
	while (turns--)
		mpib_shard_turn(shard(node));
}

/* Make turns of the node's shard and control thread, and deliver messages. */
static void turn_node(unsigned node, unsigned turns)
{
	while (turns--) {
		turn_shard(node, 1);
		turn_control(node);
		carry();
	}
}

static void turn_both(unsigned turns)
{
	while (turns--) {
		turn_node(0, 1);
		turn_node(1, 1);
	}
}

static int setup(void **state)
{
	struct mpib_engine_config cfg;

	mpib_engine_config_init(&cfg);
	cfg.hold_ms = 0;
	pair_open(&pair, &cfg, MPIB_IMM_V2);
	pair_connect(&pair, 5, 0, &tx, &rx);
	sents = taken = 0;
	for (unsigned i = 0; i < 2; i++) {
		pair.node[i].engine->events = &events;
		pair.node[i].lane->failover = true;
		mpib_lane_established(pair.node[i].lane);
	}
	turn_both(10);
	return 0;
}

/* Suspect the rail, as the watchdog does when it has seen no progress for a
 * while. */
static void suspect(void)
{
	struct mpib_lane *lane = pair.node[0].lane;
	struct mpib_rail_watch *w = &lane->watch[RAIL];

	w->asked = true;
	w->asked_retired = 0;
	for (unsigned i = 0; i < lane->qps[RAIL]; i++)
		w->asked_retired += lane->qp[RAIL][i].retired;
	mpib_lane_suspect(lane, RAIL);
	turn_control(0);
}

/* If `on` is set, let node 0's rail lose all bytes. Otherwise let the rail work
 * again. */
static void hole(bool on)
{
	struct mpib_soft_fault fault = { .black_hole = on };

	assert_int_equal(mpib_soft_set_fault(shard(0)->rail[RAIL].ctx, &fault),
			 0);
}

#define CASE(name) TEST_OF(name, setup, pair_teardown)

CASE(a_rail_is_not_fenced_before_the_peers_shard_has_checked)
{
	hole(true);
	suspect();
	assert_int_equal(count(MPIB_RAIL_LOOK, 1), 1);
	/* At first no thread of the peer's proxy gets CPU time. */
	turn_shard(0, MANY);
	turn_control(0);
	assert_int_equal(state_of(0), MPIB_FENCE_LIVE);
	/* Then only the control thread of the peer's proxy gets CPU time. */
	carry();
	turn_control(1);
	turn_shard(0, MANY);
	turn_control(0);
	assert_int_equal(count(MPIB_RAIL_LOOKED, 0), 0);
	assert_int_equal(state_of(0), MPIB_FENCE_LIVE);
	/* After a few turns, the peer's shard has not completed its check
	 * yet. */
	turn_node(1, 10);
	assert_int_equal(count(MPIB_RAIL_LOOKED, 0), 0);
	turn_node(1, MANY);
	assert_int_equal(count(MPIB_RAIL_LOOKED, 0), 1);
	assert_int_equal(count(MPIB_RAIL_FENCE, 1), 0);
	/* Node 0 fences the rail only after its own shard has checked, too. */
	turn_control(0);
	assert_int_equal(state_of(0), MPIB_FENCE_LIVE);
	turn_node(0, MANY);
	assert_int_equal(count(MPIB_RAIL_FENCE, 1), 1);
	assert_int_equal(pair.node[0].lane->ctl.rail[RAIL].cause,
			 MPIB_CAUSE_STUCK);
}

CASE(a_rail_with_new_progress_is_not_fenced)
{
	struct mpib_lane *lane = pair.node[0].lane;

	suspect();
	assert_true(mpib_qp_probe(&lane->qp[RAIL][0]));
	turn_both(MANY);
	assert_int_equal(count(MPIB_RAIL_LOOKED, 0), 1);
	assert_int_equal(count(MPIB_RAIL_FENCE, 1), 0);
	assert_int_equal(state_of(0), MPIB_FENCE_LIVE);
	assert_false(lane->watch[RAIL].asked);
}

/* While a long message is in flight, no WR completes, but bytes arrive at the
 * peer. */
CASE(arriving_bytes_count_as_progress)
{
	suspect();
	carry();
	turn_control(1);
	turn_shard(1, 10);
	assert_true(mpib_qp_probe(&pair.node[0].lane->qp[RAIL][0]));
	turn_shard(0, 10);
	turn_node(1, MANY);
	assert_int_equal(count(MPIB_RAIL_LOOKED, 0), 1);
	assert_true(sent[sents - 1].msg.moved);
	turn_both(MANY); /* complete the check at node 0 */
}

CASE(a_shard_checks_once_even_if_a_peer_asks_repeatedly)
{
	struct mpib_rail_msg look = { .type = MPIB_RAIL_LOOK, .rail = RAIL };

	for (unsigned i = 0; i < MANY; i++)
		assert_true(mpib_lane_receive(pair.node[1].lane, &look));
	turn_node(1, 10 * MANY);
	assert_int_equal(count(MPIB_RAIL_LOOKED, 0), 1);
	/* An answer to a request that was not sent must be ignored. */
	look.type = MPIB_RAIL_LOOKED;
	assert_true(mpib_lane_receive(pair.node[1].lane, &look));
	turn_node(1, MANY);
	assert_int_equal(count(MPIB_RAIL_FENCE, 0), 0);
}

CASE(killing_a_lane_ends_its_checks)
{
	struct mpib_rail_msg look = { .type = MPIB_RAIL_LOOK, .rail = RAIL };
	bool killed = false;

	assert_true(mpib_lane_receive(pair.node[1].lane, &look));
	turn_shard(1, 1);
	assert_false(TAILQ_EMPTY(&shard(1)->looks));
	pair.node[1].engine->events = &(const struct mpib_engine_events){ 0 };
	mpib_lane_kill(pair.node[1].lane, pair_set_flag, &killed);
	turn_shard(1, 1);
	assert_true(TAILQ_EMPTY(&shard(1)->looks));
	for (unsigned i = 0; i < MANY && !killed; i++)
		turn_node(1, 1);
	assert_true(killed);
}

/* Node 0 has asked whether the peer gets CPU time for the probes. The peer's
 * answer arrives after the probes have succeeded and the rail is live. */
CASE(a_late_answer_about_probes_changes_nothing)
{
	struct mpib_rail_control *ctl = &pair.node[0].lane->ctl.rail[RAIL];
	struct mpib_rail_msg looked = { .type = MPIB_RAIL_LOOKED,
					.rail = RAIL,
					.moved = true };

	mpib_failover_fault(pair.node[0].lane, RAIL, MPIB_CAUSE_ERROR);
	while (state_of(0) != MPIB_FENCE_PROBING || !ctl->due)
		turn_both(1);
	ctl->due = 1;
	mpib_rail_arm(pair.node[0].engine, 1);
	while (ctl->asks != MPIB_ASK_PROBES)
		turn_control(0);
	taken = sents;
	while (state_of(0) != MPIB_FENCE_LIVE)
		turn_both(1);
	looked.epoch = ctl->fence.epoch;
	assert_true(mpib_lane_receive(pair.node[0].lane, &looked));
	turn_node(0, MANY);
	assert_int_equal(ctl->asks, MPIB_ASK_NOTHING);
	assert_int_equal(ctl->due, 0);
}

/* Stop the rail at both ends. Node 0 sends FENCE and FENCED messages. Deliver
 * only the FENCE and the next `n` messages to node 1, which then sends FENCED
 * messages, too. Return the index of node 1's first message. */
static unsigned stop_at_both(unsigned n)
{
	unsigned theirs;

	mpib_failover_fault(pair.node[0].lane, RAIL, MPIB_CAUSE_ERROR);
	while (state_of(0) != MPIB_FENCE_STOPPED) {
		turn_shard(0, 1);
		turn_control(0);
	}
	theirs = sents;
	for (unsigned end = taken + 1 + n; taken < end; taken++)
		carry_one(taken);
	while (state_of(1) != MPIB_FENCE_STOPPED) {
		turn_shard(1, 1);
		turn_control(1);
	}
	return theirs;
}

/* Break the peer link, so that undelivered messages are lost. Then let both
 * ends continue on a new link. */
static void relink(void)
{
	taken = sents;
	for (unsigned i = 0; i < 2; i++)
		mpib_lane_unlinked(pair.node[i].lane);
	for (unsigned i = 0; i < 2; i++)
		mpib_lane_retell(pair.node[i].lane);
	while (state_of(0) != MPIB_FENCE_LIVE || state_of(1) != MPIB_FENCE_LIVE)
		turn_both(1);
}

CASE(a_completed_fence_is_repeated_on_the_next_link)
{
	carry_one(stop_at_both(0));
	assert_int_equal(state_of(0), MPIB_FENCE_REPLAYING);
	assert_int_equal(state_of(1), MPIB_FENCE_STOPPED);
	relink();
}

CASE(all_bitmaps_are_sent_again_on_the_next_link)
{
	for (uint32_t i = 6; i < 6 + MPIB_RECV_BITMAPS; i++)
		pair_connect(&pair, i, 0, &tx, &rx);
	stop_at_both(1);
	assert_int_equal(pair.node[1].lane->ctl.rail[RAIL].theirs.n,
			 MPIB_RECV_BITMAPS);
	relink();
}

struct test_group test_group;
