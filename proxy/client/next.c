/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients at an upgrade: each attaches to the successor and registers its memory there
 * while the running proxy serves it (MPIB_CTL_NEXT). Control thread.
 */
#include <inttypes.h>
#include <mpib/control.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "client/client.h"

/* A client that does not read this answers late, or never, and the upgrade fails. */
static bool next_tell(const struct proxy_client *s, uint32_t number)
{
	const struct mpib_ctl_next next = {
		.h = { .type = MPIB_CTL_NEXT, .len = sizeof(next) },
		.number = number,
	};

	return mpib_message_send(s->sock, &next.h, NULL, 0) == 0;
}

void proxy_client_next(struct proxy_client *s, struct mpib_message *m)
{
	const struct mpib_ctl_next *got = (const void *)m->bytes;
	struct proxy_clients *all = s->all;

	if (got->number != s->told || !s->told || s->prepared == s->told)
		return; /* of an upgrade that failed */
	if (got->h.status == 0) {
		s->prepared = s->told;
		return;
	}
	if (all->next_why[0])
		return;
	snprintf(all->next_why, sizeof(all->next_why),
		 "client %u (%s, pid %u): %.*s", s->id, s->name, s->pid,
		 (int)sizeof(got->why) - 1, got->why);
}

unsigned proxy_clients_prepare(struct proxy_clients *all, uint32_t number,
			       char *why, size_t len)
{
	struct proxy_client *s;
	unsigned waits = 0;

	TAILQ_FOREACH(s, &all->list, link)
	{
		if (s->state != PROXY_CLIENT_LIVE || s->prepared == number)
			continue;
		if (s->told != number && next_tell(s, number))
			s->told = number;
		if (waits++ == 0)
			snprintf(why, len, "client %u (%s, pid %u)", s->id,
				 s->name, s->pid);
	}
	if (all->next_why[0])
		snprintf(why, len, "%s", all->next_why);
	return waits;
}

void proxy_clients_stay(struct proxy_clients *all)
{
	struct proxy_client *s;

	TAILQ_FOREACH(s, &all->list, link)
	{
		if (s->state == PROXY_CLIENT_LIVE && s->told)
			(void)next_tell(s, 0);
		s->told = s->prepared = 0;
	}
	all->next_why[0] = '\0';
}

void proxy_clients_serve(struct proxy_clients *all)
{
	struct proxy_client *s;

	all->awaits = false;
	TAILQ_FOREACH(s, &all->list, link)
	{
		if (s->state != PROXY_CLIENT_LIVE)
			continue;
		proxy_client_served(s);
		if (!next_tell(s, 0))
			mpib_warn("client %u (%s, pid %u) does not read that "
				  "the upgrade is complete",
				  s->id, s->name, s->pid);
	}
}
