/* SPDX-License-Identifier: Apache-2.0 */
/* metrics/texts.h: the text of all there is, which is made in parts, and that of the
 * last hour, which is made once a sample. */
#include "metrics/texts.h"

#include "test.h"

static struct mpib_config cfg;
static struct proxy_clients clients;
static struct mpib_snapshot snap;
static struct mpib_history history;
static struct mpib_view view;

static int empty(void **state)
{
	snap = (struct mpib_snapshot){ .rail = { { .up = true } },
				       .devices = 1,
				       .rails = 1 };
	mpib_config_init(&cfg);
	TAILQ_INIT(&clients.list);
	view = (struct mpib_view){ .cfg = &cfg,
				   .clients = &clients,
				   .snap = &snap,
				   .history = &history,
				   .rail = { { .name = "soft:127.24.0.1",
					       .label = "SOUT",
					       .net = "mpib0",
					       .provider = "soft" } },
				   .run_dir = "/run/x" };
	return mpib_history_init(&history, 1);
}

static int end(void **state)
{
	mpib_history_fini(&history);
	memset(&history, 0, sizeof(history));
	return 0;
}

static void sample(unsigned n)
{
	mpib_history_add(&history, &view,
			 (n + 1) * MPIB_HISTORY_PERIOD_S * 1000000000ull);
}

static unsigned rows(const char *text)
{
	json_t *all = json_loads(text, 0, NULL);
	size_t n = json_array_size(json_object_get(all, "samples"));

	assert_non_null(all);
	json_decref(all);
	return (unsigned)n;
}

#define CASE(name) TEST_OF(name, empty, end)

CASE(the_text_is_made_once_a_sample)
{
	struct mpib_history_text t = { 0 };
	const char *text;

	sample(0);
	sample(1);
	text = mpib_history_text(&t, &view);
	assert_int_equal(rows(text), 1);
	/* What is made anew would have lost this. */
	t.text[strlen(t.text) - 1] = ' ';
	assert_ptr_equal(mpib_history_text(&t, &view), text);
	assert_int_equal(text[strlen(text) - 1], ' ');
	sample(2);
	assert_int_equal(rows(mpib_history_text(&t, &view)), 2);
	free(t.text);
}

/* The ring is full: a sample more is as many as before, and others. */
CASE(so_is_that_of_a_full_hour)
{
	struct mpib_history_text t = { 0 };
	char *before;

	for (unsigned n = 0; n < MPIB_HISTORY_KEPT; n++)
		sample(n);
	before = strdup(mpib_history_text(&t, &view));
	assert_int_equal(rows(before), MPIB_HISTORY_KEPT - 1);
	sample(MPIB_HISTORY_KEPT);
	assert_string_not_equal(mpib_history_text(&t, &view), before);
	assert_int_equal(rows(t.text), MPIB_HISTORY_KEPT - 1);
	free(before);
	free(t.text);
}

CASE(without_a_history_there_are_no_rows)
{
	struct mpib_history_text t = { 0 };

	view.history = NULL;
	assert_int_equal(rows(mpib_history_text(&t, &view)), 0);
	free(t.text);
}

static unsigned connections(const char *text)
{
	unsigned n = 0;

	for (; (text = strstr(text, "\"index\"")); text++)
		n++;
	return n;
}

CASE(all_there_is_is_made_in_parts)
{
	enum {
		CONNS = 2 * MPIB_VIEW_PART + 5
	};
	static struct mpib_snap_conn conn[CONNS];
	struct mpib_stats_json j = { 0 };
	json_t *all, *open;
	unsigned had = 0;
	char *text;
	bool more;

	snap.shards = 1;
	snap.conn = conn;
	snap.conns = CONNS;
	do {
		unsigned have;

		more = mpib_stats_json_part(&j, &view);
		fflush(j.part.out);
		have = connections(j.part.text);
		assert_in_range(have - had, 0, MPIB_VIEW_PART);
		had = have;
	} while (more);
	text = mpib_stats_json_end(&j);
	assert_non_null(text);
	all = json_loads(text, 0, NULL);
	free(text);
	open = json_object_get(json_object_get(all, "conns"), "open");
	assert_int_equal(json_array_size(open), CONNS);
	assert_true(json_is_real(json_object_get(all, "time")));
	assert_non_null(json_object_get(all, "hist"));
	json_decref(all);
}

CASE(what_is_given_up_is_no_text)
{
	struct mpib_stats_json j = { 0 };

	assert_null(mpib_stats_json_end(&j));
	snap.shards = 1;
	assert_true(mpib_stats_json_part(&j, &view));
	assert_null(mpib_stats_json_end(&j));
	assert_null(j.part.out);
}
