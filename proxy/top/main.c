/* SPDX-License-Identifier: Apache-2.0 */
/* mpib-top: options and batch mode; screen.c has the interactive mode. */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/suggest.h"
#include "base/text.h"
#include "top/top.h"

#define WIDTH 80
/* Without --tab, batch mode prints this number of nouns. */
#define USUAL 3

static const char shorts[] = ":bn:d:t:s:hV";

struct top_options {
	const char *run_dir;
	bool batch;
	int tab; /* -1: not given */
	unsigned rounds; /* 0: no limit */
	double seconds;
};

static void top_help(void)
{
	printf("usage: mpib-top [OPTION]...\n"
	       "Watch what this node's mpib-proxy moves.\n\n"
	       "  -b, --batch            plain text, for files and pipes\n"
	       "  -n, --rounds N         so many rounds of it; default: no end\n"
	       "  -d, --delay SECONDS    between two questions; default 1\n"
	       "  -t, --tab NAME         rails, clients, conns, jobs, peers, lanes, "
	       "stuck or\n"
	       "                         events; without it batch mode prints the "
	       "first three\n"
	       "  -s, --run-dir DIR      the proxy's run directory; default "
	       "MPIB_RUN_DIR, else\n"
	       "                         $XDG_RUNTIME_DIR/mpib where it is, "
	       "else /run/mpib\n"
	       "  -h, --help, -V, --version\n\n"
	       "Key h shows the keys. Exit status: 0 ok, 1 failed, 2 usage, 3 "
	       "no proxy\nanswers.\n");
}

static int top_fail(int status, const char *why)
{
	fprintf(stderr, "mpib-top: %s\n", why);
	return status;
}

static int top_usage(const char *what, const char *typed, const char *remedy)
{
	fprintf(stderr, "mpib-top: command line: %s \"%.64s\" (%s)\n", what,
		typed, remedy);
	return MPIB_EXIT_USAGE;
}

static void pause_for(double seconds)
{
	struct timespec ts = { .tv_sec = (time_t)seconds };

	ts.tv_nsec = (long)((seconds - (double)ts.tv_sec) * 1e9);
	while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
		;
}

/* Whether batch mode prints the noun of this number. */
static bool is_printed(const struct top_options *o, int noun)
{
	return o->tab < 0 ? noun < USUAL : noun == o->tab;
}

static int take_round(const struct top_options *o, struct mpib_dial *d,
		      struct top_table *all)
{
	int rc = MPIB_EXIT_OK;

	for (int i = 0; rc == MPIB_EXIT_OK && i < TOP_NOUNS; i++) {
		if (is_printed(o, i))
			rc = top_take(d, &all[i]);
	}
	return rc;
}

static int print_round(const struct top_options *o, struct mpib_dial *d,
		       const struct top_table *all)
{
	for (int i = 0; i < TOP_NOUNS; i++) {
		if (!is_printed(o, i))
			continue;
		top_print(&all[i], WIDTH, stdout);
		printf("\n");
	}
	if (fflush(stdout) == 0 && !ferror(stdout))
		return MPIB_EXIT_OK;
	snprintf(d->why, sizeof(d->why),
		 "standard output: %s (see where it leads)", strerror(errno));
	return MPIB_EXIT_FAILED;
}

static int top_batch(const struct top_options *o)
{
	struct top_table all[TOP_NOUNS] = { 0 };
	struct mpib_dial d;
	int rc = mpib_dial_open(&d, o->run_dir);

	for (int i = 0; i < TOP_NOUNS; i++)
		all[i].noun = top_nouns[i];
	if (rc == MPIB_EXIT_OK)
		rc = take_round(o, &d, all);
	for (unsigned i = 0;
	     rc == MPIB_EXIT_OK && (!o->rounds || i < o->rounds); i++) {
		pause_for(o->seconds);
		rc = take_round(o, &d, all);
		if (rc == MPIB_EXIT_OK)
			rc = print_round(o, &d, all);
	}
	if (rc != MPIB_EXIT_OK)
		top_fail(rc, d.why);
	for (int i = 0; i < TOP_NOUNS; i++)
		top_free(&all[i]);
	mpib_dial_close(&d);
	return rc;
}

static int read_tab(const char *name, struct top_options *o)
{
	struct mpib_suggest s = { .typed = name };
	char remedy[64];

	for (int i = 0; i < TOP_NOUNS; i++) {
		mpib_suggest_try(&s, top_nouns[i]);
		if (!strcmp(name, top_nouns[i]))
			o->tab = i;
	}
	if (o->tab >= 0)
		return MPIB_EXIT_OK;
	return top_usage("there is no tab", name,
			 mpib_suggest_remedy(&s, "see mpib-top --help", remedy,
					     sizeof(remedy)));
}

static bool read_rounds(const char *text, struct top_options *o)
{
	uint64_t n;

	if (!mpib_number(text, 1, UINT_MAX, &n))
		return false;
	o->rounds = (unsigned)n;
	return true;
}

static int read_option(int c, char **argv, struct top_options *o)
{
	char *end;

	switch (c) {
	case 'b':
		o->batch = true;
		return MPIB_EXIT_OK;
	case 's':
		o->run_dir = optarg;
		return MPIB_EXIT_OK;
	case 't':
		return read_tab(optarg, o);
	case 'n':
		if (read_rounds(optarg, o))
			return MPIB_EXIT_OK;
		return top_usage("no number of rounds is", optarg,
				 "give 1 or more");
	case 'd':
		o->seconds = strtod(optarg, &end);
		if (o->seconds >= 0.05 && o->seconds <= 3600 && !*end &&
		    isdigit((unsigned char)*optarg))
			return MPIB_EXIT_OK;
		return top_usage("no number of seconds is", optarg,
				 "give 0.05 to 3600");
	default:
		return top_usage(c == ':' ? "a value is missing behind"
					  : "there is no option",
				 mpib_option_word(argv, shorts),
				 "see mpib-top --help");
	}
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "batch", no_argument, NULL, 'b' },
		{ "rounds", required_argument, NULL, 'n' },
		{ "delay", required_argument, NULL, 'd' },
		{ "tab", required_argument, NULL, 't' },
		{ "run-dir", required_argument, NULL, 's' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	struct top_options o = { .seconds = 1, .tab = -1 };
	int c, rc;

	opterr = 0;
	while ((c = getopt_long(argc, argv, shorts, options, NULL)) != -1) {
		if (c == 'h') {
			top_help();
			return MPIB_EXIT_OK;
		}
		if (c == 'V') {
			printf("mpib-top %s\n", MPIB_VERSION);
			return MPIB_EXIT_OK;
		}
		rc = read_option(c, argv, &o);
		if (rc != MPIB_EXIT_OK)
			return rc;
	}
	if (optind < argc)
		return top_usage("nothing is expected to be called",
				 argv[optind], "see mpib-top --help");
	if (o.batch)
		return top_batch(&o);
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || !getenv("TERM"))
		return top_fail(MPIB_EXIT_USAGE,
				"screen: this is no terminal (use "
				"-b for plain text)");
	return top_screen(o.run_dir, o.tab < 0 ? 0 : (unsigned)o.tab,
			  o.seconds);
}
