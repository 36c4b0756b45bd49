/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quotas: what one user (a uid) may hold of a proxy that many users share.
 * Usage is summed over the user's clients whenever it is needed, so no counter
 * has to be given back; clients that are leaving count until their last region
 * is gone. Control thread only.
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

/* What an end of a connection takes of the proxy's memory, at most. */
#define MPIB_CONNECTION_BYTES (32u << 10)

/* The name of q in the setting quota.NAME, such as "clients". */
const char *mpib_quota_name(enum mpib_quota q);

/* May the user of s hold more of q? 0, or -EDQUOT with a sentence in why that
 * names user, quota and remedy. */
int mpib_quota_check(const struct proxy_client *s, enum mpib_quota q,
		     uint64_t more, char *why, size_t why_len);

/*
 * What each user may hold of q by cfg, of so many bytes of memory and so many
 * descriptors; 0: no limit. Where cfg says nothing any two users have no more
 * than half of what there is: a quarter each, of descriptors an eighth and as
 * many for a user's lanes on software rails, of memory a quarter less what the
 * user's connections may take, which is a sixteenth at most.
 */
uint64_t mpib_quota_most(const struct mpib_config *cfg, enum mpib_quota q,
			 uint64_t memory, uint64_t descriptors);
/* Bring the quotas of the configuration into force. */
void mpib_quota_tune(struct proxy_clients *all);
/* Connections without a HELLO that a user may have: as many as clients. */
unsigned mpib_quota_silent_most(const struct proxy_clients *all);
/* What the user holds of q; not for MESSAGES. */
uint64_t mpib_quota_used(const struct proxy_clients *all, uid_t uid,
			 enum mpib_quota q);

/* A user, with the rate of control messages: of quota.messages a second, and as
 * many at once. */
struct mpib_quota_user {
	uid_t uid;
	unsigned clients; /* connections, those without HELLO too */
	uint64_t paid; /* for messages, see base/clock.h */
	UT_hash_handle hh;
};

/* Bind s to its user, and release it. begin: 0 or -ENOMEM. */
int mpib_quota_begin(struct proxy_client *s);
void mpib_quota_end(struct proxy_client *s);
/* Count one more message of s. 0; -EDQUOT: refuse it; -EPIPE: as many as may come at
 * once have been refused, so drop the client. */
int mpib_quota_message(struct proxy_client *s, uint64_t now_ns);

/* Bytes: the machine's memory, or the least limit of the memory cgroups that
 * this process is in, if that is less. */
uint64_t mpib_memory_bound(void);
/* The same, from a file like /proc/self/cgroup, cgroups mounted below root and
 * that much memory of the machine. */
uint64_t mpib_memory_bound_of(const char *cgroups, const char *root,
			      uint64_t machine);

/*
 * Which shard a new client gets. Shards schedule independently, so weights only
 * count among the clients of one shard. Each user's clients are therefore
 * spread evenly over the shards: when every shard has an equal part of every
 * user, the weights hold for the rails as a whole. Or a user's clients are kept
 * together, so that its flood keeps one thread busy and not all of them.
 */

enum mpib_place {
	/* The shard with the fewest clients of the new client's user. */
	MPIB_PLACE_ALL,
	/* Where the user's clients are, or else the emptiest shard: while there
	 * are no more users than shards, none waits for another's messages. */
	MPIB_PLACE_OWN,
};

/* The shard of a new client. Of several, the one with the fewest clients
 * (of_all), then the first. of_user counts the clients of the new client's user;
 * both arrays are indexed by shard; shards is not 0. */
unsigned mpib_place(enum mpib_place how, const uint32_t *of_user,
		    const uint32_t *of_all, unsigned shards);

/*
 * Jobs: clients of one user that say the same job, and what they moved in all.
 * A job's own name is a label and grants nothing. The table has a fixed size: the
 * job that ended first gives way. A user has at most a quarter of the places, so
 * that one user's many jobs do not push out all others. Control
 * thread.
 */

#define MPIB_JOBS 64
#define MPIB_JOBS_OF_A_USER (MPIB_JOBS / 4) /* but root */
#define MPIB_JOB_LABEL 64

struct mpib_job {
	uint32_t uid;
	uint32_t clients, attached; /* that it ever had, and has now */
	uint64_t number; /* NCCL's commId; 0: it has a label */
	char label[MPIB_JOB_LABEL]; /* "slurm 1234.0"; "": none */
	uint64_t began_ns, ended_ns; /* CLOCK_REALTIME; ended 0: it runs */
	/* What the clients have moved that have left. */
	uint64_t tx_bytes, rx_bytes, messages, replayed_bytes, stall_ns;
};

struct mpib_jobs {
	struct mpib_job job[MPIB_JOBS]; /* clients 0: a free place */
};

/* The client has attached: count it to its job, if it says one. */
void mpib_job_join(struct mpib_jobs *jobs, struct proxy_client *s);
/* The client has left, and s->moved says what it moved. The last client ends the
 * job, which is an event. */
void mpib_job_leave(struct mpib_jobs *jobs, struct proxy_client *s);

#endif
