/* SPDX-License-Identifier: Apache-2.0 */
/* Add up the regions, bytes and descriptors of the proxy's clients, and count
 * the clients of each user. See sums.h. */
#include "client/client.h"
#include "sums.h"

struct client_sums {
	uint64_t clients, attached, leaving, regions, registered, mapped;
};

static bool client_regions_fit(const struct proxy_client *s,
			       struct client_sums *sums, struct sum *wrong)
{
	uint64_t n = 0, fds = 0, adding = 0, bytes = 0;
	uint64_t kind[MPIB_REGION_KINDS] = { 0 };
	const struct proxy_client_region *r;

	LIST_FOREACH(r, &s->regions, link)
	{
		n++;
		fds += r->fd >= 0;
		adding += r->state == MPIB_REGION_ADDING;
		bytes += r->size;
		kind[r->kind] += r->size;
		sums->mapped += r->map ? r->map_len : 0;
	}
	sums->regions += n;
	sums->registered += bytes;
	return sum_fits(wrong, "regions", s->region_count, n) &&
	       sum_fits(wrong, "descriptors", s->region_fds, fds) &&
	       sum_fits(wrong, "regions being added", s->adding, adding) &&
	       sum_fits(wrong, "bytes of regions", s->registered, bytes) &&
	       sum_fits(wrong, "bytes of pools", s->of_kind[MPIB_REGION_POOL],
			kind[MPIB_REGION_POOL]) &&
	       sum_fits(wrong, "bytes of devices",
			s->of_kind[MPIB_REGION_DMABUF],
			kind[MPIB_REGION_DMABUF]);
}

static bool client_fits(const struct proxy_client *s, struct client_sums *sums,
			struct sum *wrong)
{
	bool attached = s->peer_client.engine_client != NULL;
	uint64_t conns = 0;

	for (unsigned i = 0; i < MPIB_INDEXES_MAX; i++)
		conns += s->peer_client.conn[i] != NULL;
	sums->clients++;
	sums->attached += attached;
	sums->leaving += attached && s->state > PROXY_CLIENT_LIVE;
	sums->mapped += s->segments;
	return sum_fits(wrong, "connections", s->peer_client.conns, conns) &&
	       client_regions_fit(s, sums, wrong);
}

static bool users_fit(const struct proxy_clients *all,
		      const struct client_sums *sums, struct sum *wrong)
{
	uint64_t clients = 0, placed = 0;

	for (const struct mpib_quota_user *u = all->users; u; u = u->hh.next)
		clients += u->clients;
	for (unsigned i = 0; i < MPIB_SHARDS_MAX; i++)
		placed += all->on_shard[i];
	return sum_fits(wrong, "clients of users", clients, sums->clients) &&
	       sum_fits(wrong, "clients of shards", placed, sums->attached);
}

bool sums_of_clients(const struct proxy_clients *all, struct sum *wrong)
{
	const struct mpib_usage *u = &all->usage;
	struct client_sums sums = { 0 };
	const struct proxy_client *s;

	TAILQ_FOREACH(s, &all->list, link)
	{
		if (!client_fits(s, &sums, wrong))
			return false;
	}
	return sum_fits(wrong, "clients", u->clients, sums.clients) &&
	       sum_fits(wrong, "clients attached", u->attached,
			sums.attached) &&
	       sum_fits(wrong, "clients leaving", u->leaving, sums.leaving) &&
	       sum_fits(wrong, "all regions", u->regions, sums.regions) &&
	       sum_fits(wrong, "bytes of all regions", u->registered,
			sums.registered) &&
	       sum_fits(wrong, "bytes mapped", u->mapped, sums.mapped) &&
	       users_fit(all, &sums, wrong);
}
