/* SPDX-License-Identifier: Apache-2.0 */
/* How many sends a connection takes, and which of them have places in the proxy. */

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

#define CASE(name) TEST_OF(name, start, stop)

/* 24 of these have a place, 256 wait for one. */
CASE(sends_without_receives_are_refused_when_too_many_wait)
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

CASE(thirty_two_sends_of_each_of_eight_tags_are_accepted)
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
