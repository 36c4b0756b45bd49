/* SPDX-License-Identifier: Apache-2.0 */
/* mpibctl's tables: one view per noun, each a list of columns. */
#include "ctl/show/views.h"

#include <inttypes.h>
#include <string.h>

#include "ctl/show/columns.h"

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
	{ "#NO", mpib_cell_number, "index", 0 },
	{ "NAME", mpib_cell_text, "net", 0 },
	{ "SOUT", device_hca, "SOUT", 0 },
	{ "SUP", device_hca, "SUP", 0 },
	{ "PCI", device_pci, "SOUT", 0 },
	{ "#CLIENTS", mpib_cell_number, "clients", 0 },
	{ "BECAUSE", mpib_cell_text, "why", 0 },
	{ NULL, NULL, NULL, 0 },
};

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
	{ "#CLIENT", mpib_cell_number, "client", 0 },
	{ "#CONN", mpib_cell_number, "index", 0 },
	{ "DIR", mpib_cell_text, "direction", 0 },
	{ "PEER", mpib_cell_text, "peer", 0 },
	{ "#RANK", mpib_cell_number_known, "local_rank", 0 },
	{ "#TO", mpib_cell_number_known, "remote_rank", 0 },
	{ "#SOUT", moved_sout, NULL, MPIB_WHEN_NO_RATES },
	{ "#SUP", moved_sup, NULL, MPIB_WHEN_NO_RATES },
	{ "#MSGS", mpib_cell_count, "messages", 0 },
	{ "#STALLS", mpib_cell_count, "stalls", 0 },
	{ "#TX Gb/s", mpib_cell_rate, "tx_gbps", MPIB_WHEN_RATES },
	{ "#RX Gb/s", mpib_cell_rate, "rx_gbps", MPIB_WHEN_RATES },
	{ "NET", mpib_cell_text, "net", MPIB_WHEN_WIDE },
	{ "#WEIGHT", mpib_cell_number, "weight", MPIB_WHEN_WIDE },
	{ "#WAITING", mpib_cell_number, "outstanding", MPIB_WHEN_WIDE },
	{ NULL, NULL, NULL, 0 },
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
	/* With rates there is no column of totals. */
	if (!mpib_columns_have_rates()) {
		add_closed(&t, closed, true);
		add_closed(&t, closed, false);
	}
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
	{ "PEER", mpib_cell_text, "peer", 0 },
	{ "NET", mpib_cell_text, "net", 0 },
	{ "#UID", mpib_cell_number, "uid", 0 },
	{ "#SHARD", mpib_cell_number, "shard", MPIB_WHEN_WIDE },
	{ "#IMM", views_imm, "imm", MPIB_WHEN_WIDE },
	{ "#CONNS", mpib_cell_number, "connections", 0 },
	{ "#QPS", qps_of_each, "qps", 0 },
	{ "STATE", lane_state, "spread", 0 },
	{ "#TX SOUT", mpib_cell_bytes_sout, "tx_bytes", 0 },
	{ "#TX SUP", mpib_cell_bytes_sup, "tx_bytes", 0 },
	{ "#RX", mpib_cell_bytes, "rx_bytes", 0 },
	{ NULL, NULL, NULL, 0 },
};

static const struct mpib_column peers[] = {
	{ "PEER", mpib_cell_text, "peer", 0 },
	{ "#LANES", mpib_cell_number, "lanes", 0 },
	{ "#CONNS", mpib_cell_number, "connections", 0 },
	{ "#QPS", mpib_cell_number, "qps", 0 },
	{ "#TX", mpib_cell_bytes, "tx_bytes", 0 },
	{ "#RX", mpib_cell_bytes, "rx_bytes", 0 },
	{ "#TX Gb/s", mpib_cell_rate, "tx_gbps", MPIB_WHEN_RATES },
	{ "#RX Gb/s", mpib_cell_rate, "rx_gbps", MPIB_WHEN_RATES },
	{ NULL, NULL, NULL, 0 },
};

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
	double s = mpib_json_real(row, key);

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
	{ "CONN", conn_name, "index", 0 },
	{ "PEER", mpib_cell_text, "peer", 0 },
	{ "#SUP/1024", mpib_cell_number, "sup_bw", 0 },
	{ "SOURCE", views_source, "source", 0 },
	{ "#FOR", views_age, "age_s", 0 },
	{ "PATH", mpib_cell_text, "path", 0 },
	{ "#RTT US", views_rtt, "rails", 0 },
	{ "SPREAD", views_spread, "spread", 0 },
	{ NULL, NULL, NULL, 0 },
};

static void views_setting(struct mpib_table *t, unsigned column,
			  const json_t *row, const char *key)
{
	mpib_table_set(t, column, "%s.%s", mpib_json_str(row, "section"),
		       mpib_json_str(row, key));
}

static const struct mpib_column config[] = {
	{ "SETTING", views_setting, "key", 0 },
	{ "VALUE", mpib_cell_text, "value", 0 },
	{ "ORIGIN", mpib_cell_text, "origin", 0 },
	{ NULL, NULL, NULL, 0 },
};

static const struct mpib_column fault[] = {
	{ "RAIL", mpib_cell_text, "rail", 0 },
	{ "FAULT", mpib_cell_text, "fault", 0 },
	{ "PEER", mpib_cell_text, "peer", 0 },
	{ "#FOR", views_age, "left_s", 0 },
	{ "#UID", mpib_cell_number, "uid", 0 },
	{ NULL, NULL, NULL, 0 },
};

const struct mpib_ctl_view mpib_ctl_views[] = {
	{ "rails", .columns = mpib_ctl_rails },
	{ "devices", .columns = devices },
	{ "fault", .columns = fault },
	{ "jobs", .columns = mpib_ctl_jobs },
	{ "clients", .columns = mpib_ctl_clients },
	{ "conns", .rows = "open", .print = print_conns },
	{ "lanes", .columns = lanes },
	{ "peers", .columns = peers },
	{ "cluster", .rows = "nodes", .faulty = "faulty",
	  .columns = mpib_ctl_cluster, .print = mpib_ctl_print_cluster },
	{ "info", .print = mpib_ctl_print_info },
	{ "config", .columns = config },
	{ "hist", .print = mpib_ctl_print_hist },
	{ "counters", .rows = "counters", .print = mpib_ctl_print_counters },
	{ "history", .rows = "samples", .columns = mpib_ctl_history },
	{ "stuck", .rows = "requests", .print = mpib_ctl_print_stuck },
	{ "why", .columns = why },
	{ "agent", .rows = "steered", .print = mpib_ctl_print_agent },
	{ "events", .rows = "events", .print = mpib_ctl_print_events },
	{ "upgrade", .print = mpib_ctl_print_upgrade },
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

void mpib_ctl_view_print(const struct mpib_ctl_view *view, const json_t *data,
			 unsigned width, FILE *out)
{
	if (view->columns)
		mpib_columns_print(
			view->columns,
			view->rows ? json_object_get(data, view->rows) : data,
			width, out);
	if (view->print)
		view->print(data, width, out);
}
