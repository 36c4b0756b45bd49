/* SPDX-License-Identifier: Apache-2.0 */
/* What an agent says of this node's rails, for peers that ask. */
#include <string.h>

#include "agent/internal.h"
#include "base/address.h"
#include "base/network.h"

#define BOTH ((1u << MPIB_RAILS) - 1)
/* So long what an agent said holds without it: peers do not come back to a rail,
 * and leave it again, because the agent is started anew. */
#define KEPT (10 * MPIB_SEC)

static bool summary_sound(const struct mpib_agent_summary *s)
{
	if (s->sick > BOTH || s->congested > BOTH ||
	    s->windows > MPIB_AGENT_TOLD_MAX ||
	    !memchr(s->island, '\0', sizeof(s->island)))
		return false;
	for (const char *c = s->island; *c; c++) {
		if (*c < ' ' || *c > '~')
			return false;
	}
	for (unsigned i = 0; i < s->windows; i++) {
		if (s->window[i].rail >= MPIB_RAILS || s->window[i].bits > 128)
			return false;
	}
	return true;
}

bool mpib_agent_hear(struct mpib_agent_link *link,
		     const struct mpib_agent_summary *s)
{
	if (!summary_sound(s))
		return false;
	link->summary = *s;
	link->heard = true;
	link->left_ns = 0;
	return true;
}

void mpib_agent_said(const struct mpib_agent_link *link, uint32_t peer,
		     struct mpib_agent_word *word)
{
	struct in6_addr addr = mpib_address_of_ip(peer);
	const struct mpib_agent_summary *s;

	memset(word, 0, sizeof(*word));
	if (!link || !link->heard ||
	    (link->left_ns &&
	     mpib_loop_now(link->loop) - link->left_ns >= KEPT))
		return;
	s = &link->summary;
	word->there = true;
	word->sick = s->sick;
	word->congested = s->congested;
	memcpy(word->island, s->island, sizeof(word->island));
	for (unsigned i = 0; i < s->windows; i++) {
		struct mpib_network net = { .bits = s->window[i].bits };

		memcpy(&net.addr, s->window[i].addr, sizeof(net.addr));
		if (mpib_network_has(&net, &addr))
			word->maintenance |= (uint8_t)(1u << s->window[i].rail);
	}
}
