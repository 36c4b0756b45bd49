/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of setting share.rules: weight and rate limit of a user or of a
 * client. A user's share is divided between its clients, a client's between its
 * connections.
 */
#ifndef MPIB_PROXY_SHARE_H
#define MPIB_PROXY_SHARE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MPIB_SHARE_RULES 32u
#define MPIB_SHARE_LIMIT_MAX 10000000u /* Mb/s */
#define MPIB_SHARE_BYTES 125000ull /* bytes per Mb */

struct mpib_share {
	uint32_t weight; /* 0: the default */
	uint32_t limit; /* Mb/s, 0: none */
};

struct mpib_share_rule {
	enum {
		MPIB_SHARE_OF_USER,
		MPIB_SHARE_OF_NAME, /* client name, a pattern of fnmatch() */
		MPIB_SHARE_OF_JOB,
	} of;
	uint64_t id; /* uid or job */
	char name[64];
	struct mpib_share share;
};

struct mpib_share_rules {
	unsigned n;
	struct mpib_share_rule rule[MPIB_SHARE_RULES];
};

/*
 * Parse "uid=1000:weight=20:limit=50000,name=train*:weight=50". On -EINVAL why
 * names the rule that is wrong and says what a rule may be.
 */
int mpib_share_parse(struct mpib_share_rules *rules, const char *text,
		     char *why, size_t why_len);
/* Parse "weight=20" or "limit=5000" into share. 0 or -EINVAL. */
int mpib_share_parse_word(struct mpib_share *share, const char *word);

/* The share that the first matching rule gives a user (else dflt) or a client
 * (else all zero). */
struct mpib_share mpib_share_of_user(const struct mpib_share_rules *rules,
				     uid_t uid, struct mpib_share dflt);
struct mpib_share mpib_share_of_client(const struct mpib_share_rules *rules,
				       const char *name, uint64_t job);

#endif
