/* SPDX-License-Identifier: Apache-2.0 */
/* Tells this node's proxies what agents of other nodes are to know of its rails. */
#include <stdio.h>
#include <string.h>

#include "agent/decide.h"

/* This node's island: a node has one, so that of the first connection that has one
 * is it. */
static void tell_island(const struct mpib_agent_policy *p, char *island)
{
	const char *name = NULL;

	for (unsigned i = 0; i < MPIB_AGENT_OWN && !name; i++) {
		const struct mpib_agent_slot *s = &p->agent->slot[i];

		if (s->users)
			name = mpib_agent_island_of(&p->conf.islands,
						    s->src_ip);
	}
	snprintf(island, MPIB_AGENT_TOLD_ISLAND, "%s", name ? name : "");
	for (char *c = island; *c; c++) {
		if (*c < ' ' || *c > '~')
			*c = '?';
	}
}

static void tell_window(struct mpib_agent_summary *s,
			const struct mpib_agent_window *w)
{
	struct mpib_agent_told *to = &s->window[s->windows++];

	memcpy(to->addr, &w->net.addr, sizeof(to->addr));
	to->bits = (uint8_t)w->net.bits;
	to->rail = (uint8_t)w->rail;
}

void mpib_agent_summary(const struct mpib_agent_policy *p,
			struct mpib_agent_summary *s)
{
	memset(s, 0, sizeof(*s));
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		s->sick |= (uint8_t)((p->ports.sick[r].since != 0) << r);
		s->congested |=
			(uint8_t)((p->ports.congested[r].since != 0) << r);
	}
	for (unsigned i = 0; i < p->windows.n; i++) {
		const struct mpib_agent_window *w = &p->windows.of[i];

		if (p->now.s + p->conf.lead_s >= w->from && p->now.s < w->to &&
		    s->windows < MPIB_AGENT_TOLD_MAX)
			tell_window(s, w);
	}
	tell_island(p, s->island);
}
