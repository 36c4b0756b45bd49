/* SPDX-License-Identifier: Apache-2.0 */
/* bench-tally: options, and which outputs are written. */
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "peers/args.h"
#include "tally/tally.h"

static const char usage[] =
	"Usage: bench-tally --layout FILE [--markdown FILE] [--json FILE]\n"
	"                   [--plots DIR] SAMPLES\n"
	"Medians and ranges of samples; Markdown goes to stdout without\n"
	"--markdown. bench/tally/tally.h says what the files are.\n";

static const struct option options[] = {
	{ "layout", required_argument, NULL, 'l' },
	{ "markdown", required_argument, NULL, 'm' },
	{ "json", required_argument, NULL, 'j' },
	{ "plots", required_argument, NULL, 'p' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'v' },
	{ NULL, 0, NULL, 0 },
};

void tally_die(const char *fmt, ...)
{
	va_list ap;

	fputs("bench-tally: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

int main(int argc, char **argv)
{
	const char *layout = NULL, *markdown = NULL, *json = NULL, *dir = NULL;
	struct tally_samples samples;
	struct tally_layout l;
	int opt;

	opterr = 0;
	while ((opt = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (opt) {
		case 'l':
			layout = optarg;
			break;
		case 'm':
			markdown = optarg;
			break;
		case 'j':
			json = optarg;
			break;
		case 'p':
			dir = optarg;
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		case 'v':
			peer_version();
		default:
			peer_wrong("%s is no option, or lacks its value",
				   argv[optind - 1]);
		}
	}
	if (!layout || optind + 1 != argc)
		peer_wrong("--layout and one file of samples are needed");
	tally_read_layout(&l, layout);
	tally_read_samples(&samples, argv[optind]);
	tally_derive(&samples, &l);
	tally_markdown(&l, &samples, markdown);
	if (json)
		tally_json(&l, &samples, json);
	if (dir)
		tally_plots(&l, &samples, dir);
	tally_free(&l, &samples);
	return 0;
}
