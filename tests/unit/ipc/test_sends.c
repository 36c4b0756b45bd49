/* SPDX-License-Identifier: Apache-2.0 */
/* How many sends a connection takes, and which of them have places in the proxy. */
#include <errno.h>

#include "ipc/client.h"

/* Its c would be shadowed there. */
#include "attached.h"

static struct mpib_request *send_empty(struct mpib_conn *conn, int tag)
{
	struct mpib_request *r;

	assert_int_equal(mpib_isend(conn, NULL, 0, tag, NULL, &r), 0);
	return r;
}

static void end_place(unsigned place)
{
	mpib_completion_finish(&f->reply->completion[0][place], 2 * place + 1,
			       0);
}

/* 24 of these have a place, 256 wait for one. */
static void sends_without_receives_are_refused_when_too_many_wait(void **state)
{
	struct mpib_request *r = NULL, *next;
	struct mpib_conn *conn;
	unsigned n = 0;
	int done;

	attach();
	conn = connected();
	while ((next = send_empty(conn, 1))) {
		r = next;
		n++;
	}
	assert_int_equal(n, 24 + 256);
	assert_int_not_equal(atomic_load(&f->submit->refused[0]), 0);
	/* One that is over makes room for the next, tested or not. */
	end_place(4);
	assert_int_equal(mpib_test(r, &done, NULL), 0);
	assert_int_equal(done, 0);
	assert_non_null(send_empty(conn, 1));
	assert_int_equal(atomic_load(&f->submit->refused[0]), 0);
	assert_null(send_empty(conn, 1));
	mpib_close(conn);
}

static void a_send_that_is_wanted_is_never_refused(void **state)
{
	int32_t tag[2] = { 7, 8 };
	struct mpib_conn *conn;
	struct mpib_desc d;

	attach();
	conn = connected();
	fake_conn_open(f, 0);
	while (send_empty(conn, 1))
		while (mpib_ring_pop(&f->conn[0].ring, &d))
			;
	while (mpib_ring_pop(&f->conn[0].ring, &d))
		;
	assert_null(send_empty(conn, 7));
	mpib_want_tell(&f->reply->conn[0].want, f->conn[0].ring.next, tag, 2);
	assert_null(send_empty(conn, 6));
	assert_non_null(send_empty(conn, 8));
	assert_true(mpib_ring_pop(&f->conn[0].ring, &d));
	assert_int_equal(d.tag, 8);
	assert_in_range(d.req, MPIB_REQUESTS - MPIB_RESERVE, MPIB_REQUESTS - 1);
	/* What the shard said is of before that. */
	assert_null(send_empty(conn, 7));
	mpib_want_tell(&f->reply->conn[0].want, f->conn[0].ring.next, tag, 1);
	assert_non_null(send_empty(conn, 7));
	assert_null(send_empty(conn, 7));
	mpib_close(conn);
}

static void what_is_over_and_not_tested_says_so_later(void **state)
{
	struct mpib_request *r[64];
	struct mpib_conn *conn;
	struct mpib_completion *cpl;
	int done;

	attach();
	conn = connected();
	for (unsigned i = 0; i < 64; i++)
		r[i] = send_empty(conn, 1);
	cpl = &f->reply->completion[0][3];
	cpl->size[0] = 0;
	cpl->size[1] = 12345;
	mpib_completion_finish(cpl, r[3]->gen, -EMSGSIZE);
	end_place(5);
	assert_int_equal(mpib_test(r[63], &done, NULL), 0);
	/* Their places are others' by now. */
	assert_int_equal(mpib_request_index(r[24]), 3);
	assert_int_equal(mpib_request_index(r[25]), 5);
	assert_int_equal(mpib_test(r[5], &done, NULL), 0);
	assert_int_equal(done, 1);
	assert_int_equal(mpib_test(r[3], &done, NULL), -EMSGSIZE);
	assert_in(mpib_strerror(), "12345 bytes");
	assert_int_equal(mpib_test(r[24], &done, NULL), 0);
	assert_int_equal(done, 0);
	mpib_completion_finish(cpl, r[24]->gen, 0);
	assert_int_equal(mpib_test(r[24], &done, NULL), 0);
	assert_int_equal(done, 1);
	mpib_close(conn);
}

static void thirty_two_sends_of_each_of_eight_tags_are_accepted(void **state)
{
	struct mpib_conn *conn;

	attach();
	conn = connected();
	for (int tag = 0; tag < MPIB_GROUP_MAX; tag++) {
		for (unsigned i = 0; i < MPIB_REQUESTS; i++)
			assert_non_null(send_empty(conn, tag));
	}
	mpib_close(conn);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

const struct CMUnitTest test_list[] = {
	TEST(thirty_two_sends_of_each_of_eight_tags_are_accepted),
	TEST(sends_without_receives_are_refused_when_too_many_wait),
	TEST(a_send_that_is_wanted_is_never_refused),
	TEST(what_is_over_and_not_tested_says_so_later),
	{ 0 },
};
