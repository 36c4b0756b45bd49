/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a tool: one table, from which they are read and --help prints them. */
#ifndef MPIB_CTL_OPTIONS_H
#define MPIB_CTL_OPTIONS_H

#include <stddef.h>

struct mpib_option {
	const char *name; /* "watch"; NULL: the table ends */
	char letter; /* 'w'; 0: none */
	const char *value; /* "SECONDS"; NULL: a flag */
	const char *help; /* NULL: --help does not have it */
	void *to; /* a bool of a flag, else a const char * */
};

/* Of each tool that asks a proxy. */
#define MPIB_OPTION_RUN_DIR(to)                                                \
	{                                                                      \
		"run-dir", 's', "DIR",                                         \
			"the proxy's run directory; default MPIB_RUN_DIR, "    \
			"else $XDG_RUNTIME_DIR/mpib where it is, else "        \
			"/run/mpib",                                           \
			to                                                     \
	}

/* Read the options. Returns the index of the first other word in argv, to whose end
 * these are moved; -1: why has "command line: ... (see PROGRAM --help)". */
int mpib_options_read(const struct mpib_option *options, const char *program,
		      int argc, char **argv, char *why, size_t len);
/* Print a line for each on standard output. */
void mpib_options_help(const struct mpib_option *options);

#endif
