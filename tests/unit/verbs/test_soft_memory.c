/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of the software HCA's regions. */
#include "test.h"
#include "verbs/verbs.h"

#define KEYS 4096u

/* Compare hexadecimal digit number `digit` of each key with the same digit of
 * the key that was registered `apart` registrations earlier. Return whether the
 * two digits are equal more often than by chance. By chance, they are equal in
 * 1/16 of all cases, plus or minus a hundred. */
static bool share_a_digit(const uint32_t *key, unsigned apart, unsigned digit)
{
	unsigned same = 0;

	for (unsigned i = apart; i < KEYS; i++)
		same += ((key[i] ^ key[i - apart]) >> 4 * digit & 15) == 0;
	return same > (KEYS - apart) / 16 + KEYS / 10;
}

TEST(keys_reveal_nothing_about_other_keys)
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
