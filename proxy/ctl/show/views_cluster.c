/* SPDX-License-Identifier: Apache-2.0 */
/* How mpibctl shows the nodes of a cluster. */
#include <inttypes.h>
#include <string.h>

#include "ctl/show/columns.h"
#include "ctl/show/views.h"

/* Rails that are up, of all. */
static void cluster_rails(struct mpib_table *t, unsigned column,
			  const json_t *row, const char *key)
{
	const json_t *rails = json_object_get(row, key), *rail;
	unsigned up = 0;
	size_t i;

	json_array_foreach(rails, i, rail) up +=
		!strcmp(mpib_json_str(rail, "state"), "active");
	if (rails)
		mpib_table_set(t, column, "%u/%zu", up, json_array_size(rails));
}

/* The speed of the rails that are up, of what is expected where that is given;
 * empty where rails have no speed, as in software. */
static void cluster_speed(struct mpib_table *t, unsigned column,
			  const json_t *row, const char *key)
{
	uint64_t speed = 0, expected = 0;
	const json_t *rail;
	size_t i;

	json_array_foreach(json_object_get(row, key), i, rail)
	{
		if (!strcmp(mpib_json_str(rail, "state"), "active"))
			speed += mpib_json_num(rail, "speed_mbps");
		expected += mpib_json_num(rail, "expected_mbps");
	}
	if (expected)
		mpib_table_set(t, column, "%" PRIu64 "/%" PRIu64, speed / 1000,
			       expected / 1000);
	else if (speed)
		mpib_table_set(t, column, "%" PRIu64, speed / 1000);
}

/* Empty where the node has not told it. */
static void cluster_count(struct mpib_table *t, unsigned column,
			  const json_t *row, const char *key)
{
	if (json_object_get(row, key))
		mpib_cell_count(t, column, row, key);
}

static void cluster_age(struct mpib_table *t, unsigned column,
			const json_t *row, const char *key)
{
	if (json_object_get(row, "version"))
		mpib_table_set(t, column, "%.1f s", mpib_json_real(row, key));
}

/* A node's faults, the settings in which it differs, and its notes. */
static void cluster_state(struct mpib_table *t, unsigned column,
			  const json_t *row, const char *key)
{
	char text[MPIB_CELL_MAX] = "";

	mpib_cell_join(text, sizeof(text), ", ", json_object_get(row, key));
	mpib_cell_join(text, sizeof(text), ", ",
		       json_object_get(row, "differs"));
	mpib_cell_join(text, sizeof(text), ", ", json_object_get(row, "notes"));
	mpib_table_set(t, column, "%s", text[0] ? text : "well");
}

const struct mpib_column mpib_ctl_cluster[] = {
	{ "PEER", mpib_cell_text, "peer", 0 },
	{ "HOST", mpib_cell_text, "host", 0 },
	{ "VERSION", mpib_cell_text, "version", MPIB_WHEN_WIDE },
	{ "#UP", cluster_rails, "rails", 0 },
	{ "#Gb/s", cluster_speed, "rails", 0 },
	{ "#CONNS", cluster_count, "connections", MPIB_WHEN_WIDE },
	{ "#ERRORS", cluster_count, "errors", 0 },
	{ "#FAILOVERS", cluster_count, "failovers", MPIB_WHEN_WIDE },
	{ "#STUCK", cluster_count, "stuck", 0 },
	{ "#AGE", cluster_age, "age_s", 0 },
	{ "STATE", cluster_state, "faults", 0 },
	{ NULL, NULL, NULL, 0 },
};

void mpib_ctl_print_cluster(const json_t *data, unsigned width, FILE *out)
{
	const json_t *slowest = json_object_get(data, "slowest");

	(void)width;
	fprintf(out, "%" PRIu64 " well, %" PRIu64 " not; asked in %.2f s\n",
		mpib_json_num(data, "well"), mpib_json_num(data, "faulty"),
		mpib_json_real(data, "took_s"));
	if (json_is_object(slowest))
		fprintf(out,
			"slowest: %s to %s, %.1f Gb/s while busy, round trip "
			"%.0f us\n",
			mpib_json_str(slowest, "from"),
			mpib_json_str(slowest, "to"),
			mpib_json_real(slowest, "gbps"),
			(double)mpib_json_num(slowest, "rtt_ns") / 1e3);
}
