/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpib-agent: writes hints (SUP's share of each sending connection) for the
 * proxies of this node. One thread.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agent/decide.h"
#include "base/log.h"
#include "base/text.h"
#include "ctl/dial.h"

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

static void agent_help(void)
{
	printf("usage: mpib-agent [OPTIONS] RULE\n"
	       "       mpib-agent [OPTIONS] --config FILE [--check-config]\n"
	       "Tell mpib-proxy, in mode advanced or adaptive, the share of each\n"
	       "connection on SUP. mpibctl agent and mpibctl why show it.\n\n"
	       "  static N           N of 1024\n"
	       "  adaptive           the share that the proxy measures\n"
	       "  drain RAIL         nothing on sout, or on sup\n\n"
	       "  --config FILE      rules and limits: mpib-agent(8); read "
	       "again by SIGHUP\n"
	       "  --check-config     check the file, print its errors, exit\n"
	       "  --dry-run          report decisions without applying them\n"
	       "  --dir DIR          socket and hints; default MPIB_AGENT_DIR, "
	       "else " MPIB_AGENT_DIR "\n"
	       "  --run-dir DIR      run directory of the proxy to query\n"
	       "  --user NAME        serve proxies of this user, too, besides "
	       "root's and\n"
	       "                     your own; default " SERVES "\n"
	       "  --help, --version\n");
}

/* Apply an option. Return false if its value is wrong. */
static bool take_option(struct agent_run *r, int c)
{
	switch (c) {
	case 'd':
		r->dir = optarg;
		return true;
	case 's':
		r->policy.run_dir = optarg;
		return true;
	case 'u':
		r->user = optarg;
		return true;
	case 'c':
		r->config = optarg;
		return true;
	case 'C':
		return r->check = true;
	case 'n':
		return r->policy.dry = true;
	default:
		return false;
	}
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

/* Return a negative number if the program must run. Otherwise return its exit
 * status, and write the error, if any, to `why`. */
static int take_command_line(struct agent_run *r, int argc, char **argv,
			     char *why)
{
	static const struct option list[] = {
		{ "dir", required_argument, NULL, 'd' },
		{ "run-dir", required_argument, NULL, 's' },
		{ "user", required_argument, NULL, 'u' },
		{ "config", required_argument, NULL, 'c' },
		{ "check-config", no_argument, NULL, 'C' },
		{ "dry-run", no_argument, NULL, 'n' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":", list, NULL)) != -1) {
		if (c == 'h') {
			agent_help();
			return MPIB_EXIT_OK;
		}
		if (c == 'V') {
			printf("mpib-agent %s\n", MPIB_VERSION);
			return MPIB_EXIT_OK;
		}
		if (take_option(r, c))
			continue;
		mpib_agent_bad(why, "command line: %.64s %s (see --help)",
			       mpib_option_word(argv, ""),
			       c == ':' ? "wants a value" : "cannot be used");
		return MPIB_EXIT_USAGE;
	}
	if (!take_rule_words(r, argv + optind, argc - optind, why))
		return MPIB_EXIT_USAGE;
	return r->check ? MPIB_EXIT_OK : -1;
}

int main(int argc, char **argv)
{
	/* Static, because the agent's slots are too large for the stack. */
	static struct agent_run run = { .user = SERVES };
	const char *dir = getenv("MPIB_AGENT_DIR");
	char why[MPIB_AGENT_WHY] = "";
	int rc;

	mpib_log_begin();
	run.dir = dir && *dir ? dir : MPIB_AGENT_DIR;
	run.policy.agent = &run.agent;
	rc = take_command_line(&run, argc, argv, why);
	if (rc < 0 && mpib_agent_start(&run.agent, run.dir, run.user, why) < 0)
		rc = MPIB_EXIT_FAILED;
	if (rc >= 0) {
		if (*why)
			fprintf(stderr, "mpib-agent: %s\n", why);
		return rc;
	}
	atexit(mpib_log_drain);
	/* If the log's thread cannot start, lines are written directly. */
	mpib_log_start();
	run.agent.taken = agent_on_taken;
	run.agent.ctx = &run;
	return agent_serve(&run);
}
