/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quotas limit the resources of a shared proxy that one user (a uid) may hold.
 * Usage is summed over the user's clients when it is needed, so that no counter
 * can leak. A client that is leaving counts until its last region is freed.
 * Control thread only.
 */
#ifndef MPIB_PROXY_QUOTA_H
#define MPIB_PROXY_QUOTA_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/hash.h"
#include "config/config.h"

struct proxy_client;
struct proxy_clients;

/* The maximum memory that one end of a connection uses in the proxy. */
#define MPIB_CONNECTION_BYTES (32u << 10)

/* Return the NAME of q in the setting quota.NAME, such as "clients". */
const char *mpib_quota_name(enum mpib_quota q);

/* Check whether quota q allows the user of s to hold `more` in addition.
 * Returns 0. If the quota does not allow it, returns -EDQUOT and writes a
 * sentence to `why` that names the user, the quota and the remedy. */
int mpib_quota_check(const struct proxy_client *s, enum mpib_quota q,
		     uint64_t more, char *why, size_t why_len);

/*
 * Return how much of q each user may hold, given cfg, `memory` in bytes and the
 * number of `descriptors`; 0: no limit. By default a user may hold a quarter
 * of a resource, so that two users leave half of it to others. There are two
 * exceptions. A user may hold an eighth of the descriptors, and another eighth
 * for its lanes on software rails. A user's connections may hold a sixteenth of
 * the memory, and its other objects the rest of a quarter.
 */
uint64_t mpib_quota_most(const struct mpib_config *cfg, enum mpib_quota q,
			 uint64_t memory, uint64_t descriptors);
/* Apply the quotas of the configuration. */
void mpib_quota_tune(struct proxy_clients *all);
/* Return how many connections without a HELLO a user may have. This is also the
 * maximum number of the user's clients. */
unsigned mpib_quota_silent_most(const struct proxy_clients *all);
/* Return how much of q the user holds. q is not MPIB_QUOTA_MESSAGES. */
uint64_t mpib_quota_used(const struct proxy_clients *all, uid_t uid,
			 enum mpib_quota q);

/* A user, with the rate of its control messages. quota.messages is the limit
 * per second, and also the size of a burst. */
struct mpib_quota_user {
	uid_t uid;
	unsigned clients; /* connections, including those without HELLO */
	uint64_t paid; /* for messages, see mpib_rate_pay() */
	UT_hash_handle hh;
};

/* Bind s to its user; mpib_quota_end() undoes this. Returns 0 or -ENOMEM. */
int mpib_quota_begin(struct proxy_client *s);
void mpib_quota_end(struct proxy_client *s);
/* Count one more message of s. Return 0 to accept the message, or -EDQUOT to
 * refuse it. Return -EPIPE to drop the client, because a complete burst of
 * messages has been refused already. */
int mpib_quota_message(struct proxy_client *s, uint64_t now_ns);

/* Return the machine's memory in bytes or, if that is less, the lowest limit of
 * the memory cgroups of this process. */
uint64_t mpib_memory_bound(void);
/* Like mpib_memory_bound(), but for a machine with `machine` bytes of memory.
 * `cgroups` is a file like /proc/self/cgroup, and `root` is the mount point of
 * the cgroups. */
uint64_t mpib_memory_bound_of(const char *cgroups, const char *root,
			      uint64_t machine);

/*
 * The choice of the shard for a new client. Shards schedule independently, so
 * weights only count among the clients of one shard. Therefore each user's
 * clients are spread evenly over the shards: if every shard has an equal part
 * of every user, the weights hold for the rails as a whole. The alternative is
 * to keep a user's clients together, so that a flood of messages keeps only one
 * thread busy.
 */

enum mpib_place {
	/* The shard with the fewest clients of the new client's user. */
	MPIB_PLACE_ALL,
	/* The shard of the user's clients, or else the emptiest shard. If there
	 * are at most as many users as shards, no user waits for another user's
	 * messages. */
	MPIB_PLACE_OWN,
};

/* Return the shard of a new client. Among equally good shards, choose the one
 * with the fewest clients (of_all); if there are several, the first of them.
 * of_user counts the clients of the new client's user. Both arrays are indexed
 * by shard; shards is not 0. */
unsigned mpib_place(enum mpib_place how, const uint32_t *of_user,
		    const uint32_t *of_all, unsigned shards);

/*
 * Jobs: the clients of one user that name the same job, and their total
 * traffic. The name is only a label and grants nothing. The table has a fixed
 * size: a new job replaces the one that ended first. A user has at most a
 * quarter of the entries, so that one user's many jobs do not displace all
 * others. Control thread.
 */

#define MPIB_JOBS 64
#define MPIB_JOBS_OF_A_USER (MPIB_JOBS / 4) /* does not apply to root */
#define MPIB_JOB_LABEL 64

struct mpib_job {
	uint32_t uid;
	uint32_t clients, attached; /* in total, and currently */
	uint64_t number; /* NCCL's commId; 0: the job has a label */
	char label[MPIB_JOB_LABEL]; /* "slurm 1234.0"; "": none */
	uint64_t began_ns, ended_ns; /* CLOCK_REALTIME; ended_ns 0: running */
	/* The traffic of clients that have left. */
	uint64_t tx_bytes, rx_bytes, messages, replayed_bytes, stall_ns;
};

struct mpib_jobs {
	/* An entry whose `clients` is 0 is free. */
	struct mpib_job job[MPIB_JOBS];
};

/* Add a newly attached client to its job, if the client names a job. */
void mpib_job_join(struct mpib_jobs *jobs, struct proxy_client *s);
/* Remove a client that left; s->moved is its traffic. When the last client of a
 * job leaves, the job ends, and an event is logged. */
void mpib_job_leave(struct mpib_jobs *jobs, struct proxy_client *s);

#endif
