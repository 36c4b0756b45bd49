/* SPDX-License-Identifier: Apache-2.0 */
/* mpib-top's tables: answers of the proxy, with the rates since the one before. */
#include <stdlib.h>

#include "base/clock.h"
#include "ctl/views.h"
#include "top/top.h"

const char *const top_nouns[TOP_NOUNS] = {
	"rails", "clients", "conns", "jobs", "peers", "lanes", "stuck", "events"
};

static json_t *rows_of(const struct top_table *t, json_t *data)
{
	const struct mpib_ctl_view *view = mpib_ctl_view(t->noun);

	return view->rows ? json_object_get(data, view->rows) : data;
}

static int by_rate(const void *a, const void *b)
{
	const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
	double rx = mpib_json_real(x, "tx_gbps") + mpib_json_real(x, "rx_gbps");
	double ry = mpib_json_real(y, "tx_gbps") + mpib_json_real(y, "rx_gbps");

	return (rx < ry) - (rx > ry);
}

static void sort_rows(json_t *rows)
{
	size_t n = json_array_size(rows);
	json_t **row = calloc(n + 1, sizeof(*row));

	for (size_t i = 0; row && i < n; i++)
		row[i] = json_incref(json_array_get(rows, i));
	if (row)
		qsort(row, n, sizeof(*row), by_rate);
	for (size_t i = 0; row && i < n; i++)
		json_array_set_new(rows, i, row[i]);
	free(row);
}

int top_take(struct mpib_dial *d, struct top_table *t)
{
	json_t *data;
	int rc = mpib_dial_ask(d, t->noun, &data);
	uint64_t now = mpib_now_ns();

	if (rc != MPIB_EXIT_OK)
		return rc;
	if (mpib_ctl_view_rates(mpib_ctl_view(t->noun)))
		mpib_rates_add(rows_of(t, data),
			       t->data ? rows_of(t, t->data) : NULL,
			       t->data ? (double)(now - t->at) / 1e9 : 0);
	json_decref(t->data);
	t->data = data;
	t->at = now;
	return rc;
}

void top_print(const struct top_table *t, unsigned width, FILE *out)
{
	json_t *data = json_deep_copy(t->data);

	if (mpib_ctl_view_rates(mpib_ctl_view(t->noun)) && !t->unsorted)
		sort_rows(rows_of(t, data));
	mpib_columns_show(false, true);
	mpib_ctl_view_print(mpib_ctl_view(t->noun), data, width, out);
	json_decref(data);
}

void top_free(struct top_table *t)
{
	json_decref(t->data);
	t->data = NULL;
}
