/* SPDX-License-Identifier: Apache-2.0 */
/* What QPs of the software HCA take of memory, and the keys of its regions. */
#include <stdio.h>
#include <unistd.h>

#include "test.h"
#include "verbs/verbs.h"

#define QPS 64
#define DEPTH 8192
#define KEYS 4096u

static size_t resident(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	unsigned long pages;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%*u %lu", &pages), 1);
	fclose(f);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Memory for all their requests would be 192 MiB, that of WQEs alone 45. */
TEST(a_qp_takes_memory_only_for_what_was_posted)
{
	const struct mpib_rail_spec spec = { .provider = MPIB_PROVIDER_SOFT,
					     .name = "127.21.3.2",
					     .port = 1 };
	const struct mpib_verbs *v = &mpib_verbs_soft;
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = DEPTH,
			 .max_send_sge = 1,
			 .max_recv_wr = 1,
			 .max_recv_sge = 1,
			 .max_inline_data = 256 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_context *ctx;
	struct ibv_qp *qp[QPS];
	struct ibv_pd *pd;
	size_t before;

	assert_int_equal(v->open(&spec, &ctx), 0);
	assert_int_equal(v->alloc_pd(ctx, &pd), 0);
	assert_int_equal(v->create_cq(ctx, 16, NULL, 0, &attr.send_cq), 0);
	attr.recv_cq = attr.send_cq;
	before = resident();
	/* Destroyed ones leave nothing to those after them, either. */
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < QPS; i++)
			assert_int_equal(v->create_qp(pd, &attr, &qp[i]), 0);
		assert_true(resident() < before + (8u << 20));
		for (unsigned i = 0; i < QPS; i++)
			assert_int_equal(v->destroy_qp(qp[i]), 0);
	}
	assert_int_equal(v->destroy_cq(attr.send_cq), 0);
	assert_int_equal(v->dealloc_pd(pd), 0);
	assert_int_equal(v->close(ctx), 0);
}

/* Whether keys that are so far apart have this digit in common more often than
 * chance has it: 1/16 of KEYS, give or take a hundred. */
static bool share_a_digit(const uint32_t *key, unsigned apart, unsigned digit)
{
	unsigned same = 0;

	for (unsigned i = apart; i < KEYS; i++)
		same += ((key[i] ^ key[i - apart]) >> 4 * digit & 15) == 0;
	return same > (KEYS - apart) / 16 + KEYS / 10;
}

TEST(keys_tell_nothing_of_other_keys)
{
	const struct mpib_rail_spec spec = { .provider = MPIB_PROVIDER_SOFT,
					     .name = "127.21.3.2",
					     .port = 1 };
	const struct mpib_verbs *v = &mpib_verbs_soft;
	static uint32_t key[2 * KEYS];
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	char byte;

	assert_int_equal(v->open(&spec, &ctx), 0);
	assert_int_equal(v->alloc_pd(ctx, &pd), 0);
	for (unsigned i = 0; i < KEYS; i++) {
		assert_int_equal(v->reg_mr(pd, &byte, 1, (uintptr_t)&byte,
					   IBV_ACCESS_LOCAL_WRITE, &mr),
				 0);
		key[i] = mr->rkey;
		key[KEYS + i] = mr->lkey;
		assert_int_equal(v->dereg_mr(mr), 0);
	}
	for (unsigned apart = 1; apart <= KEYS / 4; apart++) {
		for (unsigned digit = 0; digit < 8; digit++) {
			assert_false(share_a_digit(key, apart, digit));
			assert_false(share_a_digit(key + KEYS, apart, digit));
		}
	}
	assert_int_equal(v->dealloc_pd(pd), 0);
	assert_int_equal(v->close(ctx), 0);
}
