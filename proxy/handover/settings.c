/* SPDX-License-Identifier: Apache-2.0 */
/* Settings and shares that were set at run time, over a hand-over. */
#include "handover/settings.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "proxy.h"

static bool is_set(const struct mpib_config *cfg, unsigned i)
{
	return mpib_settings[i].runtime &&
	       !strncmp(cfg->origin[i], MPIB_ADMIN_ORIGIN,
			strlen(MPIB_ADMIN_ORIGIN));
}

/* s is the setting to pack; NULL when unpacking. */
static void settings_setting(struct mpib_serial *p, struct mpib_config *cfg,
			     const struct mpib_setting *s)
{
	char section[32] = "", key[32] = "", value[MPIB_VALUE_MAX] = "";
	char origin[MPIB_ORIGIN_MAX] = "", why[MPIB_WHY_MAX];

	if (s) {
		snprintf(section, sizeof(section), "%s", s->section);
		snprintf(key, sizeof(key), "%s", s->key);
		mpib_config_value(cfg, s, value, sizeof(value));
		snprintf(origin, sizeof(origin), "%s",
			 cfg->origin[s - mpib_settings]);
	}
	mpib_serial_text(p, section, sizeof(section));
	mpib_serial_text(p, key, sizeof(key));
	mpib_serial_text(p, value, sizeof(value));
	mpib_serial_text(p, origin, sizeof(origin));
	if (p->packing || p->failed)
		return;
	s = mpib_config_find(section, key);
	if (!s || !s->runtime)
		mpib_warn("%s.%s = %s, %s, is no setting any more", section,
			  key, value, origin);
	else if (mpib_config_change(cfg, s, value, origin, why) < 0)
		mpib_warn("it was set before the upgrade, and is not now: %s",
			  why);
}

static void settings_one(struct mpib_serial *p, struct mpib_config *cfg)
{
	uint32_t n = 0, i = 0;

	for (unsigned k = 0; p->packing && k < mpib_settings_count; k++)
		n += is_set(cfg, k);
	mpib_serial_count(p, &n, MPIB_SETTINGS_MAX);
	for (; n > 0 && !p->failed; n--) {
		while (p->packing && !is_set(cfg, i))
			i++;
		settings_setting(p, cfg,
				 p->packing ? &mpib_settings[i++] : NULL);
	}
}

static void settings_share(struct mpib_serial *p, struct proxy_clients *all,
			   const struct proxy_client *s)
{
	struct mpib_share part = { 0 };
	uint32_t id = 0;
	struct proxy_client *to;

	if (s) {
		part = s->share;
		id = s->id;
	}
	mpib_serial_u32(p, &id);
	mpib_serial_u32(p, &part.weight);
	mpib_serial_u32(p, &part.limit);
	to = p->packing || p->failed ? NULL : proxy_clients_find(all, id);
	if (to) {
		to->share = part;
		to->share_said = true;
	}
}

/* Only clients that an operator gave a share; the others have theirs by the
 * rules. Clients are named by id, since a client may have left after CLIENTS
 * was packed. */
static void settings_shares(struct mpib_serial *p, struct proxy_clients *all)
{
	const struct proxy_client *s;
	uint32_t n = 0;

	if (!p->packing) {
		for (mpib_serial_u32(p, &n); n > 0 && !p->failed; n--)
			settings_share(p, all, NULL);
		return;
	}
	TAILQ_FOREACH(s, &all->list, link)
	n += s->share_said;
	mpib_serial_u32(p, &n);
	TAILQ_FOREACH(s, &all->list, link)
	{
		if (s->share_said)
			settings_share(p, all, s);
	}
}

void mpib_settings_serialize(struct mpib_serial *serial, struct mpib_proxy *p)
{
	const struct mpib_admin admin = { .cfg = &p->cfg,
					  .clients = &p->clients,
					  .engine = p->engine };

	mpib_serial_mark(serial, "settings");
	settings_one(serial, &p->cfg);
	settings_shares(serial, &p->clients);
	if (!serial->packing && !serial->failed)
		mpib_admin_apply(&admin);
}
