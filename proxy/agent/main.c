/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpib-agent: writes hints (SUP's share of each sending connection) for the
 * proxies of this node. One thread.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agent/options.h"
#include "agent/status.h"
#include "base/log.h"
#include "ctl/agent_file.h"
#include "ctl/dial.h"
#include "ctl/show/views.h"

#define WIDTH 100000u

struct agent_run {
	struct mpib_agent agent;
	struct mpib_agent_policy policy;
	const struct mpib_agent_options *options;
	struct mpib_timer timer;
	struct mpib_io signal_watch;
	int signals;
	bool told[MPIB_AGENT_PROXIES]; /* warned: it is silent */
	uint64_t looked_s; /* at ports and windows, and status was written */
	uint64_t asked_s; /* what agents of peers say */
	bool peers_told; /* warned: a proxy does not say */
	unsigned left_ms; /* until proxies are looked at */
	int status_rc; /* of its last writing: each error is told once */
};

/* What agents of peers say, and what they are told; rules of a file alone heed it. */
static void agent_exchange(struct agent_run *r)
{
	struct mpib_agent_policy *p = &r->policy;
	struct mpib_agent_summary s;
	char why[MPIB_AGENT_WHY];
	bool ok;

	if (!p->dry) {
		mpib_agent_summary(p, &s);
		mpib_agent_tell(&r->agent, &s);
	}
	if (!p->conf.path[0] || p->now.s - r->asked_s < MPIB_AGENT_PEERS_S)
		return;
	r->asked_s = p->now.s;
	ok = mpib_agent_peers_look(&p->peers, r->options->run_dir,
				   r->options->proxies, p->now.s, why);
	if (!ok && !r->peers_told)
		mpib_warn("what agents of peers say is not known: %s", why);
	r->peers_told = !ok;
}

/* Ports, windows and the status: once a second. */
static void agent_each_second(struct agent_run *r)
{
	struct mpib_agent_policy *p = &r->policy;

	mpib_agent_ports_look(&p->ports, &p->conf, &p->now);
	if (p->conf.windows[0])
		mpib_agent_windows_look(&p->windows, p->conf.windows);
	agent_exchange(r);
}

static void agent_look(struct agent_run *r, unsigned i)
{
	char why[MPIB_AGENT_WHY];
	bool ok = mpib_agent_look(&r->policy, r->options->run_dir[i], why);

	if (!ok && !r->told[i])
		mpib_warn("%s", why);
	r->told[i] = !ok;
}

static void agent_tell(struct agent_run *r)
{
	int rc = mpib_agent_status_write(&r->policy);

	if (rc < 0 && rc != r->status_rc)
		mpib_warn("%s/" MPIB_AGENT_STATUS ": %s (is the disk full?)",
			  r->agent.dir, strerror(-rc));
	r->status_rc = rc;
}

static void agent_look_at_all(struct agent_run *r)
{
	r->left_ms = r->options->interval_ms;
	for (unsigned i = 0;
	     mpib_agent_conf_looks(&r->policy.conf) && i < r->options->proxies;
	     i++)
		agent_look(r, i);
}

static void on_time(void *arg)
{
	struct agent_run *r = arg;
	struct mpib_agent_policy *p = &r->policy;
	unsigned tick;
	bool second;

	mpib_agent_clock(&p->now);
	second = p->now.s != r->looked_s;
	r->looked_s = p->now.s;
	if (second)
		agent_each_second(r);
	if (r->left_ms == 0)
		agent_look_at_all(r);
	mpib_agent_decide_all(p);
	if (second)
		agent_tell(r);
	tick = r->left_ms < 1000 ? r->left_ms : 1000;
	r->left_ms -= tick;
	mpib_timer_arm(&r->agent.loop, &r->timer, tick * MPIB_MSEC, on_time, r);
}

/* A proxy is about to be told of its slot. */
static void on_taken(void *ctx, unsigned slot)
{
	struct agent_run *r = ctx;

	mpib_agent_clock(&r->policy.now);
	mpib_agent_decide(&r->policy, slot);
}

static void agent_reload(struct agent_run *r)
{
	struct mpib_agent_policy *p = &r->policy;
	char why[MPIB_AGENT_WHY];

	if (!r->options->config) {
		mpib_warn("nothing to reload: there is no --config");
	} else if (mpib_agent_reload(p, r->options->config, why)) {
		p->fault[0] = '\0';
		mpib_info("%s: %u rules hold", p->conf.path, p->conf.rules);
	} else {
		memcpy(p->fault, why, sizeof(p->fault));
		mpib_warn("what held before holds: %s", why);
	}
	r->looked_s = 0; /* tell it at once */
	r->left_ms = 0;
	mpib_timer_disarm(&r->agent.loop, &r->timer);
	on_time(r);
}

static void agent_on_signal(void *arg, uint32_t events)
{
	struct agent_run *r = arg;
	struct signalfd_siginfo si;

	(void)events;
	if (read(r->signals, &si, sizeof(si)) != sizeof(si))
		return;
	if (si.ssi_signo == SIGHUP)
		agent_reload(r);
	else
		mpib_loop_stop(&r->agent.loop);
}

static int agent_catch_signals(struct agent_run *r)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	r->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (r->signals < 0)
		return -errno;
	return mpib_loop_add(&r->agent.loop, &r->signal_watch, r->signals,
			     EPOLLIN, agent_on_signal, r);
}

static int agent_fail(int status, const char *why)
{
	if (*why)
		fprintf(stderr, "mpib-agent: %s\n", why);
	return status;
}

static int agent_status(const struct mpib_agent_options *o)
{
	char why[MPIB_DIAL_WHY];
	json_t *data;

	if (mpib_agent_file_read(o->dir, MPIB_AGENT_USER, &data, why,
				 sizeof(why)) < 0)
		return agent_fail(MPIB_EXIT_FAILED, why);
	if (o->json)
		json_dumpf(data, stdout, JSON_INDENT(2));
	else
		mpib_ctl_view_print(mpib_ctl_view("agent"), data, WIDTH,
				    stdout);
	if (o->json)
		putchar('\n');
	json_decref(data);
	return fflush(stdout) == 0 ? MPIB_EXIT_OK : MPIB_EXIT_FAILED;
}

static int agent_serve(struct agent_run *r)
{
	int rc = agent_catch_signals(r);

	if (rc == 0) {
		on_time(r);
		printf("ready %s\n", r->options->dir);
		fflush(stdout);
		rc = mpib_loop_run(&r->agent.loop);
	}
	mpib_agent_status_remove(&r->agent);
	mpib_agent_stop(&r->agent);
	return rc < 0 ? MPIB_EXIT_FAILED : MPIB_EXIT_OK;
}

int main(int argc, char **argv)
{
	/* The agent's slots are too many for the stack. */
	static struct agent_run run;
	static struct mpib_agent_options o;
	char why[MPIB_AGENT_WHY] = "";
	struct mpib_agent_policy *p = &run.policy;
	int rc;

	mpib_log_begin();
	rc = mpib_agent_options_parse(argc, argv, &o, why);
	if (rc >= 0)
		return agent_fail(rc, why);
	if (o.status)
		return agent_status(&o);
	run.options = &o;
	p->agent = &run.agent;
	p->ports.sysfs = o.sysfs;
	p->dry = o.dry;
	p->age = 1;
	if (!o.config)
		p->conf = (struct mpib_agent_conf){ .rules = 1,
						    .rule = { o.rule } };
	else if (!mpib_agent_reload(p, o.config, why))
		return agent_fail(MPIB_EXIT_USAGE, why);
	if (o.check)
		return MPIB_EXIT_OK;
	if (mpib_agent_start(&run.agent, o.dir, o.user, 0, why) < 0)
		return agent_fail(MPIB_EXIT_FAILED, why);
	atexit(mpib_log_drain);
	mpib_log_start(); /* without a thread, lines are written at once */
	run.agent.taken = on_taken;
	run.agent.ctx = &run;
	return agent_serve(&run);
}
