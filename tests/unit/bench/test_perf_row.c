/* SPDX-License-Identifier: Apache-2.0 */
/* bench/perf/row.c: what the results of all ranks say together. */
#include "perf/row.h"
#include "test.h"

#define SIZE 1000000
#define ITERS 500

/* The row of two ranks that each sent SIZE bytes ITERS times within 2 s. */
static struct perf_row row_of(enum perf_pattern pattern, bool steady)
{
	static struct perf_result result[2];
	static struct perf_world w;

	w = (struct perf_world){ .opt = { .pattern = pattern,
					  .nranks = 2,
					  .steady_count = steady ? ITERS : 0 },
				 .size = { SIZE },
				 .rows = 1,
				 .result = result };
	for (int r = 0; r < 2; r++)
		result[r] = (struct perf_result){
			.seconds = 2,
			.iters = ITERS,
			.sent = (uint64_t)SIZE * ITERS,
		};
	return perf_row_make(&w, 0);
}

static void assert_near(double got, double wanted)
{
	if (got < 0.999 * wanted || got > 1.001 * wanted)
		fail_msg("%g is not %g", got, wanted);
}

static void a_steady_run_has_the_speed_of_the_others(void **state)
{
	for (int steady = 0; steady < 2; steady++) {
		struct perf_row row = row_of(PERF_SENDRECV, steady);

		assert_near(row.seconds, 4e-3);
		assert_near(row.algbw, 0.25);
		assert_near(row.busbw, 0.25);
		/* Half of the time nothing goes this way. */
		row = row_of(PERF_PINGPONG, steady);
		assert_near(row.seconds, 2e-3);
		assert_near(row.algbw, 0.5);
		assert_near(row.busbw, 0.5);
	}
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(a_steady_run_has_the_speed_of_the_others),
	{ 0 },
};
