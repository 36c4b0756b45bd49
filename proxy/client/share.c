/* SPDX-License-Identifier: Apache-2.0 */
/* Bring the shares (weight and limit) of users and clients into force. Control
 * thread. */
#include "client/client.h"

/* The shards that the user has clients on, at least 1. Shards schedule
 * independently, so each gets an equal part of the user's limit. */
static unsigned shards_of(const struct proxy_clients *all, uid_t uid)
{
	const struct proxy_client *s;
	bool seen[MPIB_SHARDS_MAX] = { false };
	unsigned n = 0;

	TAILQ_FOREACH(s, &all->list, link)
	{
		if (s->uid != uid || s->state != PROXY_CLIENT_LIVE)
			continue;
		n += !seen[s->peer_client.shard];
		seen[s->peer_client.shard] = true;
	}
	return n ? n : 1;
}

/* Give a client that attaches again the share that it had with the last proxy. */
static void share_restore(struct proxy_clients *all, struct proxy_client *s)
{
	for (unsigned i = 0; s->pid && i < all->kept_count; i++) {
		struct mpib_kept_share *kept = &all->kept[i];

		if (kept->pid != s->pid || kept->uid != s->uid ||
		    kept->shard != s->peer_client.shard)
			continue;
		s->share = kept->share;
		s->share_said = true;
		*kept = all->kept[--all->kept_count];
		return;
	}
}

void mpib_shares_apply_user(struct proxy_clients *all, uid_t uid)
{
	const struct mpib_share_rules *rules = &all->cfg->shares;
	const struct mpib_share dflt = { .limit = all->cfg->share_limit };
	struct mpib_share user = mpib_share_of_user(rules, uid, dflt);
	uint64_t rate = user.limit * MPIB_SHARE_BYTES / shards_of(all, uid);
	struct proxy_client *s;

	TAILQ_FOREACH(s, &all->list, link)
	{
		if (s->uid != uid || s->state != PROXY_CLIENT_LIVE)
			continue;
		s->of_user = user;
		share_restore(all, s);
		if (!s->share_said)
			s->share = mpib_share_of_client(rules, s->name, s->job);
		mpib_tenant_share(s->peer_client.tenant, user.weight, rate);
		engine_client_qos(s->peer_client.engine_client, s->share.weight,
				  s->share.limit * MPIB_SHARE_BYTES);
	}
}

void mpib_shares_apply(struct proxy_clients *all)
{
	struct proxy_client *s;

	TAILQ_FOREACH(s, &all->list, link)
	mpib_shares_apply_user(all, s->uid);
}
