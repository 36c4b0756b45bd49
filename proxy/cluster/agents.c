/* SPDX-License-Identifier: Apache-2.0 */
/* What agents of peers say, for this node's agent. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/cluster.h"

/* The node that says that a SOUT is its own. */
struct agents_sout {
	uint32_t sout;
	bool contested; /* by a node at another address */
	struct in6_addr addr;
};

struct agents_view {
	struct agents_sout *of;
	size_t souts, room;
	json_t *list;
};

static void agents_count(void *arg, const struct mpib_broker_told *t)
{
	(void)t;
	((struct agents_view *)arg)->room++;
}

static void agents_add(void *arg, const struct mpib_broker_told *t)
{
	struct agents_view *x = arg;

	if (t->sout && x->souts < x->room)
		x->of[x->souts++] = (struct agents_sout){ .sout = t->sout,
							  .addr = t->addr };
}

static int agents_by_sout(const void *a, const void *b)
{
	const struct agents_sout *x = a, *y = b;

	return (x->sout > y->sout) - (x->sout < y->sout);
}

/* One for each SOUT. */
static void agents_settle(struct agents_view *x)
{
	size_t kept = 0;

	if (x->souts)
		qsort(x->of, x->souts, sizeof(*x->of), agents_by_sout);
	for (size_t i = 0; i < x->souts; i++) {
		struct agents_sout *last = kept ? &x->of[kept - 1] : NULL;

		if (!last || last->sout != x->of[i].sout)
			x->of[kept++] = x->of[i];
		else if (memcmp(&last->addr, &x->of[i].addr,
				sizeof(last->addr)) != 0)
			last->contested = true;
	}
	x->souts = kept;
}

static bool agents_contested(const struct agents_view *x, uint32_t sout)
{
	const struct agents_sout key = { .sout = sout };
	const struct agents_sout *c =
		bsearch(&key, x->of, x->souts, sizeof(key), agents_by_sout);

	return !c || c->contested;
}

static void agents_told(void *arg, const struct mpib_broker_told *t)
{
	struct agents_view *x = arg;
	char sout[INET_ADDRSTRLEN];
	json_t *o;

	if (!t->report || !t->report->agent.there || !t->sout ||
	    agents_contested(x, t->sout))
		return;
	inet_ntop(AF_INET, &t->sout, sout, sizeof(sout));
	o = json_pack("{ss ss sf}", "peer", t->peer, "sout", sout, "age_s",
		      (double)t->age_ns / 1e9);
	json_object_update_new(o, mpib_cluster_word(&t->report->agent));
	json_array_append_new(x->list, o);
}

json_t *mpib_cluster_agents(const struct mpib_cluster *c)
{
	struct agents_view x = { .list = json_array() };

	mpib_broker_each_told(c->broker, agents_count, &x);
	x.of = calloc(x.room + 1, sizeof(*x.of));
	if (x.of) {
		mpib_broker_each_told(c->broker, agents_add, &x);
		agents_settle(&x);
		mpib_broker_each_told(c->broker, agents_told, &x);
	}
	free(x.of);
	return x.list;
}
