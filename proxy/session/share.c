/* SPDX-License-Identifier: Apache-2.0 */
/* Each user's and client's part of the rails, brought into force. */
#include "session/session.h"

/* Shards do not know of each other, so each has a like part of a limit. */
static unsigned shards_of(const struct mpib_sessions *all, uid_t uid)
{
	const struct mpib_session *s;
	bool seen[MPIB_SHARDS_MAX] = { false };
	unsigned n = 0;

	TAILQ_FOREACH(s, &all->list, link)
	{
		if (s->uid != uid || s->state != MPIB_SESSION_LIVE)
			continue;
		n += !seen[s->owner.shard];
		seen[s->owner.shard] = true;
	}
	return n ? n : 1;
}

void mpib_shares_apply_user(struct mpib_sessions *all, uid_t uid)
{
	const struct mpib_share_rules *rules = &all->cfg->shares;
	const struct mpib_part dflt = { .limit = all->cfg->share_limit };
	struct mpib_part user = mpib_share_of_user(rules, uid, dflt);
	uint64_t rate = user.limit * MPIB_SHARE_BYTES / shards_of(all, uid);
	struct mpib_session *s;

	TAILQ_FOREACH(s, &all->list, link)
	{
		if (s->uid != uid || s->state != MPIB_SESSION_LIVE)
			continue;
		s->of_user = user;
		if (!s->share_said)
			s->share = mpib_share_of_client(rules, s->name, s->job);
		mpib_tenant_share(s->owner.tenant, user.weight, rate);
		mpib_attachment_share(s->owner.attachment, s->share.weight,
				      s->share.limit * MPIB_SHARE_BYTES);
	}
}

void mpib_shares_apply(struct mpib_sessions *all)
{
	struct mpib_session *s;

	TAILQ_FOREACH(s, &all->list, link)
	mpib_shares_apply_user(all, s->uid);
}
