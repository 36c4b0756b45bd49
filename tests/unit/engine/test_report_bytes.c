/* SPDX-License-Identifier: Apache-2.0 */
/* What a request's report adds up to. The connection is made by hand. */
#include "engine/conn/report.h"
#include "test.h"

#define GIB (1ull << 30)

/* A grouped receive may have 8 buffers of 2 GiB, all by one rail. */
static void a_rails_bytes_add_up_beyond_4_gib(void **state)
{
	static struct mpib_completion completion[MPIB_REQUESTS];
	static struct engine_conn conn;
	const unsigned req = 3;

	conn.completion = completion;
	conn.req[req].active = true;
	conn.req[req].n = 1;
	conn.req[req].gen = 5;
	mpib_report_begin(&conn, req);
	mpib_report_arrived(&conn, req, 0, 15 * GIB);
	mpib_report_arrived(&conn, req, 0, GIB);
	for (unsigned i = 0; i < 8; i++)
		mpib_report_posted(&conn, req, 1, 7, 2 * GIB - 1);
	assert_int_equal(mpib_completion_rail(&completion[req], 0, 5).bytes,
			 16 * GIB);
	assert_int_equal(mpib_completion_rail(&completion[req], 1, 5).bytes,
			 16 * GIB - 8);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(a_rails_bytes_add_up_beyond_4_gib),
	{ 0 },
};
