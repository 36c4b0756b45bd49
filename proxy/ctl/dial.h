/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client side of the proxy's stats socket, for mpibctl, mpib-top and
 * mpib-agent: find the socket, send commands, read answers. The functions
 * block. Those that return an int return an exit status; unless it is
 * MPIB_EXIT_OK, d->why holds "what failed: why (remedy)".
 */
#ifndef MPIB_CTL_DIAL_H
#define MPIB_CTL_DIAL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Exit status of all tools. */
enum {
	MPIB_EXIT_OK = 0,
	MPIB_EXIT_FAILED = 1,
	MPIB_EXIT_USAGE = 2,
	MPIB_EXIT_NO_PROXY = 3
};

#define MPIB_DIAL_WHY 512
/* A flag for dumps: print 1.1, not 1.1000000000000001. */
#define MPIB_JSON_DIGITS JSON_REAL_PRECISION(15)

struct mpib_dial {
	char path[128]; /* of the socket */
	FILE *in; /* NULL while closed */
	json_t *greeting;
	char *line; /* the last line read, without newline */
	size_t room;
	bool absent; /* no process listens at the path */
	bool silent; /* a process listens there, but does not answer */
	char why[MPIB_DIAL_WHY];
};

/* Write the path of the file `name` in the run directory into buf. If run_dir
 * is NULL, use the default for clients, see mpib_run_dir_default(). Returns
 * false if the path exceeds `len`. */
bool mpib_dial_path(const char *run_dir, const char *name, char *buf,
		    size_t len);

/* Connect to the admin socket if this user may use it, else to the stats
 * socket, and read the proxy's greeting. run_dir may be NULL. */
int mpib_dial_open(struct mpib_dial *d, const char *run_dir);
/* Ask the control socket, as a rank does, whether a process can attach. Waits
 * at most 2 s. Afterwards only d->why, absent and silent are valid. */
int mpib_dial_probe(struct mpib_dial *d, const char *run_dir);
void mpib_dial_close(struct mpib_dial *d);

/* Send a command and read its answer. Set *data to the "data" of the answer, as
 * a new reference. */
int mpib_dial_ask(struct mpib_dial *d, const char *command, json_t **data);

/* Return the member `key` of an answer, or 0 or "" if the member has another
 * type. If the member is an object with a number for each rail or cause, return
 * the sum of the numbers. */
uint64_t mpib_json_num(const json_t *o, const char *key);
double mpib_json_real(const json_t *o, const char *key); /* integers, too */
const char *mpib_json_str(const json_t *o, const char *key);

#endif
