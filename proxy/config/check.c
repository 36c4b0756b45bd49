/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last step of reading the configuration: check the settings against each
 * other and report all faults at once, one per line. Start-up, control thread.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <mpib/abi.h>
#include <mpib/segment.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/text.h"
#include "config/config.h"
#include "engine/lane/drr.h"
#include "peer/auth.h"
#include "rails/discover.h"

const char *mpib_config_origin(const struct mpib_config *cfg,
			       const char *section, const char *key)
{
	const struct mpib_setting *s = mpib_config_find(section, key);

	return s ? cfg->origin[s - mpib_settings] : "built-in";
}

bool mpib_config_given(const struct mpib_config *cfg, const char *section,
		       const char *key)
{
	return strcmp(mpib_config_origin(cfg, section, key), "built-in") != 0;
}

/* Return the origin for an error about the contradicting settings `a` and `b`:
 * the origin of `a` if `a` was given, else the origin of `b`. */
static const char *origin_of_pair(const struct mpib_config *cfg,
				  const char *section, const char *a,
				  const char *b)
{
	return mpib_config_origin(cfg, section,
				  mpib_config_given(cfg, section, a) ? a : b);
}

static int check_ports(struct mpib_config *cfg, char *why)
{
	const struct mpib_engine_config *e = &cfg->engine;

	for (unsigned i = 0; e->rails > 1 && i < e->devices; i++) {
		const struct mpib_rail_spec *rail = &e->rail[(size_t)i * 2];
		const struct mpib_config_device *d = &cfg->device[i];

		if (!rail[0].name[0] || rail[0].provider != rail[1].provider ||
		    rail[0].port != rail[1].port ||
		    strcmp(rail[0].name, rail[1].name) != 0)
			continue;
		return mpib_why_fail(
			why, -EINVAL,
			"%s: both rails are %s (give two ports, or %s)",
			d->origin[0] ? d->origin
				     : mpib_config_origin(cfg, "hca", "sup"),
			d->sup, d->origin[0] ? "no sup" : "--sup none");
	}
	return 0;
}

static int check_threads(struct mpib_config *cfg, char *why)
{
	const struct mpib_engine_config *e = &cfg->engine;

	if (e->shards * e->devices <= MPIB_SHARDS_MAX)
		return 0;
	return mpib_why_fail(
		why, -EINVAL,
		"%s: proxy.threads = %u for each of %u devices is more than "
		"%u threads in total (lower it)",
		mpib_config_origin(cfg, "proxy", "threads"), e->shards,
		e->devices, (unsigned)MPIB_SHARDS_MAX);
}

static int check_nets(struct mpib_config *cfg, char *why)
{
	char reason[256];
	int rc = mpib_rdma_prefer_nets(cfg->gid_net, reason, sizeof(reason));

	if (rc < 0)
		snprintf(why, MPIB_WHY_MAX, "%s: hca.gid_net: %s",
			 mpib_config_origin(cfg, "hca", "gid_net"), reason);
	return rc;
}

static int check_networks(struct mpib_config *cfg, char *why)
{
	const char *text = cfg->peer_networks;
	bool word = !strcmp(text, "auto") || !strcmp(text, "any");
	char reason[256];
	int rc = mpib_networks_parse(&cfg->networks, word ? "" : text, reason,
				     sizeof(reason));

	if (rc < 0)
		snprintf(why, MPIB_WHY_MAX, "%s: peer.networks: %s",
			 mpib_config_origin(cfg, "peer", "networks"), reason);
	return rc;
}

static int check_classes(struct mpib_config *cfg, char *why)
{
	const char *at = cfg->traffic_classes;
	bool any = !strcmp(at, "any");
	char *end;

	memset(cfg->classes, any ? 0xff : 0, sizeof(cfg->classes));
	if (any || !strcmp(at, "none"))
		return 0;
	for (;; at = end + 1) {
		unsigned long n = strtoul(at, &end, 10);

		if (*at < '0' || *at > '9' || n > 255 || (*end && *end != ','))
			break;
		cfg->classes[n / 64] |= 1ull << n % 64;
		if (!*end)
			return 0;
	}
	return mpib_why_fail(
		why, -EINVAL,
		"%s: qp.traffic_classes: \"%.32s\" is not a traffic class "
		"(give any, none or numbers up to 255 with commas)",
		mpib_config_origin(cfg, "qp", "traffic_classes"), at);
}

bool mpib_config_class(const struct mpib_config *cfg, unsigned traffic_class)
{
	return traffic_class < 256 &&
	       cfg->classes[traffic_class / 64] >> traffic_class % 64 & 1;
}

static int check_shares(struct mpib_config *cfg, char *why)
{
	char reason[256];
	int rc = mpib_share_parse(&cfg->shares, cfg->share_rules, reason,
				  sizeof(reason));

	if (rc < 0)
		snprintf(why, MPIB_WHY_MAX, "%s: share.rules: %s",
			 mpib_config_origin(cfg, "share", "rules"), reason);
	return rc < 0 ? -EINVAL : 0;
}

/* Check that the setting is a multiple of 128, so that every part of a staging
 * window starts aligned. */
static int check_aligned(struct mpib_config *cfg, const char *key,
			 uint32_t value, char *why)
{
	if (value % MPIB_ALIGN == 0)
		return 0;
	return mpib_why_fail(
		why, -EINVAL,
		"%s: client.%s = %u is not a multiple of 128 (give %u)",
		mpib_config_origin(cfg, "client", key), key, value,
		value / MPIB_ALIGN * MPIB_ALIGN);
}

static int check_window(struct mpib_config *cfg, char *why)
{
	return check_aligned(cfg, "window", cfg->window, why);
}

static int check_part(struct mpib_config *cfg, char *why)
{
	if (cfg->part <= cfg->window)
		return check_aligned(cfg, "part", cfg->part, why);
	return mpib_why_fail(
		why, -EINVAL,
		"%s: client.part = %u is more than client.window = %u "
		"(change either)",
		origin_of_pair(cfg, "client", "part", "window"), cfg->part,
		cfg->window);
}

static int check_quota_fds(struct mpib_config *cfg, char *why)
{
	const uint64_t least = MPIB_FDS_OF_A_CLIENT + 1;
	const uint64_t quota = cfg->quota[MPIB_QUOTA_FDS];

	if (quota == 0 || quota >= least)
		return 0;
	return mpib_why_fail(
		why, -EINVAL,
		"%s: quota.fds = %" PRIu64 " is less than the %" PRIu64
		" that a process with a region needs (raise it, "
		"or set 0)",
		mpib_config_origin(cfg, "quota", "fds"), quota, least);
}

/* Parse peer.addr: one address, or two separated by a comma. */
static bool take_peer_addr(struct mpib_config *cfg)
{
	char text[sizeof(cfg->peer_addr)], *second;

	memcpy(text, cfg->peer_addr, sizeof(text));
	memset(cfg->peer_at, 0, sizeof(cfg->peer_at));
	second = strchr(text, ',');
	if (second)
		*second++ = 0;
	if (!mpib_address_parse(text, &cfg->peer_at[0]) ||
	    (second && !mpib_address_parse(second, &cfg->peer_at[1])))
		return false;
	return !IN6_IS_ADDR_LINKLOCAL(&cfg->peer_at[0]) &&
	       !IN6_IS_ADDR_LINKLOCAL(&cfg->peer_at[1]) &&
	       !mpib_address_same(&cfg->peer_at[0], &cfg->peer_at[1]);
}

static int check_peer_addr(struct mpib_config *cfg, char *why)
{
	if (!cfg->peer_addr[0] || take_peer_addr(cfg))
		return 0;
	return mpib_why_fail(
		why, -EINVAL,
		"%s: peer.addr = \"%s\" is not an address that other nodes "
		"can reach (give a.b.c.d, or an IPv6 address that is not "
		"link-local; or two that differ, as 10.0.0.1,10.1.0.1)",
		mpib_config_origin(cfg, "peer", "addr"), cfg->peer_addr);
}

/* A user other than the proxy's may check the configuration. So this function
 * and check_files() ignore the owner of a file, and accept a file that this
 * user cannot read. The proxy checks both when it reads the file. */
static int check_key(struct mpib_config *cfg, char *why)
{
	struct mpib_cluster_key key;
	const char *path = cfg->peer_key_file, *bad;
	int rc = path[0] ? mpib_cluster_key_load(path, 0, &key, &bad) : 0;

	explicit_bzero(&key, sizeof(key));
	if (rc == 0 || rc == -EACCES)
		return 0;
	return mpib_why_fail(why, -EINVAL, "%s: peer.key_file = %s: %s",
			     mpib_config_origin(cfg, "peer", "key_file"), path,
			     bad);
}

typedef int check_fn(struct mpib_config *cfg, char *why);

/* The checks of text settings, each on its own. */
static check_fn *const texts[] = { mpib_config_http, check_peer_addr,
				   check_key };

/* Set engine.resume if connections can resume. Without end-to-end acks they
 * cannot resume, because a completed send can be lost when a proxy ends. */
static int check_resume(struct mpib_config *cfg, char *why)
{
	(void)why;
	cfg->engine.resume = cfg->resume_grace > 0 &&
			     cfg->engine.completion != MPIB_COMPLETION_WIRE;
	return 0;
}

static check_fn *const checks[] = {
	mpib_config_rails, check_ports,	  check_threads,      check_nets,
	check_networks,	   check_classes, mpib_config_policy, check_shares,
	check_window,	   check_part,	  check_quota_fds,    check_resume,
};

/* The checks of settings that may change while the proxy runs. */
static check_fn *const running[] = { check_shares, check_quota_fds };

static int check_each(check_fn *const *list, size_t n, struct mpib_config *cfg,
		      char *why)
{
	char line[MPIB_WHY_MAX];
	int first = 0;

	for (size_t i = 0; i < n; i++) {
		int rc = list[i](cfg, line);

		if (rc == 0)
			continue;
		first = first ? first : rc;
		mpib_config_why(why, line);
	}
	return first;
}

int mpib_config_texts(struct mpib_config *cfg, char *why)
{
	why[0] = '\0';
	return check_each(texts, sizeof(texts) / sizeof(texts[0]), cfg, why);
}

int mpib_config_change(struct mpib_config *cfg, const struct mpib_setting *s,
		       const char *value, const char *origin, char *why)
{
	struct mpib_config *next = malloc(sizeof(*next));
	int rc;

	if (!next)
		return mpib_why_fail(why, -ENOMEM, "%s: %s", origin,
				     strerror(ENOMEM));
	*next = *cfg;
	rc = mpib_config_set(next, s, value, origin, why);
	if (rc == 0) {
		why[0] = '\0';
		rc = check_each(running, sizeof(running) / sizeof(running[0]),
				next, why);
	}
	free(next);
	return rc < 0 ? rc : mpib_config_set(cfg, s, value, origin, why);
}

void mpib_config_share_cqs(struct mpib_config *cfg)
{
	cfg->engine.cq_whole = mpib_config_given(cfg, "quota", "lanes");
}

int mpib_config_finish(struct mpib_config *cfg, char *why)
{
	int rc, more;

	mpib_config_share_cqs(cfg);
	why[0] = '\0';
	rc = check_each(checks, sizeof(checks) / sizeof(checks[0]), cfg, why);
	more = check_each(texts, sizeof(texts) / sizeof(texts[0]), cfg, why);
	return rc ? rc : more;
}

/* Check [metrics]: an address that other machines can reach needs TLS and a
 * token. */

int mpib_config_listen(const char *text, struct sockaddr_in *sin, char *why)
{
	const char *colon = strrchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : 0;
	char addr[INET_ADDRSTRLEN] = "";
	uint64_t port;

	if (len < sizeof(addr))
		memcpy(addr, text, len);
	*sin = (struct sockaddr_in){ .sin_family = AF_INET };
	if (colon && mpib_number(colon + 1, 0, UINT16_MAX, &port) &&
	    inet_pton(AF_INET, addr, &sin->sin_addr) == 1) {
		sin->sin_port = htons((uint16_t)port);
		return 0;
	}
	return mpib_why_fail(
		why, -EINVAL,
		"metrics.listen = \"%.64s\": not an IPv4 address and port "
		"(give 127.0.0.1:9495)",
		text);
}

static int http_fault(const struct mpib_config *cfg, const char *key,
		      const char *value, const char *bad, char *why)
{
	return mpib_why_fail(why, -EINVAL, "%s: metrics.%s = %.256s: %s",
			     mpib_config_origin(cfg, "metrics", key), key,
			     value, bad);
}

static int check_files(const struct mpib_config *cfg, char *why)
{
	const struct {
		const char *key, *path;
		unsigned flags;
	} files[] = {
		{ "cert", cfg->metrics_cert, 0 },
		{ "key", cfg->metrics_key, MPIB_FILE_SECRET },
		{ "token_file", cfg->metrics_token_file, MPIB_FILE_SECRET },
	};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		const char *path = files[i].path, *bad;
		char first;
		ssize_t n = path[0] ? mpib_file_read(path, files[i].flags,
						     &first, 1, &bad)
				    : 0;

		if (n < 0 && n != -EACCES)
			return http_fault(cfg, files[i].key, path, bad, why);
	}
	return 0;
}

int mpib_config_http(struct mpib_config *cfg, char *why)
{
	const char *key = cfg->metrics_cert[0] ? "cert" : "key";
	char reason[MPIB_WHY_MAX];
	struct sockaddr_in sin;

	if (!cfg->metrics_listen[0])
		return 0;
	if (mpib_config_listen(cfg->metrics_listen, &sin, reason) < 0)
		return mpib_why_fail(
			why, -EINVAL, "%s: %.400s",
			mpib_config_origin(cfg, "metrics", "listen"), reason);
	if (!cfg->metrics_cert[0] != !cfg->metrics_key[0])
		return http_fault(cfg, key,
				  cfg->metrics_cert[0] ? cfg->metrics_cert
						       : cfg->metrics_key,
				  "TLS needs a certificate and its key (give "
				  "both, cert and key)",
				  why);
	if (ntohl(sin.sin_addr.s_addr) >> 24 != IN_LOOPBACKNET &&
	    (!cfg->metrics_token_file[0] || !cfg->metrics_cert[0]))
		return http_fault(cfg, "listen", cfg->metrics_listen,
				  "other machines can reach it (give "
				  "token_file, cert and key, too, or "
				  "127.0.0.1:9495)",
				  why);
	return check_files(cfg, why);
}

/* Parse share.rules, and look up the share of a user or client. */

static int share_number(const char *text, int base, uint64_t max, uint64_t *n)
{
	char *end;

	errno = 0;
	*n = strtoull(text, &end, base);
	return *text < '0' || end == text || *end || errno || *n > max ? -EINVAL
								       : 0;
}

static int parse_share(struct mpib_share *share, const char *word)
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
		rc = parse_share(&rule->share, word);
	return rc;
}

static int bad_rule(const char *text, size_t len, char *why, size_t why_len)
{
	snprintf(why, why_len,
		 "\"%.*s\" is not a rule (give uid=N, name=PATTERN or job=N, "
		 "then :weight=1..%u or :limit=Mb/s, as in "
		 "uid=1000:weight=20)",
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
