/* SPDX-License-Identifier: Apache-2.0 */
/* The list of islands. */
#include "agent/islands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/xalloc.h"

static bool islands_take(void *ctx, char **words, unsigned count, unsigned line,
			 char *why)
{
	struct mpib_agent_islands *list = ctx;
	struct mpib_agent_island *one;

	(void)line;
	if (count != 2 || strlen(words[1]) >= MPIB_AGENT_ISLAND_MAX)
		return mpib_agent_bad(why,
				      "%.48s: it takes a network and the name "
				      "of an island (as 10.1.0.0/16 rack1)",
				      words[0]);
	if (list->n == MPIB_AGENT_ISLANDS_MAX)
		return mpib_agent_bad(why,
				      "there are more than %u lines (join "
				      "networks of one island)",
				      MPIB_AGENT_ISLANDS_MAX);
	list->of = mpib_xrealloc(list->of, (list->n + 1) * sizeof(*one));
	one = &list->of[list->n];
	memset(one, 0, sizeof(*one));
	one->net.bits = 128;
	if (mpib_network_parse(words[0], strlen(words[0]), &one->net) < 0 &&
	    !mpib_address_parse(words[0], &one->net.addr))
		return mpib_agent_bad(why,
				      "%.48s: it is no network (as "
				      "10.1.0.0/16, with zeros behind it)",
				      words[0]);
	snprintf(one->name, sizeof(one->name), "%s", words[1]);
	list->n++;
	return true;
}

bool mpib_agent_islands_read(struct mpib_agent_islands *list, const char *path,
			     char *why)
{
	if (mpib_agent_words_read(path, islands_take, list, why))
		return true;
	mpib_agent_islands_free(list);
	return false;
}

void mpib_agent_islands_free(struct mpib_agent_islands *list)
{
	free(list->of);
	memset(list, 0, sizeof(*list));
}

const char *mpib_agent_island_of(const struct mpib_agent_islands *list,
				 uint32_t ip)
{
	struct in6_addr addr = mpib_address_of_ip(ip);
	const struct mpib_agent_island *best = NULL;

	for (unsigned i = 0; i < list->n; i++) {
		const struct mpib_agent_island *one = &list->of[i];

		if ((!best || one->net.bits > best->net.bits) &&
		    mpib_network_has(&one->net, &addr))
			best = one;
	}
	return best ? best->name : NULL;
}
