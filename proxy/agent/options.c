/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing the agent's command line. */
#include "agent/options.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "base/text.h"
#include "ctl/dial.h"

#define SERVES "mpib"

static void agent_help(void)
{
	printf("usage: mpib-agent [OPTIONS] RULE\n"
	       "       mpib-agent [OPTIONS] --config FILE [--check-config]\n"
	       "       mpib-agent status [--dir DIR] [--json]\n"
	       "Give mpib-proxy, in mode advanced or adaptive, the share of each\n"
	       "connection on SUP.\n\n"
	       "  static N           N of 1024\n"
	       "  weights SOUT:SUP   in this ratio\n"
	       "  balance            so that both rails end together\n"
	       "  adaptive           as the proxy measures\n"
	       "  drain RAIL         nothing on sout, or on sup\n\n"
	       "  --config FILE      rules, ports, windows: mpib-agent(8); read "
	       "again by SIGHUP\n"
	       "  --check-config     read it, and say what is wrong\n"
	       "  --dry-run          tell what would be done, and do nothing\n"
	       "  --dir DIR          socket and hints; default MPIB_AGENT_DIR, "
	       "else " MPIB_AGENT_DIR "\n"
	       "  --run-dir DIR      of a proxy that is looked at; may be "
	       "repeated\n"
	       "  --user NAME        of the proxies served, besides root's and "
	       "one's own;\n"
	       "                     default " SERVES "\n"
	       "  --interval MS      between two looks; default 100\n"
	       "  --sysfs DIR        where ports are; default " MPIB_AGENT_SYSFS
	       "\n"
	       "  --json             of status: all fields\n"
	       "  --help, --version\n");
}

static bool take_ms(const char *text, unsigned *ms)
{
	uint64_t n;

	if (!mpib_number(text, 1, UINT_MAX, &n))
		return false;
	*ms = (unsigned)n;
	return true;
}

/* False: the option cannot be used so. */
static bool options_take(struct mpib_agent_options *o, int c)
{
	switch (c) {
	case 'd':
		o->dir = optarg;
		return true;
	case 's':
		if (o->proxies == MPIB_AGENT_PROXIES)
			return false;
		o->run_dir[o->proxies++] = optarg;
		return true;
	case 'u':
		o->user = optarg;
		return true;
	case 'i':
		return take_ms(optarg, &o->interval_ms);
	case 'c':
		o->config = optarg;
		return true;
	case 'S':
		o->sysfs = optarg;
		return true;
	case 'C':
		return o->check = true;
	case 'n':
		return o->dry = true;
	case 'j':
		return o->json = true;
	default:
		return false;
	}
}

/* What stands behind the options. */
static int options_words(struct mpib_agent_options *o, char **words, int count,
			 char *why)
{
	if (count == 1 && !strcmp(words[0], "status")) {
		o->status = true;
		return -1;
	}
	if (!o->config && o->check)
		mpib_agent_bad(why, "command line: --check-config: there is no "
				    "file (give --config FILE)");
	else if (o->config && count)
		mpib_agent_bad(why,
			       "command line: %.64s: the file has the rules "
			       "(leave it away, or --config)",
			       words[0]);
	else if (o->config ||
		 mpib_agent_rule_parse(&o->rule, words, count, why))
		return -1;
	return MPIB_EXIT_USAGE;
}

int mpib_agent_options_parse(int argc, char **argv,
			     struct mpib_agent_options *o, char *why)
{
	static const struct option list[] = {
		{ "dir", required_argument, NULL, 'd' },
		{ "run-dir", required_argument, NULL, 's' },
		{ "user", required_argument, NULL, 'u' },
		{ "interval", required_argument, NULL, 'i' },
		{ "config", required_argument, NULL, 'c' },
		{ "check-config", no_argument, NULL, 'C' },
		{ "dry-run", no_argument, NULL, 'n' },
		{ "sysfs", required_argument, NULL, 'S' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	const char *dir = getenv("MPIB_AGENT_DIR");
	int c;

	*o = (struct mpib_agent_options){
		.dir = dir && *dir ? dir : MPIB_AGENT_DIR,
		.user = SERVES,
		.sysfs = MPIB_AGENT_SYSFS,
		.interval_ms = 100,
	};
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
		if (options_take(o, c))
			continue;
		mpib_agent_bad(why, "command line: %.64s %s (see --help)",
			       mpib_option_word(argv, ""),
			       c == ':' ? "wants a value" : "cannot be used");
		return MPIB_EXIT_USAGE;
	}
	if (o->proxies == 0)
		o->proxies = 1; /* run_dir[0] is NULL: the default directory */
	return options_words(o, argv + optind, argc - optind, why);
}
