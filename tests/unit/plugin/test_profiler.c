/* SPDX-License-Identifier: Apache-2.0 */
/* plugin/profile.c under a profiler that takes some events and refuses others. The test
 * plays the client library: its reports are what the test says. */

#include "profile.h"
#include "test.h"

static mpib_watch_fn *watch;
static void *user;
static enum mpib_report asked;
static struct mpib_rail_report rail[2];
static unsigned starts, taken, stops, refused; /* a bit for each START */

int mpib_report(struct mpib_conn *conn, enum mpib_report how, mpib_watch_fn *fn,
		void *arg)
{
	(void)conn;
	asked = how;
	watch = fn;
	user = arg;
	return 0;
}

void mpib_request_rails(const struct mpib_request *req,
			struct mpib_rail_report *report)
{
	(void)req;
	memcpy(report, rail, sizeof(rail));
}

void mpib_request_times(const struct mpib_request *req,
			struct mpib_report_times *times)
{
	(void)req;
	memset(times, 0, sizeof(*times));
}

unsigned mpib_request_slot(const struct mpib_request *req)
{
	(void)req;
	return 3;
}

int mpib_request_buffers(const struct mpib_request *req)
{
	(void)req;
	return 1;
}

static enum nccl_result profiler(void **event, int type, void *phandle,
				 int64_t plugin_id, void *data)
{
	(void)phandle, (void)plugin_id, (void)data;
	if (type == 3) {
		assert_ptr_equal(*event, &taken);
		stops++;
		return NCCL_SUCCESS;
	}
	*event = refused >> starts++ & 1 ? NULL : &taken;
	taken += *event != NULL;
	return NCCL_SUCCESS;
}

static void see(enum mpib_watch what, enum mpib_rail_state sout,
		enum mpib_rail_state sup)
{
	rail[0].state = sout;
	rail[1].state = sup;
	watch(user, NULL, what);
}

/* A send, of which SOUT posts first, and whose STARTs are refused as the bits say. */
static void one_send(unsigned bits)
{
	struct net_phandle ph = { .one = &starts };
	struct net_profile *p;

	starts = taken = stops = 0;
	refused = bits;
	net_profile_set(profiler);
	p = net_profile_new(NULL, &ph);
	assert_non_null(p);
	see(MPIB_WATCH_POSTED, MPIB_RAIL_IDLE, MPIB_RAIL_IDLE);
	see(MPIB_WATCH_TESTED, MPIB_RAIL_POSTED, MPIB_RAIL_IDLE);
	see(MPIB_WATCH_TESTED, MPIB_RAIL_POSTED, MPIB_RAIL_POSTED);
	see(MPIB_WATCH_TESTED, MPIB_RAIL_POSTED, MPIB_RAIL_DONE);
	see(MPIB_WATCH_OVER, MPIB_RAIL_DONE, MPIB_RAIL_DONE);
	net_profile_free(p);
}

static void what_was_taken_ends_beside_what_was_refused(void **state)
{
	one_send(2);
	assert_int_equal(starts, 2);
	assert_int_equal(taken, 1);
	assert_int_equal(stops, 1);
	/* Somebody is there. */
	assert_int_equal(asked, MPIB_REPORT_ALL);
}

static void all_that_was_taken_ends(void **state)
{
	one_send(0);
	assert_int_equal(taken, 2);
	assert_int_equal(stops, 2);
	assert_int_equal(asked, MPIB_REPORT_ALL);
}

static void who_takes_nothing_is_asked_later(void **state)
{
	one_send(~0u);
	assert_int_equal(starts, 1);
	assert_int_equal(stops, 0);
	assert_int_equal(asked, MPIB_REPORT_LATER);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(what_was_taken_ends_beside_what_was_refused),
	cmocka_unit_test(all_that_was_taken_ends),
	cmocka_unit_test(who_takes_nothing_is_asked_later),
	{ 0 },
};
