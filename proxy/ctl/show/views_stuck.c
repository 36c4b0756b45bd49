/* SPDX-License-Identifier: Apache-2.0 */
/* mpibctl stuck: requests that hang, each with its process, ranks and peer, and
 * connections that are not there yet. */
#include <inttypes.h>

#include "ctl/show/columns.h"
#include "ctl/show/views.h"

static void stuck_age(struct mpib_table *t, unsigned column, const json_t *row,
		      const char *key)
{
	mpib_table_set(t, column, "%.1f s", mpib_json_real(row, key));
}

static void stuck_rails(struct mpib_table *t, unsigned column,
			const json_t *row, const char *key)
{
	char text[32] = "";

	mpib_cell_join(text, sizeof(text), "+", json_object_get(row, key));
	mpib_table_set(t, column, "%s", *text ? text : "-");
}

/* What a request did last. A connection that waits has nothing of it. */
static void stuck_last(struct mpib_table *t, unsigned column, const json_t *row,
		       const char *key)
{
	if (json_object_get(row, key))
		mpib_cell_text(t, column, row, key);
	else
		mpib_table_set(t, column, "not connected");
}

static const struct mpib_column stuck[] = {
	{ "#AGE", stuck_age, "age_s", 0 },
	{ "DIR", mpib_cell_text, "direction", 0 },
	{ "#PID", mpib_cell_number_known, "pid", 0 },
	{ "#RANK", mpib_cell_number_known, "local_rank", 0 },
	{ "#TO", mpib_cell_number_known, "remote_rank", 0 },
	{ "PEER", mpib_cell_text, "peer", 0 },
	{ "RAILS", stuck_rails, "rails", 0 },
	{ "LAST", stuck_last, "last", 0 },
	{ "JOB", mpib_cell_text, "job_id", 0 },
	{ NULL, NULL, NULL, 0 },
};

void mpib_ctl_print_stuck(const json_t *data, unsigned width, FILE *out)
{
	uint64_t more = mpib_json_num(data, "more");
	struct mpib_table t;
	const json_t *row;
	size_t i;

	mpib_columns_init(&t, stuck);
	json_array_foreach(json_object_get(data, "requests"), i, row)
		mpib_columns_row(&t, stuck, row);
	json_array_foreach(json_object_get(data, "connecting"), i, row)
		mpib_columns_row(&t, stuck, row);
	mpib_table_print(&t, width, out);
	mpib_table_fini(&t);
	if (more)
		fprintf(out, "and %" PRIu64 " more\n", more);
}
