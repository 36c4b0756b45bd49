/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots for all readers, the history, and HTTP. */
#include "publish.h"

#include "base/clock.h"
#include "base/log.h"

static void sample_on_time(void *arg);

static void sample_on_view(void *arg, const struct mpib_view *v)
{
	struct mpib_metrics *m = arg;

	if (v)
		mpib_history_add(m->history, v, mpib_clock_ns(CLOCK_REALTIME));
	mpib_timer_arm(m->gather.loop, &m->next_sample,
		       MPIB_HISTORY_PERIOD_S * MPIB_SEC, sample_on_time, m);
}

static void sample_on_time(void *arg)
{
	struct mpib_metrics *m = arg;

	mpib_gather_ask(&m->gather, &m->sample, sample_on_view, m);
}

static void keep_history(struct mpib_metrics *m, struct mpib_history *history)
{
	if (mpib_history_init(history,
			      mpib_config_rail_total(m->gather.view.cfg)) < 0) {
		mpib_warn("history: out of memory: none is kept");
		return;
	}
	m->history = history;
	sample_on_time(m);
}

int mpib_metrics_open(struct mpib_metrics *m, struct mpib_loop *loop,
		      struct mpib_engine *engine, const struct mpib_view *view,
		      struct mpib_history *history, char *why)
{
	int rc = 0;

	mpib_gather_init(&m->gather, loop, engine, view);
	mpib_gather_init(&m->kept, loop, engine, view);
	m->open = true;
	m->http = NULL;
	if (view->cfg->metrics_listen[0])
		rc = mpib_http_open(&m->gather, view->cfg, &m->http, why);
	if (rc < 0)
		mpib_metrics_stop(m);
	else
		keep_history(m, history);
	return rc;
}

void mpib_metrics_stop(struct mpib_metrics *m)
{
	if (!m->open)
		return;
	m->open = false;
	if (m->http)
		mpib_http_close(m->http);
	m->http = NULL;
	mpib_timer_disarm(m->gather.loop, &m->next_sample);
	mpib_gather_stop(&m->gather);
	mpib_gather_stop(&m->kept);
}
