/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has which part of the rails, as the configuration says. A user's part is
 * shared by its clients, a client's by its connections.
 */
#ifndef MPIB_PROXY_SHARE_H
#define MPIB_PROXY_SHARE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MPIB_SHARE_RULES 32u
#define MPIB_SHARE_LIMIT_MAX 10000000u /* Mb/s */
#define MPIB_SHARE_BYTES 125000ull /* of an Mb */

struct mpib_share {
	uint32_t weight; /* 0: the usual one */
	uint32_t limit; /* Mb/s, 0: none */
};

struct mpib_share_rule {
	enum {
		MPIB_SHARE_OF_USER,
		MPIB_SHARE_OF_NAME, /* of a client, a pattern of fnmatch() */
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
 * "uid=1000:weight=20:limit=50000,name=train*:weight=50". -EINVAL and why: the
 * rule, what is wrong with it and what would be right.
 */
int mpib_share_parse(struct mpib_share_rules *rules, const char *text,
		     char *why, size_t why_len);
/* "weight=20" or "limit=5000" into share. -EINVAL. */
int mpib_share_parse_word(struct mpib_share *share, const char *word);

/* By the first rule that names it; dflt where none does. */
struct mpib_share mpib_share_of_user(const struct mpib_share_rules *rules,
				     uid_t uid, struct mpib_share dflt);
struct mpib_share mpib_share_of_client(const struct mpib_share_rules *rules,
				       const char *name, uint64_t job);

#endif
