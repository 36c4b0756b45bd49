/* SPDX-License-Identifier: Apache-2.0 */
/* Quotas per uid: usage, limits, and the rate of control messages. */
#include "client/quota.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/event.h"
#include "base/text.h"
#include "client/client.h"

/* Every user may hold this number of descriptors, even if the proxy's own limit
 * is low. */
#define FDS_LEAST 256u
#define LANES_LEAST 64u
#define CONNECTIONS_LEAST 1024u

static const char *const names[MPIB_QUOTAS] = {
	[MPIB_QUOTA_CLIENTS] = "clients",
	[MPIB_QUOTA_CONNECTIONS] = "connections",
	[MPIB_QUOTA_LISTENERS] = "listeners",
	[MPIB_QUOTA_LANES] = "lanes",
	[MPIB_QUOTA_REGIONS] = "regions",
	[MPIB_QUOTA_MEMORY] = "memory",
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
		/* A client that left before its HELLO was never attached. */
		return s->peer_client.engine_client != NULL;
	case MPIB_QUOTA_CONNECTIONS:
		return s->peer_client.quota_conns;
	case MPIB_QUOTA_LISTENERS:
		return s->listeners;
	case MPIB_QUOTA_REGIONS:
		return s->region_count;
	case MPIB_QUOTA_MEMORY:
		return s->registered - s->of_kind[MPIB_REGION_DMABUF];
	case MPIB_QUOTA_FDS:
		return MPIB_FDS_OF_A_CLIENT + s->region_fds;
	case MPIB_QUOTA_LANES: /* belong to the user, not to its clients */
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

/* Raise `part` to at least `least`, then return the smaller of `part` and
 * `most`. */
static uint64_t least_part(uint64_t most, uint64_t part, uint64_t least)
{
	part = part > least ? part : least;
	return most < part ? most : part;
}

/* Return the number of sockets of a lane: one for each QP of a software
 * rail. */
static unsigned sockets_of_a_lane(const struct mpib_engine_config *e)
{
	unsigned n = 0;

	for (unsigned r = 0; r < e->rails; r++)
		n += e->rail[r].provider == MPIB_PROVIDER_SOFT ? e->qps[r] : 0;
	return n;
}

/* Return the number of connections that use a sixteenth of `memory`, or `most`
 * if that is less. */
static uint64_t connections_part(uint64_t most, uint64_t memory)
{
	return least_part(most, memory / 16 / MPIB_CONNECTION_BYTES,
			  CONNECTIONS_LEAST);
}

/* Return a quarter of `memory`, minus the part of the user's connections. */
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

	if (most == 0 && q == MPIB_QUOTA_MEMORY)
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
		 "%" PRIu64 " in addition to the %" PRIu64
		 " of uid %u would exceed quota.%s = %" PRIu64
		 " (close some, or raise it)",
		 more, used, (unsigned)s->uid, names[q], limit);
	return -EDQUOT;
}

/* Forget users that left so long ago that their messages no longer count. */
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
	/* Keep the user: otherwise reconnecting would reset the message
	 * rate. */
	if (u)
		mpib_sum_less(&u->clients);
}

int mpib_quota_message(struct proxy_client *s, uint64_t now_ns)
{
	uint64_t rate = s->all->cfg->quota[MPIB_QUOTA_MESSAGES], each, over;
	struct mpib_quota_user *u = s->user;

	if (rate == 0)
		return 0;
	each = MPIB_SEC / rate;
	over = mpib_rate_wait(u->paid, now_ns, MPIB_SEC - each);
	/* Do not let the user's debt grow further. So after a pause of two
	 * seconds, the user is served again. */
	if (over > MPIB_SEC)
		return -EPIPE;
	mpib_rate_pay(&u->paid, now_ns, each);
	return over ? -EDQUOT : 0;
}

/* Return the number in the file if it is less than `most`; otherwise `most`. */
static uint64_t least_of(const char *path, uint64_t most)
{
	char text[32], *end;
	uint64_t n;

	mpib_read_line(text, sizeof(text), "%s", path);
	n = strtoull(text, &end, 10); /* UINT64_MAX if the number is larger */
	return end == text || n > most ? most : n; /* "max" is not a number */
}

/* Return the lowest limit of a cgroup and of its ancestors. `path` is the
 * cgroup's path below root/controller. If a container sees its own cgroup as
 * the root, `path` may name directories that do not exist; those have no
 * limit. */
static uint64_t least_above(const char *root, const char *controller,
			    char *path, const char *name, uint64_t most)
{
	for (;;) {
		char file[512], *end;

		if (snprintf(file, sizeof(file), "%s%s%s/%s", root, controller,
			     path, name) < (int)sizeof(file))
			most = least_of(file, most);
		end = strrchr(path, '/');
		if (!end)
			return most;
		*end = '\0';
	}
}

uint64_t mpib_memory_bound_of(const char *cgroups, const char *root,
			      uint64_t machine)
{
	char line[512];
	FILE *f = fopen(cgroups, "re");

	if (!f)
		return machine;
	/* Lines "ID:CONTROLLERS:/PATH"; version 2 has no controllers. */
	while (fgets(line, sizeof(line), f)) {
		char *controllers = strchr(line, ':');
		char *path = controllers ? strchr(controllers + 1, ':') : NULL;

		if (!path)
			continue;
		*path++ = '\0';
		path[strcspn(path, "\n")] = '\0';
		if (!strcmp(controllers, ":"))
			machine = least_above(root, "", path, "memory.max",
					      machine);
		else if (!strcmp(controllers, ":memory"))
			machine = least_above(root, "/memory", path,
					      "memory.limit_in_bytes", machine);
	}
	fclose(f);
	return machine;
}

uint64_t mpib_memory_bound(void)
{
	return mpib_memory_bound_of("/proc/self/cgroup", "/sys/fs/cgroup",
				    (uint64_t)sysconf(_SC_PHYS_PAGES) *
					    (uint64_t)sysconf(_SC_PAGESIZE));
}

/* The choice of the shard for a new client. */

unsigned mpib_place(enum mpib_place how, const uint32_t *of_user,
		    const uint32_t *of_all, unsigned shards)
{
	unsigned best = 0;

	for (unsigned i = 1; i < shards; i++) {
		bool better = how == MPIB_PLACE_OWN
				      ? of_user[i] > of_user[best]
				      : of_user[i] < of_user[best];

		if (better ||
		    (of_user[i] == of_user[best] && of_all[i] < of_all[best]))
			best = i;
	}
	return best;
}

/* Apply the shares (weight and limit) of users and clients. Control thread. */

/* Return the number of shards with clients of the user, at least 1. Shards
 * schedule independently, so each gets an equal part of the user's limit. */
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

/* The assignment of clients to jobs, and the sums of a job at its end. */

/* Return whether s belongs to job j. If the launcher gave a label, compare only
 * the label, because the processes of a job may use several communicators. */
static bool job_is(const struct mpib_job *j, const struct proxy_client *s)
{
	return j->attached && j->uid == s->uid && !strcmp(j->label, s->label) &&
	       (s->label[0] || j->number == s->job);
}

/* Return whether the user has the maximum number of jobs. Root has no maximum,
 * because root starts jobs for other users. */
static bool job_share_is_full(const struct mpib_jobs *jobs, uid_t uid)
{
	unsigned n = 0;

	for (unsigned i = 0; i < MPIB_JOBS; i++)
		n += jobs->job[i].clients > 0 && jobs->job[i].uid == uid;
	return uid != 0 && n >= MPIB_JOBS_OF_A_USER;
}

/* Return a free entry, or else the entry of the job that ended first. For a
 * user with the maximum number of jobs, consider only the entries of that user.
 * NULL: no such job has ended. */
static struct mpib_job *job_place(struct mpib_jobs *jobs, uid_t uid)
{
	bool own = job_share_is_full(jobs, uid);
	struct mpib_job *best = NULL;

	for (unsigned i = 0; i < MPIB_JOBS; i++) {
		struct mpib_job *j = &jobs->job[i];

		if (own && (j->clients == 0 || j->uid != uid))
			continue;
		if (j->clients == 0)
			return j;
		if (j->ended_ns && (!best || j->ended_ns < best->ended_ns))
			best = j;
	}
	return best;
}

void mpib_job_join(struct mpib_jobs *jobs, struct proxy_client *s)
{
	struct mpib_job *j = NULL;

	s->job_at = 0;
	if (!s->label[0] && !s->job)
		return;
	for (unsigned i = 0; !j && i < MPIB_JOBS; i++) {
		if (job_is(&jobs->job[i], s))
			j = &jobs->job[i];
	}
	if (!j) {
		j = job_place(jobs, s->uid);
		if (!j)
			return;
		*j = (struct mpib_job){ .uid = s->uid,
					.number = s->label[0] ? 0 : s->job,
					.began_ns =
						mpib_clock_ns(CLOCK_REALTIME) };
		memcpy(j->label, s->label, sizeof(j->label));
	}
	j->clients++;
	j->attached++;
	s->job_at = (uint32_t)(j - jobs->job) + 1;
}

#define GIB 0x1p30

static void job_end(struct mpib_job *j)
{
	char name[MPIB_JOB_LABEL + 8];
	double seconds;

	j->ended_ns = mpib_clock_ns(CLOCK_REALTIME);
	/* The clock may have been set back during the job. */
	if (j->ended_ns < j->began_ns)
		j->ended_ns = j->began_ns;
	seconds = (double)(j->ended_ns - j->began_ns) / 1e9;
	if (j->label[0])
		snprintf(name, sizeof(name), "%s", j->label);
	else
		snprintf(name, sizeof(name), "0x%" PRIx64, j->number);
	mpib_event(MPIB_LOG_INFO, "job_ends",
		   &(struct mpib_event_about){ .ns = j->ended_ns - j->began_ns,
					       .bytes = j->tx_bytes,
					       .of_user = true,
					       .uid = j->uid },
		   "job %s of uid %u ended after %.1f s: its clients here (%u) "
		   "sent %.3f GiB and received %.3f GiB, %.2f Gb/s sent; their "
		   "connections waited for %.1f s, %.3f GiB were sent again",
		   name, j->uid, seconds, j->clients, (double)j->tx_bytes / GIB,
		   (double)j->rx_bytes / GIB,
		   seconds > 0 ? (double)j->tx_bytes * 8e-9 / seconds : 0,
		   (double)j->stall_ns / 1e9, (double)j->replayed_bytes / GIB);
}

void mpib_job_leave(struct mpib_jobs *jobs, struct proxy_client *s)
{
	struct mpib_job *j;

	if (!s->job_at)
		return;
	j = &jobs->job[s->job_at - 1];
	j->tx_bytes += s->moved.tx_bytes;
	j->rx_bytes += s->moved.rx_bytes;
	j->replayed_bytes += s->moved.replayed_bytes;
	j->messages += s->moved.messages;
	j->stall_ns += s->moved.stall_ns;
	s->job_at = 0;
	if (--j->attached == 0)
		job_end(j);
}
