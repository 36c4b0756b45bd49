/* SPDX-License-Identifier: Apache-2.0 */
/* view/hw.h: counters of an RDMA port, read from files of the test instead of
 * sysfs. */
#include "view/view.h"

#include "scratch.h"
#include "test.h"

#define PORT "class/infiniband/rxe0/ports/1/hw_counters/"

static json_int_t num(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

#define CASE(name) TEST_OF(name, scratch_make, scratch_remove)

CASE(only_counters_that_are_numbers_are_read)
{
	json_t *v;

	scratch_write(PORT "sent_pkts", "123\n");
	scratch_write(PORT "odd", "none\n");
	scratch_write(PORT "empty", "");
	scratch_write(PORT "lifespan", "10\n");
	v = mpib_hw_counters(scratch, "rxe0", 1);
	assert_int_equal(json_object_size(v), 1);
	assert_int_equal(num(v, "sent_pkts"), 123);
	json_decref(v);
}

CASE(huge_numbers_of_retries_saturate)
{
	json_t *v, *n;

	scratch_write(PORT "local_ack_timeout_err", "18446744073709551615\n");
	scratch_write(PORT "rcvd_rnr_err", "18446744073709551615\n");
	v = mpib_hw_counters(scratch, "rxe0", 1);
	n = mpib_hw_retries(v);
	assert_int_equal(json_integer_value(n), INT64_MAX);
	json_decref(n);
	json_decref(v);
}

CASE(retry_counters_of_either_driver_are_summed)
{
	json_t *v, *n;

	scratch_write(PORT "completer_retry_err", "2\n");
	scratch_write(PORT "rcvd_rnr_err", "3\n");
	scratch_write(PORT "local_ack_timeout_err", "40\n");
	scratch_write(PORT "sent_pkts", "1000\n");
	v = mpib_hw_counters(scratch, "rxe0", 1);
	n = mpib_hw_retries(v);
	assert_int_equal(json_integer_value(n), 45);
	json_decref(n);
	json_decref(v);
}

CASE(the_counters_of_a_port_without_counters_are_null)
{
	json_t *v = mpib_hw_counters(scratch, "rxe0", 2);
	json_t *n = mpib_hw_retries(v);

	assert_true(json_is_null(v));
	assert_true(json_is_null(n));
	json_decref(v);
	json_decref(n);
}
