/* SPDX-License-Identifier: Apache-2.0 */
/* The commands fault, heal and faults, see play.h. */
#include "stats/play.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/event.h"
#include "stats/command.h"

#define PLAY_MAX_S 3600
#define KILL_AGAIN MPIB_SEC

static const struct play_kind {
	const char *word; /* ends with "=" if a number follows */
	enum mpib_fault_kind kind;
	/* The largest number, and the factor to the engine's unit. */
	uint64_t max, factor;
	bool lanes; /* may be limited to the lanes to one peer */
	bool stops; /* it stops the rail: only fail-over saves connections */
} kinds[] = {
	{ "rate=", MPIB_FAULT_RATE, 1000000, 125000, false, false },
	{ "delay=", MPIB_FAULT_DELAY, 1000000, 1000, true, false },
	{ "black-hole", MPIB_FAULT_BLACK_HOLE, 0, 0, true, true },
	{ "link-down", MPIB_FAULT_LINK_DOWN, 0, 0, false, true },
	{ "qp-kill", MPIB_FAULT_QP_KILL, 0, 0, true, true },
	{ "gone", MPIB_FAULT_GONE, 0, 0, false, true },
};

static const struct play_kind *play_kind_of(enum mpib_fault_kind kind)
{
	const struct play_kind *k = kinds;

	while (k->kind != kind)
		k++;
	return k;
}

static void play_end(struct mpib_play *p, const char *why)
{
	struct mpib_fault fault = p->fault;

	if (fault.kind == MPIB_FAULT_NONE)
		return;
	mpib_timer_disarm(p->all->loop, &p->timer);
	mpib_engine_end_play(p->all->engine, &fault);
	p->fault.kind = MPIB_FAULT_NONE;
	mpib_event(MPIB_LOG_WARN, "fault_end",
		   &(struct mpib_event_about){ .rails = 1u << fault.rail,
					       .peer = *fault.peer ? fault.peer
								   : NULL },
		   "rehearsal: %s on %s ended: %s", p->what, p->rail, why);
}

static void play_on_time(void *arg)
{
	struct mpib_play *p = arg;
	uint64_t now = mpib_loop_now(p->all->loop), next = p->until;

	if (now >= p->until) {
		play_end(p, "its time is up");
		return;
	}
	if (p->fault.kind == MPIB_FAULT_QP_KILL) {
		/* Kill the QPs of lanes that recovered since the last time. */
		mpib_engine_play(p->all->engine, &p->fault);
		if (next > now + KILL_AGAIN)
			next = now + KILL_AGAIN;
	}
	mpib_timer_arm(p->all->loop, &p->timer, next - now, play_on_time, p);
}

void mpib_plays_init(struct mpib_plays *all, struct mpib_loop *loop,
		     struct mpib_engine *engine, const struct mpib_config *cfg)
{
	*all = (struct mpib_plays){ .loop = loop,
				    .engine = engine,
				    .cfg = cfg };
	for (unsigned i = 0; i < mpib_config_rail_total(cfg); i++) {
		all->play[i].all = all;
		all->play[i].rail = cfg->engine.rail[i].label;
	}
}

void mpib_plays_end(struct mpib_plays *all, const char *why)
{
	for (unsigned i = 0; all->engine && i < MPIB_RAILS_MAX; i++)
		play_end(&all->play[i], why);
}

static const struct play_kind *play_kind_named(struct mpib_ask *ask,
					       struct mpib_fault *fault)
{
	const char *word = ask->argv[0];

	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const struct play_kind *k = &kinds[i];
		size_t len = strlen(k->word);
		uint64_t n;

		if (!k->max && strcmp(word, k->word) == 0) {
			fault->kind = k->kind;
			return k;
		}
		if (!k->max || strncmp(word, k->word, len) != 0)
			continue;
		ask->argv[0] = word + len;
		if (!mpib_ask_number(ask, 0, 0, k->max, &n))
			return NULL;
		ask->argv[0] = word;
		fault->kind = k->kind;
		fault->value = n * k->factor;
		if (n)
			return k;
		break;
	}
	mpib_ask_fail(ask,
		      "give rate=MBITS, delay=US, black-hole, link-down, "
		      "qp-kill or gone",
		      "there is no fault \"%.32s\"", word);
	return NULL;
}

/* Return whether connections survive if the fault stops the rail. If not, set
 * the error. */
static bool play_outlived(struct mpib_ask *ask, const struct mpib_fault *fault)
{
	const struct mpib_plays *all = ask->admin->plays;
	const struct mpib_engine_config *cfg = &all->cfg->engine;
	unsigned first = fault->rail - fault->rail % cfg->rails;
	uint32_t away = mpib_engine_drained(all->engine) |
			mpib_engine_lost(all->engine);

	if (!cfg->failover || cfg->rails < 2) {
		/* Software rails carry no real job that a fault could end. */
		if (cfg->rail[fault->rail].provider == MPIB_PROVIDER_SOFT)
			return true;
		mpib_ask_fail(ask, "set failover.enable = yes first",
			      "without fail-over between two rails it would "
			      "end the jobs of this node");
		return false;
	}
	for (unsigned r = first; r < first + cfg->rails; r++) {
		enum mpib_fault_kind kind = all->play[r].fault.kind;

		if (kind != MPIB_FAULT_NONE && play_kind_of(kind)->stops)
			away |= 1u << r;
		if (r == fault->rail || !(away >> r & 1))
			continue;
		mpib_ask_fail(ask, "mpibctl rails resume, or fault end, first",
			      "%s is out of use, so no rail would be left",
			      all->play[r].rail);
		return false;
	}
	return true;
}

/* Parse argv into *fault. On failure, set the error and return false. */
static bool play_parse(struct mpib_ask *ask, struct mpib_fault *fault)
{
	const char *on = ask->argv[1], *at = strchr(on, '@');
	const struct play_kind *k = play_kind_named(ask, fault);
	int rail;

	if (!k)
		return false;
	rail = mpib_ask_rail(ask, on, at ? (size_t)(at - on) : strlen(on));
	if (rail < 0)
		return false;
	fault->rail = (unsigned)rail;
	if (at && (!k->lanes || !at[1])) {
		mpib_ask_fail(ask, "name the rail without a peer",
			      "%s cannot be limited to the lanes to a peer",
			      ask->argv[0]);
		return false;
	}
	if (at)
		snprintf(fault->peer, sizeof(fault->peer), "%s", at + 1);
	return !k->stops || play_outlived(ask, fault);
}

static bool can_play(struct mpib_ask *ask)
{
	if (ask->admin->plays->cfg->play)
		return true;
	mpib_ask_fail(ask, "set enable = yes of [fault], and restart the proxy",
		      "faults are not enabled on this node");
	return false;
}

static json_t *play_begin(struct mpib_ask *ask, struct mpib_play *p,
			  struct mpib_fault *fault, uint64_t seconds)
{
	struct mpib_plays *all = p->all;
	int rc = mpib_engine_play(all->engine, fault);

	if (rc == -EOPNOTSUPP)
		return mpib_ask_fail(ask, "use qp-kill, or software rails",
				     "%s is a real rail, which does not "
				     "support this fault",
				     p->rail);
	if (rc < 0)
		return mpib_ask_fail(ask, "peers lists them",
				     "no lane leads to \"%.32s\" over %s",
				     fault->peer, p->rail);
	p->fault = *fault;
	p->uid = ask->uid;
	p->until = mpib_loop_now(all->loop) + seconds * MPIB_SEC;
	snprintf(p->what, sizeof(p->what), "%s", ask->argv[0]);
	mpib_timer_arm(all->loop, &p->timer,
		       fault->kind == MPIB_FAULT_QP_KILL ? KILL_AGAIN
							 : seconds * MPIB_SEC,
		       play_on_time, p);
	mpib_event(MPIB_LOG_WARN, "fault",
		   &(struct mpib_event_about){
			   .rails = 1u << fault->rail,
			   .peer = *fault->peer ? fault->peer : NULL,
			   .ns = seconds * MPIB_SEC },
		   "rehearsal: %s on %s%s%s for %llu s, by uid %u", p->what,
		   p->rail, *fault->peer ? " to " : "", fault->peer,
		   (unsigned long long)seconds, ask->uid);
	return json_pack("{ss ss sI}", "rail", p->rail, "fault", p->what,
			 "seconds", (json_int_t)seconds);
}

json_t *mpib_admin_fault(struct mpib_ask *ask)
{
	struct mpib_fault fault = { .kind = MPIB_FAULT_NONE };
	struct mpib_play *p;
	uint64_t seconds;

	if (!can_play(ask) ||
	    !mpib_ask_number(ask, 2, 0, PLAY_MAX_S, &seconds) ||
	    !play_parse(ask, &fault))
		return NULL;
	p = &ask->admin->plays->play[fault.rail];
	if (p->fault.kind != MPIB_FAULT_NONE)
		return mpib_ask_fail(ask, "mpibctl fault end ends it",
				     "%s is already active on %s", p->what,
				     p->rail);
	return play_begin(ask, p, &fault, seconds ? seconds : 1);
}

json_t *mpib_admin_heal(struct mpib_ask *ask)
{
	struct mpib_play *p;
	int rail;

	if (!can_play(ask))
		return NULL;
	rail = mpib_ask_rail(ask, ask->argv[0], strlen(ask->argv[0]));
	if (rail < 0)
		return NULL;
	p = &ask->admin->plays->play[rail];
	if (p->fault.kind == MPIB_FAULT_NONE)
		return mpib_ask_fail(ask, "mpibctl fault lists them",
				     "no fault is active on %s", p->rail);
	play_end(p, "by mpibctl fault end");
	return json_pack("{ss}", "rail", p->rail);
}

json_t *mpib_admin_faults(struct mpib_ask *ask)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < MPIB_RAILS_MAX; i++) {
		const struct mpib_play *p = &ask->admin->plays->play[i];
		uint64_t now;

		if (p->fault.kind == MPIB_FAULT_NONE)
			continue;
		now = mpib_loop_now(p->all->loop);
		json_array_append_new(
			list,
			json_pack("{ss ss ss sf sI}", "rail", p->rail, "fault",
				  p->what, "peer", p->fault.peer, "left_s",
				  p->until > now
					  ? (double)(p->until - now) / 1e9
					  : 0.0,
				  "uid", (json_int_t)p->uid));
	}
	return list;
}
