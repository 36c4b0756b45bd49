/* SPDX-License-Identifier: Apache-2.0 */
/* What a client learns of the node's devices. */
#include <errno.h>
#include <setjmp.h>
#include <string.h>

#include "attached.h"

static void set_up(uint32_t devices)
{
	pthread_mutex_lock(&f->lock);
	f->welcome.devices = devices;
	pthread_mutex_unlock(&f->lock);
}

static void each_device_is_described(void **state)
{
	struct mpib_device_info d[3];
	struct mpib_node_info node;

	set_up(3);
	attach();
	mpib_query(c, &node);
	assert_int_equal(node.devices, 3);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(mpib_query_device(c, i, &d[i]), 0);
	assert_string_equal(d[2].name, "dev-2");
	assert_int_equal(d[2].rails, 2);
	assert_int_equal(d[2].carries, 3);
	assert_int_equal(d[1].carries, 1);
	assert_string_equal(d[1].rail[0].name, "boft:127.0.0.1");
	assert_string_equal(d[1].rail[1].name, "soft:127.0.0.2");
	assert_int_equal(mpib_query_device(c, 3, &d[0]), -ENODEV);
	assert_non_null(strstr(mpib_strerror(), "no such device"));
	/* The client goes on. */
	assert_int_equal(mpib_query_device(c, 0, &d[0]), 0);
}

static void a_client_says_which_device_it_wants(void **state)
{
	struct mpib_attach_opts opts = { .size = sizeof(opts),
					 .run_dir = f->dir,
					 .device = 2 };
	struct mpib_node_info node;

	set_up(3);
	assert_int_equal(mpib_attach(&opts, &c), 0);
	mpib_query(c, &node);
	assert_int_equal(node.device, 2);
}

static void a_caller_from_before_devices_gets_the_first(void **state)
{
	struct mpib_attach_opts opts = {
		.size = offsetof(struct mpib_attach_opts, device),
		.run_dir = f->dir,
		.device = 2
	};
	struct mpib_node_info node;

	set_up(3);
	assert_int_equal(mpib_attach(&opts, &c), 0);
	mpib_query(c, &node);
	assert_int_equal(node.device, 0);
}

static void no_device_or_more_than_there_can_be_is_no_welcome(void **state)
{
	static const uint32_t bad[] = { 0, MPIB_DEVICES + 1, UINT32_MAX };

	for (unsigned i = 0; i < 3; i++) {
		set_up(bad[i]);
		assert_int_equal(fake_attach(f, &c), -EPROTO);
	}
	c = NULL;
	set_up(MPIB_DEVICES);
	attach();
}

#define t(f) cmocka_unit_test_setup_teardown(f, start, stop)

const struct CMUnitTest test_list[] = {
	t(each_device_is_described),
	t(a_client_says_which_device_it_wants),
	t(a_caller_from_before_devices_gets_the_first),
	t(no_device_or_more_than_there_can_be_is_no_welcome),
	{ 0 },
};
