/* SPDX-License-Identifier: Apache-2.0 */
/* At the end of a run, compare a proxy's counters with its objects. */
#include <inttypes.h>

#include "client/client.h"
#include "client/quota.h"
#include "engine/shard.h"
#include "peer/internal.h"
#include "proxy.h"
#include "sim_hca.h"
#include "sim_node.h"
#include "sim_world.h"
#include "sums.h"

static void sums_wrong(const char *whose, const struct sum *sum)
{
	sim_fail("%s: counter %s is %" PRIu64
		 ", but its objects add up to %" PRIu64,
		 whose, sum->what, sum->owed, sum->have);
}

void sim_sums_check(const struct mpib_proxy *p)
{
	const struct mpib_engine *engine = p->engine;
	struct sum sum;

	for (unsigned i = 0; i < engine->shards; i++) {
		if (!sums_of_shard(&engine->shard[i], &sum))
			sums_wrong("shard", &sum);
	}
	if (!sums_of_broker(p->broker, &sum))
		sums_wrong("broker", &sum);
	if (!sums_of_clients(&p->clients, &sum))
		sums_wrong("clients", &sum);
}

void sim_sums_add(const struct mpib_engine *engine, struct sim_bytes *all)
{
	for (unsigned i = 0; i < engine->shards; i++) {
		for (unsigned r = 0; r < engine->cfg.rails; r++) {
			const struct mpib_shard *s = &engine->shard[i];
			struct mpib_rail_counts n = { 0 };

			mpib_rail_counted(s, r, &n);
			all[r].tx += n.tx_bytes;
			all[r].rx += n.rx_bytes;
			all[r].lost += s->rail[r].n.failover.lost_bytes;
		}
	}
}

void sim_sums_compare(const struct sim_bytes *all, uint64_t received)
{
	uint64_t rx = 0;

	for (unsigned r = 0; r < SIM_RAILS; r++) {
		rx += all[r].rx;
		if (all[r].tx - all[r].lost != all[r].rx)
			sim_fail("rail %u: sent bytes: %" PRIu64
				 ", of these lost: %" PRIu64
				 ", but received bytes: %" PRIu64,
				 r, all[r].tx, all[r].lost, all[r].rx);
	}
	if (rx != received)
		sim_fail("the rails received %" PRIu64
			 " bytes, but the ranks received %" PRIu64,
			 rx, received);
}

/* Return how much of quota `q` the client's user uses. Do not count dead
 * private lanes, or descriptors of clients that have not sent HELLO. */
static uint64_t held(const struct proxy_client *s, enum mpib_quota q)
{
	uint64_t used = mpib_quota_used(s->all, s->uid, q);
	const struct proxy_client *c;
	const struct peer_lane *l;

	if (q == MPIB_QUOTA_FDS) {
		TAILQ_FOREACH(c, &s->all->list, link)
		{
			if (c->uid == s->uid && !c->peer_client.engine_client)
				used -= MPIB_FDS_OF_A_CLIENT;
		}
	}
	if (q != MPIB_QUOTA_LANES)
		return used;
	for (l = s->all->broker->lanes; l; l = l->hh.next)
		used -= l->ours && l->key.uid == s->uid &&
			l->state == PEER_LANE_DEAD;
	return used;
}

void sim_sums_quotas(const struct mpib_proxy *p)
{
	const struct proxy_client *s;

	TAILQ_FOREACH(s, &p->clients.list, link)
	{
		for (unsigned q = 0; q < MPIB_QUOTA_MESSAGES; q++) {
			uint64_t most = p->clients.most[q];
			uint64_t used = held(s, (enum mpib_quota)q);

			if (most && used > most)
				sim_fail("uid %u uses %" PRIu64
					 ", but quota.%s is %" PRIu64,
					 (unsigned)s->uid, used,
					 mpib_quota_name((enum mpib_quota)q),
					 most);
		}
	}
}
