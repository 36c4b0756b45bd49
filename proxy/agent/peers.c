/* SPDX-License-Identifier: Apache-2.0 */
/* Asks this node's proxies what agents of other nodes say of their rails. */
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

/* Signed, as the clock may be set back. */
static bool peers_young(const struct mpib_agent_peer *one, uint64_t now_s)
{
	return (int64_t)(now_s - one->said_s) <= MPIB_AGENT_PEERS_MAX_S;
}

static void peers_add(struct mpib_agent_peers *p,
		      const struct mpib_agent_peer *one)
{
	p->of = mpib_xrealloc(p->of, (p->n + 1) * sizeof(*one));
	p->of[p->n++] = *one;
}

/* Keep what an agent says. It is kept where it says that nothing is amiss, too:
 * an older word of the same agent may say otherwise. */
static void peers_row(struct mpib_agent_peers *p, const json_t *row,
		      uint64_t now_s)
{
	const char *sout = json_string_value(json_object_get(row, "sout"));
	double age = mpib_json_real(row, "age_s");
	struct mpib_agent_peer one = {
		.sick = peers_mask(json_object_get(row, "sick")),
		.maintenance = peers_mask(json_object_get(row, "maintenance")),
	};

	if (!sout || inet_pton(AF_INET, sout, &one.sout) != 1 || age < 0 ||
	    age > MPIB_AGENT_PEERS_MAX_S)
		return;
	one.said_s = now_s - (uint64_t)age;
	peers_add(p, &one);
}

/* Order: by address, and for one address the youngest first. */
static int by_sout(const void *a, const void *b)
{
	const struct mpib_agent_peer *x = a, *y = b;

	if (x->sout != y->sout)
		return x->sout > y->sout ? 1 : -1;
	return (x->said_s < y->said_s) - (x->said_s > y->said_s);
}

static int peers_is_of(const void *key, const void *of)
{
	const struct mpib_agent_peer *x = key, *y = of;

	return (x->sout > y->sout) - (x->sout < y->sout);
}

/* Keep of each peer the youngest word. */
static void peers_sort(struct mpib_agent_peers *p)
{
	unsigned kept = 0;

	if (p->n)
		qsort(p->of, p->n, sizeof(*p->of), by_sout);
	for (unsigned i = 0; i < p->n; i++) {
		if (!kept || p->of[kept - 1].sout != p->of[i].sout)
			p->of[kept++] = p->of[i];
	}
	p->n = kept;
}

static bool peers_ask(struct mpib_agent_peers *p, const char *run_dir,
		      uint64_t now_s, char *why)
{
	json_t *rows = NULL, *row;
	struct mpib_dial d;
	size_t i;
	int rc = mpib_dial_open(&d, run_dir);

	if (rc == MPIB_EXIT_OK)
		rc = mpib_dial_ask(&d, "agents", &rows);
	if (rc != MPIB_EXIT_OK)
		snprintf(why, MPIB_AGENT_WHY, "%.250s", d.why);
	json_array_foreach(rows, i, row) peers_row(p, row, now_s);
	json_decref(rows);
	mpib_dial_close(&d);
	return rc == MPIB_EXIT_OK;
}

bool mpib_agent_peers_look(struct mpib_agent_peers *p,
			   const char *const *run_dir, unsigned proxies,
			   uint64_t now_s, char *why)
{
	struct mpib_agent_peers fresh = { 0 };
	bool ok = true;

	for (unsigned i = 0; i < proxies; i++)
		ok &= peers_ask(&fresh, run_dir[i], now_s, why);
	/* What was said later than now was, before the clock was set back, and would
	 * count as newer than all that is said. */
	for (unsigned i = 0; i < p->n; i++) {
		if (p->of[i].said_s <= now_s && peers_young(&p->of[i], now_s))
			peers_add(&fresh, &p->of[i]);
	}
	peers_sort(&fresh);
	mpib_agent_peers_free(p);
	*p = fresh;
	return ok;
}

const struct mpib_agent_peer *
mpib_agent_peer_of(const struct mpib_agent_peers *p, uint32_t sout,
		   uint64_t now_s)
{
	const struct mpib_agent_peer key = { .sout = sout };
	const struct mpib_agent_peer *found = NULL;

	if (p->n)
		found = bsearch(&key, p->of, p->n, sizeof(key), peers_is_of);
	return found && peers_young(found, now_s) ? found : NULL;
}

void mpib_agent_peers_free(struct mpib_agent_peers *p)
{
	free(p->of);
	p->of = NULL;
	p->n = 0;
}
