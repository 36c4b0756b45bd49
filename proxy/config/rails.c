/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of the last step of reading the configuration: the rails, found or parsed,
 * and the policy that follows from several settings. Start-up, control thread.
 */
#include "config/finish.h"

#include <errno.h>
#include <string.h>

#include "rails/discover.h"

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
			 mpib_config_origin(cfg, "hca", key), key, reason);
	return rc;
}

static bool is_auto(const char *rail)
{
	return !rail[0] || !strcmp(rail, "auto");
}

/* hca.sout was not given: use the machine's RDMA ports. */
static int find_rails(struct mpib_config *cfg, char *why)
{
	bool one = !strcmp(cfg->sup, "none");
	struct mpib_hca_filter filter;
	char reason[200];
	char name[2][80];
	unsigned n;

	if (!one && !is_auto(cfg->sup)) {
		snprintf(why, MPIB_WHY_MAX,
			 "%s: hca.sup is given without hca.sout (name both)",
			 mpib_config_origin(cfg, "hca", "sup"));
		return -EINVAL;
	}
	if (mpib_hca_filter_parse(&filter, cfg->hca_filter, reason,
				  sizeof(reason)) < 0) {
		snprintf(why, MPIB_WHY_MAX, "%s: hca.filter: %s",
			 mpib_config_origin(cfg, "hca", "filter"), reason);
		return -EINVAL;
	}
	n = mpib_rails_discover(one ? 1 : 2, &filter, name, cfg->passed_over,
				sizeof(cfg->passed_over));
	if (n == 0) {
		snprintf(why, MPIB_WHY_MAX,
			 "%s: hca.sout is not given, and no rail was found: %s "
			 "(give sout and sup, or --sout soft for the software "
			 "HCA on 127.0.0.1 and 127.0.0.2)",
			 mpib_config_origin(cfg, "hca", "sout"),
			 cfg->passed_over);
		return -ENODEV;
	}
	cfg->one_rail = one;
	cfg->found = true;
	memcpy(cfg->sout, name[0], sizeof(cfg->sout));
	if (n == 1 || one)
		snprintf(cfg->sup, sizeof(cfg->sup), "none");
	else
		memcpy(cfg->sup, name[1], sizeof(cfg->sup));
	return 0;
}

/* "soft": the software HCA on loopback addresses, with both rails. */
static void take_loopback(struct mpib_config *cfg)
{
	if (strcmp(cfg->sout, "soft") != 0)
		return;
	snprintf(cfg->sout, sizeof(cfg->sout), "soft:127.0.0.1");
	if (is_auto(cfg->sup) || !strcmp(cfg->sup, "soft"))
		snprintf(cfg->sup, sizeof(cfg->sup), "soft:127.0.0.2");
}

int mpib_config_rails(struct mpib_config *cfg, char *why)
{
	bool no_sup;
	int rc;

	take_loopback(cfg);
	rc = is_auto(cfg->sout) ? find_rails(cfg, why) : 0;
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

int mpib_config_keep_rails(struct mpib_config *cfg, unsigned n, char name[][80],
			   char *why)
{
	if (!cfg->found || (cfg->one_rail && n > 1))
		return 0;
	snprintf(cfg->sout, sizeof(cfg->sout), "%s", name[MPIB_RAIL_SOUT]);
	snprintf(cfg->sup, sizeof(cfg->sup), "%s",
		 n > 1 ? name[MPIB_RAIL_SUP] : "none");
	return mpib_config_rails(cfg, why);
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

int mpib_config_policy(struct mpib_config *cfg, char *why)
{
	char reason[256];
	int rc = mpib_islands_parse(&cfg->islands, cfg->island_prefix,
				    cfg->island_networks, reason,
				    sizeof(reason));

	if (rc < 0) {
		snprintf(why, MPIB_WHY_MAX, "%s: island.networks: %s",
			 mpib_config_origin(cfg, "island", "networks"), reason);
		return rc;
	}
	cfg->engine.mode = (uint8_t)cfg->mode;
	if (cfg->mode == MPIB_MODE_AUTO && mpib_islands_given(&cfg->islands))
		cfg->engine.mode = MPIB_MODE_VANILLA;
	else if (cfg->mode == MPIB_MODE_AUTO)
		cfg->engine.mode = mpib_config_given(cfg, "sup", "bw")
					   ? MPIB_MODE_STATIC
					   : MPIB_MODE_ADAPTIVE;
	if (cfg->engine.mode != MPIB_MODE_VANILLA ||
	    mpib_islands_given(&cfg->islands))
		return 0;
	snprintf(why, MPIB_WHY_MAX,
		 "%s: policy.mode is vanilla, and nothing says what an island "
		 "is (give island.prefix, such as 24, or island.networks)",
		 mpib_config_origin(cfg, "policy", "mode"));
	return -EINVAL;
}
