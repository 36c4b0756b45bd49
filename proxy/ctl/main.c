/* SPDX-License-Identifier: Apache-2.0 */
/* mpibctl: options, help, and the call of the command. */
#include <string.h>

#include "base/text.h"
#include "ctl/commands.h"
#include "ctl/options.h"
#include "ctl/views.h"

static struct mpib_ctl_call typed;
static const char *watch;
static bool help, version, commands;

static const struct mpib_option options[] = {
	{ "json", 'j', NULL, "print answers, and errors, as the proxy's JSON",
	  &typed.json },
	{ "output", 'o', "FIELDS",
	  "print only these fields of the JSON, separated by tabs: mpibctl "
	  "clients -o name,tx_bytes.sout",
	  &typed.fields },
	{ "rates", 'r', NULL,
	  "print rates, over a second or the interval of --watch",
	  &typed.rates },
	{ "wide", 0, NULL, "print all columns, and cut none", &typed.wide },
	{ "watch", 'w', "SECONDS", "repeat every SECONDS", &watch },
	{ "strict", 0, NULL, "doctor: fail on warnings", &typed.strict },
	{ "quiet", 0, NULL, "doctor, cluster: print only what is wrong",
	  &typed.quiet },
	MPIB_OPTION_RUN_DIR(&typed.run_dir),
	{ "commands", 0, NULL, NULL, &commands },
	{ "help", 'h', NULL, "print this help; after a noun: its commands",
	  &help },
	{ "version", 'V', NULL, "print the version", &version },
	{ 0 },
};

/* Print a line for each command of the noun; NULL: of all nouns. */
static void help_commands(const char *noun)
{
	for (unsigned i = 0; i < mpib_ctl_command_count; i++) {
		const struct mpib_ctl_command *c = &mpib_ctl_commands[i];
		char name[64];

		if (noun && strcmp(noun, c->noun))
			continue;
		snprintf(name, sizeof(name), "%s%s%s%s%s", c->noun,
			 c->bare ? "" : " ", c->bare ? "" : c->verb,
			 *c->args ? " " : "", c->args);
		printf("  %-22s %s\n", name, c->desc);
	}
}

static bool is_noun(const char *word)
{
	for (unsigned i = 0; i < mpib_ctl_command_count; i++) {
		if (!strcmp(word, mpib_ctl_commands[i].noun))
			return true;
	}
	return false;
}

static int ctl_help(const char *noun)
{
	printf("usage: mpibctl [OPTION]... %s [VERB] [ARGUMENT]...\n",
	       noun ? noun : "NOUN");
	if (!noun)
		printf("Show, and change, what this node's mpib-proxy does.\n");
	printf("\n");
	help_commands(noun);
	printf("\n");
	mpib_options_help(options);
	printf("\nExit status: 0 ok, 1 failed, 2 usage, 3 no proxy answers.\n");
	return mpib_ctl_finish(MPIB_EXIT_OK);
}

/* Print the help for the first noun on the command line; without a noun, print
 * the whole help. */
static int help_asked(int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		if (is_noun(argv[i]))
			return ctl_help(argv[i]);
	}
	return ctl_help(NULL);
}

/* Print noun, verb and arguments of each command, and each option, for shell
 * completion. */
static int ctl_list(void)
{
	for (unsigned i = 0; i < mpib_ctl_command_count; i++) {
		const struct mpib_ctl_command *c = &mpib_ctl_commands[i];

		printf("%s %s %s\n", c->noun, c->verb, c->args);
	}
	for (unsigned i = 0; options[i].name; i++)
		printf("--%s\n", options[i].name);
	return mpib_ctl_finish(MPIB_EXIT_OK);
}

static bool about_noun(const char *noun)
{
	return !strcmp(typed.command->noun, noun);
}

/* Return whether all options fit the command. If not, print a line to
 * stderr. */
static bool options_fit(void)
{
	const struct mpib_ctl_command *c = typed.command;
	bool shows = c->run == mpib_ctl_show;
	bool rows = shows || c->run == mpib_ctl_counters;
	const struct {
		bool given, fits;
		const char *option, *what;
	} rules[] = {
		{ typed.strict, about_noun("doctor"), "--strict", "doctor" },
		{ typed.quiet, about_noun("doctor") || about_noun("cluster"),
		  "--quiet", "doctor and cluster" },
		{ typed.fields,
		  rows || c->run == mpib_ctl_change ||
			  c->run == mpib_ctl_ping ||
			  c->run == mpib_ctl_doctor ||
			  c->run == mpib_ctl_topology,
		  "--output", "commands that show or change something" },
		{ typed.wide, rows, "--wide", "commands that show something" },
		{ typed.json, !about_noun("metrics"), "--json",
		  "answers in JSON, and metrics are text" },
		{ typed.rates, mpib_ctl_view_rates(mpib_ctl_view_of(c)),
		  "--rates", "rails, clients, conns and peers" },
		{ typed.watch, shows, "--watch",
		  "commands that show something" },
	};
	char why[128];

	for (unsigned i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		if (!rules[i].given || rules[i].fits)
			continue;
		snprintf(why, sizeof(why),
			 "command line: %s is for %s (see mpibctl --help)",
			 rules[i].option, rules[i].what);
		mpib_ctl_fail(MPIB_EXIT_USAGE, why);
		return false;
	}
	return true;
}

/* The table of mpibctl's commands, and the parser of a command line. */

#define SEE_HELP "see mpibctl --help"

const struct mpib_ctl_command mpib_ctl_commands[] = {
	{ "summary", "show", true, "", 0, 0, NULL, mpib_ctl_summary,
	  "the node on one screen, also printed by mpibctl alone" },
	{ "rails", "show", true, "", 0, 0, "rails", mpib_ctl_show,
	  "rails, their state and traffic" },
	{ "rails", "drain", false, "RAIL [WHY...]", 1, MPIB_CTL_ARGS, "drain",
	  mpib_ctl_change, "stop new traffic on a rail, for the reason WHY" },
	{ "rails", "resume", false, "RAIL", 1, 1, "resume", mpib_ctl_change,
	  "use a drained rail again" },
	{ "devices", "show", true, "", 0, 0, "devices", mpib_ctl_show,
	  "devices that NCCL sees, and their rails" },
	{ "devices", "gpus", false, "", 0, 0, "rails", mpib_ctl_topology,
	  "how this machine's GPUs reach the rails' HCAs" },
	{ "fault", "play", true, "RAIL", 1, 1, "fault", mpib_ctl_change,
	  "break the QPs of a rail, to rehearse a failure" },
	{ "jobs", "show", true, "", 0, 0, "jobs", mpib_ctl_show,
	  "running and ended jobs, and their traffic" },
	{ "clients", "show", true, "", 0, 0, "clients", mpib_ctl_show,
	  "attached processes" },
	{ "clients", "kick", false, "CLIENT", 1, 1, "kick", mpib_ctl_change,
	  "disconnect a client" },
	{ "conns", "show", true, "[CLIENT]", 0, 1, "conns", mpib_ctl_show,
	  "connections, and the traffic of closed ones" },
	{ "lanes", "show", true, "", 0, 0, "lanes", mpib_ctl_show,
	  "lanes to peers and their QPs" },
	{ "peers", "show", true, "", 0, 0, "peers", mpib_ctl_show,
	  "peers, each with the sums of its lanes" },
	{ "cluster", "show", true, "", 0, 0, "cluster", mpib_ctl_show,
	  "nodes linked to this one, and their faults" },
	{ "cluster", "jobs", false, "", 0, 0, "cluster", mpib_ctl_show,
	  "running jobs on all linked nodes" },
	{ "cluster", "stuck", false, "", 0, 0, "cluster", mpib_ctl_show,
	  "oldest hanging requests on all linked nodes" },
	{ "why", "show", true, "[CLIENT.CONN]", 0, 1, "why", mpib_ctl_show,
	  "the split of a sending connection, and its reason" },
	{ "agent", "show", true, "", 0, 0, "agent", mpib_ctl_show,
	  "what mpib-agent does to the rails, and why" },
	{ "info", "show", true, "", 0, 0, "info", mpib_ctl_show,
	  "the proxy, its objects and threads" },
	{ "hist", "show", true, "[NAME] [CLIENT]", 0, 2, "hist", mpib_ctl_show,
	  "histograms of the durations of requests" },
	{ "stuck", "show", true, "[SECONDS]", 0, 1, "stuck", mpib_ctl_show,
	  "hanging requests, and what they wait for" },
	{ "events", "show", true, "[SINCE]", 0, 1, "events", mpib_ctl_show,
	  "past events, or those after event SINCE" },
	{ "events", "follow", false, "", 0, 0, "events", mpib_ctl_follow,
	  "past events, then new ones as they happen" },
	{ "history", "show", true, "[MINUTES]", 0, 1, "history", mpib_ctl_show,
	  "rates of both rails in the last hour or MINUTES" },
	{ "counters", "show", true, "", 0, 0, "rails", mpib_ctl_counters,
	  "all counters of the rails" },
	{ "config", "show", true, "", 0, 0, "config", mpib_ctl_show,
	  "settings and their origins" },
	{ "config", "set", false, "KEY VALUE", 2, 2, "set", mpib_ctl_change,
	  "change a setting that can change at run time" },
	{ "upgrade", "start", true, "[PATH]", 0, 1, "upgrade", mpib_ctl_upgrade,
	  "replace the running proxy with a new process" },
	{ "metrics", "show", true, "", 0, 0, "metrics", mpib_ctl_metrics,
	  "metrics for Prometheus" },
	{ "ping", "show", true, "", 0, 0, NULL, mpib_ctl_ping,
	  "whether a proxy answers" },
	{ "report", "write", true, "FILE", 1, 1, NULL, mpib_ctl_report,
	  "write all this, and host data, to a file for support" },
	{ "doctor", "show", true, "", 0, 0, NULL, mpib_ctl_doctor,
	  "faults of this node, with remedies" },
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

/* Report a wrong number of arguments. The first argument may be a misspelt
 * verb, so suggest the verbs of c's noun. Returns false. */
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
			 "command line: %s%s%s needs %s (see mpibctl "
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

/* Find the command that `words` name, and parse its arguments. On failure,
 * write "what: why (remedy)" into `why` and return false. */
static bool ctl_parse(struct mpib_ctl_call *call, char **words, unsigned count,
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

int main(int argc, char **argv)
{
	char why[256];
	uint64_t seconds = 0;
	int first = mpib_options_read(options, "mpibctl", argc, argv, why,
				      sizeof(why));

	if (typed.json)
		mpib_ctl_json_errors();
	if (first < 0)
		return mpib_ctl_fail(MPIB_EXIT_USAGE, why);
	argc -= first;
	argv += first;
	if (commands)
		return ctl_list();
	if (version) {
		printf("mpibctl %s\n", MPIB_VERSION);
		return mpib_ctl_finish(MPIB_EXIT_OK);
	}
	if (help || (argc > 0 && !strcmp(argv[0], "help")))
		return help_asked(argc, argv);
	if (watch && !mpib_number(watch, 1, 3600, &seconds))
		return mpib_ctl_fail(MPIB_EXIT_USAGE,
				     "command line: --watch needs seconds, 1 "
				     "to 3600 (see mpibctl --help)");
	typed.watch = (unsigned)seconds;
	if (!ctl_parse(&typed, argv, (unsigned)argc, why, sizeof(why)))
		return mpib_ctl_fail(MPIB_EXIT_USAGE, why);
	return options_fit() ? typed.command->run(&typed) : MPIB_EXIT_USAGE;
}
