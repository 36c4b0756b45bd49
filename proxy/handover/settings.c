/* SPDX-License-Identifier: Apache-2.0 */
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

/* s is what is packed. */
static void setting(struct mpib_parcel *p, struct mpib_config *cfg,
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
	mpib_parcel_text(p, section, sizeof(section));
	mpib_parcel_text(p, key, sizeof(key));
	mpib_parcel_text(p, value, sizeof(value));
	mpib_parcel_text(p, origin, sizeof(origin));
	if (p->packing || p->failed)
		return;
	s = mpib_config_find(section, key);
	if (!s || !s->runtime)
		mpib_warn("%s.%s = %s, %s, is no setting any more", section,
			  key, value, origin);
	else if (mpib_config_set(cfg, s, value, origin, why) < 0)
		mpib_warn("it was set before the upgrade, and is not now: %s",
			  why);
}

static void settings(struct mpib_parcel *p, struct mpib_config *cfg)
{
	uint32_t n = 0, i = 0;

	for (unsigned k = 0; p->packing && k < mpib_settings_count; k++)
		n += is_set(cfg, k);
	mpib_parcel_count(p, &n, MPIB_SETTINGS_MAX);
	for (; n > 0 && !p->failed; n--) {
		while (p->packing && !is_set(cfg, i))
			i++;
		setting(p, cfg, p->packing ? &mpib_settings[i++] : NULL);
	}
}

static void share(struct mpib_parcel *p, struct mpib_sessions *all,
		  const struct mpib_session *s)
{
	struct mpib_part part = { 0 };
	uint32_t id = 0;
	struct mpib_session *to;

	if (s) {
		part = s->share;
		id = s->id;
	}
	mpib_parcel_u32(p, &id);
	mpib_parcel_u32(p, &part.weight);
	mpib_parcel_u32(p, &part.limit);
	to = p->packing || p->failed ? NULL : mpib_sessions_find(all, id);
	if (to) {
		to->share = part;
		to->share_said = true;
	}
}

/* Those that were given one; the others have theirs by the rules. Clients may
 * have left since they were handed over: here they are named. */
static void shares(struct mpib_parcel *p, struct mpib_sessions *all)
{
	const struct mpib_session *s;
	uint32_t n = 0;

	if (!p->packing) {
		for (mpib_parcel_u32(p, &n); n > 0 && !p->failed; n--)
			share(p, all, NULL);
		return;
	}
	TAILQ_FOREACH(s, &all->list, link)
	n += s->share_said;
	mpib_parcel_u32(p, &n);
	TAILQ_FOREACH(s, &all->list, link)
	{
		if (s->share_said)
			share(p, all, s);
	}
}

void mpib_settings_parcel(struct mpib_parcel *parcel, struct mpib_proxy *p)
{
	const struct mpib_admin admin = { .cfg = &p->cfg,
					  .sessions = &p->sessions,
					  .engine = p->engine };

	mpib_parcel_mark(parcel, "settings");
	settings(parcel, &p->cfg);
	shares(parcel, &p->sessions);
	if (!parcel->packing && !parcel->failed)
		mpib_admin_apply(&admin);
}
