/* SPDX-License-Identifier: Apache-2.0 */
/* Ask proxies what agents of other nodes say. */
#include "agent/peers.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/words.h"
#include "base/xalloc.h"
#include "ctl/dial.h"

/* The bits of the rails that the list names. */
static uint8_t peers_mask(const json_t *list)
{
	const json_t *item;
	uint8_t mask = 0;
	size_t i;

	json_array_foreach(list, i, item)
	{
		const char *name = json_string_value(item);

		if (name && !strcmp(name, "SOUT"))
			mask |= 1;
		else if (name && !strcmp(name, "SUP"))
			mask |= 2;
	}
	return mask;
}

static void peers_row(struct mpib_agent_peers *p, const json_t *row)
{
	const char *sout = json_string_value(json_object_get(row, "sout"));
	struct mpib_agent_peer one = {
		.sick = peers_mask(json_object_get(row, "sick")),
		.maintenance = peers_mask(json_object_get(row, "maintenance")),
	};

	if (!sout || inet_pton(AF_INET, sout, &one.sout) != 1 ||
	    json_number_value(json_object_get(row, "age_s")) >
		    MPIB_AGENT_PEERS_MAX_S ||
	    !(one.sick | one.maintenance))
		return;
	p->of = mpib_xrealloc(p->of, (p->n + 1) * sizeof(one));
	p->of[p->n++] = one;
}

static int by_sout(const void *a, const void *b)
{
	const struct mpib_agent_peer *x = a, *y = b;

	return (x->sout > y->sout) - (x->sout < y->sout);
}

static bool peers_ask(struct mpib_agent_peers *p, const char *run_dir,
		      char *why)
{
	json_t *rows = NULL, *row;
	struct mpib_dial d;
	size_t i;
	int rc = mpib_dial_open(&d, run_dir);

	if (rc == MPIB_EXIT_OK)
		rc = mpib_dial_ask(&d, "agents", &rows);
	if (rc != MPIB_EXIT_OK)
		snprintf(why, MPIB_AGENT_WHY, "%.250s", d.why);
	json_array_foreach(rows, i, row) peers_row(p, row);
	json_decref(rows);
	mpib_dial_close(&d);
	return rc == MPIB_EXIT_OK;
}

bool mpib_agent_peers_look(struct mpib_agent_peers *p,
			   const char *const *run_dir, unsigned proxies,
			   uint64_t now_s, char *why)
{
	struct mpib_agent_peers fresh = { .told_s = now_s };
	bool ok = true;

	for (unsigned i = 0; ok && i < proxies; i++)
		ok = peers_ask(&fresh, run_dir[i], why);
	if (!ok) {
		mpib_agent_peers_free(&fresh);
		if (now_s - p->told_s > MPIB_AGENT_PEERS_MAX_S)
			mpib_agent_peers_free(p);
		return false;
	}
	if (fresh.n)
		qsort(fresh.of, fresh.n, sizeof(*fresh.of), by_sout);
	mpib_agent_peers_free(p);
	*p = fresh;
	return true;
}

const struct mpib_agent_peer *
mpib_agent_peer_of(const struct mpib_agent_peers *p, uint32_t sout)
{
	const struct mpib_agent_peer key = { .sout = sout };

	if (!p->n)
		return NULL;
	return bsearch(&key, p->of, p->n, sizeof(key), by_sout);
}

void mpib_agent_peers_free(struct mpib_agent_peers *p)
{
	free(p->of);
	p->of = NULL;
	p->n = 0;
}
