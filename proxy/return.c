/* SPDX-License-Identifier: Apache-2.0 */
/* Probe for lost devices four times a second, until a successor is started. */
#include "return.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/event.h"
#include "base/thread.h"
#include "proxy.h"

#define LOOK (MPIB_SEC / 4)
/* A proxy with a working rail serves at least this long before it starts a
 * successor. This limits how often jobs pause because of a device that fails
 * repeatedly. */
#define SERVES (30 * MPIB_SEC)

/* A probe. Opening a device may take long, so a detached thread opens it. The
 * thread owns and frees this struct. To stop waiting for the answer, the
 * control thread closes its end of the pipe. */
struct look {
	struct mpib_rail_spec spec[MPIB_RAILS_MAX];
	unsigned rails;
	bool any; /* see return.h */
	int answer; /* the pipe's writing end */
};

static void *run_look(void *arg)
{
	struct look *l = arg;
	int rc = 0;

	for (unsigned i = 0; i < l->rails && (i == 0 || (rc < 0) == l->any);
	     i++)
		rc = mpib_rail_there(&l->spec[i]);
	if (write(l->answer, &rc, sizeof(rc)) != sizeof(rc))
		mpib_debug("the probe of a lost device ends unread");
	close(l->answer);
	free(l);
	return NULL;
}

static void return_end_look(struct mpib_return *r)
{
	mpib_loop_del(&r->proxy->loop, &r->watch);
	if (r->look >= 0)
		close(r->look);
	r->look = -1;
}

/* Start a successor, but only once for the same lost rails. If the successor
 * fails, an event has the reason, and the operator decides what to do. */
static void return_succeed(struct mpib_return *r, uint32_t lost)
{
	const struct mpib_config *cfg = &r->proxy->cfg;
	const struct mpib_event_about about = { .rails = lost };
	char names[100] = "";
	size_t at = 0;

	for (unsigned i = 0; i < mpib_config_rail_total(cfg); i++) {
		if (lost >> i & 1 && at < sizeof(names))
			at += (size_t)snprintf(names + at, sizeof(names) - at,
					       "%s%s", at ? " and " : "",
					       cfg->engine.rail[i].label);
	}
	r->told = lost;
	mpib_event(MPIB_LOG_WARN, "device_back", &about,
		   "%s: works again; a successor is started to open it", names);
	mpib_upgrade_begin(&r->proxy->upgrade, "");
}

static void return_on_answer(void *arg, uint32_t events)
{
	struct mpib_return *r = arg;
	struct mpib_proxy *p = r->proxy;
	uint64_t now = mpib_loop_now(&p->loop);
	int rc;

	(void)events;
	if (read(r->look, &rc, sizeof(rc)) != sizeof(rc))
		rc = -EPIPE;
	return_end_look(r);
	if (rc < 0)
		r->there_since = 0;
	else if (!r->there_since)
		r->there_since = now;
	if (rc == 0 && p->upgrade.link < 0 &&
	    now - r->there_since >= p->cfg.engine.hold_ms * MPIB_MSEC &&
	    (r->any || now - r->since >= SERVES))
		return_succeed(r, mpib_engine_lost(p->engine));
}

static void return_look(struct mpib_return *r, uint32_t lost)
{
	struct mpib_proxy *p = r->proxy;
	struct look *l = calloc(1, sizeof(*l));
	int fd[2];

	if (!l)
		return;
	if (pipe2(fd, O_CLOEXEC) < 0) {
		free(l);
		return;
	}
	for (unsigned i = 0; i < mpib_config_rail_total(&p->cfg); i++) {
		if (lost >> i & 1)
			l->spec[l->rails++] = p->cfg.engine.rail[i];
	}
	r->any = l->any = l->rails == mpib_config_rail_total(&p->cfg);
	l->answer = fd[1];
	r->look = fd[0];
	if (mpib_loop_add(&p->loop, &r->watch, r->look, EPOLLIN,
			  return_on_answer, r) < 0 ||
	    mpib_thread_create(NULL, run_look, l) < 0) {
		return_end_look(r);
		close(fd[1]);
		free(l);
	}
}

static void return_on_tick(void *arg)
{
	struct mpib_return *r = arg;
	uint32_t lost = mpib_engine_lost(r->proxy->engine);

	mpib_timer_arm(&r->proxy->loop, &r->timer, LOOK, return_on_tick, r);
	if (lost == r->told || r->look >= 0)
		return;
	return_look(r, lost);
}

void mpib_return_start(struct mpib_return *r, struct mpib_proxy *p)
{
	r->proxy = p;
	r->since = mpib_loop_now(&p->loop);
	r->look = -1;
	mpib_timer_arm(&p->loop, &r->timer, LOOK, return_on_tick, r);
}
