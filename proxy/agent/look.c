/* SPDX-License-Identifier: Apache-2.0 */
/* What the proxies of this node answer: how their connections and rails do, and what
 * agents of other nodes say. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/decide.h"
#include "base/log.h"
#include "base/xalloc.h"
#include "ctl/dial.h"

#define NS 1000000000ull

static void take_conn(struct mpib_agent_policy *p, uint64_t pid,
		      const json_t *row)
{
	static const char *const key[MPIB_RAILS] = { "sout", "sup" };
	const json_t *slot = json_object_get(row, "hint_slot");
	const json_t *rails = json_object_get(row, "rails");
	struct mpib_agent_sample sample;
	struct mpib_agent_slot *s;
	json_int_t i = json_integer_value(slot);

	if (!json_is_integer(slot) || i < 0 || i >= MPIB_AGENT_OWN)
		return;
	s = &p->agent->slot[i];
	if (!s->users || mpib_agent_pid(s) != pid)
		return;
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		const json_t *rail = json_object_get(rails, key[r]);

		sample.acked_bytes[r] = mpib_json_num(rail, "acked_bytes");
		sample.busy_ns[r] = mpib_json_num(rail, "busy_ns");
		sample.rtt_ns[r] = mpib_json_num(rail, "rtt_ns");
	}
	mpib_agent_time(s, &sample);
	if (!s->known) {
		/* Rules of users and classes may be for it from now on. */
		s->known = true;
		s->uid = (uid_t)mpib_json_num(row, "uid");
		s->class = (uint8_t)mpib_json_num(row, "traffic_class");
		s->choice.rule = NULL;
	}
	s->choice.balance = mpib_agent_balance(s, &sample);
}

void mpib_agent_take_conns(struct mpib_agent_policy *p, uint64_t pid,
			   const json_t *rows)
{
	const json_t *row;
	size_t i;

	json_array_foreach(rows, i, row) take_conn(p, pid, row);
}

static void object(struct mpib_agent_policy *p, struct mpib_agent_objection *to,
		   const char *why)
{
	if (!to->since)
		to->since = p->now.s;
	to->last_ns = p->now.ns;
	snprintf(to->why, sizeof(to->why), "%s", why);
}

/* Find a counter of the rail, or of its HCA. */
static const json_t *rail_counter(const json_t *rail, const char *name)
{
	const json_t *n = json_object_get(rail, name);

	return n ? n : json_object_get(json_object_get(rail, "hw"), name);
}

/* Compare a counter with that of the answer before. A first answer, and a counter
 * that went back, tell nothing. */
static void rail_limit(struct mpib_agent_policy *p, unsigned k, unsigned rail,
		       const json_t *row, const json_t *before, uint64_t ns)
{
	const struct mpib_agent_limit *limit = &p->conf.limit[k];
	json_int_t was =
		json_integer_value(rail_counter(before, limit->counter));
	json_int_t n = json_integer_value(rail_counter(row, limit->counter));
	char why[MPIB_AGENT_REASON];
	double per_s;

	if (!rail_counter(before, limit->counter) || n < was || ns == 0)
		return;
	per_s = (double)(n - was) * (double)NS / (double)ns;
	if (per_s <= (double)limit->per_s)
		return;
	snprintf(why, sizeof(why), "%.30s: %.32s %.0f/s",
		 mpib_json_str(row, "label"), limit->counter, per_s);
	object(p, limit->congested ? &p->congested[rail] : &p->sick[rail], why);
}

/* Judge one rail by its state, its speed and its counters. */
static void rail_judge(struct mpib_agent_policy *p, const json_t *row,
		       const json_t *before, uint64_t ns, bool *has)
{
	unsigned rail = !strcmp(mpib_json_str(row, "name"), "SUP");
	uint64_t gbps = mpib_json_num(row, "speed_mbps") / 1000;
	const char *label = mpib_json_str(row, "label");
	char why[MPIB_AGENT_REASON];

	if (json_is_false(json_object_get(row, "up"))) {
		snprintf(why, sizeof(why), "%.30s is %.30s", label,
			 mpib_json_str(row, "state"));
		object(p, &p->sick[rail], why);
	}
	if (gbps < p->conf.speed[rail]) {
		snprintf(why, sizeof(why), "%.30s: %u of %u Gb/s", label,
			 (unsigned)gbps, (unsigned)p->conf.speed[rail]);
		object(p, &p->sick[rail], why);
	}
	for (unsigned k = 0; k < p->conf.limits; k++) {
		if (!(p->conf.limit[k].rails & 1u << rail) ||
		    !rail_counter(row, p->conf.limit[k].counter))
			continue;
		has[k] = true;
		rail_limit(p, k, rail, row, before, ns);
	}
}

void mpib_agent_take_rails(struct mpib_agent_policy *p,
			   struct mpib_agent_node *node, json_t *rows)
{
	bool has[MPIB_AGENT_LIMITS] = { false };
	const json_t *row;
	size_t i;

	json_array_foreach(rows, i, row)
		rail_judge(p, row, json_array_get(node->rails, i),
			   p->now.ns - node->at_ns, has);
	for (unsigned k = 0; k < p->conf.limits; k++) {
		if (!has[k] && !p->missing[k])
			mpib_warn("%s: no rail of the proxy has this counter "
				  "(mpibctl counters lists them)",
				  p->conf.limit[k].counter);
		p->missing[k] = !has[k];
	}
	json_decref(node->rails);
	node->rails = json_incref(rows);
	node->at_ns = p->now.ns;
}

/* The bits of the rails that the list names. */
static uint8_t peers_mask(const json_t *list)
{
	const json_t *item;
	uint8_t mask = 0;
	size_t i;

	json_array_foreach(list, i, item)
	{
		const char *name = json_string_value(item);

		if (name && !strcmp(name, "SOUT"))
			mask |= 1;
		else if (name && !strcmp(name, "SUP"))
			mask |= 2;
	}
	return mask;
}

/* An agent's word is kept where it says that nothing is amiss, too: an older word of
 * the same agent may say otherwise. */
void mpib_agent_take_peers(struct mpib_agent_policy *p, const json_t *rows)
{
	const json_t *row;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		double age = mpib_json_real(row, "age_s");
		struct mpib_agent_peer one = {
			.sick = peers_mask(json_object_get(row, "sick")),
			.maintenance =
				peers_mask(json_object_get(row, "maintenance")),
		};

		if (age < 0 || age > MPIB_AGENT_PEERS_MAX_S ||
		    inet_pton(AF_INET, mpib_json_str(row, "sout"), &one.sout) !=
			    1)
			continue;
		one.said_s = p->now.s - (uint64_t)age;
		p->peers.of = mpib_xrealloc(p->peers.of,
					    (p->peers.n + 1) * sizeof(one));
		p->peers.of[p->peers.n++] = one;
	}
}

/* Order: by address, and for one address the youngest first. */
static int by_sout(const void *a, const void *b)
{
	const struct mpib_agent_peer *x = a, *y = b;

	if (x->sout != y->sout)
		return x->sout > y->sout ? 1 : -1;
	return (x->said_s < y->said_s) - (x->said_s > y->said_s);
}

/* Keep of each peer the youngest word, unless it is too old, or younger than now: that
 * was said before the clock was set back. A peer that a proxy does not name stays: the
 * proxy may have just started. */
static void forget_peers(struct mpib_agent_peers *p, uint64_t now_s)
{
	unsigned kept = 0;

	if (p->n)
		qsort(p->of, p->n, sizeof(*p->of), by_sout);
	for (unsigned i = 0; i < p->n; i++) {
		if (p->of[i].said_s <= now_s &&
		    now_s - p->of[i].said_s <= MPIB_AGENT_PEERS_MAX_S &&
		    (!kept || p->of[kept - 1].sout != p->of[i].sout))
			p->of[kept++] = p->of[i];
	}
	p->n = kept;
}

static void forget_objection(struct mpib_agent_policy *p,
			     struct mpib_agent_objection *to)
{
	if (to->since && p->now.ns - to->last_ns >= p->conf.hold_s * NS)
		memset(to, 0, sizeof(*to));
}

void mpib_agent_forget(struct mpib_agent_policy *p)
{
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		forget_objection(p, &p->sick[r]);
		forget_objection(p, &p->congested[r]);
	}
	forget_peers(&p->peers, p->now.s);
}

/* Ask one question. On failure NULL. */
static json_t *look_ask(struct mpib_dial *d, int *rc, const char *command)
{
	json_t *rows = NULL;

	if (*rc == MPIB_EXIT_OK)
		*rc = mpib_dial_ask(d, command, &rows);
	return rows;
}

static void look_at(struct mpib_agent_policy *p, struct mpib_agent_node *node,
		    bool rails, bool peers)
{
	struct mpib_dial d;
	json_t *rows;
	int rc = mpib_dial_open(&d, node->run_dir);

	rows = look_ask(&d, &rc, "why");
	mpib_agent_take_conns(p, mpib_json_num(d.greeting, "pid"), rows);
	json_decref(rows);
	rows = rails ? look_ask(&d, &rc, "rails") : NULL;
	if (rows)
		mpib_agent_take_rails(p, node, rows);
	json_decref(rows);
	rows = peers ? look_ask(&d, &rc, "agents") : NULL;
	mpib_agent_take_peers(p, rows);
	json_decref(rows);
	if (rc != MPIB_EXIT_OK && !node->silent)
		mpib_warn("%s", d.why);
	node->silent = rc != MPIB_EXIT_OK;
	mpib_dial_close(&d);
}

/* The command line's rule needs no answer but that of balance and adaptive. */
void mpib_agent_look(struct mpib_agent_policy *p, bool second)
{
	bool file = p->conf.path[0], peers;
	bool was[MPIB_RAILS] = { p->sick[0].since, p->sick[1].since };

	if (!file && p->conf.rule[0].kind == MPIB_RULE_FIXED)
		return;
	peers = second && file && p->now.s - p->peers_s >= MPIB_AGENT_PEERS_S;
	if (peers)
		p->peers_s = p->now.s;
	for (unsigned i = 0; i < p->proxies; i++)
		look_at(p, &p->proxy[i], second && file, peers);
	mpib_agent_forget(p);
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		if (!was[r] && p->sick[r].since)
			mpib_warn("%s is left: %s", r ? "SUP" : "SOUT",
				  p->sick[r].why);
		else if (was[r] && !p->sick[r].since)
			mpib_info("%s is well again", r ? "SUP" : "SOUT");
	}
}
