/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last step of reading the configuration: it finds or parses the rails and
 * checks settings against each other. Start-up, control thread.
 */
#include "config/config.h"

#include <errno.h>
#include <string.h>

#include "rails/discover.h"

static const char *origin_of(const struct mpib_config *cfg, const char *section,
			     const char *key)
{
	for (unsigned i = 0; i < mpib_settings_count; i++) {
		if (!strcmp(mpib_settings[i].section, section) &&
		    !strcmp(mpib_settings[i].key, key))
			return cfg->origin[i];
	}
	return "built-in";
}

/* Of two settings that contradict each other: the origin of a if a was given,
 * else the origin of b. */
static const char *origin_of_pair(const struct mpib_config *cfg,
				  const char *section, const char *a,
				  const char *b)
{
	const char *origin = origin_of(cfg, section, a);

	return strcmp(origin, "built-in") ? origin : origin_of(cfg, section, b);
}

/* A bare device name, as in NCCL_IB_HCA, means rdma: mlx5_0 is rdma:mlx5_0. */
static int parse_rail(struct mpib_config *cfg, const char *key,
		      const char *text, struct mpib_rail_spec *spec, char *why)
{
	char full[96], reason[256];
	bool bare = strncmp(text, "soft:", 5) && strncmp(text, "rdma:", 5);
	int rc;

	snprintf(full, sizeof(full), "%s%s", bare ? "rdma:" : "", text);
	rc = mpib_rail_spec_parse(full, spec, reason, sizeof(reason));
	if (rc < 0)
		snprintf(why, MPIB_WHY_MAX,
			 "%s: hca.%s: %s (give soft:IPv4 or "
			 "rdma:DEVICE[:PORT])",
			 origin_of(cfg, "hca", key), key, reason);
	return rc;
}

static bool is_auto(const char *rail)
{
	return !rail[0] || !strcmp(rail, "auto");
}

/* hca.sout was not given: use the machine's RDMA ports, or the software HCA
 * where discovery finds none. */
static int find_rails(struct mpib_config *cfg, char *why)
{
	bool one = !strcmp(cfg->sup, "none");
	struct mpib_hca_filter filter;
	char reason[200];
	char name[2][80] = { "soft:127.0.0.1", "soft:127.0.0.2" };
	unsigned n;

	if (!one && !is_auto(cfg->sup)) {
		snprintf(why, MPIB_WHY_MAX,
			 "%s: hca.sup is given without hca.sout (name both)",
			 origin_of(cfg, "hca", "sup"));
		return -EINVAL;
	}
	if (mpib_hca_filter_parse(&filter, cfg->hca_filter, reason,
				  sizeof(reason)) < 0) {
		snprintf(why, MPIB_WHY_MAX, "%s: hca.filter: %s",
			 origin_of(cfg, "hca", "filter"), reason);
		return -EINVAL;
	}
	n = mpib_rails_discover(one ? 1 : 2, &filter, name, cfg->passed_over,
				sizeof(cfg->passed_over));
	cfg->found = n > 0;
	cfg->soft_by_default = n == 0;
	memcpy(cfg->sout, name[0], sizeof(cfg->sout));
	if (n == 1 || one)
		snprintf(cfg->sup, sizeof(cfg->sup), "none");
	else
		memcpy(cfg->sup, name[1], sizeof(cfg->sup));
	return 0;
}

static int rails_one(struct mpib_config *cfg, char *why)
{
	bool no_sup;
	int rc = is_auto(cfg->sout) ? find_rails(cfg, why) : 0;

	if (rc < 0)
		return rc;
	no_sup = !cfg->sup[0] || !strcmp(cfg->sup, "none");

	cfg->engine.rails = no_sup ? 1 : 2;
	rc = parse_rail(cfg, "sout", cfg->sout,
			&cfg->engine.rail[MPIB_RAIL_SOUT], why);
	if (rc == 0 && !no_sup)
		rc = parse_rail(cfg, "sup", cfg->sup,
				&cfg->engine.rail[MPIB_RAIL_SUP], why);
	return rc;
}

void mpib_config_rail_name(const struct mpib_config *cfg, unsigned rail,
			   char *buf, size_t len)
{
	const struct mpib_rail_spec *spec = &cfg->engine.rail[rail];

	if (spec->provider == MPIB_PROVIDER_SOFT)
		snprintf(buf, len, "soft:%s", spec->name);
	else
		snprintf(buf, len, "rdma:%s:%u", spec->name, spec->port);
}

static bool same_port(const struct mpib_engine_config *e)
{
	return e->rails == 2 && e->rail[0].provider == e->rail[1].provider &&
	       e->rail[0].port == e->rail[1].port &&
	       !strcmp(e->rail[0].name, e->rail[1].name);
}

static bool rails_given(const struct mpib_config *cfg, const char *section,
			const char *key)
{
	return strcmp(origin_of(cfg, section, key), "built-in") != 0;
}

static int rails_policy(struct mpib_config *cfg, char *why)
{
	char reason[256];
	int rc = mpib_islands_parse(&cfg->islands, cfg->island_prefix,
				    cfg->island_networks, reason,
				    sizeof(reason));

	if (rc < 0) {
		snprintf(why, MPIB_WHY_MAX, "%s: island.networks: %s",
			 origin_of(cfg, "island", "networks"), reason);
		return rc;
	}
	cfg->engine.mode = (uint8_t)cfg->mode;
	if (cfg->mode == MPIB_MODE_AUTO && mpib_islands_given(&cfg->islands))
		cfg->engine.mode = MPIB_MODE_VANILLA;
	else if (cfg->mode == MPIB_MODE_AUTO)
		cfg->engine.mode = rails_given(cfg, "sup", "bw")
					   ? MPIB_MODE_STATIC
					   : MPIB_MODE_ADAPTIVE;
	if (cfg->engine.mode != MPIB_MODE_VANILLA ||
	    mpib_islands_given(&cfg->islands))
		return 0;
	snprintf(why, MPIB_WHY_MAX,
		 "%s: policy.mode is vanilla, and nothing says what an island "
		 "is (give island.prefix, such as 24, or island.networks)",
		 origin_of(cfg, "policy", "mode"));
	return -EINVAL;
}

int mpib_config_finish(struct mpib_config *cfg, char *why)
{
	const struct mpib_engine_config *e = &cfg->engine;
	int rc = rails_one(cfg, why);
	char reason[256];

	if (rc == 0)
		rc = rails_policy(cfg, why);
	if (rc < 0)
		return rc;
	rc = mpib_rdma_prefer_nets(cfg->gid_net, reason, sizeof(reason));
	if (rc < 0) {
		snprintf(why, MPIB_WHY_MAX, "%s: hca.gid_net: %s",
			 origin_of(cfg, "hca", "gid_net"), reason);
		return rc;
	}
	if (mpib_share_parse(&cfg->shares, cfg->share_rules, reason,
			     sizeof(reason)) < 0)
		snprintf(why, MPIB_WHY_MAX, "%s: share.rules: %s",
			 origin_of(cfg, "share", "rules"), reason);
	else if (same_port(e))
		snprintf(why, MPIB_WHY_MAX,
			 "%s: both rails are %s (give two ports, or --sup "
			 "none)",
			 origin_of(cfg, "hca", "sup"), cfg->sup);
	else if (e->srq_low >= e->srq_high)
		snprintf(why, MPIB_WHY_MAX,
			 "%s: srq.low = %u is not below srq.high = %u (lower "
			 "it)",
			 origin_of_pair(cfg, "srq", "low", "high"), e->srq_low,
			 e->srq_high);
	else if (cfg->part % MPIB_ALIGN || cfg->part > cfg->window)
		snprintf(why, MPIB_WHY_MAX,
			 "%s: client.part = %u is no multiple of 128 up to "
			 "client.window = %u (change either)",
			 origin_of_pair(cfg, "client", "part", "window"),
			 cfg->part, cfg->window);
	else
		return 0;
	return -EINVAL;
}
