/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of the last step of reading the configuration: which devices are made of HCAs
 * that nobody named as devices, device.layout. Start-up, control thread.
 */
#include <errno.h>
#include <mpib/segment.h>
#include <string.h>

#include "config/finish.h"
#include "rails/discover.h"

/* The setting that says how a device splits over its rails, where it may not be
 * "all on SOUT"; NULL: there is none. */
static const char *says_split(const struct mpib_config *cfg)
{
	bool share = mpib_config_given(cfg, "sup", "bw");

	if (cfg->island_prefix)
		return "island.prefix";
	if (cfg->island_networks[0])
		return "island.networks";
	if (share && cfg->engine.sup_bw)
		return "sup.bw";
	if (cfg->mode == MPIB_MODE_AUTO ||
	    (cfg->mode == MPIB_MODE_STATIC && share))
		return NULL;
	return "policy.mode";
}

static int layout_bad(const struct mpib_config *cfg, const char *what,
		      char *why)
{
	return mpib_why_fail(
		why, -EINVAL, "%s: device.layout = %s, and %s (leave it out)",
		mpib_config_origin(cfg, "device", "layout"),
		cfg->layout == MPIB_LAYOUT_EACH ? "each" : "fused", what);
}

/* Whether devices are to be made as the setting says. */
static bool layout_given(const struct mpib_config *cfg)
{
	return cfg->layout != MPIB_LAYOUT_AUTO;
}

static int layout_check(const struct mpib_config *cfg, unsigned n, bool one,
			char *why)
{
	if (!layout_given(cfg))
		return 0;
	if (n < 2)
		return layout_bad(cfg, "there is one HCA", why);
	if (cfg->layout == MPIB_LAYOUT_FUSED && one)
		return layout_bad(cfg, "hca.sup = none leaves no pair", why);
	return 0;
}

static bool layout_fits(const struct mpib_config *cfg, unsigned devices)
{
	return devices * cfg->engine.shards <= MPIB_SHARDS_MAX;
}

static enum mpib_layout layout_of(const struct mpib_config *cfg, unsigned n,
				  bool one, char *because, size_t len)
{
	const char *split = says_split(cfg);

	if (layout_given(cfg)) {
		snprintf(because, len, "%.100s",
			 mpib_config_origin(cfg, "device", "layout"));
		return (enum mpib_layout)cfg->layout;
	}
	if (n <= 2)
		snprintf(because, len, "there are no more");
	else if (split && !one)
		snprintf(because, len, "%s is about pairs", split);
	else if (!layout_fits(cfg, n) && layout_fits(cfg, n / 2) && !one)
		snprintf(because, len, "proxy.threads leaves room for no more");
	else {
		snprintf(because, len, "there are more than two");
		return MPIB_LAYOUT_EACH;
	}
	return MPIB_LAYOUT_FUSED;
}

static void layout_add(struct mpib_config *cfg, const char *sout,
		       const char *sup)
{
	struct mpib_config_device *d = &cfg->device[cfg->devices];

	*d = (struct mpib_config_device){ 0 };
	snprintf(d->name, sizeof(d->name), "%u", cfg->devices);
	snprintf(d->sout, sizeof(d->sout), "%s", sout);
	snprintf(d->sup, sizeof(d->sup), "%s", sup);
	cfg->devices++;
}

static void layout_each(struct mpib_config *cfg, const struct mpib_found *f,
			bool one)
{
	for (unsigned i = 0; i < f->n; i++)
		layout_add(cfg, f->hca[i].name,
			   one ? "none" : f->hca[f->hca[i].neighbour].name);
	cfg->standby = !one;
}

/* An odd one is left over: all devices have as many rails. */
static void layout_fused(struct mpib_config *cfg, const struct mpib_found *f,
			 bool one)
{
	for (unsigned i = 0; i < f->n && f->n > 1 && !one; i++) {
		unsigned other = f->hca[i].neighbour;

		if (other > i && f->hca[other].neighbour == i)
			layout_add(cfg, f->hca[i].name, f->hca[other].name);
	}
	if (cfg->devices == 0)
		layout_add(cfg, f->hca[f->fastest].name, "none");
}

int mpib_config_lay_out(struct mpib_config *cfg, const struct mpib_found *f,
			bool one, char *why)
{
	char because[MPIB_ORIGIN_MAX];
	enum mpib_layout layout =
		layout_of(cfg, f->n, one, because, sizeof(because));
	int rc = layout_check(cfg, f->n, one, why);

	if (rc < 0)
		return rc;
	cfg->devices = 0;
	cfg->standby = false;
	if (layout == MPIB_LAYOUT_EACH)
		layout_each(cfg, f, one || !cfg->engine.failover);
	else
		layout_fused(cfg, f, one);
	snprintf(cfg->why_devices, sizeof(cfg->why_devices),
		 "%.48s: %s of %u HCA%s%s (%s)",
		 cfg->found ? "found" : mpib_config_origin(cfg, "hca", "sout"),
		 layout == MPIB_LAYOUT_EACH ? "each"
		 : f->n > 1 && !one	    ? "pairs"
					    : "one",
		 f->n, f->n > 1 ? "s" : "",
		 cfg->standby ? ", its neighbour in reserve" : "", because);
	return 0;
}

/* The share of a standby rail is not a setting: say whose it is. */
static void standby_share(struct mpib_config *cfg)
{
	cfg->engine.sup_bw = 0;
	snprintf(cfg->origin[mpib_config_find("sup", "bw") - mpib_settings],
		 MPIB_ORIGIN_MAX, "device.layout");
}

int mpib_config_standby(struct mpib_config *cfg, char *why)
{
	const char *split = says_split(cfg);

	if (!cfg->standby)
		return 0;
	if (!split) {
		standby_share(cfg);
		return 0;
	}
	return mpib_why_fail(
		why, -EINVAL,
		"%s: each HCA is a device with its neighbour in reserve, and "
		"%s says how to split over both (leave that out, or give "
		"device.layout = fused)",
		mpib_config_origin(cfg, "device", "layout"), split);
}
