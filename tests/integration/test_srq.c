/* SPDX-License-Identifier: Apache-2.0 */
/* A tenant's receive queue grows by the connections that receive (rail/srq.c). */
#include "engine/conn/conn.h"
#include "engine_pair.h"
#include "test.h"

#define SOUT MPIB_RAIL_SOUT

static struct pair pair;

static void open_pair(void)
{
	struct mpib_engine_config cfg;

	mpib_engine_config_init(&cfg);
	pair_open(&pair, &cfg, MPIB_IMM_V2);
}

static int teardown(void **state)
{
	pair_close(&pair);
	return 0;
}

enum {
	CONNS = 100,
	EACH = MPIB_SRQ_PER_CONN,
	TURNS = 1000000 /* many more than it takes */
};

static struct pair_end from[CONNS], to[CONNS];
static uint32_t sent[CONNS * EACH], got[CONNS * EACH];

/* Receives that a peer may use up before the shard's next turn. */
static uint32_t announced(void)
{
	uint32_t n = 0;
	int32_t result;

	for (unsigned i = 0; i < CONNS * EACH; i++)
		n += !mpib_completion_poll(
			pair_completion(&to[i / EACH], i % EACH), got[i],
			&result);
	return n;
}

static void burst(void)
{
	uint32_t due = CONNS * EACH;

	for (unsigned i = 0; i < CONNS * EACH; i++)
		got[i] = pair_post(&to[i / EACH], MPIB_OP_RECV, i % EACH,
				   pair.node[1].mr, 0, 64, 7);
	for (unsigned i = 0; i < CONNS * EACH; i++)
		sent[i] = pair_post(&from[i / EACH], MPIB_OP_SEND, i % EACH,
				    pair.node[0].mr, 0, 64, 7);
	for (unsigned i = 0; i < TURNS && due > 0; i++) {
		assert_in_range(due, 1, pair.node[1].tenant->srq_posted[SOUT]);
		pair_turn(&pair);
		due = announced();
	}
	assert_int_equal(due, 0);
	for (unsigned i = 0; i < CONNS * EACH; i++)
		assert_int_equal(
			pair_wait(&pair, &from[i / EACH], i % EACH, sent[i]),
			64);
}

/* A device without one answers RNR, and the peer pauses. */
static void what_may_arrive_at_once_finds_a_receive(void **state)
{
	open_pair();
	for (unsigned i = 0; i < CONNS; i++)
		pair_connect(&pair, i, 0, &from[i], &to[i]);
	for (unsigned i = 0; i < 3; i++)
		burst();
}

static void receives_grow_to_half_of_the_cq(void **state)
{
	struct mpib_budget *budget;
	struct mpib_tenant *t;

	open_pair();
	pair_connect(&pair, 0, 0, &from[0], &to[0]);
	t = pair.node[1].tenant;
	budget = &pair.node[1].engine->shard[0].rail[SOUT].budget;
	assert_int_equal(t->promised[SOUT],
			 pair.cfg.srq_high + MPIB_SRQ_PER_CONN);
	budget->size = 2 * budget->promised + 2 * MPIB_SRQ_PER_CONN - 1;
	/* Its QPs have their places: only the receives want more. */
	pair_connect(&pair, 1, 0, &from[1], &to[1]);
	assert_int_equal(t->promised[SOUT],
			 pair.cfg.srq_high + MPIB_SRQ_PER_CONN);
	pair_transfer(&pair, &from[1], &to[1], 1, 64, 64, 1);
	budget->size = 65536;
	pair_connect(&pair, 2, 0, &from[2], &to[2]);
	assert_int_equal(t->promised[SOUT],
			 pair.cfg.srq_high + 3 * MPIB_SRQ_PER_CONN);
	pair_transfer(&pair, &from[2], &to[2], 1, 64, 64, 1);
	/* What was used up leaves room for a refill, and no more. */
	assert_in_range(t->srq_posted[SOUT],
			pair.cfg.srq_low + 3 * MPIB_SRQ_PER_CONN,
			t->promised[SOUT]);
}

static int (*take_all)(struct ibv_srq *, struct ibv_recv_wr *,
		       struct ibv_recv_wr **);
static uint32_t taken;

/* A device that takes five at most, and refuses the rest. */
static int take_five(struct ibv_srq *srq, struct ibv_recv_wr *wr,
		     struct ibv_recv_wr **bad)
{
	for (unsigned i = 0; i < 5 && wr; i++, wr = wr->next) {
		struct ibv_recv_wr one = *wr;

		one.next = NULL;
		assert_int_equal(take_all(srq, &one, bad), 0);
		taken++;
	}
	*bad = wr;
	return wr ? ENOMEM : 0;
}

static void receives_count_that_were_taken_before_one_was_refused(void **state)
{
	struct mpib_tenant *t;
	struct mpib_rail *rail;
	uint32_t before;

	open_pair();
	pair_connect(&pair, 0, 0, &from[0], &to[0]);
	t = pair.node[1].tenant;
	rail = &pair.node[1].engine->shard[0].rail[SOUT];
	take_all = rail->ctx->ops.post_srq_recv;
	rail->ctx->ops.post_srq_recv = take_five;
	taken = 0;
	before = t->srq_posted[SOUT] + (uint32_t)rail->n.n.rx_imms;
	for (unsigned i = 0; i < 2 * pair.cfg.srq_high; i++)
		pair_transfer(&pair, &from[0], &to[0], 1, 64, 64, i);
	assert_true(taken > pair.cfg.srq_low);
	assert_int_equal(t->srq_posted[SOUT] + rail->n.n.rx_imms,
			 before + taken);
	assert_int_equal(rail->budget.receives, t->srq_posted[SOUT]);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test_teardown(what_may_arrive_at_once_finds_a_receive,
				  teardown),
	cmocka_unit_test_teardown(receives_grow_to_half_of_the_cq, teardown),
	cmocka_unit_test_teardown(
		receives_count_that_were_taken_before_one_was_refused,
		teardown),
	{ 0 },
};
