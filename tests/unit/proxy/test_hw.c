/* SPDX-License-Identifier: Apache-2.0 */
/* view/hw.h: counters of an RDMA port, from a tree made by the test. */
#include "view/view.h"

#include <stdio.h>
#include <sys/stat.h>

#include "scratch.h"
#include "test.h"

#define PORT "class/infiniband/rxe0/ports/1/hw_counters"

static void put(const char *name, const char *text)
{
	char path[64 + sizeof(PORT)];
	FILE *f;

	snprintf(path, sizeof(path), PORT "/%s", name);
	f = fopen(scratch_path(path), "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static int make_tree(void **state)
{
	static const char *const dirs[] = { "class",
					    "class/infiniband",
					    "class/infiniband/rxe0",
					    "class/infiniband/rxe0/ports",
					    "class/infiniband/rxe0/ports/1",
					    PORT };

	if (scratch_make(state))
		return -1;
	for (unsigned i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		if (mkdir(scratch_path(dirs[i]), 0700) < 0)
			return -1;
	}
	return 0;
}

static json_int_t num(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

#define CASE(name) TEST_OF(name, make_tree, scratch_remove)

CASE(numbers_are_read_and_the_rest_is_left_out)
{
	json_t *v;

	put("sent_pkts", "123\n");
	put("odd", "none\n");
	put("empty", "");
	put("lifespan", "10\n");
	v = mpib_hw_counters(scratch, "rxe0", 1);
	assert_int_equal(json_object_size(v), 1);
	assert_int_equal(num(v, "sent_pkts"), 123);
	json_decref(v);
}

CASE(retries_without_number_stay_the_most_there_is)
{
	json_t *v, *n;

	put("local_ack_timeout_err", "18446744073709551615\n");
	put("rcvd_rnr_err", "18446744073709551615\n");
	v = mpib_hw_counters(scratch, "rxe0", 1);
	n = mpib_hw_retries(v);
	assert_int_equal(json_integer_value(n), INT64_MAX);
	json_decref(n);
	json_decref(v);
}

CASE(retries_of_either_driver_are_added_up)
{
	json_t *v, *n;

	put("completer_retry_err", "2\n");
	put("rcvd_rnr_err", "3\n");
	put("local_ack_timeout_err", "40\n");
	put("sent_pkts", "1000\n");
	v = mpib_hw_counters(scratch, "rxe0", 1);
	n = mpib_hw_retries(v);
	assert_int_equal(json_integer_value(n), 45);
	json_decref(n);
	json_decref(v);
}

CASE(a_port_without_counters_has_null)
{
	json_t *v = mpib_hw_counters(scratch, "rxe0", 2);
	json_t *n = mpib_hw_retries(v);

	assert_true(json_is_null(v));
	assert_true(json_is_null(n));
	json_decref(v);
	json_decref(n);
}
