/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer/broker.h where something is short or late: a caller that cannot be taken,
 * ids of a former life.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "peer/internal.h"
#include "rig.h"

static int accept_error;
static unsigned accepts;

int __real_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags);

int __wrap_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	accepts++;
	errno = accept_error;
	return accept_error ? -1 : __real_accept4(fd, addr, len, flags);
}

static void a_caller_that_cannot_be_taken_is_no_work(void **state)
{
	static const int error[] = { EMFILE, ENFILE, ENOMEM, ENOBUFS, EPERM };

	for (unsigned i = 0; i < sizeof(error) / sizeof(error[0]); i++) {
		struct mpib_handle handle;
		struct client *a, *b;
		struct rig *rig;
		uint32_t id;

		rig_setup(state);
		rig = *state;
		rig_up(rig, 0);
		rig_up(rig, 1);
		a = rig_client(rig, 0, 1000, 0);
		b = rig_client(rig, 1, 1000, 0);
		mpib_broker_listen(b->node->broker, &b->client, &id, &handle);
		mpib_broker_accept(b->node->broker, &b->client, id, 0);
		accept_error = error[i];
		accepts = 0;
		mpib_broker_connect(a->node->broker, &a->client, 0, 0, &handle);
		for (unsigned k = 0; k < 200; k++) {
			mpib_loop_turn(&rig->node[0].loop, 0);
			mpib_loop_turn(&rig->node[1].loop, 0);
		}
		assert_int_equal(accepts, 1);
		accept_error = 0;
		rig_pass(rig, MPIB_SEC);
		assert_int_equal(rig_state(a, 0), MPIB_CONN_READY);
		rig_teardown(state);
	}
}

/* Node 1 opens a lane for a connect and calls both off at once. */
static void open_and_give_up(struct rig *rig, const struct mpib_handle *handle)
{
	struct client *b = rig_client(rig, 1, 1000, 0);

	assert_int_equal(
		mpib_broker_connect(b->node->broker, &b->client, 0, 0, handle),
		0);
	for (unsigned i = 0; fake_lanes(&rig->node[1].engine) == 0; i++) {
		assert_true(i < 1000);
		rig_step(rig);
	}
	mpib_broker_drop(b->node->broker, &b->client, 0);
}

/* The ids of a proxy begin anew when it is restarted; here the lane of its former
 * life is still being killed. */
static void a_lane_given_up_is_closed_whatever_had_its_id_before(void **state)
{
	struct rig *rig = *state;
	struct mpib_handle handle;
	struct client *a;
	uint32_t id;

	rig->private_lanes = true;
	rig_up(rig, 0);
	rig_up(rig, 1);
	a = rig_client(rig, 0, 1000, 0);
	mpib_broker_listen(a->node->broker, &a->client, &id, &handle);
	rig_connect(rig, rig_client(rig, 1, 1000, 0), 0, a, 0);
	fake_engine_hold(&rig->node[0].engine, true);
	rig->port[1] = mpib_broker_port(rig->node[1].broker);
	rig_kill(rig, 1);
	rig_settle(rig);
	assert_int_equal(fake_lanes(&rig->node[0].engine), 1);
	rig_up(rig, 1);
	open_and_give_up(rig, &handle);
	rig_settle(rig);
	fake_engine_hold(&rig->node[0].engine, false);
	rig_settle(rig);
	assert_int_equal(fake_lanes(&rig->node[0].engine), 0);
}

/* More than there is room for: of those that nobody wants any more the oldest
 * goes. */
static void who_calls_everywhere_fills_no_table(void **state)
{
	struct mpib_handle nowhere, handle;
	struct rig *rig = *state;
	struct client *a, *b;
	uint32_t id;

	rig_up(rig, 0);
	rig_up(rig, 1);
	a = rig_client(rig, 0, 1000, 0);
	b = rig_client(rig, 1, 1000, 0);
	mpib_broker_listen(b->node->broker, &b->client, &id, &handle);
	for (unsigned i = 0; i < 9000; i++) {
		nowhere = handle;
		nowhere.port = (uint16_t)(i + 1);
		if (nowhere.port == handle.port)
			continue;
		assert_int_equal(mpib_broker_connect(a->node->broker,
						     &a->client, i % 64, 0,
						     &nowhere),
				 0);
		mpib_loop_turn(&rig->node[0].loop, 0);
		if (i % 64 >= 32)
			mpib_broker_drop(a->node->broker, &a->client, i % 64);
		if (i % 64 == 63) {
			for (uint32_t k = 0; k < 32; k++)
				mpib_broker_drop(a->node->broker, &a->client,
						 k);
			rig_settle(rig);
		}
	}
	rig_pass(rig, MPIB_SEC);
	rig_connect(rig, a, 100, b, 100);
	rig_connect(rig, b, 101, a, 101);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_caller_that_cannot_be_taken_is_no_work),
		cmocka_unit_test_setup_teardown(
			a_lane_given_up_is_closed_whatever_had_its_id_before,
			rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(
			who_calls_everywhere_fills_no_table, rig_setup,
			rig_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
