/* SPDX-License-Identifier: Apache-2.0 */
/* peer/fifo.h: what is added is taken back, to the byte. */
#include "peer/fifo.h"

#include "test.h"

#define ROUNDS 20000

static void add(struct mpib_fifo *f, size_t n, uint8_t *next)
{
	uint8_t *to = mpib_fifo_add(f, n);

	assert_non_null(to);
	for (size_t i = 0; i < n; i++)
		to[i] = (*next)++;
}

static void take(struct mpib_fifo *f, size_t n, uint8_t *next)
{
	const uint8_t *head = mpib_fifo_head(f);

	for (size_t i = 0; i < n; i++)
		assert_int_equal(head[i], (*next)++);
	mpib_fifo_take(f, n);
}

static void bytes_come_out_as_they_went_in(void **state)
{
	struct mpib_fifo f = { 0 };
	uint8_t in = 0, out = 0;
	unsigned seed = 7;
	size_t want = 0;

	for (unsigned i = 0; i < ROUNDS; i++) {
		size_t n = (size_t)rand_r(&seed) % 200;

		add(&f, n, &in);
		want += n;
		n = (size_t)rand_r(&seed) % (want + 1);
		take(&f, n, &out);
		want -= n;
		assert_int_equal(mpib_fifo_waits(&f), want);
	}
	take(&f, want, &out);
	assert_int_equal(mpib_fifo_waits(&f), 0);
	/* What it once held is no memory for ever. */
	assert_true(f.cap < 1u << 16);
	mpib_fifo_fini(&f);
}

/* Who takes all but a little has a little memory, whatever waited before. */
static void memory_goes_with_what_waits(void **state)
{
	struct mpib_fifo f = { 0 };
	uint8_t in = 0, out = 0;

	add(&f, 1u << 20, &in);
	for (size_t left = 1u << 20; left > 250; left = mpib_fifo_waits(&f)) {
		take(&f, left > 2000 ? 1000 : 1, &out);
		assert_true(f.cap <= MPIB_FIFO_SMALL ||
			    f.cap <= 4 * mpib_fifo_waits(&f));
	}
	add(&f, 1u << 20, &in);
	take(&f, 1u << 20, &out);
	assert_in_range(f.cap, 250, 1000);
	take(&f, 250, &out);
	mpib_fifo_fini(&f);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(bytes_come_out_as_they_went_in),
	cmocka_unit_test(memory_goes_with_what_waits),
	{ 0 },
};
