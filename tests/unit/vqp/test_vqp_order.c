/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpib/vqp.h by seeds: QPs go on in any order, over 1 to 64 of them, fragments
 * of 4 KiB to 64 MiB, and every byte is right. MPIB_VQP_SEEDS sets how many
 * seeds, MPIB_VQP_BYTES the memory (default 1 MiB; 1 GiB takes a while).
 */
#include <stdio.h>

#include "rig.h"
#include "test.h"

static unsigned long long from_env(const char *name, unsigned long long dflt)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : dflt;
}

/* A few messages in flight, in areas of their own. */
static void one_seed(unsigned seed, uint64_t bytes)
{
	unsigned rnd = seed * 2654435761u + 1;
	uint32_t shift = (unsigned)rand_r(&rnd) % 15; /* 4 KiB to 64 MiB */
	struct mpib_vqp_attr attr = {
		.mode = (enum mpib_vqp_mode)(seed % 3),
		.n = 1u << (unsigned)rand_r(&rnd) % 7,
		.cap = 1u << (unsigned)rand_r(&rnd) % 6,
		.frag = 4096u << shift,
	};
	unsigned devices = 1 + (unsigned)rand_r(&rnd) % 2, count = 1 + seed % 7;
	uint64_t area = bytes / count & ~4095ull, len[8];

	if (devices > attr.n)
		devices = 1;
	rig.seed = seed + 1;
	rig_up(&rig, &attr, devices, bytes);
	for (unsigned i = 0; i < count; i++) {
		len[i] = (uint64_t)rand_r(&rnd) * 7919 % (area + 1);
		rig_fill(rig.tx.mem + i * area, len[i], seed + i);
		rig_recv(&rig, i);
		assert_int_equal(rig_write(&rig, i, i * area, len[i]), 0);
	}
	for (unsigned i = 0; i < count; i++) {
		struct mpib_vwc wc = rig_got(&rig);

		if (wc.wr_id != i || wc.status != IBV_WC_SUCCESS ||
		    memcmp(rig.tx.mem + i * area, rig.rx.mem + i * area,
			   len[i]) != 0)
			fail_msg("seed %u: mode %d, %u QPs of %u devices, "
				 "fragments of %u: message %u is wrong",
				 seed, attr.mode, attr.n, devices, attr.frag,
				 i);
	}
	for (unsigned i = 0; i < count; i++)
		assert_int_equal(rig_sent(&rig).wr_id, i);
	rig_down(&rig);
}

static void no_seed_delivers_a_wrong_byte(void **state)
{
	unsigned seeds = (unsigned)from_env("MPIB_VQP_SEEDS", 1000);
	uint64_t bytes = from_env("MPIB_VQP_BYTES", 1 << 20);

	for (unsigned seed = 0; seed < seeds; seed++)
		one_seed(seed, bytes);
	printf("%u seeds, 0 wrong\n", seeds);
}

static void large_messages_are_whole_too(void **state)
{
	for (unsigned seed = 0; seed < 6; seed++)
		one_seed(seed * 7 + seed % 3, 64u << 20);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(no_seed_delivers_a_wrong_byte),
	cmocka_unit_test(large_messages_are_whole_too),
	{ 0 },
};
