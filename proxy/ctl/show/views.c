/* SPDX-License-Identifier: Apache-2.0 */
/* mpibctl's tables: one view per noun, each a list of columns. */
#include "ctl/show/views.h"

#include <inttypes.h>
#include <string.h>

#include "ctl/show/columns.h"
#include "ctl/show/stuck.h"

/* The provider in one word, since a line has no room for "soft (io_uring)". */
static void views_provider(struct mpib_table *t, unsigned column,
			   const json_t *row, const char *key)
{
	const char *whole = mpib_json_str(row, key);
	const char *inner = strchr(whole, '(');

	inner = inner ? inner + 1 : whole;
	mpib_table_set(t, column, "%.*s", (int)strcspn(inner, ")"), inner);
}

static void rail_state(struct mpib_table *t, unsigned column, const json_t *row,
		       const char *key)
{
	if (json_is_true(json_object_get(row, "drained")))
		mpib_table_set(t, column, "drained");
	else
		mpib_cell_text(t, column, row, key);
}

/* A proxy from before devices has no label. */
static void rail_label(struct mpib_table *t, unsigned column, const json_t *row,
		       const char *key)
{
	mpib_cell_text(t, column, row,
		       json_object_get(row, key) ? key : "name");
}

static const struct mpib_column rails[] = {
	{ "RAIL", rail_label, "label" },
	{ "DEVICE", mpib_cell_text, "device" },
	{ "STATE", rail_state, "state" },
	{ "#QPS", mpib_cell_number, "qps" },
	{ "#TX", mpib_cell_bytes, "tx_bytes" },
	{ "#RX", mpib_cell_bytes, "rx_bytes" },
	{ "#WRS", mpib_cell_count, "tx_wrs" },
	{ "#ERRORS", mpib_cell_count, "cqe_errors" },
	{ "PROVIDER", views_provider, "provider" },
	{ NULL, NULL, NULL },
};

static void print_rails(const json_t *data, unsigned width, FILE *out)
{
	mpib_columns_print(rails, data, width, out);
}

static const json_t *device_rail(const json_t *row, const char *name)
{
	const json_t *rail;
	size_t i;

	json_array_foreach(json_object_get(row, "rails"), i, rail)
	{
		if (!strcmp(mpib_json_str(rail, "name"), name))
			return rail;
	}
	return NULL;
}

static void device_hca(struct mpib_table *t, unsigned column, const json_t *row,
		       const char *key)
{
	const json_t *rail = device_rail(row, key);

	mpib_table_set(t, column, "%s%s",
		       rail ? mpib_json_str(rail, "device") : "-",
		       rail && strcmp(mpib_json_str(rail, "state"), "active")
			       ? " (down)"
			       : "");
}

static void device_pci(struct mpib_table *t, unsigned column, const json_t *row,
		       const char *key)
{
	const char *pci = mpib_json_str(device_rail(row, key), "pci");

	mpib_table_set(t, column, "%s", pci[0] ? pci : "-");
}

static const struct mpib_column devices[] = {
	{ "#NO", mpib_cell_number, "index" },
	{ "NAME", mpib_cell_text, "net" },
	{ "SOUT", device_hca, "SOUT" },
	{ "SUP", device_hca, "SUP" },
	{ "PCI", device_pci, "SOUT" },
	{ "#CLIENTS", mpib_cell_number, "clients" },
	{ "BECAUSE", mpib_cell_text, "why" },
	{ NULL, NULL, NULL },
};

static void print_devices(const json_t *data, unsigned width, FILE *out)
{
	mpib_columns_print(devices, data, width, out);
}

static const struct mpib_column clients[] = {
	{ "#ID", mpib_cell_number, "id" },
	{ "NAME", mpib_cell_text, "name" },
	{ "#PID", mpib_cell_number, "pid" },
	{ "#UID", mpib_cell_number, "uid" },
	{ "#CONNS", mpib_cell_number, "connections" },
	{ "#MEMORY", mpib_cell_bytes, "registered_bytes" },
	{ "#TX SOUT", mpib_cell_bytes_sout, "tx_bytes" },
	{ "#TX SUP", mpib_cell_bytes_sup, "tx_bytes" },
	{ "#RX", mpib_cell_bytes_both, "rx_bytes" },
	{ NULL, NULL, NULL },
};

static void print_clients(const json_t *data, unsigned width, FILE *out)
{
	mpib_columns_print(clients, data, width, out);
}

static void views_rank(struct mpib_table *t, unsigned column, const json_t *row,
		       const char *key)
{
	if (json_is_integer(json_object_get(row, key)))
		mpib_cell_number(t, column, row, key);
	else
		mpib_table_set(t, column, "-");
}

static void views_stalls(struct mpib_table *t, unsigned column,
			 const json_t *row, const char *key)
{
	const json_t *all = json_object_get(row, key);
	char buf[16];

	mpib_table_set(t, column, "%s",
		       mpib_human_count(mpib_json_num(all, "cts") +
						mpib_json_num(all, "slot") +
						mpib_json_num(all, "sq"),
					buf, sizeof(buf)));
}

static const char *views_moved(const json_t *row)
{
	return strcmp(mpib_json_str(row, "direction"), "send") ? "rx_bytes"
							       : "tx_bytes";
}

static void moved_sout(struct mpib_table *t, unsigned column, const json_t *row,
		       const char *key)
{
	(void)key;
	mpib_cell_bytes_sout(t, column, row, views_moved(row));
}

static void moved_sup(struct mpib_table *t, unsigned column, const json_t *row,
		      const char *key)
{
	(void)key;
	mpib_cell_bytes_sup(t, column, row, views_moved(row));
}

static const struct mpib_column conns[] = {
	{ "#CLIENT", mpib_cell_number, "client" },
	{ "#CONN", mpib_cell_number, "index" },
	{ "DIR", mpib_cell_text, "direction" },
	{ "PEER", mpib_cell_text, "peer" },
	{ "#RANK", views_rank, "local_rank" },
	{ "#TO", views_rank, "remote_rank" },
	{ "#SOUT", moved_sout, NULL },
	{ "#SUP", moved_sup, NULL },
	{ "#MSGS", mpib_cell_count, "messages" },
	{ "#STALLS", views_stalls, "stalls" },
	{ NULL, NULL, NULL },
};

static void add_closed(struct mpib_table *t, const json_t *closed, bool sent)
{
	const char *key = sent ? "tx_bytes" : "rx_bytes";

	mpib_table_row(t);
	mpib_table_set(t, 0, "-");
	mpib_table_set(t, 1, "-");
	mpib_table_set(t, 2, "%s", sent ? "send" : "recv");
	mpib_table_set(t, 3, "(closed)");
	mpib_cell_bytes_sout(t, 6, closed, key);
	mpib_cell_bytes_sup(t, 7, closed, key);
}

static void print_conns(const json_t *data, unsigned width, FILE *out)
{
	const json_t *closed = json_object_get(data, "closed");
	const json_t *c;
	struct mpib_table t;
	size_t i;

	mpib_columns_init(&t, conns);
	json_array_foreach(json_object_get(data, "open"), i, c)
		mpib_columns_row(&t, conns, c);
	add_closed(&t, closed, true);
	add_closed(&t, closed, false);
	mpib_table_print(&t, width, out);
	mpib_table_fini(&t);
}

static void views_imm(struct mpib_table *t, unsigned column, const json_t *row,
		      const char *key)
{
	mpib_table_set(t, column, "v%" PRIu64, mpib_json_num(row, key));
}

static void qps_of_each(struct mpib_table *t, unsigned column,
			const json_t *row, const char *key)
{
	const json_t *qps = json_object_get(row, key);

	mpib_table_set(t, column, "%" PRIu64 "+%" PRIu64,
		       mpib_json_num(qps, "sout"), mpib_json_num(qps, "sup"));
}

static void views_spread(struct mpib_table *t, unsigned column,
			 const json_t *row, const char *key)
{
	mpib_cell_text(t, column, json_object_get(row, key), "mode");
}

/* The state of a lane: "broken", or while it works the mode of its spread. */
static void lane_state(struct mpib_table *t, unsigned column, const json_t *row,
		       const char *key)
{
	if (json_is_true(json_object_get(row, "broken")))
		mpib_table_set(t, column, "broken");
	else
		views_spread(t, column, row, key);
}

static const struct mpib_column lanes[] = {
	{ "PEER", mpib_cell_text, "peer" },
	{ "#UID", mpib_cell_number, "uid" },
	{ "#SHARD", mpib_cell_number, "shard" },
	{ "#IMM", views_imm, "imm" },
	{ "#CONNS", mpib_cell_number, "connections" },
	{ "#QPS", qps_of_each, "qps" },
	{ "STATE", lane_state, "spread" },
	{ "#TX SOUT", mpib_cell_bytes_sout, "tx_bytes" },
	{ "#TX SUP", mpib_cell_bytes_sup, "tx_bytes" },
	{ "#RX", mpib_cell_bytes_both, "rx_bytes" },
	{ NULL, NULL, NULL },
};

static void print_lanes(const json_t *data, unsigned width, FILE *out)
{
	mpib_columns_print(lanes, data, width, out);
}

static const struct mpib_column peers[] = {
	{ "PEER", mpib_cell_text, "peer" },
	{ "#LANES", mpib_cell_number, "lanes" },
	{ "#CONNS", mpib_cell_number, "connections" },
	{ "#QPS", mpib_cell_number_both, "qps" },
	{ "#TX", mpib_cell_bytes_both, "tx_bytes" },
	{ "#RX", mpib_cell_bytes_both, "rx_bytes" },
	{ NULL, NULL, NULL },
};

static void print_peers(const json_t *data, unsigned width, FILE *out)
{
	mpib_columns_print(peers, data, width, out);
}

static void conn_name(struct mpib_table *t, unsigned column, const json_t *row,
		      const char *key)
{
	mpib_table_set(t, column, "%" PRIu64 ".%" PRIu64,
		       mpib_json_num(row, "client"), mpib_json_num(row, key));
}

static void views_source(struct mpib_table *t, unsigned column,
			 const json_t *row, const char *key)
{
	if (!strcmp(mpib_json_str(row, key), "hint") &&
	    !json_is_integer(json_object_get(row, "hint_slot")))
		mpib_table_set(t, column, "no hint");
	else
		mpib_cell_text(t, column, row, key);
}

static void views_age(struct mpib_table *t, unsigned column, const json_t *row,
		      const char *key)
{
	double s = json_number_value(json_object_get(row, key));

	if (s < 100)
		mpib_table_set(t, column, "%.1f s", s);
	else if (s < 6000)
		mpib_table_set(t, column, "%.0f min", s / 60);
	else
		mpib_table_set(t, column, "%.0f h", s / 3600);
}

/* The round-trip times of SOUT and SUP in one cell. */
static void views_rtt(struct mpib_table *t, unsigned column, const json_t *row,
		      const char *key)
{
	static const char *const rail[] = { "sout", "sup" };
	const json_t *all = json_object_get(row, key);
	char us[2][24] = { "-", "-" };

	for (unsigned r = 0; r < 2; r++) {
		uint64_t ns =
			mpib_json_num(json_object_get(all, rail[r]), "rtt_ns");

		if (ns)
			snprintf(us[r], sizeof(us[r]), "%" PRIu64,
				 (ns + 500) / 1000);
	}
	mpib_table_set(t, column, "%s/%s", us[0], us[1]);
}

static const struct mpib_column why[] = {
	{ "CONN", conn_name, "index" },
	{ "PEER", mpib_cell_text, "peer" },
	{ "#SUP/1024", mpib_cell_number, "sup_bw" },
	{ "SOURCE", views_source, "source" },
	{ "#FOR", views_age, "age_s" },
	{ "PATH", mpib_cell_text, "path" },
	{ "#RTT US", views_rtt, "rails" },
	{ "SPREAD", views_spread, "spread" },
	{ NULL, NULL, NULL },
};

static void print_why(const json_t *data, unsigned width, FILE *out)
{
	mpib_columns_print(why, data, width, out);
}

static void views_setting(struct mpib_table *t, unsigned column,
			  const json_t *row, const char *key)
{
	mpib_table_set(t, column, "%s.%s", mpib_json_str(row, "section"),
		       mpib_json_str(row, key));
}

static const struct mpib_column config[] = {
	{ "SETTING", views_setting, "key" },
	{ "VALUE", mpib_cell_text, "value" },
	{ "ORIGIN", mpib_cell_text, "origin" },
	{ NULL, NULL, NULL },
};

static void print_config(const json_t *data, unsigned width, FILE *out)
{
	mpib_columns_print(config, data, width, out);
}

static const struct mpib_column fault[] = {
	{ "RAIL", mpib_cell_text, "rail" },
	{ "FAULT", mpib_cell_text, "fault" },
	{ "PEER", mpib_cell_text, "peer" },
	{ "#FOR", views_age, "left_s" },
	{ "#UID", mpib_cell_number, "uid" },
	{ NULL, NULL, NULL },
};

static void print_fault(const json_t *data, unsigned width, FILE *out)
{
	mpib_columns_print(fault, data, width, out);
}

const struct mpib_ctl_view mpib_ctl_views[] = {
	{ "rails", NULL, print_rails },
	{ "devices", NULL, print_devices },
	{ "fault", NULL, print_fault },
	{ "clients", NULL, print_clients },
	{ "conns", "open", print_conns },
	{ "lanes", NULL, print_lanes },
	{ "peers", NULL, print_peers },
	{ "info", NULL, mpib_ctl_print_info },
	{ "config", NULL, print_config },
	{ "hist", NULL, mpib_ctl_print_hist },
	{ "stuck", "requests", mpib_ctl_print_stuck },
	{ "why", NULL, print_why },
	{ "events", "events", mpib_ctl_print_events },
};

const unsigned mpib_ctl_view_count =
	sizeof(mpib_ctl_views) / sizeof(mpib_ctl_views[0]);

const struct mpib_ctl_view *mpib_ctl_view(const char *noun)
{
	for (unsigned i = 0; i < mpib_ctl_view_count; i++) {
		if (!strcmp(mpib_ctl_views[i].noun, noun))
			return &mpib_ctl_views[i];
	}
	return NULL;
}
