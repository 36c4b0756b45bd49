/* SPDX-License-Identifier: Apache-2.0 */
/* What /stats.json and /history.json answer. */
#include "web/stats_json.h"

#include <stdlib.h>
#include <time.h>

#include "base/event.h"

#define EVENTS 100

static const struct {
	const char *key;
	mpib_view_fn *fn;
} parts[] = {
	{ "info", mpib_view_info },	  { "rails", mpib_view_rails },
	{ "devices", mpib_view_devices }, { "clients", mpib_view_clients },
	{ "conns", mpib_view_conns },	  { "lanes", mpib_view_lanes },
	{ "peers", mpib_view_peers },
};

/* The latest EVENTS events of the journal. */
static json_t *stats_json_events(const struct mpib_view *v)
{
	uint64_t last;

	mpib_events_after(UINT64_MAX, NULL, 0, &last);
	return mpib_view_events(v, last > EVENTS ? last - EVENTS : 0);
}

/* All histograms by name; those of single connections are left out. */
static json_t *stats_json_hists(const struct mpib_view *v)
{
	json_t *all = json_object(), *h;

	for (unsigned i = 0; (h = mpib_view_hist(v, i)); i++) {
		const json_t *name = json_object_get(h, "name");

		json_object_set_new(h, "connections", json_array());
		json_object_set_new(all, json_string_value(name), h);
	}
	return all;
}

const char *mpib_history_text(struct mpib_history_text *t,
			      const struct mpib_view *v)
{
	uint32_t next = v->history ? v->history->next : 0;
	json_t *all;

	if (t->text && t->next == next)
		return t->text;
	all = mpib_view_history(v);
	free(t->text);
	t->text = json_dumps(all, JSON_COMPACT | MPIB_VIEW_DIGITS);
	t->next = next;
	json_decref(all);
	return t->text;
}

char *mpib_stats_json(const struct mpib_view *v)
{
	struct timespec now;
	json_t *all = json_object();
	char *text;

	clock_gettime(CLOCK_REALTIME, &now);
	json_object_set_new(
		all, "time",
		json_real((double)now.tv_sec + (double)now.tv_nsec / 1e9));
	for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		json_object_set_new(all, parts[i].key, parts[i].fn(v));
	json_object_set_new(all, "events", stats_json_events(v));
	json_object_set_new(all, "hist", stats_json_hists(v));
	text = json_dumps(all, JSON_COMPACT | MPIB_VIEW_DIGITS);
	json_decref(all);
	return text;
}
