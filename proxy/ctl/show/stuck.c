/* SPDX-License-Identifier: Apache-2.0 */
/* mpibctl stuck: requests that hang, each with its process, ranks and peer. */
#include "ctl/show/stuck.h"

#include <string.h>

#include "ctl/dial.h"
#include "ctl/show/table.h"

static void set_num(struct mpib_table *t, unsigned column, const json_t *n)
{
	if (json_is_integer(n))
		mpib_table_set(t, column, "%" JSON_INTEGER_FORMAT,
			       json_integer_value(n));
	else
		mpib_table_set(t, column, "-");
}

static void set_rails(struct mpib_table *t, unsigned column,
		      const json_t *rails)
{
	char text[32] = "";
	const json_t *r;
	size_t i;

	json_array_foreach(rails, i, r)
	{
		size_t at = strlen(text);

		snprintf(text + at, sizeof(text) - at, "%s%s", i ? "+" : "",
			 json_string_value(r));
	}
	mpib_table_set(t, column, "%s", *text ? text : "-");
}

static void stuck_add(struct mpib_table *t, const json_t *q)
{
	mpib_table_row(t);
	mpib_table_set(t, 0, "%.1f s",
		       json_real_value(json_object_get(q, "age_s")));
	mpib_table_set(t, 1, "%s", mpib_json_str(q, "direction"));
	set_num(t, 2, json_object_get(q, "pid"));
	set_num(t, 3, json_object_get(q, "local_rank"));
	set_num(t, 4, json_object_get(q, "remote_rank"));
	mpib_table_set(t, 5, "%s", mpib_json_str(q, "peer"));
	set_rails(t, 6, json_object_get(q, "rails"));
	mpib_table_set(t, 7, "%s", mpib_json_str(q, "last"));
	mpib_table_set(t, 8, "%s", mpib_json_str(q, "job_id"));
}

void mpib_ctl_print_stuck(const json_t *data, unsigned width, FILE *out)
{
	static const char *const heads[] = { "#AGE", "DIR",  "#PID",  "#RANK",
					     "#TO",  "PEER", "RAILS", "LAST",
					     "JOB",  NULL };
	json_int_t more = json_integer_value(json_object_get(data, "more"));
	struct mpib_table t;
	const json_t *q;
	size_t i;

	mpib_table_init(&t, heads);
	json_array_foreach(json_object_get(data, "requests"), i, q)
		stuck_add(&t, q);
	json_array_foreach(json_object_get(data, "connecting"), i, q)
	{
		stuck_add(&t, q);
		mpib_table_set(&t, 7, "%s", "not connected");
	}
	mpib_table_print(&t, width, out);
	mpib_table_fini(&t);
	if (more)
		fprintf(out, "and %" JSON_INTEGER_FORMAT " more\n", more);
}
