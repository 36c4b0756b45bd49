/* SPDX-License-Identifier: Apache-2.0 */
/* Devices that the configuration names, and the names of devices and rails. */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "config/config.h"

#define FLAG "flag --device"

static int devices_bad(char *why, const char *origin, const char *name,
		       const char *text)
{
	return mpib_why_fail(why, -EINVAL, "%s: device %.64s: %s", origin, name,
			     text);
}

/* Return whether the name can be part of labels and commands, as in
 * gpu0.SUP. */
static bool sound_name(const char *name)
{
	size_t n = strlen(name);

	for (const char *c = name; *c; c++) {
		if (!isalnum((unsigned char)*c) && *c != '_' && *c != '-')
			return false;
	}
	return n > 0 && n < MPIB_DEVICE_NAME_MAX;
}

/* Return the device of that name; if it does not exist, add it. Return NULL if
 * there are too many devices. */
static struct mpib_config_device *devices_find(struct mpib_config *cfg,
					       const char *name)
{
	struct mpib_config_device *d;

	for (unsigned i = 0; i < cfg->devices; i++) {
		if (!strcmp(cfg->device[i].name, name))
			return &cfg->device[i];
	}
	if (cfg->devices == MPIB_DEVICES_MAX)
		return NULL;
	d = &cfg->device[cfg->devices++];
	*d = (struct mpib_config_device){ 0 };
	snprintf(d->name, sizeof(d->name), "%s", name);
	return d;
}

static int devices_put(char *to, size_t len, const char *value,
		       const struct mpib_config_device *d, char *why)
{
	if (strlen(value) >= len)
		return devices_bad(why, d->origin, d->name,
				   "a rail's name is too long (give at most 79 "
				   "bytes)");
	snprintf(to, len, "%s", value);
	return 0;
}

int mpib_config_device_set(struct mpib_config *cfg, const char *name,
			   const char *key, const char *value,
			   const char *origin, char *why)
{
	bool sup = !strcmp(key, "sup");
	struct mpib_config_device *d;

	if (!sound_name(name))
		return devices_bad(why, origin, name,
				   "is not a name (give up to 31 letters, "
				   "digits, _ and -)");
	if (!sup && strcmp(key, "sout"))
		return devices_bad(why, origin, name,
				   "has no such setting (give sout and sup)");
	d = devices_find(cfg, name);
	if (!d)
		return devices_bad(why, origin, name,
				   "there are 16 devices already (leave it "
				   "out)");
	snprintf(d->origin, sizeof(d->origin), "%s", origin);
	return devices_put(sup ? d->sup : d->sout, sizeof(d->sout), value, d,
			   why);
}

int mpib_config_device_flag(struct mpib_config *cfg, const char *value,
			    char *why)
{
	const char *comma = strchr(value, ',');
	size_t n = comma ? (size_t)(comma - value) : strlen(value);
	char name[12], sout[sizeof(cfg->device[0].sout) + 1];
	int rc;

	if (cfg->devices && strcmp(cfg->device[0].origin, FLAG))
		cfg->devices = 0;
	snprintf(name, sizeof(name), "%u", cfg->devices);
	snprintf(sout, sizeof(sout), "%.*s", (int)n, value);
	rc = mpib_config_device_set(cfg, name, "sout", sout, FLAG, why);
	if (rc == 0 && comma)
		rc = mpib_config_device_set(cfg, name, "sup", comma + 1, FLAG,
					    why);
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

const char *mpib_config_rail_device(const struct mpib_config *cfg,
				    unsigned rail)
{
	return cfg->device[rail / cfg->engine.rails].name;
}

void mpib_config_device(const struct mpib_config *cfg, unsigned device,
			struct mpib_config_device *d)
{
	unsigned rails = cfg->engine.rails;

	*d = (struct mpib_config_device){ 0 };
	snprintf(d->name, sizeof(d->name), "%s", cfg->device[device].name);
	mpib_config_rail_name(cfg, device * rails + MPIB_RAIL_SOUT, d->sout,
			      sizeof(d->sout));
	if (rails > 1)
		mpib_config_rail_name(cfg, device * rails + MPIB_RAIL_SUP,
				      d->sup, sizeof(d->sup));
}

unsigned mpib_config_rail_total(const struct mpib_config *cfg)
{
	return cfg->engine.devices * cfg->engine.rails;
}

int mpib_config_rail_find(const struct mpib_config *cfg, const char *label,
			  size_t len)
{
	for (unsigned r = 0; r < mpib_config_rail_total(cfg); r++) {
		const char *known = cfg->engine.rail[r].label;

		if (strlen(known) == len && !strncasecmp(known, label, len))
			return (int)r;
	}
	return -1;
}
