/* SPDX-License-Identifier: Apache-2.0 */
/* Process the answers of this node's proxy: the state of its rails. */
#include <stdio.h>
#include <string.h>

#include "agent/decide.h"
#include "base/log.h"
#include "ctl/dial.h"

#define NS 1000000000ull

/* Record an objection to the rail: it is sick or congested. */
static void object(struct mpib_agent_policy *p, unsigned rail, bool congested,
		   const char *why)
{
	struct mpib_agent_objection *to =
		congested ? &p->congested[rail] : &p->sick[rail];

	if (!to->since && !congested)
		mpib_warn("%s is avoided: %s", rail ? "SUP" : "SOUT", why);
	if (!to->since)
		to->since = p->now.s;
	to->last_ns = p->now.ns;
	snprintf(to->why, sizeof(to->why), "%s", why);
}

/* Remove the objection if it is too old. Return whether it was removed. */
static bool forget(const struct mpib_agent_policy *p,
		   struct mpib_agent_objection *to)
{
	if (!to->since || p->now.ns - to->last_ns < p->conf.hold_s * NS)
		return false;
	memset(to, 0, sizeof(*to));
	return true;
}

/* Return a counter of the rail, or of its HCA. */
static const json_t *rail_counter(const json_t *rail, const char *name)
{
	const json_t *n = json_object_get(rail, name);

	return n ? n : json_object_get(json_object_get(rail, "hw"), name);
}

/* Compare a counter with its value in the previous answer. Without a previous
 * answer, or if the counter became smaller, there is no result. */
static void rail_limit(struct mpib_agent_policy *p, unsigned k, unsigned rail,
		       const json_t *row, const json_t *before)
{
	const struct mpib_agent_limit *limit = &p->conf.limit[k];
	json_int_t was =
		json_integer_value(rail_counter(before, limit->counter));
	json_int_t n = json_integer_value(rail_counter(row, limit->counter));
	uint64_t ns = p->now.ns - p->rails_ns;
	char why[MPIB_AGENT_REASON];
	double per_s;

	if (!rail_counter(before, limit->counter) || n < was || ns == 0)
		return;
	per_s = (double)(n - was) * (double)NS / (double)ns;
	if (per_s <= (double)limit->per_s)
		return;
	snprintf(why, sizeof(why), "%.30s: %.32s %.0f/s",
		 mpib_json_str(row, "label"), limit->counter, per_s);
	object(p, rail, limit->congested, why);
}

/* Judge one rail by its state, its speed and its counters. */
static void rail_judge(struct mpib_agent_policy *p, const json_t *row,
		       const json_t *before, bool *has)
{
	unsigned rail = !strcmp(mpib_json_str(row, "name"), "SUP");
	uint64_t gbps = mpib_json_num(row, "speed_mbps") / 1000;
	const char *label = mpib_json_str(row, "label");
	char why[MPIB_AGENT_REASON];

	if (json_is_false(json_object_get(row, "up"))) {
		snprintf(why, sizeof(why), "%.30s is %.30s", label,
			 mpib_json_str(row, "state"));
		object(p, rail, false, why);
	}
	if (gbps < p->conf.speed[rail]) {
		snprintf(why, sizeof(why), "%.30s: %u of %u Gb/s", label,
			 (unsigned)gbps, (unsigned)p->conf.speed[rail]);
		object(p, rail, false, why);
	}
	for (unsigned k = 0; k < p->conf.limits; k++) {
		if (!(p->conf.limit[k].rails & 1u << rail) ||
		    !rail_counter(row, p->conf.limit[k].counter))
			continue;
		has[k] = true;
		rail_limit(p, k, rail, row, before);
	}
}

void mpib_agent_take_rails(struct mpib_agent_policy *p, json_t *rows)
{
	bool has[MPIB_AGENT_LIMITS] = { false };
	const json_t *row;
	size_t i;

	json_array_foreach(rows, i, row)
		rail_judge(p, row, json_array_get(p->rails, i), has);
	for (unsigned k = 0; k < p->conf.limits; k++) {
		if (!has[k] && !p->missing[k])
			mpib_warn("%s: no rail of the proxy has this counter "
				  "(mpibctl counters lists all)",
				  p->conf.limit[k].counter);
		p->missing[k] = !has[k];
	}
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		if (forget(p, &p->sick[r]))
			mpib_info("%s is well again", r ? "SUP" : "SOUT");
		forget(p, &p->congested[r]);
	}
	json_decref(p->rails);
	p->rails = json_incref(rows);
	p->rails_ns = p->now.ns;
}

void mpib_agent_look(struct mpib_agent_policy *p)
{
	struct mpib_dial d;
	json_t *rows = NULL;
	int rc = mpib_dial_open(&d, p->run_dir);

	if (rc == MPIB_EXIT_OK)
		rc = mpib_dial_ask(&d, "rails", &rows);
	if (rows)
		mpib_agent_take_rails(p, rows);
	json_decref(rows);
	if (rc != MPIB_EXIT_OK && !p->silent)
		mpib_warn("%s", d.why);
	p->silent = rc != MPIB_EXIT_OK;
	mpib_dial_close(&d);
}
