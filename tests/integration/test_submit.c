/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine/turn/submit.c: clients of a tenant that fill their rings as fast as these are
 * emptied, beside others.
 */
#include "engine_pair.h"
#include "guarded.h"

#define ENDS 8u
#define EACH 31 /* descriptors in a turn: they leave no ring behind */

static struct pair pair;

static void push_nop(struct pair_end *e)
{
	const struct mpib_desc d = { .op = MPIB_OP_NOP,
				     .n = 1,
				     .gen = ++e->gen };

	pair_push(e, &d);
}

/* A turn in which the ends have so many no-ops that nothing is taken of others. */
static void flooded_turn(struct pair_end *e, unsigned ends)
{
	for (unsigned i = 0; i < ends; i++) {
		while (mpib_ring_room(&e[i].ring, MPIB_RING_SLOTS) >
		       MPIB_RING_SLOTS - EACH)
			push_nop(&e[i]);
	}
	pair_turn(&pair);
}

static bool has_ended(const struct pair_end *e)
{
	int32_t result;

	return mpib_completion_poll(pair_completion(e, 0), e->gen, &result);
}

/* Connections of the pair's client, and one of another client of its tenant, which
 * came after it and has a lower number: it said HELLO later. */
static void client_that_came_late_has_its_turn(void **state)
{
	struct pair_end busy[ENDS], late, rx;
	struct pair_node *n = &pair.node[0], node;
	struct mpib_engine_config cfg;

	mpib_engine_config_init(&cfg);
	pair_open(&pair, &cfg, MPIB_IMM_V2);
	for (unsigned i = 0; i < ENDS; i++)
		pair_connect(&pair, i, 0, &busy[i], &rx);
	node = *n;
	n->submit = guarded_map(sizeof(*n->submit));
	n->reply = guarded_map(sizeof(*n->reply));
	assert_int_equal(engine_client_open(n->tenant, 0, n->submit, n->reply,
					    -1, &n->engine_client),
			 0);
	pair_connect(&pair, ENDS, 0, &late, &rx);
	*n = node;

	for (unsigned i = 0; i < 4; i++)
		flooded_turn(busy, ENDS);
	push_nop(&late);
	for (unsigned i = 0; i < 100 && !has_ended(&late); i++)
		flooded_turn(busy, ENDS);
	assert_true(has_ended(&late));
}

const struct CMUnitTest test_list[] = {
	pair_test(client_that_came_late_has_its_turn),
	{ 0 },
};
