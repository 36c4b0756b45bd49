/* SPDX-License-Identifier: Apache-2.0 */
/* view/history.h: rates between samples, an hour of them. */
#include "view/history.h"

#include "test.h"
#include "view/view.h"

#define SEC 1000000000ull
#define STEP (MPIB_HISTORY_PERIOD_S * SEC)

struct world {
	struct proxy_clients clients;
	struct mpib_snap_conn conn;
	struct mpib_snapshot snap;
	struct mpib_history history;
	struct mpib_view view;
	struct mpib_config cfg;
};

static int make_world(void **state)
{
	static struct world w;

	memset(&w, 0, sizeof(w));
	w.clients.usage.attached = 3;
	w.conn.oldest_ns = 2500000000;
	w.snap = (struct mpib_snapshot){
		.rail = { { .up = true }, { .up = true } },
		.devices = 1,
		.rails = 2,
		.conns = 1,
		.conn = &w.conn,
	};
	mpib_config_init(&w.cfg);
	w.view = (struct mpib_view){
		.cfg = &w.cfg,
		.clients = &w.clients,
		.snap = &w.snap,
		.history = &w.history,
		.rail = { { .label = "SOUT" }, { .label = "SUP" } },
	};
	assert_int_equal(mpib_history_init(&w.history, 2), 0);
	*state = &w;
	return 0;
}

static int end_world(void **state)
{
	struct world *w = *state;

	mpib_history_fini(&w->history);
	return 0;
}

/* Sample n, after both rails moved so many bytes more. */
static void go_on(struct world *w, unsigned n, uint64_t tx, uint64_t rx)
{
	for (unsigned r = 0; r < 2; r++) {
		w->snap.rail[r].n.tx_bytes += tx * (r + 1);
		w->snap.rail[r].n.rx_bytes += rx;
	}
	mpib_history_add(&w->history, &w->view, (n + 1) * STEP);
}

static json_t *samples(struct world *w, uint64_t seconds, json_t **all)
{
	struct mpib_view_part part = { 0 };
	unsigned parts = 0;
	char *text;
	size_t len;

	part.out = open_memstream(&text, &len);
	assert_non_null(part.out);
	do {
		uint32_t at = part.at;

		mpib_view_history_part(&w->view, seconds, &part);
		if (parts++)
			assert_in_range(part.at - at, 1, MPIB_VIEW_PART);
	} while (part.more);
	assert_false(part.failed);
	fclose(part.out);
	*all = json_loads(text, 0, NULL);
	free(text);
	assert_non_null(*all);
	return json_object_get(*all, "samples");
}

static json_int_t rate(const json_t *row, const char *way, const char *rail)
{
	const json_t *n = json_object_get(json_object_get(row, way), rail);

	assert_true(json_is_integer(n));
	return json_integer_value(n);
}

#define CASE(name) TEST_OF(name, make_world, end_world)

CASE(a_row_has_what_moved_since_the_one_before)
{
	struct world *w = *state;
	const json_t *row;
	json_t *all;

	assert_int_equal(json_array_size(samples(w, 3600, &all)), 0);
	json_decref(all);
	go_on(w, 0, 7, 7);
	w->snap.rail[1].up = false;
	w->snap.rail[0].cqe_errors = 4;
	/* 5 s of 8 Mb/s are 5 MB. */
	go_on(w, 1, 5000000, 10000000);
	row = json_array_get(samples(w, 3600, &all), 0);
	assert_int_equal(rate(row, "tx_mbps", "SOUT"), 8);
	assert_int_equal(rate(row, "tx_mbps", "SUP"), 16);
	assert_int_equal(rate(row, "rx_mbps", "SUP"), 16);
	assert_int_equal(json_integer_value(json_object_get(row, "errors")), 4);
	assert_int_equal(json_integer_value(json_object_get(row, "clients")),
			 3);
	assert_true(json_number_value(json_object_get(row, "oldest_s")) == 2.5);
	assert_true(json_number_value(json_object_get(row, "time")) == 10);
	assert_int_equal(json_array_size(json_object_get(row, "down")), 1);
	assert_string_equal(json_string_value(json_array_get(
				    json_object_get(row, "down"), 0)),
			    "SUP");
	json_decref(all);
}

CASE(an_hour_is_kept_and_less_can_be_asked_for)
{
	struct world *w = *state;
	json_t *all, *list;

	for (unsigned n = 0; n < 2 * MPIB_HISTORY_KEPT + 3; n++)
		go_on(w, n, n * 625000, 0);
	list = samples(w, 3600, &all);
	assert_int_equal(json_array_size(list), 3600 / MPIB_HISTORY_PERIOD_S);
	for (unsigned i = 0; i < json_array_size(list); i++)
		assert_int_equal(
			rate(json_array_get(list, i), "tx_mbps", "SOUT"),
			MPIB_HISTORY_KEPT + 4 + i);
	json_decref(all);
	assert_int_equal(json_array_size(samples(w, 60, &all)),
			 60 / MPIB_HISTORY_PERIOD_S);
	json_decref(all);
}

CASE(counting_anew_is_no_rate)
{
	struct world *w = *state;
	const json_t *row;
	json_t *all;

	go_on(w, 0, 5000000, 5000000);
	memset(w->snap.rail, 0, sizeof(w->snap.rail));
	go_on(w, 1, 0, 0);
	row = json_array_get(samples(w, 3600, &all), 0);
	assert_true(json_is_null(
		json_object_get(json_object_get(row, "tx_mbps"), "SOUT")));
	json_decref(all);
}
