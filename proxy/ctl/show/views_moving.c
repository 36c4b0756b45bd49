/* SPDX-License-Identifier: Apache-2.0 */
/* mpibctl rails, clients and jobs: who moves how much, at which rate. */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "ctl/show/columns.h"
#include "ctl/show/views.h"

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

/* What the port runs at, and of how much where that is configured. */
static void views_speed(struct mpib_table *t, unsigned column,
			const json_t *row, const char *key)
{
	uint64_t speed = mpib_json_num(row, key);
	uint64_t want = mpib_json_num(row, "expected_mbps");

	if (speed == 0)
		mpib_table_set(t, column, "-");
	else if (want)
		mpib_table_set(t, column, "%" PRIu64 " of %" PRIu64,
			       speed / 1000, want / 1000);
	else
		mpib_table_set(t, column, "%" PRIu64, speed / 1000);
}

const struct mpib_column mpib_ctl_rails[] = {
	{ "RAIL", rail_label, "label", 0 },
	{ "DEVICE", mpib_cell_text, "device", 0 },
	{ "STATE", rail_state, "state", 0 },
	{ "#TX Gb/s", mpib_cell_rate, "tx_gbps", MPIB_WHEN_RATES },
	{ "#RX Gb/s", mpib_cell_rate, "rx_gbps", MPIB_WHEN_RATES },
	{ "#QPS", mpib_cell_number, "qps", 0 },
	{ "#TX", mpib_cell_bytes, "tx_bytes", 0 },
	{ "#RX", mpib_cell_bytes, "rx_bytes", 0 },
	{ "#WRS", mpib_cell_count, "tx_wrs", MPIB_WHEN_NO_RATES },
	{ "#ERRORS", mpib_cell_count, "cqe_errors", 0 },
	{ "PROVIDER", views_provider, "provider", MPIB_WHEN_NO_RATES },
	{ "#Gb/s", views_speed, "speed_mbps", MPIB_WHEN_WIDE },
	{ "#MTU", mpib_cell_number, "mtu", MPIB_WHEN_WIDE },
	{ "GID", mpib_cell_text, "gid", MPIB_WHEN_WIDE },
	{ "#DOWNS", mpib_cell_number, "downs", MPIB_WHEN_WIDE },
	{ "#FAILOVERS", mpib_cell_number, "failovers", MPIB_WHEN_WIDE },
	{ "#REPLAYED", mpib_cell_bytes, "replayed_bytes", MPIB_WHEN_WIDE },
	{ "#RETRIES", mpib_cell_number_known, "retries", MPIB_WHEN_WIDE },
	{ NULL, NULL, NULL, 0 },
};

/* What the launcher calls it, else NCCL's number. */
static void job_name(struct mpib_table *t, unsigned column, const json_t *row,
		     const char *key)
{
	mpib_cell_text(t, column, row,
		       *mpib_json_str(row, key) ? key : "job_id");
}

const struct mpib_column mpib_ctl_clients[] = {
	{ "#ID", mpib_cell_number, "id", 0 },
	{ "NAME", mpib_cell_text, "name", 0 },
	{ "#PID", mpib_cell_number, "pid", 0 },
	{ "#UID", mpib_cell_number, "uid", 0 },
	{ "#CONNS", mpib_cell_number, "connections", 0 },
	{ "#TX Gb/s", mpib_cell_rate, "tx_gbps", MPIB_WHEN_RATES },
	{ "#RX Gb/s", mpib_cell_rate, "rx_gbps", MPIB_WHEN_RATES },
	{ "#MEMORY", mpib_cell_bytes, "registered_bytes", MPIB_WHEN_NO_RATES },
	{ "#TX SOUT", mpib_cell_bytes_sout, "tx_bytes", 0 },
	{ "#TX SUP", mpib_cell_bytes_sup, "tx_bytes", 0 },
	{ "#RX", mpib_cell_bytes, "rx_bytes", MPIB_WHEN_NO_RATES },
	{ "NET", mpib_cell_text, "net", MPIB_WHEN_WIDE },
	{ "STATE", mpib_cell_text, "state", MPIB_WHEN_WIDE },
	{ "JOB", job_name, "label", MPIB_WHEN_WIDE },
	{ "#REGIONS", mpib_cell_number, "regions", MPIB_WHEN_WIDE },
	{ "#MESSAGES", mpib_cell_count, "messages", MPIB_WHEN_WIDE },
	{ "#COPIED", mpib_cell_bytes, "copied_bytes", MPIB_WHEN_WIDE },
	{ "#STALLS", mpib_cell_count, "stalls", MPIB_WHEN_WIDE },
	{ NULL, NULL, NULL, 0 },
};

static void job_time(struct mpib_table *t, unsigned column, const json_t *row,
		     const char *key)
{
	time_t at = (time_t)mpib_json_real(row, key);
	char text[24];
	struct tm tm;

	strftime(text, sizeof(text), "%m-%d %H:%M:%S", localtime_r(&at, &tm));
	mpib_table_set(t, column, "%s", at ? text : "-");
}

/* Clients that it has now, of those it ever had. */
static void job_clients(struct mpib_table *t, unsigned column,
			const json_t *row, const char *key)
{
	mpib_table_set(t, column, "%" PRIu64 "/%" PRIu64,
		       mpib_json_num(row, "attached"), mpib_json_num(row, key));
}

const struct mpib_column mpib_ctl_jobs[] = {
	{ "JOB", job_name, "label", 0 },
	{ "#UID", mpib_cell_number, "uid", 0 },
	{ "#CLIENTS", job_clients, "clients", 0 },
	{ "BEGAN", job_time, "began", 0 },
	{ "ENDED", job_time, "ended", 0 },
	{ "#TX", mpib_cell_bytes, "tx_bytes", 0 },
	{ "#RX", mpib_cell_bytes, "rx_bytes", 0 },
	{ "#AGAIN", mpib_cell_bytes, "replayed_bytes", 0 },
	{ "#MESSAGES", mpib_cell_count, "messages", MPIB_WHEN_WIDE },
	{ NULL, NULL, NULL, 0 },
};
