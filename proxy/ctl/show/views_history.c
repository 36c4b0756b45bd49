/* SPDX-License-Identifier: Apache-2.0 */
/* mpibctl history: the last hour, a line for each sample. */
#include <string.h>
#include <time.h>

#include "ctl/show/columns.h"
#include "ctl/show/views.h"

static void hour_time(struct mpib_table *t, unsigned column, const json_t *row,
		      const char *key)
{
	time_t at = (time_t)mpib_json_real(row, key);
	char text[16];
	struct tm tm;

	strftime(text, sizeof(text), "%H:%M:%S", localtime_r(&at, &tm));
	mpib_table_set(t, column, "%s", text);
}

/* The sum of a direction over the rails of all devices whose label ends so. */
static void hour_rate(struct mpib_table *t, unsigned column, const json_t *row,
		      const char *key, const char *end)
{
	json_t *all = json_object_get(row, key), *mbps;
	double sum = 0;
	bool some = false;
	const char *label;

	json_object_foreach(all, label, mbps)
	{
		size_t n = strlen(label), m = strlen(end);

		if (n < m || strcmp(label + n - m, end) != 0 ||
		    !json_is_number(mbps))
			continue;
		sum += json_number_value(mbps);
		some = true;
	}
	if (some)
		mpib_table_set(t, column, "%.2f", sum / 1000);
	else
		mpib_table_set(t, column, "-");
}

static void hour_sout(struct mpib_table *t, unsigned column, const json_t *row,
		      const char *key)
{
	hour_rate(t, column, row, key, "SOUT");
}

static void hour_sup(struct mpib_table *t, unsigned column, const json_t *row,
		     const char *key)
{
	hour_rate(t, column, row, key, "SUP");
}

static void hour_down(struct mpib_table *t, unsigned column, const json_t *row,
		      const char *key)
{
	char all[256] = "";

	mpib_cell_join(all, sizeof(all), " ", json_object_get(row, key));
	mpib_table_set(t, column, "%s", all);
}

static void hour_oldest(struct mpib_table *t, unsigned column,
			const json_t *row, const char *key)
{
	double s = mpib_json_real(row, key);

	mpib_table_set(t, column, s < 1 ? "%.3f" : "%.0f", s);
}

const struct mpib_column mpib_ctl_history[] = {
	{ "TIME", hour_time, "time", 0 },
	{ "#TX SOUT", hour_sout, "tx_mbps", 0 },
	{ "#RX SOUT", hour_sout, "rx_mbps", 0 },
	{ "#TX SUP", hour_sup, "tx_mbps", 0 },
	{ "#RX SUP", hour_sup, "rx_mbps", 0 },
	{ "#ERRORS", mpib_cell_number, "errors", 0 },
	{ "#OLDEST S", hour_oldest, "oldest_s", 0 },
	{ "#CLIENTS", mpib_cell_number, "clients", 0 },
	{ "DOWN", hour_down, "down", 0 },
	{ NULL, NULL, NULL, 0 },
};
