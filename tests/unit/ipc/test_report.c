/* SPDX-License-Identifier: Apache-2.0 */
/* What is told of the rails of a request: the test plays the shard. */
#include "ipc/client.h"
#include "loop.h"
#include "test.h"

#define SIZE 100000u

static void on_watch(void *user, struct mpib_request *req, enum mpib_watch what)
{
	unsigned *posted = user;

	if (posted && what == MPIB_WATCH_POSTED)
		++*posted;
}

/* The shard has nothing of the request under way on the rail, which had so many
 * bytes. What the client tells. */
static enum mpib_rail_state told(const struct mpib_request *req, unsigned rail,
				 uint32_t bytes)
{
	const struct mpib_rail_report done = { MPIB_RAIL_DONE, 1, bytes };
	struct mpib_rail_report report[MPIB_RAILS];
	unsigned index = req->conn->index;

	mpib_completion_report(
		&f->reply->completion[index][mpib_request_index(req)], rail,
		&done);
	mpib_request_rails(req, report);
	assert_int_equal(report[rail].bytes, bytes);
	return report[rail].state;
}

static void watch(const struct mpib_request *req)
{
	unsigned index = req->conn->index;

	mpib_completion_watch(
		&f->reply->completion[index][mpib_request_index(req)],
		req->gen);
}

/* As it is between two parts, whose bytes are on either rail. */
static void a_send_is_done_with_all_its_bytes(void **state)
{
	struct mpib_request *s;

	assert_int_equal(mpib_report(tx, MPIB_REPORT_ALL, on_watch, NULL), 0);
	s = send_at(0, SIZE, 0);
	watch(s);
	assert_int_equal(told(s, 0, SIZE / 4), MPIB_RAIL_POSTED);
	assert_int_equal(told(s, 1, SIZE / 4), MPIB_RAIL_POSTED);
	assert_int_equal(told(s, 0, SIZE / 4 * 3), MPIB_RAIL_DONE);
	assert_int_equal(told(s, 1, SIZE / 4), MPIB_RAIL_DONE);
}

/* A message may be shorter than its receive, and end with any part. */
static void a_receive_is_done_when_it_is_over(void **state)
{
	struct mpib_request *r;

	assert_int_equal(mpib_report(rx, MPIB_REPORT_ALL, on_watch, NULL), 0);
	r = recv_at(0, SIZE);
	watch(r);
	assert_int_equal(told(r, 0, SIZE / 2), MPIB_RAIL_POSTED);
	end_as(1, r, SIZE / 2);
	assert_int_equal(told(r, 0, SIZE / 2), MPIB_RAIL_DONE);
}

static void test_in_vain(struct mpib_request *req, unsigned times)
{
	int done;

	for (unsigned i = 0; i < times; i++) {
		assert_int_equal(mpib_test(req, &done, NULL), 0);
		assert_false(done);
	}
}

/* Asked for again, it counts from the start again. */
static void a_later_report_waits_for_1024_fruitless_tests(void **state)
{
	unsigned posted = 0, at = 0;
	struct mpib_request *r;

	for (unsigned again = 1; again <= 2; again++) {
		assert_int_equal(
			mpib_report(rx, MPIB_REPORT_LATER, on_watch, &posted),
			0);
		r = recv_at(at++ * SIZE, SIZE);
		test_in_vain(r, 1023);
		recv_at(at++ * SIZE, SIZE);
		assert_int_equal(posted, again - 1);
		test_in_vain(r, 1);
		for (unsigned i = 0; i < 2; i++)
			recv_at(at++ * SIZE, SIZE);
		assert_int_equal(posted, again);
	}
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test_setup_teardown(a_send_is_done_with_all_its_bytes,
					loop_start, loop_stop),
	cmocka_unit_test_setup_teardown(a_receive_is_done_when_it_is_over,
					loop_start, loop_stop),
	cmocka_unit_test_setup_teardown(
		a_later_report_waits_for_1024_fruitless_tests, loop_start,
		loop_stop),
	{ 0 },
};
