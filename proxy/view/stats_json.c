/* SPDX-License-Identifier: Apache-2.0 */
/* What /stats.json and /history.json answer. */
#include "view/stats_json.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/event.h"

#define EVENTS 100

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

static json_t *stats_json_time(const struct mpib_view *v)
{
	(void)v;
	return json_real((double)mpib_clock_ns(CLOCK_REALTIME) / 1e9);
}

static const struct {
	const char *key;
	mpib_view_fn *fn;
	mpib_view_part_fn *part; /* of a long list, in place of fn */
} keys[] = {
	{ "time", stats_json_time, NULL },
	{ "info", mpib_view_info, NULL },
	{ "rails", mpib_view_rails, NULL },
	{ "devices", mpib_view_devices, NULL },
	{ "clients", mpib_view_clients, NULL },
	{ "conns", NULL, mpib_view_conns_part },
	{ "lanes", mpib_view_lanes, NULL },
	{ "peers", mpib_view_peers, NULL },
	{ "events", stats_json_events, NULL },
	{ "hist", stats_json_hists, NULL },
};

#define KEYS (sizeof(keys) / sizeof(keys[0]))

bool mpib_stats_json_part(struct mpib_stats_json *j, const struct mpib_view *v)
{
	if (!mpib_view_part_begin(&j->part))
		return false;
	if (!j->part.more)
		fprintf(j->part.out, "%c\"%s\":", j->key ? ',' : '{',
			keys[j->key].key);
	if (keys[j->key].part)
		keys[j->key].part(v, 0, &j->part);
	else
		mpib_view_dump(&j->part, keys[j->key].fn(v));
	if (j->part.more)
		return true;
	j->part.at = 0;
	j->part.listed = false;
	j->key++;
	if (j->key < KEYS)
		return true;
	fputc('}', j->part.out);
	return false;
}

char *mpib_stats_json_end(struct mpib_stats_json *j)
{
	j->part.more |= j->key < KEYS;
	j->key = 0;
	return mpib_view_part_end(&j->part);
}
