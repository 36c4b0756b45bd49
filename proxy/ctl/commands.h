/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of mpibctl: one table of nouns and their verbs. --help, shell
 * completion and the test of the manual page use it, too.
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
	const char *args; /* names of the arguments, for --help */
	unsigned min, max; /* number of arguments */
	const char *ask; /* the command for the proxy, without arguments */
	/* Runs the command and returns the exit status. On failure it prints
	 * the reason to stderr. */
	int (*run)(const struct mpib_ctl_call *call);
	const char *desc;
};

extern const struct mpib_ctl_command mpib_ctl_commands[];
extern const unsigned mpib_ctl_command_count;

/* Print "mpibctl: " and `why` to stderr. If mpib_ctl_json_errors() was called,
 * also print an object with "ok", "error" and "status" to stdout. Returns
 * `status`. */
int mpib_ctl_fail(int status, const char *why);
void mpib_ctl_json_errors(void);

/* Return the terminal's width. If stdout is not a terminal, return a width that
 * no line exceeds. */
unsigned mpib_ctl_width(void);
/* Flush stdout and return `status`. If the flush fails, print a line to stderr
 * and return MPIB_EXIT_FAILED. */
int mpib_ctl_finish(int status);

/* Write the command line for the proxy into buf. If it is too long, print a
 * line to stderr and return false. */
bool mpib_ctl_line(const struct mpib_ctl_call *call, char *buf, size_t len);

/* Send the command to the proxy. Set *data to the answer, as a new reference,
 * or to NULL. Returns the exit status; unless it is MPIB_EXIT_OK, prints a line
 * to stderr. */
int mpib_ctl_ask(const struct mpib_ctl_call *call, json_t **data);
/* Print `data` in the requested form. Returns like mpib_ctl_ask(). */
int mpib_ctl_print(const struct mpib_ctl_call *call, json_t *data);

int mpib_ctl_show(const struct mpib_ctl_call *call);
/* Print events until stdout is closed or the proxy ends. */
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
