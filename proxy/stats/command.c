/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the stats socket's commands, the parser of command lines, and
 * the commands that only read. */
#include "stats/command.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cluster/cluster.h"
#include "metrics/exposition.h"

json_t *mpib_ask_fail(struct mpib_ask *ask, const char *hint, const char *fmt,
		      ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(ask->error, sizeof(ask->error), fmt, ap);
	va_end(ap);
	snprintf(ask->hint, sizeof(ask->hint), "%s", hint);
	return NULL;
}

bool mpib_ask_number(struct mpib_ask *ask, unsigned n, uint64_t dflt,
		     uint64_t max, uint64_t *value)
{
	*value = dflt;
	if (n >= ask->argc || mpib_number(ask->argv[n], 0, max, value))
		return true;
	mpib_ask_fail(ask, "give one of these",
		      "\"%.32s\" is not a whole number from 0 to %llu",
		      ask->argv[n], (unsigned long long)max);
	return false;
}

int mpib_ask_rail(struct mpib_ask *ask, const char *label, size_t len)
{
	int rail = mpib_config_rail_find(ask->admin->cfg, label, len);

	if (rail < 0)
		mpib_ask_fail(ask, "rails lists them",
			      "there is no rail \"%.*s\"",
			      len < 40 ? (int)len : 40, label);
	return rail;
}

#define VIEW(noun)                                                             \
	static json_t *noun(struct mpib_ask *ask)                              \
	{                                                                      \
		return mpib_view_##noun(ask->view);                            \
	}

VIEW(info)
VIEW(rails)
VIEW(devices)
VIEW(jobs)
VIEW(clients)
VIEW(lanes)
VIEW(peers)
VIEW(config)

static json_t *answer_part(struct mpib_ask *ask, mpib_view_part_fn *fn,
			   uint64_t arg)
{
	struct mpib_view_part *part = &ask->part;

	if (!mpib_view_part_begin(part))
		return NULL;
	if (part->at == 0)
		fputs("{\"ok\":true,\"data\":", part->out);
	fn(ask->view, arg, part);
	if (part->more && !part->failed)
		return NULL;
	fputs("}\n", part->out);
	ask->text = mpib_view_part_end(part);
	return NULL;
}

static json_t *command_conns(struct mpib_ask *ask)
{
	uint64_t client;

	if (!mpib_ask_number(ask, 0, 0, UINT32_MAX, &client))
		return NULL;
	if (ask->argc && ask->part.at == 0 &&
	    !proxy_clients_known(ask->view->clients, (uint32_t)client))
		return mpib_ask_fail(ask, "clients lists them",
				     "there is no client %llu",
				     (unsigned long long)client);
	return answer_part(ask, mpib_view_conns_part, client);
}

static json_t *command_hist(struct mpib_ask *ask)
{
	uint64_t client;
	int which;

	if (ask->argc == 0)
		return mpib_view_hists(ask->view);
	if (!mpib_ask_number(ask, 1, 0, UINT32_MAX, &client))
		return NULL;
	if (client && ask->part.at == 0 &&
	    !proxy_clients_known(ask->view->clients, (uint32_t)client))
		return mpib_ask_fail(ask, "clients lists them",
				     "there is no client %llu",
				     (unsigned long long)client);
	which = mpib_view_hist_find(ask->argv[0]);
	if (which < 0)
		return mpib_ask_fail(ask, "hist lists them",
				     "there is no histogram \"%.64s\"",
				     ask->argv[0]);
	return answer_part(ask, mpib_view_hist_part,
			   (uint64_t)which << 32 | client);
}

#define STUCK_S 5

bool mpib_ask_age(struct mpib_ask *ask, uint64_t *ns)
{
	bool ok = mpib_ask_number(ask, 0, STUCK_S, UINT32_MAX, ns);

	*ns *= 1000000000ull;
	return ok;
}

static json_t *command_stuck(struct mpib_ask *ask)
{
	uint64_t ns;

	return mpib_ask_age(ask, &ns) ? mpib_view_stuck(ask->view, ns) : NULL;
}

bool mpib_ask_conn(const char *text, uint32_t *client, uint32_t *index)
{
	const char *dot = strchr(text, '.');
	unsigned long of, nth;
	char *end;

	if (!dot || !isdigit((unsigned char)text[0]) ||
	    !isdigit((unsigned char)dot[1]))
		return false;
	of = strtoul(text, &end, 10);
	if (end != dot || of > UINT32_MAX)
		return false;
	nth = strtoul(dot + 1, &end, 10);
	*client = (uint32_t)of;
	*index = (uint32_t)nth;
	return !*end && nth < UINT32_MAX; /* UINT32_MAX: all connections */
}

static json_t *command_why(struct mpib_ask *ask)
{
	uint32_t client = 0, index = UINT32_MAX;
	uint64_t which;

	if (ask->argc && !mpib_ask_conn(ask->argv[0], &client, &index))
		return mpib_ask_fail(ask, "conns lists them, as in 7.0",
				     "\"%.32s\" is not a CLIENT.CONNECTION",
				     ask->argv[0]);
	which = (uint64_t)client << 32 | index;
	if (ask->argc && ask->part.at == 0 &&
	    !mpib_view_why_any(ask->view, which))
		return mpib_ask_fail(ask, "conns lists them",
				     "there is no sending connection %.32s",
				     ask->argv[0]);
	return answer_part(ask, mpib_view_why_part, which);
}

static json_t *command_cluster(struct mpib_ask *ask)
{
	const char *text;

	if (!ask->view->cluster)
		return mpib_ask_fail(ask, "ask the running proxy",
				     "peers cannot be asked");
	text = mpib_cluster_text(ask->view->cluster);
	if (!text ||
	    asprintf(&ask->text, "{\"ok\":true,\"data\":%s}\n", text) < 0)
		ask->text = NULL;
	return NULL;
}

static json_t *command_agent(struct mpib_ask *ask)
{
	json_t *agent = mpib_view_agent(ask->view);

	if (!json_is_null(agent))
		return agent;
	json_decref(agent);
	return mpib_ask_fail(ask,
			     "start mpib-agent, which reports after a "
			     "connection has sent; see policy.mode and "
			     "agent.dir",
			     "no agent has reported to this proxy");
}

static json_t *command_events(struct mpib_ask *ask)
{
	uint64_t since;

	if (!mpib_ask_number(ask, 0, 0, INT64_MAX, &since))
		return NULL;
	return mpib_view_events(ask->view, since);
}

static json_t *command_history(struct mpib_ask *ask)
{
	uint64_t minutes;

	if (!mpib_ask_number(ask, 0, 60, 60, &minutes))
		return NULL;
	return answer_part(ask, mpib_view_history_part, minutes * 60);
}

static json_t *command_metrics(struct mpib_ask *ask)
{
	char *text = mpib_metrics_text(ask->view);
	json_t *answer = text ? json_string(text) : NULL;

	free(text);
	return answer;
}

const struct mpib_command mpib_commands[] = {
	{ "info", "", 0, 0, MPIB_NEEDS_SNAPSHOT, false, info },
	{ "rails", "", 0, 0, MPIB_NEEDS_SNAPSHOT, false, rails },
	{ "devices", "", 0, 0, MPIB_NEEDS_SNAPSHOT, false, devices },
	{ "jobs", "", 0, 0, MPIB_NEEDS_SNAPSHOT, false, jobs },
	{ "clients", "", 0, 0, MPIB_NEEDS_SNAPSHOT, false, clients },
	{ "conns", "[client]", 0, 1, MPIB_NEEDS_SNAPSHOT, false,
	  command_conns },
	{ "lanes", "", 0, 0, MPIB_NEEDS_SNAPSHOT, false, lanes },
	{ "peers", "", 0, 0, MPIB_NEEDS_SNAPSHOT, false, peers },
	{ "cluster", "", 0, 0, MPIB_NEEDS_CLUSTER, false, command_cluster },
	{ "agent", "", 0, 0, MPIB_NEEDS_NOTHING, false, command_agent },
	{ "hist", "[NAME [client]]", 0, 2, MPIB_NEEDS_SNAPSHOT, false,
	  command_hist },
	{ "stuck", "[seconds]", 0, 1, MPIB_NEEDS_REQUESTS, false,
	  command_stuck },
	{ "why", "[client.conn]", 0, 1, MPIB_NEEDS_SNAPSHOT, false,
	  command_why },
	{ "events", "[since]", 0, 1, MPIB_NEEDS_NOTHING, false,
	  command_events },
	{ "history", "[minutes]", 0, 1, MPIB_NEEDS_NOTHING, false,
	  command_history },
	{ "config", "", 0, 0, MPIB_NEEDS_NOTHING, false, config },
	{ "metrics", "", 0, 0, MPIB_NEEDS_SNAPSHOT, false, command_metrics },
	{ "drain", "RAIL [WHY...]", 1, 2, MPIB_NEEDS_NOTHING, true,
	  mpib_admin_drain },
	{ "resume", "RAIL", 1, 1, MPIB_NEEDS_NOTHING, true, mpib_admin_resume },
	{ "fault", "RAIL", 1, 1, MPIB_NEEDS_NOTHING, true, mpib_admin_fault },
	{ "kick", "CLIENT", 1, 1, MPIB_NEEDS_NOTHING, true, mpib_admin_kick },
	{ "set", "KEY VALUE", 2, 2, MPIB_NEEDS_NOTHING, true, mpib_admin_set },
	{ "upgrade", "[PATH]", 0, 1, MPIB_NEEDS_NOTHING, true,
	  mpib_admin_upgrade },
	{ "upgrading", "", 0, 0, MPIB_NEEDS_NOTHING, false,
	  mpib_admin_upgrading },
};

const unsigned mpib_command_count =
	sizeof(mpib_commands) / sizeof(mpib_commands[0]);

static const struct mpib_command *command_find(const char *name,
					       struct mpib_ask *ask)
{
	struct mpib_suggest s = { .typed = name };
	char hint[96];

	for (unsigned i = 0; i < mpib_command_count; i++) {
		if (!strcmp(mpib_commands[i].name, name))
			return &mpib_commands[i];
		mpib_suggest_try(&s, mpib_commands[i].name);
	}
	mpib_ask_fail(ask,
		      mpib_suggest_remedy(&s, "see mpib-protocol(7)", hint,
					  sizeof(hint)),
		      "unknown command \"%.64s\"", name);
	return NULL;
}

static bool command_may(const struct mpib_command *c, struct mpib_ask *ask)
{
	if (!c->admin || ask->by_admin_sock)
		return true;
	mpib_ask_fail(ask,
		      "ask as root or as the user who runs the proxy, where "
		      "RUNDIR.admin is",
		      "%s: uid %u may not change anything through the stats "
		      "socket",
		      c->name, ask->uid);
	return false;
}

static const char blank[] = " \t\r";

/* Put the arguments of a command into *ask. Return their number. */
static unsigned take_arguments(const struct mpib_command *c, char **save,
			       struct mpib_ask *ask)
{
	/* The last argument is the rest of the line. */
	bool rest = strstr(c->args, "...]");
	unsigned words = 0;
	char *word;

	while ((word = strtok_r(NULL, rest && words + 1 == c->max ? "" : blank,
				save))) {
		word += strspn(word, blank);
		if (!*word)
			break;
		if (words < MPIB_COMMAND_ARGS)
			ask->argv[words] = strcmp(word, "\"\"") ? word : "";
		words++;
	}
	return words;
}

const struct mpib_command *mpib_command_parse(char *line, struct mpib_ask *ask)
{
	const struct mpib_command *c;
	char *save, *word = strtok_r(line, blank, &save);
	unsigned words;

	c = command_find(word ? word : "", ask);
	if (!c)
		return NULL;
	words = take_arguments(c, &save, ask);
	if (words < c->min || words > c->max) {
		mpib_ask_fail(ask, "see mpib-protocol(7)", "%s takes %s%s%s",
			      c->name, *c->args ? c->args : "no argument",
			      words ? "; got " : "",
			      words > c->max ? "too many words"
			      : words	     ? "too few words"
					     : "");
		return NULL;
	}
	ask->argc = words;
	return command_may(c, ask) ? c : NULL;
}
