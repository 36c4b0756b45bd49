/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deadlines of requests and of connects, by the rig's clock: what is too old
 * ends, at both ends, and says what it was and what it waited for.
 */
#include "rig.h"

#include <errno.h>

#include "test.h"

static struct client *a, *b;

/* Two connections from a to b, older than any request here. */
static void connect_two(struct rig *rig, unsigned request_s)
{
	rig->request_s = request_s;
	rig_both_up(rig, &a, &b, 1);
	rig_connect(rig, a, 3, b, 5);
	rig_connect(rig, a, 4, b, 6);
	rig_pass(rig, 100 * MPIB_SEC);
}

static struct mpib_snap_conn conn_of(const struct client *c, uint32_t index,
				     bool sender)
{
	return (struct mpib_snap_conn){ .client = c->engine_client.id,
					.index = index,
					.sender = sender,
					.local_rank = 11,
					.remote_rank = -1 };
}

static void a_send_too_old_fails_its_connection_at_both_ends(void **state)
{
	static const char what[] =
		"send of 65536 bytes from rank 11 at 127.23.0.2:";
	struct rig *rig = *state;
	struct mpib_snap_conn f;

	connect_two(rig, 30);
	f = conn_of(a, 3, true);
	fake_old_request(&rig->node[0].engine, &f,
			 &(struct mpib_snap_request){ .last = MPIB_LAST_UNACKED,
						      .rails = 3,
						      .age_ns = 31 * MPIB_SEC,
						      .bytes = 65536 });
	rig_pass(rig, 2 * MPIB_SEC);
	assert_int_equal(rig_state(a, 3), MPIB_CONN_FAILED);
	assert_int_equal(rig_error(a, 3), -ETIMEDOUT);
	assert_int_equal(
		strncmp(mpib_broker_why(&a->client, 3), what, sizeof(what) - 1),
		0);
	assert_non_null(strstr(
		mpib_broker_why(&a->client, 3),
		" not over after 31 s: posted, but not acknowledged, waits for "
		"rails SOUT and SUP (client.request_timeout = 30)"));
	assert_int_equal(rig_state(b, 5), MPIB_CONN_FAILED);
	assert_non_null(strstr(mpib_broker_why(&b->client, 5), what));
	assert_int_equal(rig_state(a, 4), MPIB_CONN_READY);
	assert_int_equal(rig_state(b, 6), MPIB_CONN_READY);
}

static void the_oldest_of_a_connection_is_told(void **state)
{
	struct rig *rig = *state;
	struct mpib_snap_conn f;

	connect_two(rig, 30);
	f = conn_of(b, 5, false);
	f.remote_rank = 4;
	for (unsigned i = 0; i < 3; i++)
		fake_old_request(&rig->node[1].engine, &f,
				 &(struct mpib_snap_request){
					 .last = MPIB_LAST_NO_SENDER,
					 .age_ns = (31 + i % 2) * MPIB_SEC,
					 .bytes = 100 + i });
	rig_pass(rig, 2 * MPIB_SEC);
	assert_non_null(strstr(mpib_broker_why(&b->client, 5),
			       "receive of 101 bytes by rank 11 from rank 4"));
	assert_non_null(strstr(mpib_broker_why(&b->client, 5),
			       "its peer has sent nothing, waits for no rail"));
	assert_int_equal(rig_state(a, 3), MPIB_CONN_FAILED);
}

/* One of the longest texts that there are: more than a message to a peer has room
 * for. */
static void a_text_that_is_cut_says_so(void **state)
{
	static const char end[] = "(client.request_timeout = 30)";
	struct rig *rig = *state;
	struct mpib_snap_conn f;
	const char *whole, *cut;

	connect_two(rig, 30);
	f = conn_of(b, 5, false);
	f.local_rank = f.remote_rank = INT32_MAX;
	fake_old_request(&rig->node[1].engine, &f,
			 &(struct mpib_snap_request){ .last = MPIB_LAST_LIMITED,
						      .rails = 3,
						      .age_ns = 31 * MPIB_SEC,
						      .bytes = UINT32_MAX });
	rig_pass(rig, 2 * MPIB_SEC);
	whole = mpib_broker_why(&b->client, 5);
	cut = mpib_broker_why(&a->client, 3);
	assert_string_equal(whole + strlen(whole) - strlen(end), end);
	assert_in(cut, "receive of 4294967295 bytes by rank 2147483647");
	assert_string_equal(cut + strlen(cut) - 3, "...");
}

static void what_is_younger_goes_on(void **state)
{
	struct rig *rig = *state;
	struct mpib_snap_conn f;

	connect_two(rig, 30);
	f = conn_of(a, 3, true);
	fake_old_request(
		&rig->node[0].engine, &f,
		&(struct mpib_snap_request){ .age_ns = 29 * MPIB_SEC });
	rig_pass(rig, 5 * MPIB_SEC);
	assert_true(rig->node[0].engine.sweeps > 0);
	assert_int_equal(rig_state(a, 3), MPIB_CONN_READY);
}

/* The request is told of when its connection is over already. */
static void the_next_connection_at_an_index_is_not_hurt(void **state)
{
	struct rig *rig = *state;
	struct mpib_snap_conn f;

	connect_two(rig, 30);
	f = conn_of(a, 3, true);
	assert_int_equal(mpib_broker_drop(a->node->broker, &a->client, 3), 0);
	assert_int_equal(mpib_broker_drop(b->node->broker, &b->client, 5), 0);
	rig_settle(rig);
	rig_connect(rig, a, 3, b, 5);
	fake_old_request(
		&rig->node[0].engine, &f,
		&(struct mpib_snap_request){ .age_ns = 31 * MPIB_SEC });
	rig_pass(rig, 2 * MPIB_SEC);
	assert_int_equal(rig_state(a, 3), MPIB_CONN_READY);
}

static void without_a_limit_nobody_looks(void **state)
{
	struct rig *rig = *state;

	connect_two(rig, 0);
	assert_int_equal(rig->node[0].engine.sweeps, 0);
}

static void a_limit_can_be_set_and_taken_away(void **state)
{
	struct rig *rig = *state;
	struct mpib_snap_conn f;
	unsigned sweeps;

	connect_two(rig, 0);
	mpib_broker_patience(rig->node[0].broker, 10, 0);
	rig_pass(rig, 2 * MPIB_SEC);
	sweeps = rig->node[0].engine.sweeps;
	assert_true(sweeps > 0);
	/* One is under way as it is taken away. */
	f = conn_of(a, 3, true);
	fake_old_request(
		&rig->node[0].engine, &f,
		&(struct mpib_snap_request){ .age_ns = 31 * MPIB_SEC });
	fake_engine_hold(&rig->node[0].engine, true);
	rig_pass(rig, 2 * MPIB_SEC);
	sweeps = rig->node[0].engine.sweeps;
	mpib_broker_patience(rig->node[0].broker, 0, 0);
	fake_engine_hold(&rig->node[0].engine, false);
	rig_pass(rig, 10 * MPIB_SEC);
	assert_int_equal(rig->node[0].engine.sweeps, sweeps);
	assert_int_equal(rig_state(a, 3), MPIB_CONN_READY);
}

static void a_connect_that_nobody_accepts_ends(void **state)
{
	static const unsigned limit[] = { 0, 7 };
	struct rig *rig = *state;
	struct mpib_handle handle;

	rig_both_up(rig, &a, &b, 0);
	rig_listen(b, &handle);
	for (uint32_t i = 0; i < 2; i++) {
		unsigned s = limit[i] ? limit[i] : MPIB_CONNECT_S;

		mpib_broker_patience(a->node->broker, 0, limit[i]);
		rig_call(a, i, 0, &handle);
		rig_pass(rig, (s - 1) * MPIB_SEC);
		assert_int_equal(rig_state(a, i), MPIB_CONN_PENDING);
		rig_pass(rig, 2 * MPIB_SEC);
		assert_int_equal(rig_state(a, i), MPIB_CONN_FAILED);
		assert_int_equal(rig_error(a, i), -ETIMEDOUT);
	}
	assert_non_null(strstr(mpib_broker_why(&a->client, 1),
			       "not connected within 7 s: nobody accepts"));
}

const struct CMUnitTest test_list[] = {
	rig_test(a_send_too_old_fails_its_connection_at_both_ends),
	rig_test(the_oldest_of_a_connection_is_told),
	rig_test(a_text_that_is_cut_says_so),
	rig_test(what_is_younger_goes_on),
	rig_test(the_next_connection_at_an_index_is_not_hurt),
	rig_test(without_a_limit_nobody_looks),
	rig_test(a_limit_can_be_set_and_taken_away),
	rig_test(a_connect_that_nobody_accepts_ends),
	{ 0 },
};
