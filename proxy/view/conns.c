/* SPDX-License-Identifier: Apache-2.0 */
/* Connections, lanes and peers as JSON. */
#include <stdlib.h>

#include "base/hash.h"
#include "view/fields.h"
#include "view/sums.h"

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

static json_t *conns_conn(const struct mpib_view *v,
			  const struct mpib_snap_conn *f)
{
	const struct proxy_client *s =
		proxy_clients_known(v->clients, f->client);
	json_t *o = json_pack(
		"{sI ss sI sI ss ss sb sI sI sI so so sf}", "client",
		(json_int_t)f->client, "client_name", s ? s->name : "", "index",
		(json_int_t)f->index, "shard", (json_int_t)f->shard,
		"direction", f->sender ? "send" : "recv", "peer", f->peer,
		"broken", f->broken, "outstanding", (json_int_t)f->outstanding,
		"messages", (json_int_t)f->messages, "tx_wrs",
		(json_int_t)f->n[0].tx_wrs + (json_int_t)f->n[1].tx_wrs,
		"local_rank", mpib_field_rank(f->local_rank), "remote_rank",
		mpib_field_rank(f->remote_rank), "oldest_s",
		conns_seconds(f->oldest_ns));

	json_object_set_new(o, "net", mpib_field_net(v, f->shard));
	json_object_set_new(o, "weight", json_integer(f->weight));
	json_object_set_new(o, "limit_mbps",
			    json_integer((json_int_t)(f->rate / 125000)));
	add_stalls(o, f);
	mpib_field_counts(o, v, f->n);
	return o;
}

/* The snapshot counts closed connections per attached client; with client 0
 * those of clients that left are included as well. */
static json_t *conns_closed(const struct mpib_view *v, uint32_t client)
{
	struct mpib_client_sums sums;
	json_t *closed = json_object();

	if (client == 0)
		mpib_sums_closed(v->snap, sums.closed);
	else
		mpib_sums_of_client(v->snap, client, &sums);
	mpib_field_counts(closed, v, sums.closed);
	return closed;
}

void mpib_view_conns_part(const struct mpib_view *v, uint64_t client,
			  struct mpib_view_part *part)
{
	const struct mpib_snapshot *snap = v->snap;
	uint32_t made = 0;

	if (part->at == 0)
		fputs("{\"open\":[", part->out);
	for (; part->at < snap->conns && made < MPIB_VIEW_PART; part->at++) {
		if (client && snap->conn[part->at].client != client)
			continue;
		mpib_view_item(part, conns_conn(v, &snap->conn[part->at]));
		made++;
	}
	part->more = part->at < snap->conns;
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
		json_object_set_new(o, "messages", mpib_field_u64(l->messages));
		json_object_set_new(o, "spread", mpib_view_spread(v, l));
		conns_add_track(o, v, l);
		mpib_field_counts(o, v, l->n);
		json_array_append_new(list, o);
	}
	return list;
}

/* Of all lanes to one peer. */
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
	return o;
}

/* In the order of their first lanes, in which uthash keeps them. */
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
	return out;
}
