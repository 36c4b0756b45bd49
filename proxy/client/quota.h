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
	unsigned silent; /* of these, those without HELLO */
	uint64_t paid; /* for messages, see base/clock.h */
	UT_hash_handle hh;
};

/* Bind s to its user, and release it. begin: 0 or -ENOMEM. */
int mpib_quota_begin(struct proxy_client *s);
void mpib_quota_end(struct proxy_client *s);
/* Forget all users. */
void mpib_quota_fini(struct proxy_clients *all);
/* s, which has begun, has not said HELLO; or it has. */
void mpib_quota_silent(struct proxy_client *s, bool silent);
/* Count one more message of s. 0; -EDQUOT: refuse it; -EPIPE: as many as may come at
 * once have been refused, so drop the client. */
int mpib_quota_message(struct proxy_client *s, uint64_t now_ns);

#endif
