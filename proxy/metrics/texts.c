/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics/texts.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/event.h"
#include "metrics/exposition.h"

/* Between two snapshots; all who wait meanwhile share the next. */
#define PACE (20 * MPIB_MSEC)
#define BUDGET (MPIB_MSEC / 2) /* of parts, before the loop goes on */

static void texts_on_next(void *arg);

/* Have the next snapshot taken if it is wanted and nothing is under way. */
static void texts_want(struct mpib_texts *t)
{
	uint64_t now = mpib_loop_now(t->gather->loop), at = t->told_ns + PACE;

	if (t->wanted && !t->asked && !t->timer.armed)
		mpib_timer_arm(t->gather->loop, &t->timer,
			       t->told_ns && now < at ? at - now : 0,
			       texts_on_next, t);
}

static void texts_tell(struct mpib_texts *t, enum mpib_text which, char *text)
{
	t->asked &= (uint8_t) ~(1u << which);
	t->fn(t->arg, which, t->begun, text);
	if (t->asked)
		return;
	t->told_ns = mpib_loop_now(t->gather->loop);
	texts_want(t);
}

/* The text of all connections is long: a part at a time. */
static void texts_on_part(void *arg)
{
	struct mpib_texts *t = arg;
	uint64_t until = mpib_loop_now(t->gather->loop) + BUDGET;

	while (mpib_stats_json_part(&t->stats, &t->gather->view)) {
		if (mpib_loop_now(t->gather->loop) < until)
			continue;
		mpib_timer_arm(t->gather->loop, &t->timer, 0, texts_on_part, t);
		return;
	}
	t->keeps = false;
	mpib_gather_release(t->gather);
	texts_tell(t, MPIB_TEXT_STATS, mpib_stats_json_end(&t->stats));
}

static char *texts_make(struct mpib_texts *t, enum mpib_text which,
			const struct mpib_view *v)
{
	const char *kept;

	if (which == MPIB_TEXT_METRICS)
		return mpib_metrics_text(v);
	kept = mpib_history_text(&t->history, v);
	return kept ? strdup(kept) : NULL;
}

static void texts_on_view(void *arg, const struct mpib_view *v)
{
	struct mpib_texts *t = arg;

	if (v && t->asked >> MPIB_TEXT_STATS & 1) {
		mpib_gather_keep(t->gather);
		t->keeps = true;
		mpib_timer_arm(t->gather->loop, &t->timer, 0, texts_on_part, t);
	}
	for (unsigned i = 0; i < MPIB_TEXTS; i++) {
		if (t->asked >> i & 1 && !(t->keeps && i == MPIB_TEXT_STATS))
			texts_tell(t, i, v ? texts_make(t, i, v) : NULL);
	}
}

static void texts_on_next(void *arg)
{
	struct mpib_texts *t = arg;

	t->begun++;
	t->asked = t->wanted;
	t->wanted = 0;
	mpib_gather_ask(t->gather, &t->wait, texts_on_view, t);
}

uint64_t mpib_texts_ask(struct mpib_texts *t, enum mpib_text which)
{
	t->wanted |= (uint8_t)(1u << which);
	texts_want(t);
	return t->begun + 1;
}

void mpib_texts_stop(struct mpib_texts *t)
{
	mpib_gather_forget(t->gather, &t->wait);
	mpib_timer_disarm(t->gather->loop, &t->timer);
	if (t->keeps)
		mpib_gather_release(t->gather);
	t->keeps = false;
	free(mpib_stats_json_end(&t->stats));
	free(t->history.text);
	t->history.text = NULL;
}

/* What /stats.json and /history.json answer. */

#define EVENTS 100
#define HOUR_S 3600

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
	struct mpib_view_part part = { 0 };

	if (t->text && t->next == next)
		return t->text;
	do {
		if (mpib_view_part_begin(&part))
			mpib_view_history_part(v, HOUR_S, &part);
	} while (part.more);
	free(t->text);
	t->text = mpib_view_part_end(&part);
	t->next = next;
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
