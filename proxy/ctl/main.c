/* SPDX-License-Identifier: Apache-2.0 */
/* mpibctl: options, help, and running the command that was typed. */
#include <getopt.h>
#include <string.h>

#include "ctl/commands.h"

enum {
	OPT_TEXTFILE = 1000,
	OPT_COMMANDS
};

static void ctl_help(void)
{
	printf("usage: mpibctl [OPTION]... NOUN [VERB] [ARGUMENT]...\n"
	       "Show, and change, what this node's mpib-proxy does.\n\n");
	for (unsigned i = 0; i < mpib_ctl_command_count; i++) {
		const struct mpib_ctl_command *c = &mpib_ctl_commands[i];
		char name[64];

		snprintf(name, sizeof(name), "%s%s%s%s%s", c->noun,
			 c->bare ? "" : " ", c->bare ? "" : c->verb,
			 *c->args ? " " : "", c->args);
		printf("  %-22s %s\n", name, c->desc);
	}
	printf("\n  -j, --json             the proxy's JSON, exact numbers\n"
	       "  -o, --output FIELDS    these fields of the JSON, a tab "
	       "between them, as in\n"
	       "                         mpibctl clients -o "
	       "name,tx_bytes.sout\n"
	       "      --textfile FILE    metrics into FILE, replaced at once\n"
	       "  -s, --run-dir DIR      the proxy's run directory; default "
	       "MPIB_RUN_DIR, else\n"
	       "                         $XDG_RUNTIME_DIR/mpib where it is, "
	       "else /run/mpib\n"
	       "  -h, --help, -V, --version\n\n"
	       "Exit status: 0 ok, 1 failed, 2 usage, 3 no proxy answers.\n");
}

/* Print noun, verb and arguments of each command, for shell completion. */
static void ctl_list(void)
{
	for (unsigned i = 0; i < mpib_ctl_command_count; i++) {
		const struct mpib_ctl_command *c = &mpib_ctl_commands[i];

		printf("%s %s %s\n", c->noun, c->verb, c->args);
	}
}

static int bad_option(int c, char **argv)
{
	char why[160];

	/* optopt is the option's letter; for a long option, its value. */
	snprintf(why, sizeof(why),
		 "command line: %.64s %s (see mpibctl --help)",
		 argv[optind - 1], c == ':' ? "wants a value" : "is no option");
	return mpib_ctl_fail(MPIB_EXIT_USAGE, why);
}

/* Parse the command line. *go is set when a command is to be run; otherwise the
 * process ends with the exit status returned. */
static int ctl_parse(int argc, char **argv, struct mpib_ctl_call *call,
		     bool *go)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "output", required_argument, NULL, 'o' },
		{ "run-dir", required_argument, NULL, 's' },
		{ "textfile", required_argument, NULL, OPT_TEXTFILE },
		{ "commands", no_argument, NULL, OPT_COMMANDS },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	char why[256];
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":jo:s:hV", options, NULL)) != -1) {
		if (c == 'j') {
			call->json = true;
		} else if (c == 'o') {
			call->fields = optarg;
		} else if (c == 's') {
			call->run_dir = optarg;
		} else if (c == OPT_TEXTFILE) {
			call->textfile = optarg;
		} else if (c == OPT_COMMANDS) {
			ctl_list();
			return mpib_ctl_finish(MPIB_EXIT_OK);
		} else if (c == 'h') {
			ctl_help();
			return mpib_ctl_finish(MPIB_EXIT_OK);
		} else if (c == 'V') {
			printf("mpibctl %s\n", MPIB_VERSION);
			return mpib_ctl_finish(MPIB_EXIT_OK);
		} else {
			return bad_option(c, argv);
		}
	}
	*go = mpib_ctl_parse(call, argv + optind, (unsigned)(argc - optind),
			     why, sizeof(why));
	if (*go && call->textfile && strcmp(call->command->noun, "metrics")) {
		*go = false;
		snprintf(why, sizeof(why),
			 "command line: --textfile is for "
			 "metrics (see mpibctl --help)");
	}
	return *go ? MPIB_EXIT_OK : mpib_ctl_fail(MPIB_EXIT_USAGE, why);
}

int main(int argc, char **argv)
{
	struct mpib_ctl_call call = { 0 };
	bool go = false;
	int rc = ctl_parse(argc, argv, &call, &go);

	return go ? call.command->run(&call) : rc;
}
