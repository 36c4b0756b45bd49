/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of the admin socket that change something. Control thread. */
#include <errno.h>
#include <string.h>

#include "base/event.h"
#include "base/text.h"
#include "stats/command.h"
#include "upgrade/upgrade.h"

/* Return whether the rail's device has no other rail that could carry the
 * rail's traffic. */
static bool is_only_rail(const struct mpib_ask *ask, unsigned rail)
{
	const struct mpib_engine *engine = ask->admin->engine;
	unsigned rails = ask->admin->cfg->engine.rails;
	uint32_t all = ((1u << rails) - 1) << rail / rails * rails;
	/* The agent's drains end if all other rails are away. */
	uint32_t away = (mpib_engine_drained(engine) &
			 ~mpib_engine_drained_sick(engine)) |
			mpib_engine_down(engine);

	return !(all & ~away & ~(1u << rail));
}

static json_t *fail_only_rail(struct mpib_ask *ask, unsigned rail)
{
	return mpib_ask_fail(ask,
			     "resume another rail, or wait until its port is "
			     "up (see mpibctl rails)",
			     "%s is the only rail in use",
			     ask->admin->cfg->engine.rail[rail].label);
}

static json_t *admin_drain(struct mpib_ask *ask, bool on)
{
	int rail = mpib_ask_rail(ask, ask->argv[0], strlen(ask->argv[0]));
	struct mpib_engine *engine = ask->admin->engine;
	const char *label;
	char *why;

	if (rail < 0)
		return NULL;
	label = ask->admin->cfg->engine.rail[rail].label;
	if (ask->argc > 1 &&
	    mpib_config_rail_find(ask->admin->cfg, ask->argv[1],
				  strlen(ask->argv[1])) >= 0)
		return mpib_ask_fail(ask, "give a command for each rail",
				     "the reason \"%.40s\" is the name of "
				     "a rail",
				     ask->argv[1]);
	if (!on && mpib_engine_drained_sick(engine) >> rail & 1)
		return mpib_ask_fail(ask,
				     "see mpibctl agent, then stop mpib-agent "
				     "or change its file",
				     "the agent drains %s, not an operator",
				     label);
	if ((on && is_only_rail(ask, (unsigned)rail)) ||
	    mpib_engine_drain(engine, (unsigned)rail, on) < 0)
		return fail_only_rail(ask, (unsigned)rail);
	why = ask->admin->cfg->drain_why[rail];
	snprintf(why, MPIB_DRAIN_WHY, "%s",
		 on && ask->argc > 1 ? ask->argv[1] : "");
	mpib_ascii_make(why);
	mpib_event(MPIB_LOG_WARN, on ? "drain" : "resume",
		   &(struct mpib_event_about){ .rails = 1u << rail },
		   "rail %s is %s by uid %u%s%s", label,
		   on ? "drained" : "resumed", ask->uid, *why ? ": " : "", why);
	/* The agent may drain the rail that was resumed. */
	on = mpib_engine_drained(engine) >> rail & 1;
	return *why ? json_pack("{ss sb ss}", "rail", label, "drained", on,
				"because", why)
		    : json_pack("{ss sb}", "rail", label, "drained", on);
}

json_t *mpib_admin_drain(struct mpib_ask *ask)
{
	return admin_drain(ask, true);
}

json_t *mpib_admin_resume(struct mpib_ask *ask)
{
	return admin_drain(ask, false);
}

/* Return whether jobs survive a fault of the rail. If not, set the error. */
static bool fault_outlived(struct mpib_ask *ask, unsigned rail)
{
	const struct mpib_engine_config *cfg = &ask->admin->cfg->engine;

	if (!cfg->failover || cfg->rails == 1) {
		/* Software rails carry no real job that a fault could end. */
		if (cfg->rail[rail].provider == MPIB_PROVIDER_SOFT)
			return true;
		mpib_ask_fail(ask, "set failover.enable = yes first",
			      "without fail-over between two rails, the fault "
			      "would end the jobs of this node");
		return false;
	}
	if (!is_only_rail(ask, rail))
		return true;
	fail_only_rail(ask, rail);
	return false;
}

json_t *mpib_admin_fault(struct mpib_ask *ask)
{
	const struct mpib_config *cfg = ask->admin->cfg;
	const char *label;
	int rail;

	if (!cfg->fault)
		return mpib_ask_fail(
			ask,
			"set enable = yes of [fault], and restart the proxy",
			"faults are not enabled on this node");
	rail = mpib_ask_rail(ask, ask->argv[0], strlen(ask->argv[0]));
	if (rail < 0 || !fault_outlived(ask, (unsigned)rail))
		return NULL;
	label = cfg->engine.rail[rail].label;
	mpib_event(MPIB_LOG_WARN, "fault",
		   &(struct mpib_event_about){ .rails = 1u << rail },
		   "rehearsal: the QPs of %s fail, by uid %u", label, ask->uid);
	mpib_engine_break(ask->admin->engine, (unsigned)rail);
	return json_pack("{ss}", "rail", label);
}

static struct proxy_client *find_client(struct mpib_ask *ask, uint64_t id)
{
	struct proxy_client *s = proxy_clients_find(ask->admin->clients, id);

	if (!s)
		mpib_ask_fail(ask, "clients lists them",
			      "no client %llu is attached",
			      (unsigned long long)id);
	return s;
}

json_t *mpib_admin_kick(struct mpib_ask *ask)
{
	struct proxy_client *s;
	char why[48];
	uint64_t id;

	if (!mpib_ask_number(ask, 0, 0, UINT32_MAX, &id))
		return NULL;
	s = find_client(ask, id);
	if (!s)
		return NULL;
	snprintf(why, sizeof(why), "uid %u kicked it", ask->uid);
	proxy_client_drop(s, why);
	return json_pack("{sI}", "client", (json_int_t)id);
}

/* Return the setting "section.key" of argv[0]. If there is no such setting, or
 * the setting cannot change at run time, set the error and return NULL. */
static const struct mpib_setting *find_setting(struct mpib_ask *ask)
{
	const char *name = ask->argv[0], *dot = strchr(name, '.');
	const struct mpib_setting *s = NULL;
	char section[32], hint[96];

	snprintf(section, sizeof(section), "%.*s", (int)strcspn(name, "."),
		 name);
	if (dot)
		s = mpib_config_find(section, dot + 1);
	if (s && s->runtime)
		return s;
	if (s)
		mpib_ask_fail(ask, "change mpib.conf and restart the proxy",
			      "%s cannot change while the proxy runs", name);
	else
		mpib_ask_fail(ask,
			      mpib_config_nearest(name, "config lists them",
						  hint, sizeof(hint)),
			      "there is no setting \"%.64s\"", name);
	return NULL;
}

/* Pass all settings of a->cfg that can change at run time to the modules, which
 * have copies of them. */
static void admin_apply(const struct mpib_admin *a)
{
	char why[MPIB_WHY_MAX];

	mpib_log_set_level((enum mpib_log_level)a->cfg->log_level);
	proxy_clients_tune(a->clients);
	mpib_config_share_cqs(a->cfg);
	mpib_engine_tune(a->engine, &a->cfg->engine);
	mpib_broker_patience(a->clients->broker, a->cfg->request_timeout,
			     a->cfg->connect_timeout);
	mpib_share_parse(&a->cfg->shares, a->cfg->share_rules, why,
			 sizeof(why));
	mpib_shares_apply(a->clients);
}

static json_t *admin_set(struct mpib_ask *ask, const struct mpib_setting *s,
			 const char *value)
{
	const struct mpib_admin *a = ask->admin;
	char why[MPIB_WHY_MAX], origin[32], now[MPIB_VALUE_MAX];

	if (s->offset == offsetof(struct mpib_config, engine.sup_bw) &&
	    a->cfg->engine.mode != MPIB_MODE_STATIC)
		return mpib_ask_fail(
			ask, "restart with policy.mode = static",
			"sup.bw has an effect in static mode only");
	if (s->offset == offsetof(struct mpib_config, engine.sup_bw) &&
	    a->cfg->standby)
		return mpib_ask_fail(ask, "restart with device.layout = fused",
				     "SUP is a standby rail");
	snprintf(origin, sizeof(origin), MPIB_ADMIN_ORIGIN "%u", ask->uid);
	if (mpib_config_change(a->cfg, s, value, origin, why) < 0)
		return mpib_ask_fail(ask, "see mpib.conf(5)", "%s", why);
	admin_apply(a);
	mpib_config_value(a->cfg, s, now, sizeof(now));
	mpib_utf8_make(now);
	mpib_event(MPIB_LOG_INFO, "set", NULL, "%s.%s is %s, %s", s->section,
		   s->key, now[0] ? now : "\"\"", origin);
	return json_pack("{ss ss ss ss}", "section", s->section, "key", s->key,
			 "value", now, "origin", origin);
}

json_t *mpib_admin_set(struct mpib_ask *ask)
{
	const struct mpib_setting *s = find_setting(ask);

	return s ? admin_set(ask, s, ask->argv[1]) : NULL;
}

json_t *mpib_admin_upgrade(struct mpib_ask *ask)
{
	struct mpib_upgrade *u = ask->admin->upgrade;

	if (u->link >= 0)
		return mpib_ask_fail(ask, "wait until it ends",
				     "an upgrade to pid %d is already in "
				     "progress",
				     (int)u->pid);
	mpib_upgrade_begin(u, ask->argc ? ask->argv[0] : "");
	return mpib_admin_upgrading(ask);
}

json_t *mpib_admin_upgrading(struct mpib_ask *ask)
{
	const struct mpib_upgrade *u = ask->admin->upgrade;

	return json_pack("{ss sb sI ss}", "path", u->path, "runs", u->link >= 0,
			 "pid", (json_int_t)u->pid, "error", u->why);
}
