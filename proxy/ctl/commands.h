/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be typed after mpibctl: one table of nouns and verbs, which help,
 * completion and the manual's test all read.
 */
#ifndef MPIB_CTL_COMMANDS_H
#define MPIB_CTL_COMMANDS_H

#include <stdbool.h>

#include "ctl/dial.h"

#define MPIB_CTL_ARGS 3

/* The command line. */
struct mpib_ctl_call {
	const struct mpib_ctl_command *command;
	const char *run_dir; /* -s, or NULL */
	const char *fields; /* -o, or NULL */
	const char *textfile; /* --textfile, or NULL */
	bool json; /* -j */
	unsigned argc;
	const char *argv[MPIB_CTL_ARGS]; /* behind the verb */
};

struct mpib_ctl_command {
	const char *noun, *verb;
	bool bare; /* it is what the noun alone does */
	const char *args; /* for people */
	unsigned min, max;
	const char *ask; /* to the proxy, the arguments follow */
	/* Exit status. Failures are told on stderr. */
	int (*run)(const struct mpib_ctl_call *call);
	const char *desc;
};

extern const struct mpib_ctl_command mpib_ctl_commands[];
extern const unsigned mpib_ctl_command_count;

/* Find the command of words and take its arguments. False, with why as "what:
 * why (remedy)". */
bool mpib_ctl_parse(struct mpib_ctl_call *call, char **words, unsigned count,
		    char *why, size_t len);

/* "mpibctl: why" on stderr. Returns status. */
int mpib_ctl_fail(int status, const char *why);
/* status, or MPIB_EXIT_FAILED, told, when stdout did not take all. */
int mpib_ctl_finish(int status);

/* The command line for the proxy; false, told, when it does not fit. */
bool mpib_ctl_line(const struct mpib_ctl_call *call, char *buf, size_t len);

int mpib_ctl_show(const struct mpib_ctl_call *call);
/* These go on until the reader or the proxy ends. */
int mpib_ctl_follow(const struct mpib_ctl_call *call);
int mpib_ctl_monitor(const struct mpib_ctl_call *call);
int mpib_ctl_change(const struct mpib_ctl_call *call);
int mpib_ctl_metrics(const struct mpib_ctl_call *call);
int mpib_ctl_ping(const struct mpib_ctl_call *call);
int mpib_ctl_upgrade(const struct mpib_ctl_call *call);
int mpib_ctl_doctor(const struct mpib_ctl_call *call);

#endif
