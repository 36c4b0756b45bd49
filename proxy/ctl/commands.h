/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of mpibctl: one table of nouns and verbs, used by --help, shell
 * completion and the test of the manual page.
 */
#ifndef MPIB_CTL_COMMANDS_H
#define MPIB_CTL_COMMANDS_H

#include <stdbool.h>

#include "ctl/dial.h"

#define MPIB_CTL_ARGS 12

/* A parsed command line. */
struct mpib_ctl_call {
	const struct mpib_ctl_command *command;
	const char *run_dir; /* -s, or NULL */
	const char *fields; /* -o, or NULL */
	bool json; /* -j */
	bool wide; /* --wide */
	bool rates; /* -r */
	bool strict, quiet; /* --strict and --quiet of doctor */
	unsigned watch; /* --watch, seconds; 0: once */
	unsigned argc;
	const char *argv[MPIB_CTL_ARGS]; /* the words after the verb */
};

struct mpib_ctl_command {
	const char *noun, *verb;
	bool bare; /* the noun alone means this verb */
	const char *args; /* for --help */
	unsigned min, max;
	const char *ask; /* command for the proxy; arguments follow */
	/* Returns the exit status; prints the reason of a failure to stderr. */
	int (*run)(const struct mpib_ctl_call *call);
	const char *desc;
};

extern const struct mpib_ctl_command mpib_ctl_commands[];
extern const unsigned mpib_ctl_command_count;

/* Print "mpibctl: why" to stderr; after mpib_ctl_json_errors() also an object
 * with ok, error and status to stdout. Returns status. */
int mpib_ctl_fail(int status, const char *why);
void mpib_ctl_json_errors(void);

/* Return the terminal's width; if stdout is no terminal, more than any line
 * has. */
unsigned mpib_ctl_width(void);
/* Flush stdout. Returns status, or MPIB_EXIT_FAILED with a line on stderr if
 * stdout could not be written. */
int mpib_ctl_finish(int status);

/* Write the command line for the proxy into buf. False, with a line on stderr,
 * if it is too long. */
bool mpib_ctl_line(const struct mpib_ctl_call *call, char *buf, size_t len);

/* Send the command's question to the proxy; *data is a new reference or NULL.
 * Returns the exit status, with a line on stderr unless it is MPIB_EXIT_OK. */
int mpib_ctl_ask(const struct mpib_ctl_call *call, json_t **data);
/* Print data in the requested form. Returns like mpib_ctl_ask(). */
int mpib_ctl_print(const struct mpib_ctl_call *call, json_t *data);

int mpib_ctl_show(const struct mpib_ctl_call *call);
/* Runs until stdout is closed or the proxy ends. */
int mpib_ctl_follow(const struct mpib_ctl_call *call);
int mpib_ctl_change(const struct mpib_ctl_call *call);
int mpib_ctl_counters(const struct mpib_ctl_call *call);
int mpib_ctl_metrics(const struct mpib_ctl_call *call);
int mpib_ctl_ping(const struct mpib_ctl_call *call);
int mpib_ctl_summary(const struct mpib_ctl_call *call);
int mpib_ctl_upgrade(const struct mpib_ctl_call *call);
int mpib_ctl_report(const struct mpib_ctl_call *call);
int mpib_ctl_topology(const struct mpib_ctl_call *call);
int mpib_ctl_doctor(const struct mpib_ctl_call *call);

#endif
