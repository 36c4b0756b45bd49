/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics/texts.h"

#include <stdlib.h>
#include <string.h>

#include "metrics/openmetrics.h"

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

	if (which == MPIB_TEXT_PROMETHEUS)
		return mpib_metrics_text(v, MPIB_METRICS_PROMETHEUS);
	if (which == MPIB_TEXT_OPENMETRICS)
		return mpib_metrics_text(v, MPIB_METRICS_OPENMETRICS);
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
