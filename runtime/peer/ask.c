/* SPDX-License-Identifier: Apache-2.0 */
/* This file sends an ASK immediately. A REPORT is long, so ask_on_work() sends
 * a limited number of REPORTs per turn of the loop. In this way, other work is
 * not delayed even if a thousand peers ask. */
#include "peer/ask.h"

#include <stdlib.h>

#include "peer/internal.h"

#define SLICE 64u
#define ASK_AGAIN_NS (10 * MPIB_SEC)
#define ANSWER_AGAIN_NS (200 * MPIB_MSEC)
#define FRESH_NS MPIB_SEC

static bool ask_self(const struct mpib_peer *p)
{
	const struct mpib_node_id *self = &p->broker->self;

	return p->node.port == self->port &&
	       mpib_address_same(&p->node.addr, &self->addr);
}

static bool ask_can(const struct mpib_peer *p)
{
	return p->state == MPIB_PEER_UP && !ask_self(p);
}

static void ask_tell(struct mpib_peer *p)
{
	const struct mpib_peer_msg m = { .type = MPIB_PEER_ASK };

	mpib_peer_tell(p, &m);
}

/* Send a REPORT if the peer waits for one. If the rate limit forbids a REPORT
 * at the time `now`, send none, and set *next to the time from which a REPORT
 * is allowed, unless *next is earlier. Return the number of REPORTs sent, 0 or
 * 1. */
static unsigned ask_answer(struct mpib_peer *p, uint64_t now, uint64_t *next)
{
	struct peer_asking *a = &p->asking;
	const struct mpib_node_report *own = p->broker->asker.own;
	struct mpib_peer_msg m = { .type = MPIB_PEER_REPORT };

	if (!a->owed || !own)
		return 0;
	if (a->answered_ns && now < a->answered_ns + ANSWER_AGAIN_NS) {
		if (a->answered_ns + ANSWER_AGAIN_NS < *next)
			*next = a->answered_ns + ANSWER_AGAIN_NS;
		return 0;
	}
	a->owed = false;
	a->answered_ns = now;
	m.report = *own;
	mpib_peer_tell(p, &m);
	return 1;
}

static void ask_on_work(void *arg)
{
	struct mpib_broker *b = arg;
	struct peer_asker *a = &b->asker;
	uint64_t now = mpib_loop_now(b->loop), next = UINT64_MAX;
	unsigned said = 0;
	bool owed = false;
	struct mpib_peer *p;

	if (now >= a->own_ns + FRESH_NS)
		a->own = NULL;
	TAILQ_FOREACH(p, &b->peers, entry)
	{
		if (said >= SLICE)
			break;
		said += ask_answer(p, now, &next);
		owed |= p->asking.owed;
	}
	if (owed && !a->own && !a->wanted && a->with.asked) {
		a->wanted = true;
		a->with.asked(a->with.arg);
	}
	if (said >= SLICE)
		mpib_timer_arm(b->loop, &a->work, 0, ask_on_work, b);
	else if (next < UINT64_MAX)
		mpib_timer_arm(b->loop, &a->work, next - now, ask_on_work, b);
}

static void ask_go_on(struct mpib_broker *b)
{
	mpib_timer_arm(b->loop, &b->asker.work, 0, ask_on_work, b);
}

void mpib_broker_inquirer(struct mpib_broker *b, const struct mpib_inquirer *i)
{
	b->asker.with = *i;
}

void mpib_broker_ask(struct mpib_broker *b)
{
	uint64_t now = mpib_loop_now(b->loop);
	struct mpib_peer *p;

	TAILQ_FOREACH(p, &b->peers, entry)
	{
		struct peer_asking *a = &p->asking;

		if (!ask_can(p) ||
		    (a->since_ns && now < a->asked_ns + ASK_AGAIN_NS))
			continue;
		a->asked_ns = now;
		if (!a->since_ns)
			a->since_ns = now;
		ask_tell(p);
	}
}

bool mpib_broker_awaits(const struct mpib_broker *b, uint64_t since_ns)
{
	const struct mpib_peer *p;

	TAILQ_FOREACH(p, &b->peers, entry)
	{
		if (p->asking.since_ns >= since_ns && ask_can(p))
			return true;
	}
	return false;
}

void mpib_broker_report(struct mpib_broker *b,
			const struct mpib_node_report *own)
{
	b->asker.own = own;
	b->asker.own_ns = mpib_loop_now(b->loop);
	b->asker.wanted = false;
	ask_go_on(b);
}

bool peer_ask_on_report(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	struct peer_asking *a = &p->asking;
	const struct mpib_inquirer *with = &p->broker->asker.with;

	if (!a->report)
		a->report = malloc(sizeof(*a->report));
	if (!a->report)
		return true; /* ignore the REPORT, as if it had been lost */
	*a->report = m->report;
	a->told_ns = mpib_loop_now(p->broker->loop);
	a->since_ns = 0;
	if (with->answered)
		with->answered(with->arg);
	return true;
}

bool peer_ask_on_ask(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	(void)m;
	p->asking.owed = true;
	ask_go_on(p->broker);
	return true;
}

void peer_ask_relink(struct mpib_peer *p)
{
	p->asking.owed = false; /* the peer will ask again */
	if (p->asking.since_ns)
		ask_tell(p);
}

void peer_ask_forget(struct mpib_peer *p)
{
	p->asking.owed = false;
	p->asking.since_ns = 0;
}

static enum mpib_told told_state(const struct mpib_peer *p)
{
	if (p->state != MPIB_PEER_UP)
		return MPIB_TOLD_UNREACHED;
	if (p->asking.since_ns)
		return MPIB_TOLD_SILENT;
	return p->asking.report ? MPIB_TOLD_WELL : MPIB_TOLD_NEW;
}

/* Return whether this node needs a link to the peer. A link is needed if this
 * node is calling the peer, if lanes to the peer exist, or if connections wait
 * for the link. */
static bool ask_wanted(const struct mpib_peer *p)
{
	return p->state == MPIB_PEER_CALLING || p->away.armed ||
	       !TAILQ_EMPTY(&p->waiting) || !TAILQ_EMPTY(&p->lanes);
}

uint64_t mpib_broker_refused(const struct mpib_broker *b)
{
	return b->refused_count;
}

/* Return whether mpib_broker_each_told() includes the peer. The peer must be
 * another node, and must have a link or be needed. */
static bool told_of(const struct mpib_peer *p)
{
	return !ask_self(p) && (p->state == MPIB_PEER_UP || ask_wanted(p));
}

static void tell_refusals(const struct mpib_broker *b, mpib_broker_told_fn *fn,
			  void *arg)
{
	uint64_t now = mpib_loop_now(b->loop);

	for (unsigned i = 0; i < PEER_REFUSALS; i++) {
		const struct mpib_refusal *r = &b->refusal[i];
		const struct mpib_broker_told t = {
			.state = MPIB_TOLD_REFUSED,
			.peer = r->peer,
			.why = r->why,
			.refusals = r->count,
			.refused_ns = now - r->last_ns,
		};
		const struct mpib_peer *p;

		if (!r->count)
			continue;
		TAILQ_FOREACH(p, &b->peers, entry)
		{
			if (told_of(p) &&
			    mpib_address_same(&p->node.addr, &r->addr))
				break;
		}
		if (!p)
			fn(arg, &t);
	}
}

void mpib_broker_each_told(const struct mpib_broker *b, mpib_broker_told_fn *fn,
			   void *arg)
{
	uint64_t now = mpib_loop_now(b->loop);
	const struct mpib_peer *p;

	TAILQ_FOREACH(p, &b->peers, entry)
	{
		const struct peer_asking *a = &p->asking;
		struct mpib_broker_told t = {
			.state = told_state(p),
			.peer = p->label,
			.why = p->last_error,
			.version = p->version,
			.age_ns = a->report ? now - a->told_ns : 0,
			.silent_ns = a->since_ns ? now - a->since_ns : 0,
			.report = a->report,
		};

		if (told_of(p))
			fn(arg, &t);
	}
	tell_refusals(b, fn, arg);
}
