/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing share.rules, and looking up the share of a user or client. */
#include "config/share.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/lane/drr.h"

static int share_number(const char *text, int base, uint64_t max, uint64_t *n)
{
	char *end;

	errno = 0;
	*n = strtoull(text, &end, base);
	return *text < '0' || end == text || *end || errno || *n > max ? -EINVAL
								       : 0;
}

int mpib_share_parse_word(struct mpib_share *share, const char *word)
{
	uint64_t n;

	if (!strncmp(word, "weight=", 7) &&
	    share_number(word + 7, 10, MPIB_DRR_WEIGHT_MAX, &n) == 0 && n > 0)
		share->weight = (uint32_t)n;
	else if (!strncmp(word, "limit=", 6) &&
		 share_number(word + 6, 10, MPIB_SHARE_LIMIT_MAX, &n) == 0)
		share->limit = (uint32_t)n;
	else
		return -EINVAL;
	return 0;
}

static int parse_who(struct mpib_share_rule *rule, const char *word)
{
	if (!strncmp(word, "uid=", 4)) {
		rule->of = MPIB_SHARE_OF_USER;
		return share_number(word + 4, 10, UINT32_MAX, &rule->id);
	}
	if (!strncmp(word, "job=", 4)) {
		rule->of = MPIB_SHARE_OF_JOB;
		return share_number(word + 4, 0, UINT64_MAX, &rule->id);
	}
	if (strncmp(word, "name=", 5) != 0 || !word[5] ||
	    strlen(word + 5) >= sizeof(rule->name))
		return -EINVAL;
	rule->of = MPIB_SHARE_OF_NAME;
	snprintf(rule->name, sizeof(rule->name), "%s", word + 5);
	return 0;
}

static int parse_rule(struct mpib_share_rule *rule, char *text)
{
	char *save, *word = strtok_r(text, ":", &save);
	int rc = word ? parse_who(rule, word) : -EINVAL;

	if (rc < 0)
		return rc;
	word = strtok_r(NULL, ":", &save);
	if (!word)
		return -EINVAL;
	for (; word && rc == 0; word = strtok_r(NULL, ":", &save))
		rc = mpib_share_parse_word(&rule->share, word);
	return rc;
}

static int bad_rule(const char *text, size_t len, char *why, size_t why_len)
{
	snprintf(why, why_len,
		 "\"%.*s\" is no rule (give uid=N, name=PATTERN or job=N, then "
		 ":weight=1..%u or :limit=Mb/s, as in uid=1000:weight=20)",
		 (int)(len < 100 ? len : 100), text, MPIB_DRR_WEIGHT_MAX);
	return -EINVAL;
}

int mpib_share_parse(struct mpib_share_rules *rules, const char *text,
		     char *why, size_t why_len)
{
	*rules = (struct mpib_share_rules){ 0 };
	while (*text) {
		size_t len = strcspn(text, ",");
		char one[128];

		if (rules->n == MPIB_SHARE_RULES) {
			snprintf(why, why_len,
				 "more than %u rules (a pattern may stand for "
				 "several)",
				 MPIB_SHARE_RULES);
			return -EINVAL;
		}
		snprintf(one, sizeof(one), "%.*s", (int)len, text);
		if (len >= sizeof(one) ||
		    parse_rule(&rules->rule[rules->n], one) < 0)
			return bad_rule(text, len, why, why_len);
		rules->n++;
		text += len + (text[len] == ',');
	}
	return 0;
}

struct mpib_share mpib_share_of_user(const struct mpib_share_rules *rules,
				     uid_t uid, struct mpib_share dflt)
{
	for (unsigned i = 0; i < rules->n; i++) {
		const struct mpib_share_rule *r = &rules->rule[i];

		if (r->of == MPIB_SHARE_OF_USER && r->id == uid)
			return r->share;
	}
	return dflt;
}

struct mpib_share mpib_share_of_client(const struct mpib_share_rules *rules,
				       const char *name, uint64_t job)
{
	for (unsigned i = 0; i < rules->n; i++) {
		const struct mpib_share_rule *r = &rules->rule[i];

		if ((r->of == MPIB_SHARE_OF_JOB && r->id == job) ||
		    (r->of == MPIB_SHARE_OF_NAME &&
		     fnmatch(r->name, name, 0) == 0))
			return r->share;
	}
	return (struct mpib_share){ 0 };
}
