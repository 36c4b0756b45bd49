/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups that do not come to their end: whatever becomes of them, the regions of
 * all their buffers and sends are given back.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/flow/chain.h"
#include "engine_pair.h"

static struct pair pair;
static struct pair_end tx, rx;

static int teardown(void **state)
{
	(void)state;
	if (pair.node[0].engine)
		pair_close(&pair);
	return 0;
}

static void set_flag(void *arg, int status)
{
	assert_int_equal(status, 0);
	*(bool *)arg = true;
}

static uint32_t add_region(unsigned node, char *mem, size_t len)
{
	const struct mpib_mr_attr attr = { .addr = mem,
					   .len = len,
					   .dmabuf_fd = -1 };
	bool ready = false;
	uint32_t mr;

	assert_int_equal(mpib_mr_add(pair.node[node].attachment, &attr, &mr,
				     set_flag, &ready),
			 0);
	pair_until(&pair, &ready);
	return mr;
}

/* Its buffers lie in a region of their own. */
static uint32_t receive_of_four(uint32_t mr)
{
	uint32_t gen = ++rx.gen;

	for (uint8_t i = 0; i < 4; i++) {
		struct mpib_desc d = { .op = MPIB_OP_RECV,
				       .req = 2,
				       .idx = i,
				       .n = 4,
				       .gen = gen,
				       .mr = mr,
				       .tag = 100 + i,
				       .off = i * 4096u,
				       .len = 4096,
				       .total = 4096 };

		pair_push(&rx, &d);
	}
	return gen;
}

/* As a peer's proxy may say of a group, for all that we know of it. */
static void a_peer_that_refuses_a_group_gives_back_all_its_regions(void **state)
{
	char *mem = aligned_alloc(4096, 16384);
	struct mpib_chain chain[MPIB_RAILS];
	struct mpib_record *rec;
	struct mpib_cts cts;
	bool gone = false;
	uint32_t mr, gen;

	(void)state;
	pair_open_at(&pair, 512, MPIB_IMM_V2, &tx, &rx);
	mr = add_region(1, mem, 16384);
	gen = receive_of_four(mr);
	while (!mpib_sender_cts(tx.flow, 3, &cts))
		pair_turn(&pair);
	mpib_chains_begin(chain);
	rec = mpib_sender_record(tx.flow);
	rec->status = -EMSGSIZE;
	rec->size[0] = 9999;
	mpib_chain_imm(tx.flow, &chain[0], 0,
		       mpib_sender_imm(tx.flow, 0, 1, true, 0), rec);
	mpib_sender_post(tx.flow, chain, NULL, 0, 1, 0);
	tx.flow->tx.cts_next += 4;
	tx.flow->tx.msg++;
	assert_int_equal(pair_wait(&pair, &rx, 2, gen), -EMSGSIZE);
	pair_transfer(&pair, &tx, &rx, 1, 5000, 5000, 1);
	assert_int_equal(
		mpib_mr_del(pair.node[1].attachment, mr, set_flag, &gone), 0);
	pair_until(&pair, &gone);
	free(mem);
}

/* One is held, one has gone in part, and one fits nothing. */
static void
a_group_that_is_stopped_half_way_gives_back_its_regions(void **state)
{
	char *mem = aligned_alloc(4096, 16384);
	struct mpib_desc d = { .op = MPIB_OP_SEND, .n = 1, .total = 4096 };
	bool gone = false, stopped = false;
	uint32_t gen[3];

	(void)state;
	pair_open_at(&pair, 512, MPIB_IMM_V2, &tx, &rx);
	d.mr = add_region(0, mem, 16384);
	receive_of_four(pair.node[1].mr);
	for (uint8_t i = 0; i < 3; i++) {
		d.req = i;
		d.gen = gen[i] = ++tx.gen;
		d.tag = i == 2 ? 99 : 101 + i;
		d.len = i == 1 ? 1000 : 4096;
		pair_push(&tx, &d);
	}
	for (unsigned i = 0; i < 100; i++)
		pair_turn(&pair);
	assert_int_equal(tx.flow->tx.group.matched, 6);
	assert_int_equal(tx.flow->tx.group.whole, 2);
	mpib_flow_stop(tx.flow, -ECANCELED, set_flag, &stopped);
	for (uint8_t i = 0; i < 3; i++)
		assert_int_equal(pair_wait(&pair, &tx, i, gen[i]), -ECANCELED);
	pair_until(&pair, &stopped);
	assert_int_equal(
		mpib_mr_del(pair.node[0].attachment, d.mr, set_flag, &gone), 0);
	pair_until(&pair, &gone);
	free(mem);
}

#define TEST(f) cmocka_unit_test_teardown(f, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_peer_that_refuses_a_group_gives_back_all_its_regions),
		TEST(a_group_that_is_stopped_half_way_gives_back_its_regions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
