/* SPDX-License-Identifier: Apache-2.0 */
/* Asks all peers how their nodes are, in rounds that readers share. */
#include "cluster/cluster.h"

#include "base/log.h"

#define SHARED_NS MPIB_SEC

static void cluster_take(void *arg);
static void cluster_look(struct mpib_cluster *c);

/* Each part of the text in a turn of its own. */
static void cluster_over(struct mpib_cluster *c)
{
	struct mpib_cluster_wait *w;

	if (c->asking)
		c->over_ns = mpib_loop_now(c->loop);
	c->asking = false;
	mpib_timer_disarm(c->loop, &c->bound);
	if (!TAILQ_EMPTY(&c->waits) && mpib_cluster_text_make(c)) {
		cluster_look(c);
		return;
	}
	while ((w = TAILQ_FIRST(&c->waits))) {
		mpib_cluster_forget(c, w);
		w->fn(w->arg, mpib_cluster_text(c));
	}
}

static void cluster_on_bound(void *arg)
{
	struct mpib_cluster *c = arg;

	if (c->own_ns)
		cluster_over(c);
	else /* this node itself is as late */
		mpib_timer_arm(c->loop, &c->bound, MPIB_CLUSTER_BOUND_NS,
			       cluster_on_bound, c);
}

static void cluster_on_check(void *arg)
{
	struct mpib_cluster *c = arg;
	bool told = c->own_ns >= c->begun_ns &&
		    !mpib_broker_awaits(c->broker, c->begun_ns);

	/* A reader that waits without a round has the last one's answers. */
	if (c->asking ? told : !TAILQ_EMPTY(&c->waits))
		cluster_over(c);
}

/* Many answers may come in one turn: look once. */
static void cluster_look(struct mpib_cluster *c)
{
	if (!c->check.armed)
		mpib_timer_arm(c->loop, &c->check, 0, cluster_on_check, c);
}

static void cluster_on_snapshot(void *arg, struct mpib_snapshot *snap)
{
	struct mpib_cluster *c = arg;
	struct mpib_view v = *c->view;

	c->taking = false;
	if (!snap) {
		mpib_timer_arm(c->loop, &c->again, MPIB_SEC, cluster_take, c);
		return;
	}
	v.snap = snap;
	mpib_cluster_own(&v, &c->own);
	mpib_broker_word(c->broker, &c->own.agent);
	mpib_snapshot_free(snap);
	c->own_ns = mpib_loop_now(c->loop);
	mpib_broker_report(c->broker, &c->own);
	cluster_look(c);
}

static void cluster_take(void *arg)
{
	struct mpib_cluster *c = arg;

	if (c->taking)
		return;
	c->taking = true;
	if (mpib_engine_snapshot_requests(c->engine, MPIB_CLUSTER_STUCK_NS,
					  cluster_on_snapshot, c) == 0)
		return;
	mpib_warn("cluster: out of memory");
	cluster_on_snapshot(c, NULL);
}

static void cluster_on_answer(void *arg)
{
	cluster_look(arg);
}

void mpib_cluster_init(struct mpib_cluster *c, struct mpib_loop *loop,
		       struct mpib_engine *engine, struct mpib_broker *broker,
		       const struct mpib_view *view)
{
	const struct mpib_inquirer i = {
		.asked = cluster_take,
		.answered = cluster_on_answer,
		.arg = c,
	};

	*c = (struct mpib_cluster){
		.loop = loop, .engine = engine, .broker = broker, .view = view
	};
	TAILQ_INIT(&c->waits);
	mpib_broker_inquirer(broker, &i);
}

void mpib_cluster_stop(struct mpib_cluster *c)
{
	const struct mpib_inquirer nobody = { 0 };

	if (!c->loop)
		return;
	while (!TAILQ_EMPTY(&c->waits))
		mpib_cluster_forget(c, TAILQ_FIRST(&c->waits));
	mpib_broker_inquirer(c->broker, &nobody);
	mpib_timer_disarm(c->loop, &c->check);
	mpib_timer_disarm(c->loop, &c->bound);
	mpib_timer_disarm(c->loop, &c->again);
	mpib_cluster_text_drop(c);
}

void mpib_cluster_ask(struct mpib_cluster *c, struct mpib_cluster_wait *wait,
		      mpib_cluster_fn *fn, void *arg)
{
	wait->fn = fn;
	wait->arg = arg;
	wait->waiting = true;
	TAILQ_INSERT_TAIL(&c->waits, wait, link);
	mpib_cluster_begin(c);
	if (!c->asking)
		cluster_look(c);
}

void mpib_cluster_begin(struct mpib_cluster *c)
{
	uint64_t now = mpib_loop_now(c->loop);

	if (c->asking || (c->over_ns && now < c->over_ns + SHARED_NS))
		return;
	c->asking = true;
	c->begun_ns = now;
	mpib_timer_arm(c->loop, &c->bound, MPIB_CLUSTER_BOUND_NS,
		       cluster_on_bound, c);
	mpib_broker_ask(c->broker);
	cluster_take(c);
}

void mpib_cluster_forget(struct mpib_cluster *c, struct mpib_cluster_wait *wait)
{
	if (!wait->waiting)
		return;
	wait->waiting = false;
	TAILQ_REMOVE(&c->waits, wait, link);
}
