/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of the stats socket: one table with what each takes, who may
 * give it and what it answers. mpib-protocol(7) is the same for people.
 * Control thread only.
 */
#ifndef MPIB_PROXY_STATS_COMMAND_H
#define MPIB_PROXY_STATS_COMMAND_H

#include "view/view.h"

#define MPIB_COMMAND_ARGS 3

/* What the admin commands act on. */
struct mpib_admin {
	struct mpib_config *cfg;
	struct proxy_clients *clients;
	struct mpib_engine *engine;
	struct mpib_upgrade *upgrade;
};

/* Begins the origin of what was set while the proxy ran. */
#define MPIB_ADMIN_ORIGIN "set by uid "

/* Bring into force what is in cfg now and may change. Control thread. */
void mpib_admin_apply(const struct mpib_admin *a);

/* A command as a reader gave it. */
struct mpib_ask {
	const struct mpib_view *view;
	const struct mpib_admin *admin; /* NULL: nothing can be changed */
	uid_t uid;
	unsigned argc; /* words after the command */
	const char *argv[MPIB_COMMAND_ARGS];
	char *text; /* to be freed: the answer as it is, in place of JSON */
	/* When it fails. */
	char error[256], hint[128];
};

/* A new reference; NULL with text, or with error and hint, or
 * with none: no memory. */
typedef json_t *mpib_command_fn(struct mpib_ask *ask);

enum mpib_command_needs {
	MPIB_NEEDS_NOTHING,
	MPIB_NEEDS_SNAPSHOT, /* view->snap is filled in */
	MPIB_NEEDS_STREAM, /* the same, again and again */
	MPIB_NEEDS_REQUESTS, /* a snapshot with requests under way */
};

struct mpib_command {
	const char *name;
	const char *args; /* for people: "CLIENT", "[since]", "" */
	unsigned min, max; /* words */
	enum mpib_command_needs needs;
	bool admin; /* root or the proxy's own user only */
	mpib_command_fn *fn;
	const char *desc;
};

extern const struct mpib_command mpib_commands[];
extern const unsigned mpib_command_count;

/*
 * Take a line apart, in place, and check all that can be known before it runs.
 * NULL with the failure in *ask; words of ask point into line.
 */
const struct mpib_command *mpib_command_parse(char *line, struct mpib_ask *ask);

/* NULL, having set the failure. */
json_t *mpib_ask_fail(struct mpib_ask *ask, const char *hint, const char *fmt,
		      ...) __attribute__((format(printf, 3, 4)));
/* The n-th word as a number from 0 to max, dflt when it is not there. False,
 * with the failure set, when it is none. */
bool mpib_ask_number(struct mpib_ask *ask, unsigned n, uint64_t dflt,
		     uint64_t max, uint64_t *value);

/* Of "stuck": how old a request has to be, in ns. As mpib_ask_number(). */
bool mpib_ask_age(struct mpib_ask *ask, uint64_t *ns);
/* "7.0", as conns shows client and connection. */
bool mpib_ask_conn(const char *text, uint32_t *client, uint32_t *index);

/* admin.c */
mpib_command_fn mpib_admin_drain, mpib_admin_resume, mpib_admin_kick,
	mpib_admin_share, mpib_admin_set, mpib_admin_log, mpib_admin_upgrade,
	mpib_admin_upgrades;

#endif
