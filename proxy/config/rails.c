/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part of the last step of reading the configuration: find or parse the
 * rails, and derive the policy from several settings. Start-up, control thread.
 */
#include <errno.h>
#include <mpib/segment.h>
#include <string.h>

#include "config/config.h"
#include "rails/discover.h"

/* device.layout: how to group HCAs into devices if no setting names a
 * device. */

/* Return the name of a setting that puts bytes on both rails of a device.
 * Return NULL if all settings allow a standby rail. */
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
		why, -EINVAL, "%s: device.layout = %s, but %s (omit it)",
		mpib_config_origin(cfg, "device", "layout"),
		cfg->layout == MPIB_LAYOUT_EACH ? "each" : "fused", what);
}

/* Return whether device.layout was given. */
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
		snprintf(because, len, "proxy.threads allows no more devices");
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

/* Ignore an HCA that is in no pair, because all devices must have the same
 * number of rails. */
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

static int layout_make(struct mpib_config *cfg, const struct mpib_found *f,
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

/* Set the share of standby rails. The origin of the share is device.layout,
 * because no setting gave the share. */
static void standby_share(struct mpib_config *cfg)
{
	cfg->engine.sup_bw = 0;
	snprintf(cfg->origin[mpib_config_find("sup", "bw") - mpib_settings],
		 MPIB_ORIGIN_MAX, "device.layout");
}

static int layout_standby(struct mpib_config *cfg, char *why)
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
		"%s: each HCA is a device with its neighbour as standby, but "
		"%s splits messages over both (remove it, or set "
		"device.layout = fused)",
		mpib_config_origin(cfg, "device", "layout"), split);
}

/* The rails of the devices, and how messages are split over them. */

/* Parse a rail's specification. A name without a prefix, as in NCCL_IB_HCA, is
 * the name of an RDMA device: mlx5_0 means rdma:mlx5_0. */
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

/* If hca.sout is not given, use the machine's RDMA ports. */
static int find_hcas(struct mpib_config *cfg, struct mpib_found *f, char *why)
{
	struct mpib_hca_filter filter;
	char reason[200];

	if (strcmp(cfg->sup, "none") != 0 && !is_auto(cfg->sup))
		return mpib_why_fail(
			why, -EINVAL,
			"%s: hca.sup is given without hca.sout (name both)",
			mpib_config_origin(cfg, "hca", "sup"));
	if (mpib_hca_filter_parse(&filter, cfg->hca_filter, reason,
				  sizeof(reason)) < 0)
		return mpib_why_fail(why, -EINVAL, "%s: hca.filter: %s",
				     mpib_config_origin(cfg, "hca", "filter"),
				     reason);
	if (mpib_rails_discover(&filter, f, cfg->passed_over,
				sizeof(cfg->passed_over)) > 0) {
		cfg->found = true;
		return 0;
	}
	return mpib_why_fail(
		why, -ENODEV,
		"%s: hca.sout is not given, and no rail was found: %s (give "
		"sout and sup, or --sout soft for the software HCA on "
		"127.0.0.1 and 127.0.0.2)",
		mpib_config_origin(cfg, "hca", "sout"), cfg->passed_over);
}

/* If hca.sout is "soft", use the software HCA for both rails, on loopback
 * addresses. */
static void take_loopback(struct mpib_config *cfg)
{
	if (strcmp(cfg->sout, "soft") != 0)
		return;
	snprintf(cfg->sout, sizeof(cfg->sout), "soft:127.0.0.1");
	if (is_auto(cfg->sup) || !strcmp(cfg->sup, "soft"))
		snprintf(cfg->sup, sizeof(cfg->sup), "soft:127.0.0.2");
}

static void name_hca(struct mpib_found *f, const char *name)
{
	snprintf(f->hca[f->n].name, sizeof(f->hca[0].name), "%s", name);
	f->hca[f->n].neighbour = !f->n;
	f->n++;
}

/* If no section names a device, make devices from the HCAs that hca.sout and
 * hca.sup name, or that discovery finds. */
static int rails_only(struct mpib_config *cfg, char *why)
{
	struct mpib_found f = { 0 };
	bool one = !strcmp(cfg->sup, "none");
	int rc;

	take_loopback(cfg);
	if (is_auto(cfg->sout)) {
		rc = find_hcas(cfg, &f, why);
		if (rc < 0)
			return rc;
		cfg->one_rail = one;
	} else if (!strcmp(cfg->sup, "auto")) {
		return mpib_why_fail(
			why, -EINVAL,
			"%s: hca.sup is auto, but hca.sout is not (give "
			"hca.sup a rail or none, or omit both)",
			mpib_config_origin(cfg, "hca", "sup"));
	} else {
		name_hca(&f, cfg->sout);
		if (cfg->sup[0] && !one)
			name_hca(&f, cfg->sup);
	}
	return layout_make(cfg, &f, one, why);
}

static unsigned rail_count(const struct mpib_config_device *d)
{
	return d->sup[0] && strcmp(d->sup, "none") ? 2 : 1;
}

static void rails_label(struct mpib_config *cfg)
{
	for (unsigned r = 0; r < mpib_config_rail_total(cfg); r++) {
		char *label = cfg->engine.rail[r].label;
		const char *name = mpib_rail_name(r % cfg->engine.rails);

		if (cfg->engine.devices == 1)
			snprintf(label, MPIB_RAIL_LABEL_MAX, "%s", name);
		else
			snprintf(label, MPIB_RAIL_LABEL_MAX, "%s.%s",
				 mpib_config_rail_device(cfg, r), name);
	}
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

/* If settings name devices, refuse hca.sout, hca.sup and a layout. */
static int rails_alone(const struct mpib_config *cfg, char *why)
{
	const char *key = cfg->sout[0] ? "sout" : "sup";

	if (cfg->layout != MPIB_LAYOUT_AUTO)
		return mpib_why_fail(
			why, -EINVAL,
			"%s: device.layout is for HCAs that no setting names, "
			"but %s names a device (give one or the other)",
			mpib_config_origin(cfg, "device", "layout"),
			cfg->device[0].origin);
	if (!cfg->sout[0] && !cfg->sup[0])
		return 0;
	return mpib_why_fail(
		why, -EINVAL,
		"%s: hca.%s is given, and %s names a device (give one or the "
		"other)",
		mpib_config_origin(cfg, "hca", key), key,
		cfg->device[0].origin);
}

/* Copy cfg's devices for the engine. */
static int devices_parse(struct mpib_config *cfg, char *why)
{
	struct mpib_engine_config *e = &cfg->engine;
	int rc = 0;

	e->devices = cfg->devices;
	e->rails = rail_count(&cfg->device[0]);
	for (unsigned i = 0; rc == 0 && i < cfg->devices; i++) {
		const struct mpib_config_device *d = &cfg->device[i];

		if (rail_count(d) != e->rails)
			return mpib_why_fail(
				why, -EINVAL,
				"%s: device %.31s has %s, and device %.31s "
				"%s (give all of them a sup, or none)",
				d->origin, d->name,
				e->rails == 2 ? "one rail" : "two rails",
				cfg->device[0].name,
				e->rails == 2 ? "two" : "one");
		rc = rails_parse(cfg, d, why);
	}
	rails_label(cfg);
	return rc;
}

/* Give software rails one QP by default. Each QP is a TCP connection. More
 * connections only cost CPU time, unless fragments are spread over them. */
static void take_qps(struct mpib_config *cfg)
{
	static const char *const section[MPIB_RAILS] = { "sout", "sup" };
	struct mpib_engine_config *e = &cfg->engine;
	bool soft[MPIB_RAILS] = { true, true };

	for (unsigned i = 0; i < e->devices * e->rails; i++)
		soft[i % e->rails] &= e->rail[i].provider == MPIB_PROVIDER_SOFT;
	for (unsigned r = 0; r < e->rails; r++) {
		if (soft[r] && e->spread == MPIB_SPREAD_SPLIT &&
		    !mpib_config_given(cfg, section[r], "qp"))
			e->qps[r] = 1;
	}
}

int mpib_config_rails(struct mpib_config *cfg, char *why)
{
	bool named = cfg->devices && cfg->device[0].origin[0];
	int rc = named ? rails_alone(cfg, why) : rails_only(cfg, why);

	if (rc == 0)
		rc = devices_parse(cfg, why);
	if (rc == 0)
		take_qps(cfg);
	return rc;
}

int mpib_config_policy(struct mpib_config *cfg, char *why)
{
	char reason[256];
	int rc = mpib_islands_parse(&cfg->islands, cfg->island_prefix,
				    cfg->island_networks, reason,
				    sizeof(reason));

	if (rc < 0)
		return mpib_why_fail(
			why, rc, "%s: island.networks: %s",
			mpib_config_origin(cfg, "island", "networks"), reason);
	rc = layout_standby(cfg, why);
	if (rc < 0)
		return rc;
	cfg->engine.mode = (uint8_t)cfg->mode;
	if (cfg->standby)
		cfg->engine.mode = MPIB_MODE_STATIC;
	else if (cfg->mode == MPIB_MODE_AUTO &&
		 mpib_islands_given(&cfg->islands))
		cfg->engine.mode = MPIB_MODE_VANILLA;
	else if (cfg->mode == MPIB_MODE_AUTO)
		cfg->engine.mode = mpib_config_given(cfg, "sup", "bw")
					   ? MPIB_MODE_STATIC
					   : MPIB_MODE_ADAPTIVE;
	if (cfg->engine.mode != MPIB_MODE_VANILLA ||
	    mpib_islands_given(&cfg->islands))
		return 0;
	return mpib_why_fail(
		why, -EINVAL,
		"%s: policy.mode is vanilla, and no setting defines the "
		"islands (give island.prefix, such as 24, or island.networks)",
		mpib_config_origin(cfg, "policy", "mode"));
}
