/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one user may hold of a proxy that many share. A user is a uid: what it
 * is refused is not taken from another. Usage is summed over the user's
 * clients when it is asked for, so nothing has to be given back; clients
 * that are leaving count until their last region is gone. Control thread only.
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

/* "clients": as in the setting quota.clients. */
const char *mpib_quota_name(enum mpib_quota q);

/* 0, or -EDQUOT with a sentence that names user, quota and remedy, when the
 * user of s would hold more than it may with so many more. */
int mpib_quota_check(const struct proxy_client *s, enum mpib_quota q,
		     uint64_t more, char *why, size_t why_len);

/* What a user may hold; 0: as much as there is. */
uint64_t mpib_quota_limit(const struct proxy_clients *all, enum mpib_quota q);
/* What a user holds; not for MESSAGES. */
uint64_t mpib_quota_used(const struct proxy_clients *all, uid_t uid,
			 enum mpib_quota q);

/* Control messages of one user: a bucket that a second fills. */
struct mpib_quota_user {
	uid_t uid;
	unsigned clients;
	int64_t left; /* below 0: refused ones */
	uint64_t filled_at; /* ns */
	UT_hash_handle hh;
};

/* A client begins and ends. begin: -ENOMEM. */
int mpib_quota_begin(struct proxy_client *s);
void mpib_quota_end(struct proxy_client *s);
/* One more message. 0; -EDQUOT; -EPIPE: refused as often as allowed, and to be
 * dropped. */
int mpib_quota_message(struct proxy_client *s, uint64_t now_ns);

#endif
