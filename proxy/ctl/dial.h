/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tool's side of the stats socket: find it, ask, take the answer. Every call
 * gives an exit status, and for any but MPIB_EXIT_OK a text of the form "what
 * failed: why (remedy)".
 */
#ifndef MPIB_CTL_DIAL_H
#define MPIB_CTL_DIAL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Of every tool. */
enum {
	MPIB_EXIT_OK = 0,
	MPIB_EXIT_FAILED = 1,
	MPIB_EXIT_USAGE = 2,
	MPIB_EXIT_NO_PROXY = 3
};

#define MPIB_DIAL_WHY 512

struct mpib_dial {
	char path[128]; /* of the socket */
	FILE *in; /* NULL while closed */
	json_t *greeting;
	char *line; /* the last answer, without its end */
	size_t room;
	char why[MPIB_DIAL_WHY];
};

/* "DIR/name" of the run directory given, else of the one that clients look in,
 * see mpib_run_dir(). False when the path is longer than len. */
bool mpib_dial_path(const char *run_dir, const char *name, char *buf,
		    size_t len);

/* Connect and take the greeting. run_dir may be NULL. */
int mpib_dial_open(struct mpib_dial *d, const char *run_dir);
void mpib_dial_close(struct mpib_dial *d);

/* Give a command. */
int mpib_dial_say(struct mpib_dial *d, const char *command);
/* From now on wait for an answer as long as it takes. */
void mpib_dial_patient(struct mpib_dial *d);
/* The data of the next answer, a new reference. */
int mpib_dial_answer(struct mpib_dial *d, json_t **data);
/* Both. */
int mpib_dial_ask(struct mpib_dial *d, const char *command, json_t **data);
/* A command that answers in text up to "# EOF", which goes to out. */
int mpib_dial_text(struct mpib_dial *d, const char *command, FILE *out);

#endif
