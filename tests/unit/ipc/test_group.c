/* SPDX-License-Identifier: Apache-2.0 */
/* Grouped receives of ordinary memory. */
#include "loop.h"
#include "test.h"

/* NULL: not now. */
static struct mpib_request *try_group(int n, size_t each, const int *tag)
{
	struct mpib_region *region[8];
	struct mpib_request *r;
	size_t size[8];
	void *data[8];

	for (int i = 0; i < n; i++) {
		data[i] = to + (size_t)i * 100000;
		size[i] = each;
		region[i] = to_region;
	}
	assert_int_equal(mpib_irecv(rx, n, data, size, tag, region, &r), 0);
	return r;
}

static struct mpib_request *recv_group(int n, size_t each, const int *tag)
{
	struct mpib_request *r = try_group(n, each, tag);

	assert_non_null(r);
	return r;
}

static void check_group(size_t each)
{
	static const int tag[8] = { 10, 11, 12, 13, 14, 15, 16, 17 };
	struct mpib_request *r = recv_group(8, each, tag), *s[8];
	size_t sizes[8] = { 0 };

	assert_int_equal(mpib_request_buffers(r), 8);
	/* In another order than they were posted in. */
	for (int i = 0; i < 8; i++)
		s[i] = send_at((size_t)i * 50, each - (size_t)i,
			       10 + i * 3 % 8);
	for (int i = 0; i < 8; i++)
		assert_int_equal(finish(s[i], NULL, NULL), 0);
	assert_int_equal(finish(r, NULL, sizes), 0);
	for (int i = 0; i < 8; i++) {
		size_t at = (size_t)(i * 3 % 8);

		assert_int_equal(sizes[at], each - (size_t)i);
		assert_memory_equal(to + at * 100000, from + i * 50, sizes[at]);
	}
}

static void a_group_is_filled_by_tag(void **state)
{
	check_group(1000);
	check_group(8192); /* the whole window */
	assert_int_equal(atomic_load(&f->asked[MPIB_CTL_POOL]), 2);
}

static void a_group_larger_than_the_window_gets_a_larger_one(void **state)
{
	struct mpib_request *r = recv_at(0, 60000), *s = send_at(0, 60000, 0);

	assert_int_equal(finish(r, s, NULL), 0);
	check_group(90000);
	assert_int_equal(atomic_load(&f->asked[MPIB_CTL_POOL]), 3);
	check_group(70);
	check_group(90000);
	assert_int_equal(atomic_load(&f->asked[MPIB_CTL_POOL]), 3);
}

/* test() asks nothing of the proxy. */
static void a_larger_window_is_got_by_a_post(void **state)
{
	static const int tag[2] = { 10, 11 };
	struct mpib_request *r = recv_at(0, 60000), *s;

	assert_null(try_group(2, 90000, tag));
	s = send_at(0, 60000, 0);
	assert_null(try_group(2, 90000, tag));
	assert_int_equal(finish(r, s, NULL), 0);
	assert_int_equal(atomic_load(&f->asked[MPIB_CTL_POOL]), 2);
	r = recv_group(2, 90000, tag);
	assert_int_equal(atomic_load(&f->asked[MPIB_CTL_POOL]), 3);
	s = send_at(0, 90000, 10);
	assert_int_equal(finish(s, NULL, NULL), 0);
	s = send_at(7, 90000, 11);
	assert_int_equal(finish(r, s, NULL), 0);
	assert_memory_equal(to, from, 90000);
	assert_memory_equal(to + 100000, from + 7, 90000);
	assert_int_equal(atomic_load(&f->asked[MPIB_CTL_POOL]), 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, loop_start, loop_stop)

const struct CMUnitTest test_list[] = {
	TEST(a_group_is_filled_by_tag),
	TEST(a_group_larger_than_the_window_gets_a_larger_one),
	TEST(a_larger_window_is_got_by_a_post),
	{ 0 },
};
