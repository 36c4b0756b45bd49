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

#include "agent/decide.h"
#include "base/log.h"
#include "ctl/dial.h"
#include "ctl/options.h"

#define SERVES "mpib"

#define LOOK (1000 * MPIB_MSEC)

struct agent_run {
	struct mpib_agent agent;
	struct mpib_agent_policy policy;
	const char *dir, *user;
	const char *config; /* NULL: the command line has the rule */
	bool check;
	struct mpib_timer timer;
	struct mpib_io signal_watch;
	int signals;
};

/* Once a second: query the proxy, decide, and send summaries to all proxies. */
static void agent_on_time(void *arg)
{
	struct agent_run *r = arg;
	struct mpib_agent_policy *p = &r->policy;
	struct mpib_agent_summary s;

	mpib_agent_clock(&p->now);
	mpib_agent_look(p);
	mpib_agent_decide_all(p);
	mpib_agent_summary(p, &s);
	mpib_agent_tell(&r->agent, &s);
	mpib_timer_arm(&r->agent.loop, &r->timer, LOOK, agent_on_time, r);
}

/* Write the first hint of a new slot, before the proxy learns the slot's
 * number. */
static void agent_on_taken(void *ctx, unsigned slot)
{
	struct agent_run *r = ctx;

	mpib_agent_clock(&r->policy.now);
	mpib_agent_decide(&r->policy, slot);
}

static void agent_reload(struct agent_run *r)
{
	struct mpib_agent_policy *p = &r->policy;
	char why[MPIB_AGENT_WHY];

	if (!r->config) {
		mpib_warn("nothing to reload: --config was not given");
	} else if (mpib_agent_reload(p, r->config, why)) {
		p->fault[0] = '\0';
		mpib_info("%s: %u rules hold", p->conf.path, p->conf.rules);
	} else {
		memcpy(p->fault, why, sizeof(p->fault));
		mpib_warn("the previous settings remain: %s", why);
	}
	mpib_timer_disarm(&r->agent.loop, &r->timer);
	agent_on_time(r);
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
		r->agent.loop.stop = true;
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

static int agent_serve(struct agent_run *r)
{
	int rc = agent_catch_signals(r);

	if (rc == 0) {
		agent_on_time(r);
		printf("ready %s\n", r->dir);
		fflush(stdout);
		rc = mpib_loop_run(&r->agent.loop);
	}
	mpib_agent_stop(&r->agent);
	return rc < 0 ? MPIB_EXIT_FAILED : MPIB_EXIT_OK;
}

/* Static, because the agent's slots are too large for the stack. */
static struct agent_run run = { .user = SERVES };
static bool help, version;

static const struct mpib_option options[] = {
	{ "config", 0, "FILE",
	  "rules and limits: mpib-agent(8); read again by SIGHUP",
	  &run.config },
	{ "check-config", 0, NULL, "check the file, print its errors, exit",
	  &run.check },
	{ "dry-run", 0, NULL, "report decisions without applying them",
	  &run.policy.dry },
	{ "dir", 0, "DIR",
	  "socket and hints; default MPIB_AGENT_DIR, else " MPIB_AGENT_DIR,
	  &run.dir },
	MPIB_OPTION_RUN_DIR(&run.policy.run_dir),
	{ "user", 0, "NAME",
	  "serve proxies of this user, too, besides root's and your own; "
	  "default " SERVES,
	  &run.user },
	{ "help", 'h', NULL, "print this", &help },
	{ "version", 'V', NULL, "print the version", &version },
	{ 0 },
};

static int agent_help(void)
{
	printf("usage: mpib-agent [OPTION]... RULE\n"
	       "       mpib-agent [OPTION]... --config FILE [--check-config]\n"
	       "Tell mpib-proxy, in mode advanced or adaptive, the share of each\n"
	       "connection on SUP. mpibctl agent and mpibctl why show it.\n\n"
	       "  static N               N of 1024\n"
	       "  adaptive               the share that the proxy measures\n"
	       "  drain RAIL             nothing on sout, or on sup\n\n");
	mpib_options_help(options);
	return MPIB_EXIT_OK;
}

/* Parse the rule after the options. */
static bool take_rule_words(struct agent_run *r, char **words, int count,
			    char *why)
{
	struct mpib_agent_conf *conf = &r->policy.conf;

	if (r->config && count)
		return mpib_agent_bad(why,
				      "command line: %.64s: --config excludes "
				      "rules (omit one of them)",
				      words[0]);
	if (r->config)
		return mpib_agent_reload(&r->policy, r->config, why);
	mpib_agent_conf_init(conf);
	conf->rules = 1;
	return mpib_agent_rule_parse(&conf->rule[0], words, count, why);
}

static void drain_log(void)
{
	mpib_writer_drain(&mpib_log_writer);
}

static int agent_fail(int status, const char *why)
{
	fprintf(stderr, "mpib-agent: %s\n", why);
	return status;
}

int main(int argc, char **argv)
{
	const char *dir = getenv("MPIB_AGENT_DIR");
	char why[MPIB_AGENT_WHY];
	int first;

	mpib_log_begin();
	run.dir = dir && *dir ? dir : MPIB_AGENT_DIR;
	run.policy.agent = &run.agent;
	first = mpib_options_read(options, "mpib-agent", argc, argv, why,
				  sizeof(why));
	if (first < 0)
		return agent_fail(MPIB_EXIT_USAGE, why);
	if (help)
		return agent_help();
	if (version) {
		printf("mpib-agent %s\n", MPIB_VERSION);
		return MPIB_EXIT_OK;
	}
	if (!take_rule_words(&run, argv + first, argc - first, why))
		return agent_fail(MPIB_EXIT_USAGE, why);
	if (run.check)
		return MPIB_EXIT_OK;
	if (mpib_agent_start(&run.agent, run.dir, run.user, why) < 0)
		return agent_fail(MPIB_EXIT_FAILED, why);
	atexit(drain_log);
	/* If the log's thread cannot start, lines are written directly. */
	mpib_writer_start(&mpib_log_writer);
	run.agent.taken = agent_on_taken;
	run.agent.ctx = &run;
	return agent_serve(&run);
}
