/* SPDX-License-Identifier: Apache-2.0 */
#include "view.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "metrics/openmetrics.h"

static const char *const rail_name[MPIB_RAILS] = { "SOUT", "SUP" };
static const char *const rail_key[MPIB_RAILS] = { "sout", "sup" };

static char *openmetrics(const struct mpib_view *v)
{
	return mpib_metrics_text(v, MPIB_METRICS_OPENMETRICS);
}

static char *prometheus(const struct mpib_view *v)
{
	return mpib_metrics_text(v, MPIB_METRICS_PROMETHEUS);
}

const struct mpib_view_command mpib_view_commands[] = {
	{ "help", false, mpib_view_help, "this list", NULL },
	{ "info", true, mpib_view_info, "the proxy, its shards and ledger",
	  NULL },
	{ "rails", true, mpib_view_rails, "both rails and their counters",
	  NULL },
	{ "clients", true, mpib_view_clients, "attached processes", NULL },
	{ "conns", true, mpib_view_conns,
	  "connections, and what closed ones "
	  "moved",
	  NULL },
	{ "lanes", true, mpib_view_lanes, "lanes to peers", NULL },
	{ "peers", true, mpib_view_peers, "peers, over all their lanes", NULL },
	{ "config", false, mpib_view_config, "settings and their origin",
	  NULL },
	{ "metrics", true, NULL, "OpenMetrics text, ends with # EOF",
	  openmetrics },
	{ "metrics prometheus", true, NULL,
	  "the same in Prometheus' text format", prometheus },
};

const unsigned mpib_view_command_count =
	sizeof(mpib_view_commands) / sizeof(mpib_view_commands[0]);

const struct mpib_view_command *mpib_view_command(const char *name)
{
	for (unsigned i = 0; i < mpib_view_command_count; i++) {
		if (!strcmp(mpib_view_commands[i].name, name))
			return &mpib_view_commands[i];
	}
	return NULL;
}

json_t *mpib_view_help(const struct mpib_view *v)
{
	json_t *list = json_array();

	(void)v;
	for (unsigned i = 0; i < mpib_view_command_count; i++)
		json_array_append_new(
			list, json_pack("{ss ss}", "command",
					mpib_view_commands[i].name, "desc",
					mpib_view_commands[i].desc));
	return list;
}

static json_t *number(uint64_t n)
{
	return json_integer((json_int_t)n);
}

/* {"sout": n, "sup": n} of one field of each rail's counts. */
static json_t *by_rail(const struct mpib_view *v,
		       const struct mpib_rail_counts *n, size_t field)
{
	json_t *o = json_object();

	for (unsigned r = 0; r < v->snap->rails; r++) {
		const char *base = (const char *)&n[r];

		json_object_set_new(o, rail_key[r],
				    number(*(const uint64_t *)(base + field)));
	}
	return o;
}

static void add_traffic(json_t *o, const struct mpib_view *v,
			const struct mpib_rail_counts *n)
{
	json_object_set_new(
		o, "tx_bytes",
		by_rail(v, n, offsetof(struct mpib_rail_counts, tx_bytes)));
	json_object_set_new(
		o, "rx_bytes",
		by_rail(v, n, offsetof(struct mpib_rail_counts, rx_bytes)));
}

static void add_counts(struct mpib_rail_counts *sum,
		       const struct mpib_rail_counts *n)
{
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		mpib_rail_counts_add(&sum[r], &n[r]);
}

static json_t *ledger(const struct mpib_ledger *l)
{
	return json_pack(
		"{sI sI sI sI sI sI}", "sessions", (json_int_t)l->sessions,
		"attached", (json_int_t)l->attached, "leaving",
		(json_int_t)l->leaving, "regions", (json_int_t)l->regions,
		"registered_bytes", (json_int_t)l->registered, "mapped_bytes",
		(json_int_t)l->mapped);
}

static json_t *shards(const struct mpib_view *v)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < v->snap->shards; i++) {
		const struct mpib_snap_shard *s = &v->snap->shard[i];

		json_array_append_new(
			list, json_pack("{sI sI sI sI}", "turns",
					(json_int_t)s->turns, "busy_turns",
					(json_int_t)s->busy_turns, "sleeps",
					(json_int_t)s->sleeps, "clients",
					(json_int_t)v->sessions->on_shard[i]));
	}
	return list;
}

json_t *mpib_view_info(const struct mpib_view *v)
{
	const struct mpib_sessions *all = v->sessions;
	json_t *names = json_array();

	for (unsigned r = 0; r < v->snap->rails; r++)
		json_array_append_new(names, json_string(v->rail[r].name));
	return json_pack(
		"{ss sI sI ss sf so ss ss sI sI sI sI sI sI so so}", "version",
		MPIB_VERSION, "abi", (json_int_t)MPIB_ABI_VERSION, "pid",
		(json_int_t)v->pid, "run_dir", v->run_dir, "uptime_s",
		v->uptime_s, "rails", names, "peer_link", v->peer_link,
		"lanes_mode",
		v->cfg->lanes == MPIB_LANES_SHARED ? "shared" : "private",
		"sup_bw", (json_int_t)v->cfg->engine.sup_bw, "clients",
		(json_int_t)all->ledger.attached, "connections",
		(json_int_t)v->snap->flows, "lanes", (json_int_t)v->snap->lanes,
		"refused_clients", (json_int_t)all->refused,
		"rejected_requests", (json_int_t)all->rejected, "shards",
		shards(v), "ledger", ledger(&all->ledger));
}

static json_t *rail(const struct mpib_view *v, unsigned r)
{
	const struct mpib_snap_rail *n = &v->snap->rail[r];
	const struct mpib_view_rail *d = &v->rail[r];
	char gid[INET6_ADDRSTRLEN] = "";

	inet_ntop(AF_INET6, d->gid.raw, gid, sizeof(gid));
	return json_pack(
		"{ss ss ss ss sI sI ss sI sI sI sI sI sI sI sI sI sI sI sI "
		"sI}",
		"name", rail_name[r], "device", d->name, "provider",
		d->provider, "state", n->up ? "active" : "down", "speed_mbps",
		(json_int_t)d->speed_mbps, "mtu",
		(json_int_t)(d->mtu ? 128 << d->mtu : 0), "gid", gid,
		"tx_bytes", (json_int_t)n->n.tx_bytes, "rx_bytes",
		(json_int_t)n->n.rx_bytes, "tx_wrs", (json_int_t)n->n.tx_wrs,
		"rx_imms", (json_int_t)n->n.rx_imms, "cts",
		(json_int_t)n->n.cts, "cqes", (json_int_t)n->cqes, "cqe_errors",
		(json_int_t)n->cqe_errors, "posts", (json_int_t)n->posts,
		"srq_refills", (json_int_t)n->srq_refills, "srq_posted",
		(json_int_t)n->srq_posted, "stale_imms",
		(json_int_t)n->stale_imms, "bad_imms", (json_int_t)n->bad_imms,
		"qps", (json_int_t)n->qps);
}

json_t *mpib_view_rails(const struct mpib_view *v)
{
	json_t *list = json_array();

	for (unsigned r = 0; r < v->snap->rails; r++)
		json_array_append_new(list, rail(v, r));
	return list;
}

static const struct mpib_session *find_client(const struct mpib_view *v,
					      uint32_t id)
{
	const struct mpib_session *s;

	TAILQ_FOREACH(s, &v->sessions->list, link)
	{
		if (s->id == id && s->owner.attachment)
			return s;
	}
	return NULL;
}

static json_t *client(const struct mpib_view *v, const struct mpib_session *s)
{
	struct mpib_rail_counts sum[MPIB_RAILS] = { 0 };
	json_int_t conns = 0;
	json_t *o;

	for (uint32_t i = 0; i < v->snap->flows; i++) {
		if (v->snap->flow[i].client != s->id)
			continue;
		add_counts(sum, v->snap->flow[i].n);
		conns++;
	}
	for (uint32_t i = 0; i < v->snap->clients; i++) {
		if (v->snap->client[i].id == s->id)
			add_counts(sum, v->snap->client[i].closed);
	}
	o = json_pack(
		"{sI ss sI sI sI sI ss sI sI sI}", "id", (json_int_t)s->id,
		"name", s->name, "pid", (json_int_t)s->pid, "uid",
		(json_int_t)s->uid, "shard", (json_int_t)s->owner.shard, "job",
		(json_int_t)s->job, "state",
		s->state == MPIB_SESSION_LIVE ? "attached" : "leaving",
		"connections", conns, "regions", (json_int_t)s->region_count,
		"registered_bytes", (json_int_t)s->registered);
	add_traffic(o, v, sum);
	return o;
}

json_t *mpib_view_clients(const struct mpib_view *v)
{
	const struct mpib_session *s;
	json_t *list = json_array();

	TAILQ_FOREACH(s, &v->sessions->list, link)
	{
		if (s->owner.attachment)
			json_array_append_new(list, client(v, s));
	}
	return list;
}

static json_t *conn(const struct mpib_view *v, const struct mpib_snap_flow *f)
{
	const struct mpib_session *s = find_client(v, f->client);
	json_t *o = json_pack(
		"{sI ss sI sI ss ss sb sI sI sI so so s{sI sI sI}}", "client",
		(json_int_t)f->client, "client_name", s ? s->name : "", "index",
		(json_int_t)f->index, "shard", (json_int_t)f->shard,
		"direction", f->sender ? "send" : "recv", "peer", f->peer,
		"broken", f->broken, "outstanding", (json_int_t)f->outstanding,
		"messages", (json_int_t)f->messages, "tx_wrs",
		(json_int_t)(f->n[0].tx_wrs + f->n[1].tx_wrs), "local_rank",
		f->local_rank < 0 ? json_null() : json_integer(f->local_rank),
		"remote_rank",
		f->remote_rank < 0 ? json_null() : json_integer(f->remote_rank),
		"stalls", "cts", (json_int_t)f->stalls_cts, "slot",
		(json_int_t)f->stalls_slot, "sq", (json_int_t)f->stalls_sq);

	add_traffic(o, v, f->n);
	return o;
}

/* Rails count all there ever was, so the rest was moved by closed ones. */
static json_t *closed(const struct mpib_view *v)
{
	struct mpib_rail_counts open[MPIB_RAILS] = { 0 };
	struct mpib_rail_counts rest[MPIB_RAILS] = { 0 };
	json_t *o = json_object();

	for (uint32_t i = 0; i < v->snap->flows; i++)
		add_counts(open, v->snap->flow[i].n);
	for (unsigned r = 0; r < v->snap->rails; r++) {
		rest[r].tx_bytes =
			v->snap->rail[r].n.tx_bytes - open[r].tx_bytes;
		rest[r].rx_bytes =
			v->snap->rail[r].n.rx_bytes - open[r].rx_bytes;
	}
	add_traffic(o, v, rest);
	return o;
}

json_t *mpib_view_conns(const struct mpib_view *v)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < v->snap->flows; i++)
		json_array_append_new(list, conn(v, &v->snap->flow[i]));
	return json_pack("{so so}", "open", list, "closed", closed(v));
}

static json_t *by_rail_u32(const struct mpib_view *v, const uint32_t *n)
{
	json_t *o = json_object();

	for (unsigned r = 0; r < v->snap->rails; r++)
		json_object_set_new(o, rail_key[r], number(n[r]));
	return o;
}

json_t *mpib_view_lanes(const struct mpib_view *v)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < v->snap->lanes; i++) {
		const struct mpib_snap_lane *l = &v->snap->lane[i];
		json_t *o = json_pack(
			"{ss sI sI sI sb sI so}", "peer", l->peer, "uid",
			(json_int_t)l->uid, "shard", (json_int_t)l->shard,
			"imm", (json_int_t)l->imm_version, "broken", l->broken,
			"connections", (json_int_t)l->flows, "qps",
			by_rail_u32(v, l->qps));

		add_traffic(o, v, l->n);
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *peer(const struct mpib_view *v, uint32_t first)
{
	struct mpib_rail_counts sum[MPIB_RAILS] = { 0 };
	const char *name = v->snap->lane[first].peer;
	uint32_t qps[MPIB_RAILS] = { 0 };
	json_int_t lanes = 0, conns = 0;
	json_t *o;

	for (uint32_t i = first; i < v->snap->lanes; i++) {
		const struct mpib_snap_lane *l = &v->snap->lane[i];

		if (strcmp(l->peer, name))
			continue;
		lanes++;
		conns += l->flows;
		for (unsigned r = 0; r < MPIB_RAILS; r++)
			qps[r] += l->qps[r];
		add_counts(sum, l->n);
	}
	o = json_pack("{ss sI sI so}", "peer", name, "lanes", lanes,
		      "connections", conns, "qps", by_rail_u32(v, qps));
	add_traffic(o, v, sum);
	return o;
}

json_t *mpib_view_peers(const struct mpib_view *v)
{
	const struct mpib_snap_lane *lane = v->snap->lane;
	json_t *list = json_array();

	for (uint32_t i = 0; i < v->snap->lanes; i++) {
		uint32_t before = 0;

		while (before < i && strcmp(lane[before].peer, lane[i].peer))
			before++;
		if (before == i)
			json_array_append_new(list, peer(v, i));
	}
	return list;
}

json_t *mpib_view_config(const struct mpib_view *v)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < mpib_settings_count; i++) {
		const struct mpib_setting *s = &mpib_settings[i];
		char value[MPIB_VALUE_MAX];

		mpib_config_value(v->cfg, s, value, sizeof(value));
		json_array_append_new(
			list, json_pack("{ss ss ss ss}", "section", s->section,
					"key", s->key, "value", value, "origin",
					v->cfg->origin[i]));
	}
	return list;
}
