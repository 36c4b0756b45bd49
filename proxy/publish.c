/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing the metrics socket and HTTP. */
#include "publish.h"

#include <stdio.h>
#include <string.h>

int mpib_metrics_open(struct mpib_metrics *m, struct mpib_loop *loop,
		      struct mpib_engine *engine, int fd,
		      const struct mpib_view *view, char *why)
{
	int rc;

	mpib_gather_init(&m->gather, loop, engine, view);
	rc = mpib_scrapes_open(&m->gather, fd, &m->scrapes);
	if (rc < 0) {
		m->scrapes = NULL;
		snprintf(why, MPIB_WHY_MAX, "metrics: %s", strerror(-rc));
		return rc;
	}
	m->http = NULL;
	if (view->cfg->metrics_listen[0])
		rc = mpib_http_open(&m->gather, view->cfg->metrics_listen,
				    &m->http, why);
	if (rc < 0)
		mpib_metrics_stop(m);
	return rc;
}

void mpib_metrics_stop(struct mpib_metrics *m)
{
	if (!m->scrapes)
		return;
	if (m->http)
		mpib_http_close(m->http);
	m->http = NULL;
	mpib_scrapes_close(m->scrapes);
	m->scrapes = NULL;
	mpib_gather_stop(&m->gather);
}
