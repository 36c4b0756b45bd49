/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a tool: one table for the parser and for --help. */
#ifndef MPIB_CTL_OPTIONS_H
#define MPIB_CTL_OPTIONS_H

#include <stddef.h>

struct mpib_option {
	const char *name; /* "watch"; NULL ends the table */
	char letter; /* 'w'; 0: none */
	const char *value; /* "SECONDS"; NULL: a flag */
	const char *help; /* NULL: not shown by --help */
	void *to; /* a bool * for a flag, else a const char ** */
};

/* The option -s of each tool that asks a proxy. */
#define MPIB_OPTION_RUN_DIR(to)                                                \
	{                                                                      \
		"run-dir", 's', "DIR",                                         \
			"the proxy's run directory; default MPIB_RUN_DIR, "    \
			"else $XDG_RUNTIME_DIR/mpib if it exists and the "     \
			"user is not root, else /run/mpib",                    \
			to                                                     \
	}

/* Parse the options, and move all other words to the end of argv. Returns the
 * index of the first of these words. On failure, returns -1 and writes "command
 * line: ... (see PROGRAM --help)" into `why`. */
int mpib_options_read(const struct mpib_option *options, const char *program,
		      int argc, char **argv, char *why, size_t len);
/* Print a line for each option to standard output. */
void mpib_options_help(const struct mpib_option *options);

#endif
