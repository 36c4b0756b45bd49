/* SPDX-License-Identifier: Apache-2.0 */
/* How the agent's status is printed. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "ctl/show/columns.h"
#include "ctl/show/views.h"

/* Seconds since a moment. */
static void agent_since(struct mpib_table *t, unsigned column,
			const json_t *row, const char *key)
{
	uint64_t since = mpib_json_num(row, key), now = (uint64_t)time(NULL);

	mpib_table_set(t, column, "%" PRIu64 " s",
		       now > since ? now - since : 0);
}

/* Empty where the proxy has not told it. */
static void agent_number(struct mpib_table *t, unsigned column,
			 const json_t *row, const char *key)
{
	if (json_is_integer(json_object_get(row, key)))
		mpib_cell_number(t, column, row, key);
}

static const struct mpib_column rails[] = {
	{ "RAIL", mpib_cell_text, "rail", 0 },
	{ "STATE", mpib_cell_text, "state", 0 },
	{ "#FOR", agent_since, "since", 0 },
	{ "WHY", mpib_cell_text, "why", 0 },
	{ NULL, NULL, NULL, 0 },
};

static const struct mpib_column conns[] = {
	{ "CONN", mpib_cell_text, "conn", 0 },
	{ "PEER", mpib_cell_text, "peer", 0 },
	{ "#UID", agent_number, "uid", 0 },
	{ "#SUP/1024", agent_number, "sup_bw", 0 },
	{ "#FOR", agent_since, "since", 0 },
	{ "WHY", mpib_cell_text, "why", 0 },
	{ NULL, NULL, NULL, 0 },
};

static const char *agent_text(const json_t *data, const char *key, char *buf,
			      size_t len)
{
	snprintf(buf, len, "%s", mpib_json_str(data, key));
	mpib_plain(buf);
	return buf;
}

void mpib_ctl_print_agent(const json_t *data, unsigned width, FILE *out)
{
	char buf[2][256];
	const char *config = agent_text(data, "config", buf[0], 256);
	const char *fault = agent_text(data, "fault", buf[1], 256);

	fprintf(out, "pid %" PRIu64 ", %s%s%s\n", mpib_json_num(data, "pid"),
		*config ? "by " : "by its command line", config,
		json_is_true(json_object_get(data, "dry_run"))
			? ", dry run: nothing is steered"
			: "");
	if (*fault)
		fprintf(out, "not reloaded: %s\n", fault);
	mpib_columns_print(rails, json_object_get(data, "rails"), width, out);
	fprintf(out,
		"%" PRIu64 " connections are split as measured, "
		"%" PRIu64 " windows of maintenance\n",
		mpib_json_num(data, "own"), mpib_json_num(data, "windows"));
	if (mpib_json_num(data, "sharing") || mpib_json_num(data, "refused"))
		fprintf(out,
			"%" PRIu64 " connections have the hint of others to "
			"their peer, %" PRIu64 " were refused one\n",
			mpib_json_num(data, "sharing"),
			mpib_json_num(data, "refused"));
	if (json_array_size(json_object_get(data, "steered")) == 0)
		return;
	mpib_columns_print(conns, json_object_get(data, "steered"), width, out);
	if (mpib_json_num(data, "more"))
		fprintf(out, "and %" PRIu64 " more\n",
			mpib_json_num(data, "more"));
}
