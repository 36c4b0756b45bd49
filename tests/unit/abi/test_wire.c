/* SPDX-License-Identifier: Apache-2.0 */
#include <mpib/wire.h>

#include "test.h"

/* The expected values are literals, because other implementations use the same
 * bits. */
TEST(immediates_of_v1_have_the_documented_bits)
{
	assert_int_equal(mpib_imm_v1(0, 0, 0), 0);
	assert_int_equal(mpib_imm_v1(0xff, 0, 0), 0x000000ff);
	assert_int_equal(mpib_imm_v1(0, 3, 0), 0x00000300);
	assert_int_equal(mpib_imm_v1(0, 0, 1), 0x00000400);
	assert_int_equal(mpib_imm_v1(0x12, 2, 0x2abcde), 0xaaf37a12);
	assert_int_equal(mpib_imm_v1(5, 1, MPIB_IMM_SIZEQ_SENTINEL),
			 0xfffffd05);
}

TEST(immediates_of_v2_have_the_documented_bits)
{
	assert_int_equal(mpib_imm_v2(0, 0, 0, 0), 0);
	assert_int_equal(mpib_imm_v2(0, 0, 1, 0), 0x00000400);
	assert_int_equal(mpib_imm_v2(0, 0, 0, 1), 0x00001000);
	assert_int_equal(mpib_imm_v2(0x34, 1, 2, 0xabcde), 0xabcde934);
	assert_int_equal(mpib_imm_v2(0xff, 3, 3, MPIB_WIRE_CONNS_MAX - 1),
			 0xffffffff);
	assert_int_equal(mpib_imm_v2(0, 0, 7, 0), 0x00000c00);
}

TEST(every_field_is_decoded_as_it_was_encoded)
{
	for (uint32_t slot = 0; slot < 256; slot += 17) {
		for (uint32_t mask = 0; mask < 4; mask++) {
			uint32_t v1 = mpib_imm_v1(slot, mask, 0x155555);
			uint32_t v2 = mpib_imm_v2(slot, mask, mask, 0xaaaaa);

			assert_int_equal(mpib_imm_slot(v1), slot);
			assert_int_equal(mpib_imm_mask(v1), mask);
			assert_int_equal(mpib_imm_v1_size_q(v1), 0x155555);
			assert_int_equal(mpib_imm_slot(v2), slot);
			assert_int_equal(mpib_imm_mask(v2), mask);
			assert_int_equal(mpib_imm_v2_epoch(v2), mask);
			assert_int_equal(mpib_imm_v2_conn(v2), 0xaaaaa);
		}
	}
}

TEST(sizes_round_up_to_128_until_the_sentinel)
{
	const uint64_t max = 4194302ull * 128;

	assert_int_equal(mpib_size_q(0), 0);
	assert_int_equal(mpib_size_q(1), 1);
	assert_int_equal(mpib_size_q(127), 1);
	assert_int_equal(mpib_size_q(128), 1);
	assert_int_equal(mpib_size_q(129), 2);
	assert_int_equal(mpib_size_q(max - 1), 0x3ffffe);
	assert_int_equal(mpib_size_q(max), 0x3ffffe);
	assert_int_equal(mpib_size_q(max + 1), 0x3fffff);
	assert_int_equal(mpib_size_q(1ull << 40), 0x3fffff);
	assert_int_equal(mpib_size_q(UINT64_MAX), 0x3fffff);
	assert_true(MPIB_IMM_SIZEQ_MAX == (512ull << 20) - 256);
}
