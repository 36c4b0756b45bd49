/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpib-agent: writes hints (SUP's share of each sending connection) for the
 * proxies of this node that run in advanced mode. One thread.
 */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agent/stats.h"
#include "base/log.h"
#include "ctl/dial.h"

#define MPIB_AGENT_SERVES "mpib"

struct agent_options {
	const char *dir, *user;
	const char *run_dir[MPIB_AGENT_PROXIES];
	unsigned proxies;
	unsigned interval_ms;
	struct mpib_agent_rule rule;
};

struct agent_run {
	struct mpib_agent agent;
	const struct agent_options *options;
	struct mpib_timer timer;
	struct mpib_io signal_watch;
	int signals;
	bool told[MPIB_AGENT_PROXIES]; /* warned: it is silent */
};

static void agent_help(void)
{
	printf("usage: mpib-agent [--dir DIR] [--run-dir DIR]... "
	       "[--user NAME]\n"
	       "                  [--interval MS] RULE\n"
	       "Give mpib-proxy, in advanced mode, the share of each connection "
	       "on SUP.\n\n"
	       "  static N           N of 1024\n"
	       "  weights SOUT:SUP   in this ratio\n"
	       "  balance            so that both rails end together\n"
	       "  drain RAIL         nothing on sout, or on sup\n\n"
	       "  --dir DIR          socket and hints; default MPIB_AGENT_DIR, "
	       "else " MPIB_AGENT_DIR "\n"
	       "  --run-dir DIR      of a proxy that balance looks at; may be "
	       "repeated\n"
	       "  --user NAME        of the proxies served, besides root's and "
	       "one's own;\n"
	       "                     default " MPIB_AGENT_SERVES "\n"
	       "  --interval MS      between two looks; default 100\n"
	       "  --help, --version\n");
}

static bool take_ms(const char *text, unsigned *ms)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	*ms = (unsigned)n;
	return isdigit((unsigned char)*text) && !*end && n > 0 && n <= UINT_MAX;
}

/* Negative: the options are good. Else the exit status of the process. */
static int agent_parse(int argc, char **argv, struct agent_options *o,
		       char *why)
{
	static const struct option list[] = {
		{ "dir", required_argument, NULL, 'd' },
		{ "run-dir", required_argument, NULL, 's' },
		{ "user", required_argument, NULL, 'u' },
		{ "interval", required_argument, NULL, 'i' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	const char *dir = getenv("MPIB_AGENT_DIR");
	int c;

	*o = (struct agent_options){ .dir = dir && *dir ? dir : MPIB_AGENT_DIR,
				     .user = MPIB_AGENT_SERVES,
				     .interval_ms = 100 };
	opterr = 0;
	while ((c = getopt_long(argc, argv, ":", list, NULL)) != -1) {
		if (c == 'd') {
			o->dir = optarg;
		} else if (c == 's' && o->proxies < MPIB_AGENT_PROXIES) {
			o->run_dir[o->proxies++] = optarg;
		} else if (c == 'u') {
			o->user = optarg;
		} else if (c == 'i' && take_ms(optarg, &o->interval_ms)) {
			continue;
		} else if (c == 'h') {
			agent_help();
			return MPIB_EXIT_OK;
		} else if (c == 'V') {
			printf("mpib-agent %s\n", MPIB_VERSION);
			return MPIB_EXIT_OK;
		} else {
			snprintf(why, MPIB_AGENT_WHY,
				 "command line: %.64s %s (see --help)",
				 argv[optind - 1],
				 c == ':' ? "wants a value" : "cannot be used");
			return MPIB_EXIT_USAGE;
		}
	}
	if (o->proxies == 0)
		o->proxies = 1; /* run_dir[0] is NULL: the default directory */
	return mpib_agent_rule_parse(&o->rule, argv + optind, argc - optind,
				     why)
		       ? -1
		       : MPIB_EXIT_USAGE;
}

static void on_time(void *arg)
{
	struct agent_run *r = arg;
	char why[MPIB_AGENT_WHY];

	for (unsigned i = 0; i < r->options->proxies; i++) {
		bool ok =
			mpib_agent_look(&r->agent, r->options->run_dir[i], why);

		if (!ok && !r->told[i])
			mpib_warn("%s", why);
		r->told[i] = !ok;
	}
	mpib_timer_arm(&r->agent.loop, &r->timer,
		       r->options->interval_ms * MPIB_MSEC, on_time, r);
}

static void agent_on_signal(void *arg, uint32_t events)
{
	struct agent_run *r = arg;

	(void)events;
	mpib_loop_stop(&r->agent.loop);
}

static int agent_catch_signals(struct agent_run *r)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	r->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (r->signals < 0)
		return -errno;
	return mpib_loop_add(&r->agent.loop, &r->signal_watch, r->signals,
			     EPOLLIN, agent_on_signal, r);
}

int main(int argc, char **argv)
{
	char why[MPIB_AGENT_WHY] = "";
	struct agent_options o;
	struct agent_run run = { .options = &o };
	int rc = agent_parse(argc, argv, &o, why);

	if (rc >= 0) {
		if (*why)
			fprintf(stderr, "mpib-agent: %s\n", why);
		return rc;
	}
	if (mpib_agent_start(&run.agent, o.dir, o.user, o.rule.share, why) <
	    0) {
		fprintf(stderr, "mpib-agent: %s\n", why);
		return MPIB_EXIT_FAILED;
	}
	rc = agent_catch_signals(&run);
	if (rc == 0) {
		printf("ready %s\n", o.dir);
		fflush(stdout);
		if (o.rule.kind == MPIB_RULE_BALANCE)
			on_time(&run);
		rc = mpib_loop_run(&run.agent.loop);
	}
	mpib_agent_stop(&run.agent);
	return rc < 0 ? MPIB_EXIT_FAILED : MPIB_EXIT_OK;
}
