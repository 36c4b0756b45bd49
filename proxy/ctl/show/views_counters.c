/* SPDX-License-Identifier: Apache-2.0 */
/* mpibctl counters: those that are not 0, and since when. */
#include <time.h>

#include "ctl/show/columns.h"
#include "ctl/show/views.h"

static const struct mpib_column counters[] = {
	{ "RAIL", mpib_cell_text, "rail", 0 },
	{ "COUNTER", mpib_cell_text, "counter", 0 },
	{ "#VALUE", mpib_cell_number, "value", 0 },
	{ NULL, NULL, NULL, 0 },
};

void mpib_ctl_print_counters(const json_t *data, unsigned width, FILE *out)
{
	time_t since = (time_t)mpib_json_num(data, "since");
	struct mpib_table t;
	const json_t *row;
	char text[32];
	struct tm tm;
	size_t i;

	if (since) {
		strftime(text, sizeof(text), "%F %T", localtime_r(&since, &tm));
		fprintf(out, "since %s\n", text);
	}
	mpib_columns_init(&t, counters);
	json_array_foreach(json_object_get(data, "counters"), i, row)
	{
		if (mpib_json_num(row, "value"))
			mpib_columns_row(&t, counters, row);
	}
	mpib_table_print(&t, width, out);
	mpib_table_fini(&t);
}
