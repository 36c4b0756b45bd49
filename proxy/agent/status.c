/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent steers, why and since when, as JSON. */
#include "agent/status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/address.h"

static const char *const rail_word[MPIB_RAILS] = { "sout", "sup" };

/* Text of an operator's file may be of any encoding, or cut in a character;
 * JSON may not. */
static json_t *status_text(const char *text)
{
	char plain[MPIB_AGENT_WHY];

	snprintf(plain, sizeof(plain), "%s", text);
	for (char *c = plain; *c; c++) {
		if (*c < ' ' || *c > '~')
			*c = '?';
	}
	return json_string(plain);
}

static json_t *status_rail(const struct mpib_agent_policy *p, unsigned r)
{
	const struct mpib_agent_objection *sick = &p->ports.sick[r];
	const struct mpib_agent_objection *t =
		sick->since ? sick : &p->ports.congested[r];

	return json_pack("{ss ss so sI}", "rail", rail_word[r], "state",
			 sick->since ? "left"
			 : t->since  ? "eased"
				     : "well",
			 "why", status_text(t->why), "since",
			 (json_int_t)(t->since ? t->since : p->now.s));
}

static json_t *status_conn(const struct mpib_agent_slot *s, unsigned slot)
{
	const struct mpib_agent_choice *c = &s->choice;
	struct in6_addr peer = mpib_address_of_ip(s->dst_ip);
	char text[MPIB_ADDRESS_MAX], conn[32] = "";

	if (s->known)
		snprintf(conn, sizeof(conn), "%u.%u", s->client, s->index);
	return json_pack(
		"{sI sI ss ss so so sI sI so sI}", "hint_slot",
		(json_int_t)slot, "pid", (json_int_t)mpib_agent_pid(s), "conn",
		conn, "peer", mpib_address_text(&peer, 0, text, sizeof(text)),
		"uid", s->known ? json_integer(s->uid) : json_null(), "sup_bw",
		c->sup_bw > MPIB_HINT_SUP_BW_MAX ? json_null()
						 : json_integer(c->sup_bw),
		"connections", (json_int_t)s->users, "line",
		(json_int_t)(c->rule ? c->rule->line : 0), "why",
		status_text(c->why), "since", (json_int_t)c->since);
}

/* Connections that are steered, and how many have no row. */
static json_t *status_conns(const struct mpib_agent *a, json_int_t *own,
			    json_int_t *more)
{
	json_t *rows = json_array();

	*own = *more = 0;
	for (unsigned i = 0; i < MPIB_HINT_SLOTS_MAX; i++) {
		const struct mpib_agent_slot *s = &a->slot[i];

		if (!s->users)
			continue;
		if (s->choice.sup_bw > MPIB_HINT_SUP_BW_MAX)
			*own += s->users;
		else if (json_array_size(rows) == MPIB_AGENT_STATUS_ROWS)
			*more += s->users;
		else
			json_array_append_new(rows, status_conn(s, i));
	}
	return rows;
}

static json_t *status_json(const struct mpib_agent_policy *p)
{
	json_int_t own, more;
	json_t *conns = status_conns(p->agent, &own, &more);
	json_t *rails = json_array();

	for (unsigned r = 0; r < MPIB_RAILS; r++)
		json_array_append_new(rails, status_rail(p, r));
	return json_pack("{sI sI sb so sI so sI so sI sI so sI sI}", "pid",
			 (json_int_t)getpid(), "told", (json_int_t)p->now.s,
			 "dry_run", p->dry, "config", status_text(p->conf.path),
			 "configs", (json_int_t)p->age, "fault",
			 status_text(p->fault), "windows",
			 (json_int_t)p->windows.n, "rails", rails, "own", own,
			 "more", more, "steered", conns, "sharing",
			 (json_int_t)p->agent->sharing, "refused",
			 (json_int_t)p->agent->refused);
}

int mpib_agent_status_write(const struct mpib_agent_policy *p)
{
	static const char tmp[] = MPIB_AGENT_STATUS ".new";
	int dir = p->agent->dir_fd, rc = 0;
	json_t *all = status_json(p);
	int fd;

	if (!all)
		return -ENOMEM;
	unlinkat(dir, tmp, 0);
	fd = openat(dir, tmp,
		    O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0) {
		rc = -errno;
		goto out;
	}
	errno = 0;
	if (fchmod(fd, 0644) < 0 || json_dumpfd(all, fd, JSON_INDENT(1)) < 0 ||
	    renameat(dir, tmp, dir, MPIB_AGENT_STATUS) < 0)
		rc = errno ? -errno : -EIO;
	close(fd);
	if (rc < 0)
		unlinkat(dir, tmp, 0);
out:
	json_decref(all);
	return rc;
}

void mpib_agent_status_remove(const struct mpib_agent *a)
{
	if (a->dir_fd >= 0)
		unlinkat(a->dir_fd, MPIB_AGENT_STATUS, 0);
}
