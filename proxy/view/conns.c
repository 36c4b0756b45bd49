/* SPDX-License-Identifier: Apache-2.0 */
/* Connections, lanes and peers as JSON. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "base/hash.h"
#include "peer/ask.h"
#include "view/fields.h"
#include "view/view.h"

static double conns_seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

static void add_stalls(json_t *o, const struct mpib_snap_conn *f)
{
	static const char *const cause[MPIB_STALLS] = {
		NULL, "cts", "slot", "sq", "window", "share"
	};
	json_t *count = json_object(), *time = json_object();

	for (unsigned i = MPIB_STALL_NONE + 1; i < MPIB_STALLS; i++) {
		json_object_set_new(count, cause[i],
				    mpib_field_u64(f->stalls[i]));
		json_object_set_new(time, cause[i],
				    json_real(conns_seconds(f->stall_ns[i])));
	}
	json_object_set_new(o, "stalls", count);
	json_object_set_new(o, "stall_s", time);
}

static json_t *conns_conn(const struct mpib_view *v, uint64_t client,
			  uint32_t i)
{
	const struct mpib_snap_conn *f = &v->snap->conn[i];
	const struct proxy_client *s =
		proxy_clients_known(v->clients, f->client);
	json_t *o;

	if (client && f->client != client)
		return NULL;
	o = json_pack("{sI ss sI sI ss ss sb sI sI sI so so sf}", "client",
		      (json_int_t)f->client, "client_name", s ? s->name : "",
		      "index", (json_int_t)f->index, "shard",
		      (json_int_t)f->shard, "direction",
		      f->sender ? "send" : "recv", "peer", f->peer, "broken",
		      f->broken, "outstanding", (json_int_t)f->outstanding,
		      "messages", (json_int_t)f->messages, "tx_wrs",
		      (json_int_t)f->n[0].tx_wrs + (json_int_t)f->n[1].tx_wrs,
		      "local_rank", mpib_field_rank(f->local_rank),
		      "remote_rank", mpib_field_rank(f->remote_rank),
		      "oldest_s", conns_seconds(f->oldest_ns));

	json_object_set_new(o, "net", mpib_field_net(v, f->shard));
	add_stalls(o, f);
	mpib_field_counts(o, v, f->n);
	return o;
}

/* Return the counts of closed connections of a client. With client 0, return
 * those of all clients, including clients that left. */
static json_t *conns_closed(const struct mpib_view *v, uint32_t client)
{
	struct mpib_rail_counts sum[MPIB_RAILS] = { 0 };
	json_t *closed = json_object();

	if (client == 0)
		mpib_sums_closed(v->snap, sum);
	for (uint32_t i = 0; client && i < v->snap->clients; i++) {
		if (v->snap->client[i].id == client)
			mpib_sums_add(sum, v->snap->client[i].closed);
	}
	mpib_field_counts(closed, v, sum);
	return closed;
}

void mpib_view_conns_part(const struct mpib_view *v, uint64_t client,
			  struct mpib_view_part *part)
{
	if (part->at == 0)
		fputs("{\"open\":[", part->out);
	mpib_view_list(v, client, v->snap->conns, conns_conn, part);
	if (part->more)
		return;
	fputs("],\"closed\":", part->out);
	mpib_view_dump(part, conns_closed(v, (uint32_t)client));
	fputc('}', part->out);
}

/* Add a lane's bytes in flight, round-trip time and oldest request per rail. */
static void conns_add_track(json_t *o, const struct mpib_view *v,
			    const struct mpib_snap_lane *l)
{
	uint64_t inflight[MPIB_RAILS], rtt[MPIB_RAILS], oldest[MPIB_RAILS];

	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		inflight[r] = l->track[r].inflight;
		rtt[r] = l->track[r].srtt;
		oldest[r] = l->track[r].oldest_ns;
	}
	json_object_set_new(o, "inflight_bytes",
			    mpib_field_by_rail(v, inflight));
	json_object_set_new(o, "rtt_ns", mpib_field_by_rail(v, rtt));
	json_object_set_new(o, "oldest_ns", mpib_field_by_rail(v, oldest));
}

/* Describe how a lane distributes a rail's stripes over the QPs of that
 * rail. */
static json_t *lane_spread(const struct mpib_view *v,
			   const struct mpib_snap_lane *lane)
{
	json_t *above = json_object();

	for (unsigned r = 0; r < v->snap->rails; r++)
		json_object_set_new(
			above, mpib_rail_key[r],
			lane->spread_above[r] == UINT32_MAX
				? json_null()
				: json_integer(lane->spread_above[r]));
	return json_pack("{ss so sI}", "mode",
			 mpib_spread_name((enum mpib_spread)lane->spread),
			 "above", above, "late", (json_int_t)lane->late);
}

/* Return, for each rail, the address of the peer's port to which the rail is
 * connected; null: none. */
static json_t *lane_to(const struct mpib_view *v,
		       const struct mpib_snap_lane *l)
{
	static const union ibv_gid none;
	json_t *o = json_object();

	for (unsigned r = 0; r < v->snap->rails; r++) {
		const union ibv_gid *gid = &l->peer_gid[r];
		char text[INET6_ADDRSTRLEN] = "";

		inet_ntop(AF_INET6, gid->raw, text, sizeof(text));
		json_object_set_new(o, mpib_rail_key[r],
				    memcmp(gid, &none, sizeof(none))
					    ? json_string(text)
					    : json_null());
	}
	return o;
}

static json_t *lane_live(const struct mpib_view *v,
			 const struct mpib_snap_lane *l)
{
	json_t *o = json_object();

	for (unsigned r = 0; r < v->snap->rails; r++)
		json_object_set_new(o, mpib_rail_key[r],
				    json_boolean(l->live >> r & 1));
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
			"connections", (json_int_t)l->conns, "qps",
			mpib_field_by_rail_u32(v, l->qps));

		json_object_set_new(o, "net", mpib_field_net(v, l->shard));
		json_object_set_new(o, "live", lane_live(v, l));
		json_object_set_new(o, "to", lane_to(v, l));
		json_object_set_new(o, "messages", mpib_field_u64(l->messages));
		json_object_set_new(o, "spread", lane_spread(v, l));
		conns_add_track(o, v, l);
		mpib_field_counts(o, v, l->n);
		json_array_append_new(list, o);
	}
	return list;
}

/* The sums of all lanes to one peer. */
struct conns_peer {
	const char *name; /* key */
	uint32_t qps[MPIB_RAILS];
	json_int_t lanes, conns, messages;
	struct mpib_rail_counts n[MPIB_RAILS];
	UT_hash_handle hh;
};

static void conns_add_lane(struct conns_peer *p, const struct mpib_snap_lane *l)
{
	p->lanes++;
	p->conns += l->conns;
	p->messages += (json_int_t)l->messages;
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		p->qps[r] += l->qps[r];
	mpib_sums_add(p->n, l->n);
}

static json_t *conns_peer(const struct mpib_view *v, const struct conns_peer *p)
{
	json_t *o = json_pack("{ss sI sI sI so}", "peer", p->name, "lanes",
			      p->lanes, "connections", p->conns, "messages",
			      p->messages, "qps",
			      mpib_field_by_rail_u32(v, p->qps));

	mpib_field_counts(o, v, p->n);
	json_object_set_new(o, "refused", json_null());
	return o;
}

struct conns_refused {
	const struct mpib_view *v;
	json_t *list;
};

/* List a node whose link was refused as a peer without lanes. */
static void conns_refused(void *arg, const struct mpib_broker_told *t)
{
	const struct conns_refused *to = arg;
	const struct conns_peer none = { .name = t->peer };
	json_t *o;

	if (t->state != MPIB_TOLD_REFUSED)
		return;
	o = conns_peer(to->v, &none);
	json_object_set_new(o, "refused",
			    json_pack("{sI sf ss}", "count",
				      (json_int_t)t->refusals, "age_s",
				      conns_seconds(t->refused_ns), "why",
				      t->why));
	json_array_append_new(to->list, o);
}

/* List peers in the order of their first lanes. uthash preserves that order. */
json_t *mpib_view_peers(const struct mpib_view *v)
{
	struct conns_peer *list = calloc(v->snap->lanes + 1, sizeof(*list));
	struct conns_peer *peers = NULL, *next = list, *p;
	json_t *out;

	if (!list)
		return NULL;
	out = json_array();
	for (uint32_t i = 0; i < v->snap->lanes; i++) {
		const struct mpib_snap_lane *l = &v->snap->lane[i];

		HASH_FIND_STR(peers, l->peer, p);
		if (!p) {
			p = next++;
			p->name = l->peer;
			HASH_ADD_STR(peers, name, p);
		}
		conns_add_lane(p, l);
	}
	for (p = peers; p; p = p->hh.next)
		json_array_append_new(out, conns_peer(v, p));
	HASH_CLEAR(hh, peers);
	free(list);
	if (v->clients->broker)
		mpib_broker_each_told(v->clients->broker, conns_refused,
				      &(struct conns_refused){ v, out });
	return out;
}

/* Requests that hang, and connections whose setup hangs. */

static json_t *stuck_request(const struct mpib_view *v,
			     const struct mpib_snap_request *q)
{
	const struct mpib_snap_conn *f = &v->snap->conn[q->conn];
	const struct proxy_client *s =
		proxy_clients_known(v->clients, f->client);

	return json_pack(
		"{sI ss sI sI sI so sI ss ss so so sf sI sI so ss ss}",
		"client", (json_int_t)f->client, "client_name",
		s ? s->name : "", "pid", (json_int_t)(s ? s->pid : 0), "uid",
		(json_int_t)(s ? s->uid : 0), "job",
		(json_int_t)(s ? s->job : 0), "job_id",
		mpib_field_job(s ? s->job : 0), "index", (json_int_t)f->index,
		"direction", f->sender ? "send" : "recv", "peer", f->peer,
		"local_rank", mpib_field_rank(f->local_rank), "remote_rank",
		mpib_field_rank(f->remote_rank), "age_s",
		(double)q->age_ns / 1e9, "bytes", (json_int_t)q->bytes, "done",
		(json_int_t)q->done, "rails", mpib_view_rail_names(q->rails),
		"last", mpib_last_word(q->last), "text",
		mpib_last_text(q->last));
}

struct adding {
	const struct proxy_client *client;
	json_t *list;
};

static void add_pending(void *arg, const struct mpib_pending *p)
{
	const struct adding *to = arg;
	const struct proxy_client *s = to->client;

	json_array_append_new(
		to->list,
		json_pack("{sI ss sI sI so sI ss ss sf ss}", "client",
			  (json_int_t)s->id, "client_name", s->name, "pid",
			  (json_int_t)s->pid, "uid", (json_int_t)s->uid,
			  "job_id", mpib_field_job(s->job), "index",
			  (json_int_t)p->index, "direction",
			  p->sender ? "send" : "recv", "peer", p->peer, "age_s",
			  (double)p->age_ns / 1e9, "text", p->why));
}

static json_t *stuck_connecting(const struct mpib_view *v, uint64_t older_ns)
{
	struct adding to = { .list = json_array() };

	TAILQ_FOREACH(to.client, &v->clients->list, link)
	mpib_broker_pending(&to.client->peer_client, older_ns, add_pending,
			    &to);
	return to.list;
}

static int by_age(const void *a, const void *b)
{
	const struct mpib_snap_request *x = *(void *const *)a;
	const struct mpib_snap_request *y = *(void *const *)b;

	return (x->age_ns < y->age_ns) - (x->age_ns > y->age_ns);
}

json_t *mpib_view_stuck(const struct mpib_view *v, uint64_t older_ns)
{
	const struct mpib_snapshot *snap = v->snap;
	const struct mpib_snap_request **old =
		calloc(snap->requests + 1, sizeof(const void *));
	json_t *list;
	uint32_t n = 0;

	if (!old)
		return NULL;
	list = json_array();
	for (uint32_t i = 0; i < snap->requests; i++) {
		if (snap->request[i].age_ns >= older_ns)
			old[n++] = &snap->request[i];
	}
	qsort(old, n, sizeof(const void *), by_age);
	for (uint32_t i = 0; i < n; i++)
		json_array_append_new(list, stuck_request(v, old[i]));
	free(old);
	return json_pack("{sf so sI so}", "older_s", (double)older_ns / 1e9,
			 "requests", list, "more",
			 (json_int_t)snap->more_requests, "connecting",
			 stuck_connecting(v, older_ns));
}

/* mpibctl why as JSON: the split of each sending connection, and the reason. */

/* Return the measurements that a split may use, per rail of a lane. */
static json_t *why_tracks(const struct mpib_view *v,
			  const struct mpib_snap_lane *lane)
{
	json_t *o = json_object();

	for (unsigned r = 0; r < v->snap->rails; r++) {
		const struct mpib_snap_track *t = &lane->track[r];

		json_object_set_new(
			o, mpib_rail_key[r],
			json_pack("{sI sI sI sI sI sI}", "rtt_ns",
				  (json_int_t)t->srtt, "latency_ns",
				  (json_int_t)t->latency, "acked_bytes",
				  (json_int_t)t->acked_bytes, "busy_ns",
				  (json_int_t)t->busy_ns, "inflight_bytes",
				  (json_int_t)t->inflight, "oldest_ns",
				  (json_int_t)t->oldest_ns));
	}
	return o;
}

/* Return the agent's reason for a hint. */
static json_t *why_agent(const struct mpib_view *v, uint32_t slot)
{
	const struct mpib_agent_reason *r = mpib_agent_reason(v->agent, slot);

	if (!r)
		return json_null();
	return json_pack("{ss sI so}", "why", r->why, "since",
			 (json_int_t)r->since, "sup_bw",
			 r->sup_bw > MPIB_HINT_SUP_BW_MAX
				 ? json_null()
				 : json_integer(r->sup_bw));
}

json_t *mpib_view_agent(const struct mpib_view *v)
{
	pid_t pid;
	const struct mpib_agent_summary *s = mpib_agent_heard(v->agent, &pid);
	json_t *rails = json_array();

	for (unsigned r = 0; s && r < MPIB_RAILS; r++)
		json_array_append_new(
			rails,
			json_pack("{ss ss ss so}", "rail", mpib_rail_name(r),
				  "state",
				  s->sick & 1u << r	   ? "left"
				  : s->congested & 1u << r ? "eased"
							   : "well",
				  "why", s->rail[r].why, "since",
				  s->rail[r].since
					  ? mpib_field_u64(s->rail[r].since)
					  : json_null()));
	if (s)
		return json_pack("{sI sb ss ss sI so}", "pid", (json_int_t)pid,
				 "dry_run", (s->flags & MPIB_AGENT_DRY) != 0,
				 "config", s->config, "fault", s->fault,
				 "windows", (json_int_t)s->windows, "rails",
				 rails);
	json_decref(rails);
	return json_null();
}

/* Return the source of a split, or "no hint" if no agent has filled the hint
 * slot yet. */
static const char *why_source(const struct mpib_snap_conn *f)
{
	if (f->why.source == MPIB_SPLIT_HINT && f->why.hint_slot == UINT32_MAX)
		return "no hint";
	return mpib_split_source_name(f->why.source);
}

static bool why_asked(const struct mpib_view *v, uint64_t which,
		      const struct mpib_snap_conn *f)
{
	uint32_t client = (uint32_t)(which >> 32), index = (uint32_t)which;

	return f->sender && f->lane < v->snap->lanes &&
	       (!client || f->client == client) &&
	       (index == UINT32_MAX || f->index == index);
}

static json_t *why_one(const struct mpib_view *v, uint64_t which, uint32_t i)
{
	const struct mpib_snap_conn *f = &v->snap->conn[i];
	const struct mpib_snap_lane *lane;

	if (!why_asked(v, which, f))
		return NULL;
	lane = &v->snap->lane[f->lane];
	return json_pack(
		"{sI sI ss sI sI ss ss sI sI ss sf so so so so}", "client",
		(json_int_t)f->client, "index", (json_int_t)f->index, "peer",
		f->peer, "uid", (json_int_t)lane->uid, "traffic_class",
		(json_int_t)lane->traffic_class, "mode",
		mpib_mode_name((enum mpib_mode)v->cfg->engine.mode), "path",
		mpib_path_name((enum mpib_path)lane->path), "sup_bw",
		(json_int_t)f->why.sup_bw, "small_bytes",
		(json_int_t)f->why.small, "source", why_source(f), "age_s",
		(double)f->why.age_ns / 1e9, "hint_slot",
		f->why.hint_slot == UINT32_MAX ? json_null()
					       : json_integer(f->why.hint_slot),
		"agent", why_agent(v, f->why.hint_slot), "rails",
		why_tracks(v, lane), "spread", lane_spread(v, lane));
}

bool mpib_view_why_any(const struct mpib_view *v, uint64_t which)
{
	for (uint32_t i = 0; i < v->snap->conns; i++) {
		if (why_asked(v, which, &v->snap->conn[i]))
			return true;
	}
	return false;
}

void mpib_view_why_part(const struct mpib_view *v, uint64_t which,
			struct mpib_view_part *part)
{
	if (part->at == 0)
		fputc('[', part->out);
	mpib_view_list(v, which, v->snap->conns, why_one, part);
	if (!part->more)
		fputc(']', part->out);
}
