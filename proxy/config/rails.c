/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of the last step of reading the configuration: the rails, found or parsed,
 * and the policy that follows from several settings. Start-up, control thread.
 */
#include "config/finish.h"

#include <errno.h>
#include <string.h>

#include "rails/discover.h"

/* A bare name, as in NCCL_IB_HCA, means rdma: mlx5_0 is rdma:mlx5_0. */
static int parse_rail(struct mpib_config *cfg,
		      const struct mpib_config_device *d, const char *key,
		      const char *text, struct mpib_rail_spec *spec, char *why)
{
	char full[96], reason[256];
	bool bare = strncmp(text, "soft:", 5) && strncmp(text, "rdma:", 5);
	int rc;

	snprintf(full, sizeof(full), "%s%s", bare ? "rdma:" : "", text);
	rc = mpib_rail_spec_parse(full, spec, reason, sizeof(reason));
	if (rc < 0 && d->origin[0])
		snprintf(why, MPIB_WHY_MAX,
			 "%s: device %s: %s: %s (give soft:IPv4 or "
			 "rdma:DEVICE[:PORT])",
			 d->origin, d->name, key, reason);
	else if (rc < 0)
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

/* No device was named by itself: hca.sout and hca.sup are the only one. */
static int rails_only(struct mpib_config *cfg, char *why)
{
	struct mpib_config_device *d = &cfg->device[0];
	int rc;

	take_loopback(cfg);
	rc = is_auto(cfg->sout) ? find_rails(cfg, why) : 0;

	snprintf(d->name, sizeof(d->name), "0");
	memcpy(d->sout, cfg->sout, sizeof(d->sout));
	memcpy(d->sup, cfg->sup, sizeof(d->sup));
	cfg->devices = 1;
	cfg->why_devices =
		cfg->found ? "found" : mpib_config_origin(cfg, "hca", "sout");
	return rc;
}

static unsigned rail_count(const struct mpib_config_device *d)
{
	return d->sup[0] && strcmp(d->sup, "none") ? 2 : 1;
}

static int rails_parse(struct mpib_config *cfg,
		       const struct mpib_config_device *d, char *why)
{
	struct mpib_engine_config *e = &cfg->engine;
	struct mpib_rail_spec *rail =
		&e->rail[(size_t)(d - cfg->device) * e->rails];
	int rc =
		parse_rail(cfg, d, "sout", d->sout, &rail[MPIB_RAIL_SOUT], why);

	if (rc == 0 && e->rails > 1)
		rc = parse_rail(cfg, d, "sup", d->sup, &rail[MPIB_RAIL_SUP],
				why);
	return rc;
}

/* hca.sout and hca.sup are left out where devices are named. */
static int rails_alone(const struct mpib_config *cfg, char *why)
{
	const char *key = cfg->sout[0] ? "sout" : "sup";

	if (!cfg->sout[0] && !cfg->sup[0])
		return 0;
	snprintf(why, MPIB_WHY_MAX,
		 "%s: hca.%s is given, and %s names a device (give one or the "
		 "other)",
		 mpib_config_origin(cfg, "hca", key), key,
		 cfg->device[0].origin);
	return -EINVAL;
}

/* What cfg's devices say, for the engine. */
static int devices_parse(struct mpib_config *cfg, char *why)
{
	struct mpib_engine_config *e = &cfg->engine;
	int rc = 0;

	e->devices = cfg->devices;
	e->rails = rail_count(&cfg->device[0]);
	for (unsigned i = 0; rc == 0 && i < cfg->devices; i++) {
		const struct mpib_config_device *d = &cfg->device[i];

		if (rail_count(d) != e->rails) {
			snprintf(why, MPIB_WHY_MAX,
				 "%s: device %.31s has %s, and device %.31s "
				 "%s (give all of them a sup, or none)",
				 d->origin, d->name,
				 e->rails == 2 ? "one rail" : "two rails",
				 cfg->device[0].name,
				 e->rails == 2 ? "two" : "one");
			return -EINVAL;
		}
		rc = rails_parse(cfg, d, why);
	}
	return rc;
}

int mpib_config_rails(struct mpib_config *cfg, char *why)
{
	bool named = cfg->devices && cfg->device[0].origin[0];
	int rc = named ? rails_alone(cfg, why) : rails_only(cfg, why);

	return rc < 0 ? rc : devices_parse(cfg, why);
}

int mpib_config_keep_devices(struct mpib_config *cfg, unsigned n,
			     const struct mpib_config_device *of_before,
			     char *why)
{
	if (!cfg->found || n == 0 ||
	    (cfg->one_rail && rail_count(&of_before[0]) > 1))
		return 0;
	memcpy(cfg->device, of_before, n * sizeof(*of_before));
	cfg->devices = n;
	cfg->why_devices = "those of the process before";
	return devices_parse(cfg, why);
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
