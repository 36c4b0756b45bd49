/* SPDX-License-Identifier: Apache-2.0 */
/* The table of mpibctl's commands, and the parser of its words. */
#include "ctl/commands.h"

#include <string.h>

#include "base/suggest.h"

#define SEE_HELP "see mpibctl --help"

const struct mpib_ctl_command mpib_ctl_commands[] = {
	{ "summary", "show", true, "", 0, 0, NULL, mpib_ctl_summary,
	  "the node on one screen; mpibctl alone is the same" },
	{ "rails", "show", true, "", 0, 0, "rails", mpib_ctl_show,
	  "rails, their state and traffic" },
	{ "rails", "drain", false, "RAIL", 1, 1, "drain", mpib_ctl_change,
	  "put nothing new on a rail" },
	{ "rails", "resume", false, "RAIL", 1, 1, "resume", mpib_ctl_change,
	  "use a drained rail again" },
	{ "devices", "show", true, "", 0, 0, "devices", mpib_ctl_show,
	  "devices that NCCL sees, and their rails" },
	{ "fault", "show", true, "", 0, 0, "faults", mpib_ctl_show,
	  "faults that are played" },
	{ "fault", "play", false, "WHAT RAIL[@PEER] SECONDS", 3, 3, "fault",
	  mpib_ctl_change, "rate=MBITS, delay=US, black-hole, ..." },
	{ "fault", "end", false, "RAIL", 1, 1, "heal", mpib_ctl_change,
	  "end the one on a rail" },
	{ "jobs", "show", true, "", 0, 0, "jobs", mpib_ctl_show,
	  "jobs, also those that are over, and what they moved" },
	{ "clients", "show", true, "", 0, 0, "clients", mpib_ctl_show,
	  "attached processes" },
	{ "clients", "kick", false, "CLIENT", 1, 1, "kick", mpib_ctl_change,
	  "hang up on a client" },
	{ "clients", "share", false, "CLIENT[.CONN] WHAT...", 2, 3, "share",
	  mpib_ctl_change, "weight=1..100, limit=MBITS of one" },
	{ "conns", "show", true, "[CLIENT]", 0, 1, "conns", mpib_ctl_show,
	  "connections, and what closed ones moved" },
	{ "lanes", "show", true, "", 0, 0, "lanes", mpib_ctl_show,
	  "lanes to peers and their QPs" },
	{ "peers", "show", true, "", 0, 0, "peers", mpib_ctl_show,
	  "peers over all their lanes" },
	{ "cluster", "show", true, "", 0, 0, "cluster", mpib_ctl_show,
	  "the nodes this one has links with, and what is wrong" },
	{ "why", "show", true, "[CLIENT.CONN]", 0, 1, "why", mpib_ctl_show,
	  "the split of a sending connection, and its reason" },
	{ "agent", "show", true, "", 0, 0, "agent", mpib_ctl_show,
	  "what mpib-agent does to the rails, and why" },
	{ "info", "show", true, "", 0, 0, "info", mpib_ctl_show,
	  "the proxy and what it holds" },
	{ "hist", "show", true, "[NAME] [CLIENT]", 0, 2, "hist", mpib_ctl_show,
	  "how long requests take" },
	{ "stuck", "show", true, "[SECONDS]", 0, 1, "stuck", mpib_ctl_show,
	  "requests that hang, and what they wait for" },
	{ "events", "show", true, "[SINCE]", 0, 1, "events", mpib_ctl_show,
	  "what happened, after event SINCE" },
	{ "events", "follow", false, "", 0, 0, "events", mpib_ctl_follow,
	  "what happened, and what happens" },
	{ "history", "show", true, "[MINUTES]", 0, 1, "history", mpib_ctl_show,
	  "both rails' rates, up to an hour back" },
	{ "counters", "show", true, "", 0, 0, "rails", mpib_ctl_counters,
	  "all that is counted of rails; with --since of late" },
	{ "config", "show", true, "", 0, 0, "config", mpib_ctl_show,
	  "settings and where they come from" },
	{ "config", "set", false, "KEY VALUE", 2, 2, "set", mpib_ctl_change,
	  "change one that may change" },
	{ "log", "set", true, "LEVEL", 1, 1, "log", mpib_ctl_change,
	  "error, warn, info or debug" },
	{ "upgrade", "start", true, "[PATH]", 0, 1, "upgrade", mpib_ctl_upgrade,
	  "replace the running proxy by a new process" },
	{ "metrics", "show", true, "", 0, 0, "metrics", mpib_ctl_metrics,
	  "metrics, OpenMetrics text" },
	{ "metrics", "prometheus", false, "", 0, 0, "metrics prometheus",
	  mpib_ctl_metrics, "the same in the format of Prometheus" },
	{ "ping", "show", true, "", 0, 0, NULL, mpib_ctl_ping,
	  "whether a proxy answers" },
	{ "report", "write", true, "FILE", 1, 1, NULL, mpib_ctl_report,
	  "what these show, and the host, in a file for support" },
	{ "doctor", "show", true, "", 0, 0, NULL, mpib_ctl_doctor,
	  "what is wrong on this node, and what helps" },
};

const unsigned mpib_ctl_command_count =
	sizeof(mpib_ctl_commands) / sizeof(mpib_ctl_commands[0]);

static const struct mpib_ctl_command *commands_find(const char *noun,
						    const char *verb)
{
	for (unsigned i = 0; i < mpib_ctl_command_count; i++) {
		const struct mpib_ctl_command *c = &mpib_ctl_commands[i];

		if (!strcmp(c->noun, noun) &&
		    (verb ? !strcmp(c->verb, verb) : c->bare))
			return c;
	}
	return NULL;
}

static bool no_noun(const char *noun, char *why, size_t len)
{
	struct mpib_suggest s = { .typed = noun };
	char text[96];

	for (unsigned i = 0; i < mpib_ctl_command_count; i++)
		mpib_suggest_try(&s, mpib_ctl_commands[i].noun);
	snprintf(why, len, "command line: there is no noun \"%.64s\" (%s)",
		 noun, mpib_suggest_remedy(&s, SEE_HELP, text, sizeof(text)));
	return false;
}

/* The number of arguments is wrong. The first may be a misspelt verb, so the verbs of
 * c's noun are suggested. False. */
static bool bad_words(const struct mpib_ctl_command *c, char **words,
		      unsigned count, char *why, size_t len)
{
	struct mpib_suggest s = { .typed = count ? words[0] : "" };
	const char *sep = c->bare ? "" : " ", *verb = c->bare ? "" : c->verb;
	char text[96];

	for (unsigned i = 0; i < mpib_ctl_command_count; i++) {
		if (!strcmp(mpib_ctl_commands[i].noun, c->noun))
			mpib_suggest_try(&s, mpib_ctl_commands[i].verb);
	}
	if (count < c->min)
		snprintf(why, len,
			 "command line: %s%s%s wants %s (see mpibctl "
			 "--help)",
			 c->noun, sep, verb, c->args);
	else
		snprintf(why, len,
			 "command line: %s%s%s does not take \"%.64s\" (%s)",
			 c->noun, sep, verb,
			 words[mpib_suggest_best(&s) ? 0 : c->max],
			 mpib_suggest_remedy(&s, SEE_HELP, text, sizeof(text)));
	return false;
}

bool mpib_ctl_parse(struct mpib_ctl_call *call, char **words, unsigned count,
		    char *why, size_t len)
{
	const struct mpib_ctl_command *c;
	unsigned at = 1;

	if (count == 0) {
		call->command = commands_find("summary", NULL);
		return true;
	}
	c = count > 1 ? commands_find(words[0], words[1]) : NULL;
	if (c)
		at = 2;
	else
		c = commands_find(words[0], NULL);
	if (!c)
		return no_noun(words[0], why, len);
	if (count - at < c->min || count - at > c->max)
		return bad_words(c, words + at, count - at, why, len);
	call->command = c;
	call->argc = count - at;
	for (unsigned i = 0; i < call->argc; i++)
		call->argv[i] = words[at + i];
	return true;
}
