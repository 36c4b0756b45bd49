/* SPDX-License-Identifier: Apache-2.0 */
/* Probing for lost devices four times a second, and the hand-over that opens them. */
#include "handover/readopt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/event.h"
#include "base/thread.h"
#include "proxy.h"
#include "view/view.h"

#define LOOK (MPIB_SEC / 4)
/* Pause after a failed try, whose cause may last. */
#define RETRY (30 * MPIB_SEC)

/* Opening a device may take long, so a detached thread does it. The thread owns
 * and frees this; the control thread gives up waiting by closing the pipe. */
struct look {
	struct mpib_rail_spec spec[MPIB_RAILS_MAX];
	unsigned rails;
	bool any; /* no rail of any device is left, so one is enough */
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
		mpib_debug("nobody asks for a lost device any more");
	close(l->answer);
	free(l);
	return NULL;
}

static void readopt_on_tick(void *arg);

static void end_look(struct mpib_readopt *r)
{
	mpib_loop_del(&r->proxy->loop, &r->watch);
	if (r->look >= 0)
		close(r->look);
	r->look = -1;
}

/* "SUP", "gpu0.SUP and gpu1.SOUT". Returns buf. */
static const char *name_of(const struct mpib_readopt *r, uint32_t lost,
			   char *buf, size_t len)
{
	const struct mpib_config *cfg = &r->proxy->cfg;
	size_t at = 0;

	buf[0] = '\0';
	for (unsigned i = 0; i < mpib_config_rail_total(cfg) && at < len; i++) {
		char label[MPIB_RAIL_LABEL_MAX];

		if (lost >> i & 1)
			at += (size_t)snprintf(
				buf + at, len - at, "%s%s", at ? " and " : "",
				mpib_config_rail_label(cfg, i, label,
						       sizeof(label)));
	}
	return buf;
}

/* Start /proc/self/exe, not the file at its path: a package may have replaced
 * that with another version, which only an operator should start. */
static void readopt_hand_over(struct mpib_readopt *r, uint32_t lost)
{
	struct mpib_event_about about = { .rails = lost };
	char name[100];

	r->not_before = mpib_loop_now(&r->proxy->loop) + RETRY;
	mpib_event(MPIB_LOG_WARN, "readopt", &about,
		   "%s: the device is there again, a process that opens it "
		   "anew takes over",
		   name_of(r, lost, name, sizeof(name)));
	r->trying = true;
	mpib_upgrade_start(&r->proxy->upgrade, "/proc/self/exe", false);
}

static void readopt_on_answer(void *arg, uint32_t events)
{
	struct mpib_readopt *r = arg;
	struct mpib_proxy *p = r->proxy;
	uint64_t now = mpib_loop_now(&p->loop);
	uint64_t hold = p->cfg.engine.hold_ms * MPIB_MSEC;
	uint32_t lost = mpib_engine_lost(p->engine);
	int rc;

	(void)events;
	if (read(r->look, &rc, sizeof(rc)) != sizeof(rc))
		rc = -EPIPE;
	end_look(r);
	if (rc < 0)
		r->there_since = 0;
	else if (!r->there_since)
		r->there_since = now;
	if (rc < 0 || now < r->not_before || !p->cfg.readopt ||
	    p->upgrade.state != MPIB_UPGRADE_NONE)
		return;
	now -= r->there_since;
	if (now >= hold)
		readopt_hand_over(r, lost);
	else if (hold - now < LOOK)
		mpib_timer_arm(&p->loop, &r->timer, hold - now, readopt_on_tick,
			       r);
}

static void begin_look(struct mpib_readopt *r, uint32_t lost)
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
	l->any = l->rails == mpib_config_rail_total(&p->cfg);
	l->answer = fd[1];
	r->look = fd[0];
	if (mpib_loop_add(&p->loop, &r->watch, r->look, EPOLLIN,
			  readopt_on_answer, r) < 0 ||
	    mpib_thread_create(NULL, run_look, l) < 0) {
		end_look(r);
		close(fd[1]);
		free(l);
	}
}

static void tell_failure(struct mpib_readopt *r, uint32_t lost)
{
	const struct mpib_event_about about = { .rails = lost };
	char name[100];

	r->trying = false;
	mpib_event(MPIB_LOG_WARN, "readopt", &about,
		   "%s: the device stays unused, tried again in %llu s: %s",
		   name_of(r, lost, name, sizeof(name)), RETRY / MPIB_SEC,
		   r->proxy->upgrade.error);
}

/* failover.readopt is off: log that, once for each set of lost rails. */
static void leave_it(struct mpib_readopt *r, uint32_t lost)
{
	const struct mpib_event_about about = { .rails = lost };
	char name[100];

	r->there_since = 0;
	if (r->left == lost)
		return;
	r->left = lost;
	mpib_event(MPIB_LOG_WARN, "readopt", &about,
		   "%s: the device stays unused, for failover.readopt is no: "
		   "once it is there again, mpibctl upgrade opens it anew",
		   name_of(r, lost, name, sizeof(name)));
}

static void readopt_on_tick(void *arg)
{
	struct mpib_readopt *r = arg;
	struct mpib_proxy *p = r->proxy;
	uint32_t lost = mpib_engine_lost(p->engine);

	mpib_timer_arm(&p->loop, &r->timer, LOOK, readopt_on_tick, r);
	if (p->upgrade.state != MPIB_UPGRADE_NONE || !lost)
		return;
	if (r->trying)
		tell_failure(r, lost);
	if (!p->cfg.readopt)
		leave_it(r, lost);
	else if (r->look < 0)
		begin_look(r, lost);
}

void mpib_readopt_start(struct mpib_readopt *r, struct mpib_proxy *p,
			uint32_t lost)
{
	char name[100];

	r->proxy = p;
	r->look = -1;
	r->count += (uint32_t)__builtin_popcount(lost);
	if (lost)
		mpib_event(MPIB_LOG_WARN, "readopt",
			   &(struct mpib_event_about){ .rails = lost },
			   "%s: the device that had failed is opened anew",
			   name_of(r, lost, name, sizeof(name)));
	mpib_timer_arm(&p->loop, &r->timer, LOOK, readopt_on_tick, r);
}

void mpib_readopt_stop(struct mpib_readopt *r)
{
	if (!r->proxy)
		return;
	mpib_timer_disarm(&r->proxy->loop, &r->timer);
	end_look(r);
}
