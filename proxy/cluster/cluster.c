/* SPDX-License-Identifier: Apache-2.0 */
/* Ask all peers about their nodes, in rounds that readers share. */
#include "cluster/cluster.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

#define SHARED_NS MPIB_SEC

static void cluster_take(void *arg);
static void cluster_look(struct mpib_cluster *c);
static void own_report(const struct mpib_view *v, struct mpib_node_report *own);

/* End the round and answer its readers. Each part of the text is made in its
 * own turn of the loop. */
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
	else /* this node's own report is late, too */
		mpib_timer_arm(c->loop, &c->bound, MPIB_CLUSTER_BOUND_NS,
			       cluster_on_bound, c);
}

static void cluster_on_check(void *arg)
{
	struct mpib_cluster *c = arg;
	bool told = c->own_ns >= c->begun_ns &&
		    !mpib_broker_awaits(c->broker, c->begun_ns);

	/* If no round is in progress, readers get the last round's answers. */
	if (c->asking ? told : !TAILQ_EMPTY(&c->waits))
		cluster_over(c);
}

/* Many answers may arrive in one turn of the loop: check once. */
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
	own_report(&v, &c->own);
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

/* Ask the peers unless they were asked within a second. */
static void cluster_begin(struct mpib_cluster *c)
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

void mpib_cluster_ask(struct mpib_cluster *c, struct mpib_cluster_wait *wait,
		      mpib_cluster_fn *fn, void *arg)
{
	wait->fn = fn;
	wait->arg = arg;
	wait->waiting = true;
	TAILQ_INSERT_TAIL(&c->waits, wait, link);
	cluster_begin(c);
	if (!c->asking)
		cluster_look(c);
}

void mpib_cluster_forget(struct mpib_cluster *c, struct mpib_cluster_wait *wait)
{
	if (!wait->waiting)
		return;
	wait->waiting = false;
	TAILQ_REMOVE(&c->waits, wait, link);
}

/* Make the report that answers a peer's question. */

/* Settings that must be equal in a cluster: whole sections (NULL) or single
 * settings. */
static const char *const alike[][2] = {
	{ "lane", NULL },   { "failover", NULL },   { "policy", NULL },
	{ "island", NULL }, { "sout", NULL },	    { "sup", NULL },
	{ "qp", NULL },	    { "ar", NULL },	    { "peer", "silence" },
	{ "hca", "speed" }, { "device", "layout" },
};

static uint32_t own_hash(uint32_t h, const char *text)
{
	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 16777619u; /* FNV-1a */
	return h;
}

static uint32_t own_name(const struct mpib_setting *s)
{
	return own_hash(own_hash(own_hash(2166136261u, s->section), "."),
			s->key);
}

static bool own_alike(const struct mpib_setting *s)
{
	for (unsigned i = 0; i < sizeof(alike) / sizeof(alike[0]); i++) {
		if (!strcmp(alike[i][0], s->section) &&
		    (!alike[i][1] || !strcmp(alike[i][1], s->key)))
			return true;
	}
	return false;
}

unsigned mpib_cluster_alike(const struct mpib_setting **list)
{
	unsigned n = 0;

	for (unsigned i = 0; i < mpib_settings_count; i++) {
		if (n < MPIB_REPORT_SETTINGS && own_alike(&mpib_settings[i]))
			list[n++] = &mpib_settings[i];
	}
	return n;
}

static void own_settings(const struct mpib_config *cfg,
			 struct mpib_node_report *own)
{
	const struct mpib_setting *list[MPIB_REPORT_SETTINGS];
	unsigned n = mpib_cluster_alike(list);

	for (unsigned i = 0; i < n; i++) {
		char value[MPIB_VALUE_MAX];

		mpib_config_value(cfg, list[i], value, sizeof(value));
		own->setting[own->settings++] = (struct mpib_report_setting){
			own_name(list[i]), own_hash(2166136261u, value)
		};
	}
}

static void own_rail(const struct mpib_view *v, unsigned r,
		     struct mpib_report_rail *rail)
{
	const struct mpib_snap_rail *n = &v->snap->rail[r];

	rail->flags = (uint8_t)((n->up ? MPIB_REPORT_UP : 0) |
				(n->drained ? MPIB_REPORT_DRAINED : 0));
	if (v->cfg->engine.rail[r].provider == MPIB_PROVIDER_SOFT)
		rail->flags |= MPIB_REPORT_SOFT;
	rail->speed_mbps = (uint32_t)n->speed_mbps;
	rail->expected_mbps = v->cfg->expected_gbps * 1000;
	rail->errors = n->cqe_errors;
	rail->failovers = n->failovers;
}

static void own_text(char *to, size_t len, const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));

	snprintf(to, len, "%s", text ? text : "");
	mpib_ascii_make(to);
}

static uint64_t own_number(const json_t *o, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(o, key));
}

static void own_jobs(const struct mpib_view *v, struct mpib_node_report *own)
{
	json_t *list = mpib_view_jobs(v), *o;
	size_t i;

	json_array_foreach(list, i, o)
	{
		struct mpib_report_job *job = &own->job[own->jobs];

		if (own->jobs == MPIB_REPORT_JOBS ||
		    !json_is_null(json_object_get(o, "ended")))
			continue;
		own->jobs++;
		own_text(job->name, sizeof(job->name), o, "label");
		if (!job->name[0])
			own_text(job->name, sizeof(job->name), o, "job_id");
		job->uid = (uint32_t)own_number(o, "uid");
		job->clients = (uint32_t)own_number(o, "attached");
		job->tx_bytes = own_number(o, "tx_bytes");
		job->rx_bytes = own_number(o, "rx_bytes");
	}
	json_decref(list);
}

/* Return the rank o[key]; UINT32_MAX: the rank is null, that is, unknown. */
static uint32_t own_rank(const json_t *o, const char *key)
{
	const json_t *rank = json_object_get(o, key);

	return json_is_integer(rank) ? (uint32_t)json_integer_value(rank)
				     : UINT32_MAX;
}

static void own_waiting(const struct mpib_view *v, struct mpib_node_report *own)
{
	json_t *all = mpib_view_stuck(v, MPIB_CLUSTER_STUCK_NS), *o;
	size_t i;

	json_array_foreach(json_object_get(all, "requests"), i, o)
	{
		struct mpib_report_wait *wait = &own->wait[own->waiting];
		char direction[8];

		if (own->waiting == MPIB_REPORT_WAITING)
			break;
		own->waiting++;
		own_text(wait->job, sizeof(wait->job), o, "job_id");
		own_text(wait->peer, sizeof(wait->peer), o, "peer");
		own_text(wait->last, sizeof(wait->last), o, "last");
		own_text(direction, sizeof(direction), o, "direction");
		wait->sends = !strcmp(direction, "send");
		wait->pid = (uint32_t)own_number(o, "pid");
		wait->age_ms = (uint32_t)(json_real_value(
						  json_object_get(o, "age_s")) *
					  1e3);
		wait->local_rank = own_rank(o, "local_rank");
		wait->remote_rank = own_rank(o, "remote_rank");
	}
	json_decref(all);
}

/* Fill in this node's report from v, whose snapshot includes requests. */
static void own_report(const struct mpib_view *v, struct mpib_node_report *own)
{
	const struct mpib_snapshot *snap = v->snap;

	*own = (struct mpib_node_report){
		.uptime_s = (uint32_t)v->uptime_s,
		.clients = v->clients->usage.attached,
		.connections = snap->conns,
		.stuck = snap->requests + snap->more_requests,
		.devices = (uint8_t)snap->devices,
		.rails = (uint8_t)snap->rails,
	};
	snprintf(own->version, sizeof(own->version), "%s", MPIB_VERSION);
	gethostname(own->host, sizeof(own->host) - 1);
	mpib_ascii_make(own->host);
	for (unsigned i = 0; i < snap->devices; i++)
		snprintf(own->device[i], sizeof(own->device[i]), "%s",
			 v->cfg->device[i].name);
	for (unsigned r = 0; r < mpib_snap_rails(snap); r++) {
		own_rail(v, r, &own->rail[r]);
		if (snap->rail[r].drained && !own->drain_why[0])
			mpib_view_drain_why(v, r, own->drain_why);
	}
	own_jobs(v, own);
	own_waiting(v, own);
	own_settings(v->cfg, own);
}
