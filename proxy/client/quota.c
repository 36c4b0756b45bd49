/* SPDX-License-Identifier: Apache-2.0 */
/* Quotas per uid: usage, limits, and the rate of control messages. */
#include "client/quota.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "client/client.h"
#include "client/memory.h"

/* Descriptors that any user may have, however few the proxy has. */
#define FDS_LEAST 256u
#define LANES_LEAST 64u
#define CONNECTIONS_LEAST 1024u

static const char *const names[MPIB_QUOTAS] = {
	[MPIB_QUOTA_CLIENTS] = "clients",
	[MPIB_QUOTA_CONNECTIONS] = "connections",
	[MPIB_QUOTA_REQUESTS] = "requests",
	[MPIB_QUOTA_LISTENERS] = "listeners",
	[MPIB_QUOTA_LANES] = "lanes",
	[MPIB_QUOTA_REGIONS] = "regions",
	[MPIB_QUOTA_MEMORY] = "memory",
	[MPIB_QUOTA_POOL] = "pool",
	[MPIB_QUOTA_FDS] = "fds",
	[MPIB_QUOTA_MESSAGES] = "messages",
};

const char *mpib_quota_name(enum mpib_quota q)
{
	return names[q];
}

static uint64_t used_by(const struct proxy_client *s, enum mpib_quota q)
{
	switch (q) {
	case MPIB_QUOTA_CLIENTS:
		/* One that left before its HELLO was never attached. */
		return !s->silent;
	case MPIB_QUOTA_CONNECTIONS:
		return s->peer_client.conns;
	case MPIB_QUOTA_REQUESTS:
		return (uint64_t)s->peer_client.conns * MPIB_REQUESTS;
	case MPIB_QUOTA_LISTENERS:
		return s->listeners;
	case MPIB_QUOTA_REGIONS:
		return s->region_count;
	case MPIB_QUOTA_MEMORY:
		return s->registered - s->of_devices;
	case MPIB_QUOTA_POOL:
		return s->pooled;
	case MPIB_QUOTA_FDS:
		return MPIB_FDS_OF_A_CLIENT + s->region_fds;
	case MPIB_QUOTA_LANES: /* of the user, not of its clients */
	case MPIB_QUOTA_MESSAGES:
	case MPIB_QUOTAS:
		break;
	}
	return 0;
}

uint64_t mpib_quota_used(const struct proxy_clients *all, uid_t uid,
			 enum mpib_quota q)
{
	const struct proxy_client *s;
	uint64_t sum = 0;

	if (q == MPIB_QUOTA_LANES)
		return mpib_broker_lanes(all->broker, uid);
	TAILQ_FOREACH(s, &all->list, link)
	{
		if (s->uid == uid)
			sum += used_by(s, q);
	}
	return sum;
}

/* most, or part where that is less, and at least so many. */
static uint64_t least_part(uint64_t most, uint64_t part, uint64_t least)
{
	part = part > least ? part : least;
	return most < part ? most : part;
}

/* Sockets of a lane: each QP of a software rail has one. */
static unsigned sockets_of_a_lane(const struct mpib_engine_config *e)
{
	unsigned n = 0;

	for (unsigned r = 0; r < e->rails; r++)
		n += e->rail[r].provider == MPIB_PROVIDER_SOFT ? e->qps[r] : 0;
	return n;
}

/* How many connections of a user take a sixteenth of memory. */
static uint64_t connections_part(uint64_t most, uint64_t memory)
{
	return least_part(most, memory / 16 / MPIB_CONNECTION_BYTES,
			  CONNECTIONS_LEAST);
}

/* A quarter, but for what the user's connections may take of it. */
static uint64_t memory_part(const struct mpib_config *cfg, uint64_t memory)
{
	const uint64_t taken =
		connections_part(cfg->quota[MPIB_QUOTA_CONNECTIONS], memory) *
		MPIB_CONNECTION_BYTES;

	return memory / 4 - (taken < memory / 16 ? taken : memory / 16);
}

uint64_t mpib_quota_most(const struct mpib_config *cfg, enum mpib_quota q,
			 uint64_t memory, uint64_t descriptors)
{
	const unsigned sockets = sockets_of_a_lane(&cfg->engine);
	const uint64_t most = cfg->quota[q];

	if (most == 0 && (q == MPIB_QUOTA_MEMORY || q == MPIB_QUOTA_POOL))
		return memory_part(cfg, memory);
	if (mpib_config_given(cfg, "quota", names[q]))
		return most;
	if (q == MPIB_QUOTA_CLIENTS)
		return (cfg->max_clients + 3) / 4;
	if (q == MPIB_QUOTA_FDS)
		return least_part(most, descriptors / 8, FDS_LEAST);
	if (q == MPIB_QUOTA_LANES && sockets)
		return least_part(most, descriptors / 8 / sockets, LANES_LEAST);
	if (q == MPIB_QUOTA_CONNECTIONS)
		return connections_part(most, memory);
	return most;
}

void mpib_quota_tune(struct proxy_clients *all)
{
	const uint64_t memory = mpib_memory_bound();
	struct rlimit r = { .rlim_cur = RLIM_INFINITY };

	getrlimit(RLIMIT_NOFILE, &r);
	for (unsigned q = 0; q < MPIB_QUOTAS; q++)
		all->most[q] = mpib_quota_most(all->cfg, q, memory, r.rlim_cur);
}

unsigned mpib_quota_silent_most(const struct proxy_clients *all)
{
	const uint64_t most = all->most[MPIB_QUOTA_CLIENTS];

	return most && most < all->cfg->max_clients ? (unsigned)most
						    : all->cfg->max_clients;
}

int mpib_quota_check(const struct proxy_client *s, enum mpib_quota q,
		     uint64_t more, char *why, size_t why_len)
{
	uint64_t limit = s->all->most[q];
	uint64_t used = mpib_quota_used(s->all, s->uid, q);

	if (limit == 0 || (more <= limit && used <= limit - more))
		return 0;
	snprintf(why, why_len,
		 "%" PRIu64 " more than the %" PRIu64
		 " of uid %u pass quota.%s = %" PRIu64
		 " (close some, or raise it)",
		 more, used, (unsigned)s->uid, names[q], limit);
	return -EDQUOT;
}

/* Forget users who left so long ago that nothing they sent counts any more. */
static void quota_forget(struct proxy_clients *all)
{
	uint64_t now = mpib_loop_now(all->loop);
	struct mpib_quota_user *u, *next;

	HASH_ITER(hh, all->users, u, next)
	{
		if (u->clients > 0 || u->paid > now)
			continue;
		HASH_DELETE(hh, all->users, u);
		free(u);
	}
}

int mpib_quota_begin(struct proxy_client *s)
{
	struct proxy_clients *all = s->all;
	struct mpib_quota_user *u;

	HASH_FIND(hh, all->users, &s->uid, sizeof(s->uid), u);
	if (!u) {
		quota_forget(all);
		u = calloc(1, sizeof(*u));
		if (!u)
			return -ENOMEM;
		u->uid = s->uid;
		HASH_ADD(hh, all->users, uid, sizeof(u->uid), u);
	}
	u->clients++;
	s->user = u;
	return 0;
}

void mpib_quota_end(struct proxy_client *s)
{
	struct mpib_quota_user *u = s->user;

	s->user = NULL;
	if (u && s->silent)
		mpib_sum_less(&u->silent);
	s->silent = false;
	/* The user stays: who came back at once would have paid for nothing. */
	if (u)
		mpib_sum_less(&u->clients);
}

void mpib_quota_fini(struct proxy_clients *all)
{
	struct mpib_quota_user *u, *next;

	HASH_ITER(hh, all->users, u, next)
	{
		HASH_DELETE(hh, all->users, u);
		free(u);
	}
}

void mpib_quota_silent(struct proxy_client *s, bool silent)
{
	if (silent != s->silent)
		s->user->silent += silent ? 1u : -1u;
	s->silent = silent;
}

int mpib_quota_message(struct proxy_client *s, uint64_t now_ns)
{
	uint64_t rate = s->all->cfg->quota[MPIB_QUOTA_MESSAGES], each, over;
	struct mpib_quota_user *u = s->user;

	if (rate == 0)
		return 0;
	each = MPIB_SEC / rate;
	over = mpib_rate_wait(u->paid, now_ns, MPIB_SEC - each);
	/* Whoever stops is served again within two seconds. */
	if (over > MPIB_SEC)
		return -EPIPE;
	mpib_rate_pay(&u->paid, now_ns, each);
	return over ? -EDQUOT : 0;
}
