/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics/texts.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/event.h"
#include "metrics/exposition.h"

/* Time between two snapshots. All readers that ask during this time share the
 * next snapshot. */
#define PACE (20 * MPIB_MSEC)
/* Time that one slice may take. After it, the control thread does other
 * work. */
#define BUDGET (MPIB_MSEC / 2)
#define EVENTS 100
#define HOUR_S 3600

/* Return the latest EVENTS events of the journal. */
static json_t *stats_events(const struct mpib_view *v)
{
	uint64_t last;

	mpib_events_after(UINT64_MAX, NULL, 0, &last);
	return mpib_view_events(v, last > EVENTS ? last - EVENTS : 0);
}

static json_t *stats_time(const struct mpib_view *v)
{
	(void)v;
	return json_real((double)mpib_clock_ns(CLOCK_REALTIME) / 1e9);
}

static const struct {
	const char *key;
	mpib_view_fn *fn;
	mpib_view_part_fn *part; /* used instead of `fn` for long lists */
} keys[] = {
	{ "time", stats_time, NULL },
	{ "info", mpib_view_info, NULL },
	{ "rails", mpib_view_rails, NULL },
	{ "devices", mpib_view_devices, NULL },
	{ "clients", mpib_view_clients, NULL },
	{ "conns", NULL, mpib_view_conns_part },
	{ "lanes", mpib_view_lanes, NULL },
	{ "peers", mpib_view_peers, NULL },
	{ "events", stats_events, NULL },
};

#define KEYS (sizeof(keys) / sizeof(keys[0]))

static void stats_part(struct mpib_texts *t, const struct mpib_view *v)
{
	struct mpib_view_part *part = &t->part;

	if (part->at == 0)
		fprintf(part->out, "%c\"%s\":", t->key ? ',' : '{',
			keys[t->key].key);
	part->more = false;
	if (keys[t->key].part)
		keys[t->key].part(v, 0, part);
	else
		mpib_view_dump(part, keys[t->key].fn(v));
	if (part->more)
		return;
	part->at = 0;
	part->listed = false;
	part->more = ++t->key < KEYS;
	if (!part->more)
		fputc('}', part->out);
}

static void texts_on_next(void *arg);

/* Take the next snapshot if a text is wanted and no text is in progress. */
static void texts_want(struct mpib_texts *t)
{
	uint64_t now = mpib_loop_now(t->gather->loop), at = t->told_ns + PACE;

	if (t->wanted && !t->asked && !t->timer.armed)
		mpib_timer_arm(t->gather->loop, &t->timer,
			       t->told_ns && now < at ? at - now : 0,
			       texts_on_next, t);
}

/* Make the next part of the first requested text. */
static void texts_part(struct mpib_texts *t)
{
	enum mpib_text which = (enum mpib_text)__builtin_ctz(t->asked);
	const struct mpib_view *v = &t->gather->view;
	char *text;

	if (which == MPIB_TEXT_METRICS) {
		text = mpib_metrics_text(v);
	} else {
		if (!mpib_view_part_begin(&t->part))
			t->part.failed = true;
		else if (which == MPIB_TEXT_HISTORY)
			mpib_view_history_part(v, HOUR_S, &t->part);
		else
			stats_part(t, v);
		if (t->part.more)
			return;
		t->key = 0;
		text = mpib_view_part_end(&t->part);
	}
	t->asked &= (uint8_t) ~(1u << which);
	t->wanted &= (uint8_t) ~(1u << which);
	t->fn(t->arg, which, text);
}

static void texts_on_part(void *arg)
{
	struct mpib_texts *t = arg;
	uint64_t since = mpib_loop_now(t->gather->loop), took = 0;

	while (t->asked && took < BUDGET) {
		texts_part(t);
		took = mpib_loop_now(t->gather->loop) - since;
	}
	if (t->asked) {
		mpib_timer_arm(t->gather->loop, &t->timer, took, texts_on_part,
			       t);
		return;
	}
	t->keeps = false;
	mpib_gather_release(t->gather);
	t->told_ns = mpib_loop_now(t->gather->loop);
	texts_want(t);
}

static void texts_on_view(void *arg, const struct mpib_view *v)
{
	struct mpib_texts *t = arg;
	unsigned asked = t->asked;

	if (v) {
		mpib_gather_keep(t->gather);
		t->keeps = true;
		mpib_timer_arm(t->gather->loop, &t->timer, 0, texts_on_part, t);
		return;
	}
	t->asked = 0;
	for (unsigned i = 0; i < MPIB_TEXTS; i++) {
		if (asked >> i & 1)
			t->fn(t->arg, i, NULL);
	}
	texts_want(t);
}

static void texts_on_next(void *arg)
{
	struct mpib_texts *t = arg;

	t->asked = t->wanted;
	t->wanted = 0;
	mpib_gather_ask(t->gather, &t->wait, texts_on_view, t);
}

void mpib_texts_ask(struct mpib_texts *t, enum mpib_text which)
{
	t->wanted |= (uint8_t)(1u << which);
	texts_want(t);
}

void mpib_texts_stop(struct mpib_texts *t)
{
	mpib_gather_forget(t->gather, &t->wait);
	mpib_timer_disarm(t->gather->loop, &t->timer);
	if (t->keeps)
		mpib_gather_release(t->gather);
	t->keeps = false;
	free(mpib_view_part_end(&t->part));
}
