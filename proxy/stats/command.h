/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of the stats socket: one table with each command's arguments,
 * who may use it and the function that answers it. mpib-protocol(7) describes
 * the commands. Control thread only.
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
	struct mpib_plays *plays;
	struct mpib_upgrade *upgrade;
	const int *run_dir; /* descriptor of the run directory */
};

/* Prefix of the origin of a setting that was set at run time. */
#define MPIB_ADMIN_ORIGIN "set by uid "

/* A command line as a reader sent it. */
struct mpib_ask {
	const struct mpib_view *view;
	const struct mpib_admin *admin;
	uid_t uid; /* the reader's */
	bool by_admin_sock; /* the reader is connected to the admin socket */
	unsigned argc; /* words after the command */
	const char *argv[MPIB_COMMAND_ARGS];
	char *text; /* an answer that is not JSON; the reader frees it */
	/* While part.more is set, the command is called again; it answers with
	 * text. */
	struct mpib_view_part part;
	/* Set if the command fails. */
	char error[256], hint[128];
};

/* Answer ask with a new reference. NULL: the answer is ask->text; or the
 * command failed with ask->error; or, if neither is set, memory was short. */
typedef json_t *mpib_command_fn(struct mpib_ask *ask);

enum mpib_command_needs {
	MPIB_NEEDS_NOTHING,
	MPIB_NEEDS_SNAPSHOT, /* view->snap is filled in */
	MPIB_NEEDS_REQUESTS, /* a snapshot with outstanding requests */
	MPIB_NEEDS_CLUSTER, /* peers were asked; no snapshot */
};

struct mpib_command {
	const char *name;
	const char
		*args; /* "CLIENT", "[since]", ""; "...]": the rest of a line */
	unsigned min, max; /* number of arguments */
	enum mpib_command_needs needs;
	bool admin; /* by the admin socket only */
	mpib_command_fn *fn;
};

extern const struct mpib_command mpib_commands[];
extern const unsigned mpib_command_count;

/*
 * Split a line in place, find its command, and check the number of arguments
 * and the reader's rights. NULL with the error in *ask. ask->argv points into
 * line.
 */
const struct mpib_command *mpib_command_parse(char *line, struct mpib_ask *ask);

/* Set ask->error and ask->hint; return NULL. */
json_t *mpib_ask_fail(struct mpib_ask *ask, const char *hint, const char *fmt,
		      ...) __attribute__((format(printf, 3, 4)));
/* Parse argument n as a number from 0 to max; use dflt if the argument is
 * missing. Return false, with the error set, if it is not such a number. */
bool mpib_ask_number(struct mpib_ask *ask, unsigned n, uint64_t dflt,
		     uint64_t max, uint64_t *value);

/* Return the number of the rail with this label of len bytes; -1 with the error
 * set. */
int mpib_ask_rail(struct mpib_ask *ask, const char *label, size_t len);
/* Parse the argument of "stuck", the minimum age of the listed requests, in ns.
 * Returns like mpib_ask_number(). */
bool mpib_ask_age(struct mpib_ask *ask, uint64_t *ns);
/* Parse CLIENT.CONNECTION in the format of the command conns, such as "7.0". */
bool mpib_ask_conn(const char *text, uint32_t *client, uint32_t *index);

/* admin.c */
mpib_command_fn mpib_admin_drain, mpib_admin_resume, mpib_admin_kick,
	mpib_admin_share, mpib_admin_set, mpib_admin_upgrade,
	mpib_admin_upgrading;
/* play.c */
mpib_command_fn mpib_admin_fault, mpib_admin_heal, mpib_admin_faults;

#endif
