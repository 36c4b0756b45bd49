/* SPDX-License-Identifier: Apache-2.0 */
/* base/hist.h: the error of quantiles is as documented, and a thread can read a
 * histogram while another thread records. */
#include <pthread.h>

#include "base/hist.h"
#include "test.h"

static struct mpib_hist hist;

static struct mpib_hist_counts counts(void)
{
	struct mpib_hist_counts c = { 0 };

	mpib_hist_read(&hist, &c);
	return c;
}

static int clear(void **state)
{
	memset(&hist, 0, sizeof(hist));
	return 0;
}

#define CASE(name) TEST_OF(name, clear, NULL)

CASE(sums_counts_and_the_maximum_are_exact)
{
	struct mpib_hist_counts c, twice = { 0 };

	mpib_hist_record(&hist, 0);
	mpib_hist_record(&hist, 1000);
	mpib_hist_record(&hist, UINT32_MAX);
	c = counts();
	assert_int_equal(c.count, 3);
	assert_int_equal(c.sum, 1000 + (uint64_t)UINT32_MAX);
	assert_int_equal(c.max, UINT32_MAX);
	mpib_hist_add(&twice, &c);
	mpib_hist_add(&twice, &c);
	assert_int_equal(twice.count, 6);
	assert_int_equal(twice.sum, 2 * c.sum);
	assert_int_equal(twice.max, c.max);
	assert_int_equal(twice.bucket[mpib_hist_index(1000)], 2);
}

CASE(a_quantile_is_right_to_within_a_quarter)
{
	static const double q[] = { 0.01, 0.5, 0.9, 0.99 };
	struct mpib_hist_counts c;

	for (unsigned i = 1; i <= 10000; i++)
		mpib_hist_record(&hist, i * 1000);
	c = counts();
	for (unsigned i = 0; i < 4; i++) {
		double exact = q[i] * 10000 * 1000;
		double estimate = (double)mpib_hist_quantile(&c, q[i]);

		assert_true(estimate >= exact && estimate <= exact * 1.25);
	}
	assert_int_equal(mpib_hist_quantile(&c, 1), 10000000);
}

CASE(an_empty_histogram_has_no_quantiles)
{
	struct mpib_hist_counts c = counts();

	assert_int_equal(mpib_hist_quantile(&c, 0.5), 0);
	assert_int_equal(mpib_hist_quantile(&c, 1), 0);
}

#define RECORDS 200000

static void *record(void *arg)
{
	for (unsigned i = 0; i < RECORDS; i++)
		mpib_hist_record(&hist, i);
	return NULL;
}

CASE(a_reader_never_sees_a_count_fall)
{
	uint64_t before = 0;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, record, NULL), 0);
	for (unsigned i = 0; i < 1000; i++) {
		uint64_t now = counts().count;

		assert_true(now >= before && now <= RECORDS);
		before = now;
	}
	pthread_join(thread, NULL);
	assert_int_equal(counts().count, RECORDS);
}
