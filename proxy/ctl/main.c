/* SPDX-License-Identifier: Apache-2.0 */
/* mpibctl: options, help, and running the command that was typed. */
#include <getopt.h>
#include <string.h>

#include "base/suggest.h"
#include "base/text.h"
#include "ctl/commands.h"
#include "ctl/views.h"

enum {
	OPT_TEXTFILE = 1000,
	OPT_WIDE,
	OPT_SINCE,
	OPT_STRICT,
	OPT_QUIET,
	OPT_COMMANDS
};

/* A line for each command of the noun, or of all with NULL. */
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
	printf("\n  -j, --json             the proxy's JSON, exact numbers; "
	       "errors, too\n"
	       "  -o, --output FIELDS    these fields of the JSON, a tab "
	       "between them, as in\n"
	       "                         mpibctl clients -o "
	       "name,tx_bytes.sout\n"
	       "  -r, --rates            with rates, over a second or "
	       "--watch's\n"
	       "      --since FILE       counters: since mpibctl -j counters > "
	       "FILE\n"
	       "      --wide             with all columns, and none cut\n"
	       "  -w, --watch SECONDS    again and again\n"
	       "      --textfile FILE    metrics into FILE, replaced at once\n"
	       "      --strict           doctor: move bytes over each rail, fail "
	       "on warnings\n"
	       "      --quiet            doctor, cluster: print only what is wrong\n"
	       "  -s, --run-dir DIR      the proxy's run directory; default "
	       "MPIB_RUN_DIR, else\n"
	       "                         $XDG_RUNTIME_DIR/mpib where it is, "
	       "else /run/mpib\n"
	       "  -h, --help, -V, --version\n\n"
	       "Exit status: 0 ok, 1 failed, 2 usage, 3 no proxy answers.\n");
	return mpib_ctl_finish(MPIB_EXIT_OK);
}

/* --help, of the first noun that is on the command line. */
static int help_asked(int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		if (is_noun(argv[i]))
			return ctl_help(argv[i]);
	}
	return ctl_help(NULL);
}

static const char shorts[] = ":jo:rw:s:hV";
static const struct option options[] = {
	{ "json", no_argument, NULL, 'j' },
	{ "output", required_argument, NULL, 'o' },
	{ "rates", no_argument, NULL, 'r' },
	{ "since", required_argument, NULL, OPT_SINCE },
	{ "wide", no_argument, NULL, OPT_WIDE },
	{ "watch", required_argument, NULL, 'w' },
	{ "strict", no_argument, NULL, OPT_STRICT },
	{ "quiet", no_argument, NULL, OPT_QUIET },
	{ "run-dir", required_argument, NULL, 's' },
	{ "textfile", required_argument, NULL, OPT_TEXTFILE },
	{ "commands", no_argument, NULL, OPT_COMMANDS },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

/* Print noun, verb and arguments of each command, and each option, for shell
 * completion. */
static void ctl_list(void)
{
	for (unsigned i = 0; i < mpib_ctl_command_count; i++) {
		const struct mpib_ctl_command *c = &mpib_ctl_commands[i];

		printf("%s %s %s\n", c->noun, c->verb, c->args);
	}
	for (unsigned i = 0; options[i].name; i++)
		printf("--%s\n", options[i].name);
}

static int bad_option(int c, char **argv)
{
	char why[160];

	/* optopt is the option's letter; for a long option, its value. */
	snprintf(why, sizeof(why),
		 "command line: %.64s %s (see mpibctl --help)",
		 mpib_option_word(argv, shorts),
		 c == ':' ? "wants a value" : "is no option");
	return mpib_ctl_fail(MPIB_EXIT_USAGE, why);
}

/* Options that say how to print, 0; 1: c is another one; -1 after a line on
 * stderr. */
static int take_form(struct mpib_ctl_call *call, int c)
{
	uint64_t n;

	switch (c) {
	case 'j':
		call->json = true;
		mpib_ctl_json_errors();
		return 0;
	case 'o':
		call->fields = optarg;
		return 0;
	case OPT_SINCE:
		call->since = optarg;
		return 0;
	case OPT_WIDE:
		call->wide = true;
		return 0;
	case 'r':
		call->rates = true;
		return 0;
	case OPT_STRICT:
		call->strict = true;
		return 0;
	case OPT_QUIET:
		call->quiet = true;
		return 0;
	case 'w':
		if (!mpib_number(optarg, 1, 3600, &n)) {
			mpib_ctl_fail(MPIB_EXIT_USAGE,
				      "command line: --watch wants seconds, 1 "
				      "to 3600 (see mpibctl --help)");
			return -1;
		}
		call->watch = (unsigned)n;
		return 0;
	default:
		return 1;
	}
}

static bool about_noun(const struct mpib_ctl_call *call, const char *noun)
{
	return !strcmp(call->command->noun, noun);
}

/* False, with a line on stderr: an option does not go with the command. */
static bool options_fit(const struct mpib_ctl_call *call)
{
	const struct mpib_ctl_command *c = call->command;
	bool shows = c->run == mpib_ctl_show,
	     metrics = about_noun(call, "metrics");
	bool rows = shows || c->run == mpib_ctl_counters;
	const struct {
		bool given, fits;
		const char *option, *what;
	} rules[] = {
		{ call->textfile, metrics, "--textfile", "metrics" },
		{ call->strict, about_noun(call, "doctor"), "--strict",
		  "doctor" },
		{ call->quiet,
		  about_noun(call, "doctor") || about_noun(call, "cluster"),
		  "--quiet", "doctor and cluster" },
		{ call->fields,
		  rows || c->run == mpib_ctl_change ||
			  c->run == mpib_ctl_ping || c->run == mpib_ctl_doctor,
		  "--output", "what shows or changes something" },
		{ call->since, c->run == mpib_ctl_counters, "--since",
		  "counters" },
		{ call->wide, rows, "--wide", "what shows something" },
		{ call->json, !metrics, "--json",
		  "answers in JSON: metrics are text" },
		{ call->rates, mpib_ctl_view_rates(mpib_ctl_view(c->noun)),
		  "--rates", "rails, clients, conns and peers" },
		{ call->watch, shows, "--watch", "what shows something" },
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

/* The words behind the options: a command, or help. */
static int take_words(int argc, char **argv, struct mpib_ctl_call *call,
		      bool *go)
{
	char why[256];

	if (argc > 0 && !strcmp(argv[0], "help"))
		return help_asked(argc, argv);
	if (!mpib_ctl_parse(call, argv, (unsigned)argc, why, sizeof(why)))
		return mpib_ctl_fail(MPIB_EXIT_USAGE, why);
	if (!options_fit(call))
		return MPIB_EXIT_USAGE;
	*go = true;
	return MPIB_EXIT_OK;
}

/* Parse the command line. *go is set when a command is to be run; otherwise the
 * process ends with the exit status returned. */
static int ctl_parse(int argc, char **argv, struct mpib_ctl_call *call,
		     bool *go)
{
	int c, rc;

	opterr = 0;
	while ((c = getopt_long(argc, argv, shorts, options, NULL)) != -1) {
		rc = take_form(call, c);
		if (rc < 0)
			return MPIB_EXIT_USAGE;
		if (rc == 0)
			continue;
		if (c == 's') {
			call->run_dir = optarg;
		} else if (c == OPT_TEXTFILE) {
			call->textfile = optarg;
		} else if (c == OPT_COMMANDS) {
			ctl_list();
			return mpib_ctl_finish(MPIB_EXIT_OK);
		} else if (c == 'h') {
			return help_asked(argc, argv);
		} else if (c == 'V') {
			printf("mpibctl %s\n", MPIB_VERSION);
			return mpib_ctl_finish(MPIB_EXIT_OK);
		} else {
			return bad_option(c, argv);
		}
	}
	return take_words(argc - optind, argv + optind, call, go);
}

int main(int argc, char **argv)
{
	struct mpib_ctl_call call = { 0 };
	bool go = false;
	int rc = ctl_parse(argc, argv, &call, &go);

	return go ? call.command->run(&call) : rc;
}
