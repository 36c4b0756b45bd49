/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of the stats socket. A table has, for each command, its
 * arguments, the users that may use it, and the function that answers it.
 * mpib-protocol(7) describes the commands. Control thread only.
 */
#ifndef MPIB_PROXY_STATS_COMMAND_H
#define MPIB_PROXY_STATS_COMMAND_H

#include "view/view.h"

#define MPIB_COMMAND_ARGS 3

/* The objects that the admin commands act on. */
struct mpib_admin {
	struct mpib_config *cfg;
	struct proxy_clients *clients;
	struct mpib_engine *engine;
	struct mpib_upgrade *upgrade;
	const int *run_dir; /* descriptor of the run directory */
};

/* Prefix of the origin of a setting that was set at run time. */
#define MPIB_ADMIN_ORIGIN "set by uid "

/* A command line that a reader sent, and its answer. */
struct mpib_ask {
	const struct mpib_view *view;
	const struct mpib_admin *admin;
	uid_t uid; /* the reader's */
	bool by_admin_sock; /* the reader is connected to the admin socket */
	unsigned argc; /* words after the command */
	const char *argv[MPIB_COMMAND_ARGS];
	char *text; /* the answer as text; the reader frees it */
	/* The state of an answer in parts: while part.more is set, the command
	 * is called again. The complete answer is in `text`. */
	struct mpib_view_part part;
	/* Set if the command failed. */
	char error[256], hint[128];
};

/* Run the command of *ask. Return the answer's data as a new reference, or
 * NULL. NULL: the answer is ask->text, or the command failed with ask->error;
 * if neither is set, memory was short. */
typedef json_t *mpib_command_fn(struct mpib_ask *ask);

enum mpib_command_needs {
	MPIB_NEEDS_NOTHING,
	MPIB_NEEDS_SNAPSHOT, /* view->snap is filled in */
	MPIB_NEEDS_REQUESTS, /* a snapshot with outstanding requests */
	MPIB_NEEDS_CLUSTER, /* the answers of peers; no snapshot */
};

struct mpib_command {
	const char *name;
	/* The arguments, for messages: "CLIENT", "[since]" or "" (none). With
	 * "...]", the last argument is the rest of the line. */
	const char *args;
	unsigned min, max; /* number of arguments */
	enum mpib_command_needs needs;
	bool admin; /* only the admin socket accepts it */
	mpib_command_fn *fn;
};

extern const struct mpib_command mpib_commands[];
extern const unsigned mpib_command_count;

/*
 * Split a line in place, find its command, and check the number of arguments
 * and the reader's rights. On failure, return NULL with the error in *ask.
 * ask->argv points into `line`.
 */
const struct mpib_command *mpib_command_parse(char *line, struct mpib_ask *ask);

/* Set ask->error and ask->hint; return NULL. */
json_t *mpib_ask_fail(struct mpib_ask *ask, const char *hint, const char *fmt,
		      ...) __attribute__((format(printf, 3, 4)));
/* Parse argument n as a number from 0 to `max`; if the argument is missing, use
 * `dflt`. If the argument is not such a number, set the error and return
 * false. */
bool mpib_ask_number(struct mpib_ask *ask, unsigned n, uint64_t dflt,
		     uint64_t max, uint64_t *value);

/* Return the number of the rail with this label, which has `len` bytes. If
 * there is none, set the error and return -1. */
int mpib_ask_rail(struct mpib_ask *ask, const char *label, size_t len);
/* Parse the argument of "stuck", the minimum age of the listed requests in
 * seconds, and convert it to ns. Returns like mpib_ask_number(). */
bool mpib_ask_age(struct mpib_ask *ask, uint64_t *ns);
/* Parse CLIENT.CONNECTION in the format of the command conns, such as "7.0". */
bool mpib_ask_conn(const char *text, uint32_t *client, uint32_t *index);

/* admin.c */
mpib_command_fn mpib_admin_drain, mpib_admin_resume, mpib_admin_fault,
	mpib_admin_kick, mpib_admin_set, mpib_admin_upgrade,
	mpib_admin_upgrading;

#endif
