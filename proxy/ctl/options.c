/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/options.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/text.h"
#include "ctl/table.h"

#define MOST 16
#define LONG 1000 /* getopt_long() returns this for the first option */
#define HELP_AT 25 /* column of the help texts */
#define WIDTH 79

int mpib_options_read(const struct mpib_option *options, const char *program,
		      int argc, char **argv, char *why, size_t len)
{
	struct option longs[MOST + 1] = { 0 };
	char shorts[2 * MOST + 2] = ":";
	const struct mpib_option *o;
	size_t at = 1;
	int c, n = 0;

	for (o = options; o->name && n < MOST; o++, n++) {
		longs[n] = (struct option){
			.name = o->name,
			.has_arg = o->value ? required_argument : no_argument,
			.val = LONG + n,
		};
		if (o->letter)
			shorts[at++] = o->letter;
		if (o->letter && o->value)
			shorts[at++] = ':';
	}
	opterr = 0;
	while ((c = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		if (c == '?' || c == ':') {
			snprintf(why, len,
				 "command line: %.64s %s (see %s --help)",
				 mpib_option_word(argv, shorts),
				 c == ':' ? "wants a value" : "is no option",
				 program);
			return -1;
		}
		o = options;
		while (c != o->letter && c != LONG + (int)(o - options))
			o++;
		if (o->value)
			*(const char **)o->to = optarg;
		else
			*(bool *)o->to = true;
	}
	return optind;
}

void mpib_options_help(const struct mpib_option *options)
{
	for (const struct mpib_option *o = options; o->name; o++) {
		char letter[] = "-x, ", name[32];

		if (!o->help)
			continue;
		letter[1] = o->letter;
		snprintf(name, sizeof(name), "--%s%s%s", o->name,
			 o->value ? " " : "", o->value ? o->value : "");
		printf("  %4s%-18s ", o->letter ? letter : "", name);
		mpib_wrap(o->help, HELP_AT, HELP_AT, WIDTH, stdout);
	}
}
