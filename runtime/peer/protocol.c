/* SPDX-License-Identifier: Apache-2.0 */
#include "peer/protocol.h"

#include <assert.h>
#include <errno.h>
#include <mpib/wire.h>

#include "engine/split/policy.h"

static void put_node(struct mpib_writer *w, const struct mpib_node_id *n)
{
	mpib_put(w, &n->addr, sizeof(n->addr));
	mpib_put16(w, n->port);
	mpib_put64(w, n->boot);
	mpib_put(w, &n->sout, sizeof(n->sout));
}

static void get_node(struct mpib_reader *r, struct mpib_node_id *n)
{
	mpib_get(r, &n->addr, sizeof(n->addr));
	n->port = mpib_get16(r);
	n->boot = mpib_get64(r);
	mpib_get(r, &n->sout, sizeof(n->sout));
}

static void put_key(struct mpib_writer *w, const struct mpib_lane_key *k)
{
	mpib_put32(w, k->uid);
	mpib_put16(w, k->from_shard);
	mpib_put16(w, k->to_shard);
	mpib_put8(w, k->traffic_class);
	mpib_put64(w, k->serial);
}

static void get_key(struct mpib_reader *r, struct mpib_lane_key *k)
{
	k->uid = mpib_get32(r);
	k->from_shard = mpib_get16(r);
	k->to_shard = mpib_get16(r);
	k->traffic_class = mpib_get8(r);
	k->serial = mpib_get64(r);
}

static void put_qps(struct mpib_writer *w, const struct mpib_lane_rail_info *p)
{
	mpib_put(w, p->gid, sizeof(p->gid));
	mpib_put16(w, p->lid);
	mpib_put8(w, p->mtu);
	mpib_put8(w, p->link_layer);
	mpib_put8(w, p->qps);
	for (unsigned q = 0; q < p->qps; q++) {
		mpib_put32(w, p->qpn[q]);
		mpib_put32(w, p->psn[q]);
	}
	mpib_put8(w, p->ece);
	for (unsigned q = 0; p->ece && q < p->qps; q++) {
		mpib_put32(w, p->ece_vendor[q]);
		mpib_put32(w, p->ece_options[q]);
	}
}

static void get_qps(struct mpib_reader *r, struct mpib_lane_rail_info *p)
{
	mpib_get(r, p->gid, sizeof(p->gid));
	p->lid = mpib_get16(r);
	p->mtu = mpib_get8(r);
	p->link_layer = mpib_get8(r);
	p->qps = mpib_get8(r);
	if (p->qps < 1 || p->qps > MPIB_QPS_MAX || p->mtu < 1 ||
	    p->mtu > IBV_MTU_4096) {
		r->failed = true;
		p->qps = 0;
	}
	for (unsigned q = 0; q < p->qps; q++) {
		p->qpn[q] = mpib_get32(r) & 0xffffff;
		p->psn[q] = mpib_get32(r) & 0xffffff;
	}
	p->ece = mpib_get8(r);
	for (unsigned q = 0; p->ece && q < p->qps; q++) {
		p->ece_vendor[q] = mpib_get32(r);
		p->ece_options[q] = mpib_get32(r);
	}
}

static void put_lane(struct mpib_writer *w, const struct mpib_lane_info *i)
{
	mpib_put8(w, i->imm_version);
	mpib_put8(w, i->mode);
	mpib_put8(w, i->path);
	mpib_put8(w, i->failover);
	mpib_put8(w, i->rails);
	for (unsigned r = 0; r < i->rails; r++)
		put_qps(w, &i->rail[r]);
}

static void get_lane(struct mpib_reader *r, struct mpib_lane_info *i)
{
	i->imm_version = mpib_get8(r);
	i->mode = mpib_get8(r);
	i->path = mpib_get8(r);
	i->failover = mpib_get8(r);
	i->rails = mpib_get8(r);
	if (i->rails < 1 || i->rails > MPIB_RAILS ||
	    i->mode > MPIB_MODE_STATIC || i->path > MPIB_PATH_INTER ||
	    (i->imm_version != MPIB_IMM_V1 && i->imm_version != MPIB_IMM_V2)) {
		r->failed = true;
		i->rails = 0;
	}
	for (unsigned n = 0; n < i->rails && !r->failed; n++)
		get_qps(r, &i->rail[n]);
}

/* Of seen only what slots asks for. */
static unsigned seen_bytes(const struct mpib_answer *a)
{
	return (a->slots * MPIB_RAILS + 7u) / 8;
}

static void put_answer(struct mpib_writer *w, const struct mpib_answer *a)
{
	mpib_put32(w, a->flow);
	mpib_put8(w, a->sender);
	mpib_put64(w, a->first);
	mpib_put16(w, a->slots);
	mpib_put(w, a->seen, seen_bytes(a));
}

static void get_answer(struct mpib_reader *r, struct mpib_answer *a)
{
	a->flow = mpib_get32(r);
	a->sender = mpib_get8(r);
	a->first = mpib_get64(r);
	a->slots = mpib_get16(r);
	if (a->slots > MPIB_SLOTS || a->flow >= MPIB_FLOW_MAX) {
		r->failed = true;
		return;
	}
	mpib_get(r, a->seen, seen_bytes(a));
}

static void put_rail(struct mpib_writer *w, const struct mpib_rail_msg *m)
{
	mpib_put8(w, m->type);
	mpib_put8(w, m->rail);
	mpib_put32(w, m->epoch);
	switch ((enum mpib_rail_msg_type)m->type) {
	case MPIB_RAIL_FENCE:
		mpib_put8(w, m->cause);
		break;
	case MPIB_RAIL_FENCED:
		mpib_put8(w, m->more);
		mpib_put8(w, m->answers);
		for (unsigned i = 0; i < m->answers; i++)
			put_answer(w, &m->answer[i]);
		break;
	case MPIB_RAIL_OFFER:
		put_qps(w, &m->info);
		break;
	case MPIB_RAIL_UP:
		break;
	case MPIB_RAIL_DRAIN:
		mpib_put8(w, m->on);
		break;
	}
}

static void get_rail(struct mpib_reader *r, struct mpib_rail_msg *m)
{
	m->type = mpib_get8(r);
	m->rail = mpib_get8(r);
	m->epoch = mpib_get32(r);
	switch ((enum mpib_rail_msg_type)m->type) {
	case MPIB_RAIL_FENCE:
		m->cause = mpib_get8(r);
		break;
	case MPIB_RAIL_FENCED:
		m->more = mpib_get8(r);
		m->answers = mpib_get8(r);
		if (m->answers > MPIB_ANSWERS) {
			r->failed = true;
			m->answers = 0;
		}
		for (unsigned i = 0; i < m->answers; i++)
			get_answer(r, &m->answer[i]);
		break;
	case MPIB_RAIL_OFFER:
		get_qps(r, &m->info);
		break;
	case MPIB_RAIL_UP:
		break;
	case MPIB_RAIL_DRAIN:
		m->on = mpib_get8(r);
		break;
	default:
		r->failed = true;
	}
	if (m->rail >= MPIB_RAILS || m->cause >= MPIB_CAUSES)
		r->failed = true;
}

static void put_flow(struct mpib_writer *w, const struct mpib_flow_info *f)
{
	mpib_put32(w, f->id);
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		mpib_put32(w, f->rkey[r]);
	mpib_put64(w, f->addr);
}

static void get_flow(struct mpib_reader *r, struct mpib_flow_info *f)
{
	f->id = mpib_get32(r);
	for (unsigned i = 0; i < MPIB_RAILS; i++)
		f->rkey[i] = mpib_get32(r);
	f->addr = mpib_get64(r);
	if (f->id >= MPIB_FLOW_MAX)
		r->failed = true;
}

static void put_why(struct mpib_writer *w, const struct mpib_peer_msg *m)
{
	uint16_t n = (uint16_t)strnlen(m->why, sizeof(m->why) - 1);

	mpib_put32(w, (uint32_t)-m->error);
	mpib_put16(w, n);
	mpib_put(w, m->why, n);
}

static void get_why(struct mpib_reader *r, struct mpib_peer_msg *m)
{
	uint32_t error = mpib_get32(r);
	uint16_t n = mpib_get16(r);

	if (error == 0 || error > 4095 || n >= sizeof(m->why)) {
		r->failed = true;
		return;
	}
	m->error = -(int32_t)error;
	mpib_get(r, m->why, n);
	/* It ends up in logs: nothing that a terminal would obey. */
	for (unsigned i = 0; i < n; i++) {
		if (m->why[i] < ' ' || m->why[i] > '~')
			m->why[i] = '?';
	}
}

static void get_hello(struct mpib_reader *r, struct mpib_peer_msg *m)
{
	m->magic = mpib_get64(r);
	m->version_min = mpib_get16(r);
	m->version = mpib_get16(r);
	get_node(r, &m->node);
	mpib_get(r, m->challenge, sizeof(m->challenge));
	if (m->magic != MPIB_PEER_MAGIC || m->version_min > m->version)
		r->failed = true;
}

static void put_body(struct mpib_writer *w, const struct mpib_peer_msg *m)
{
	switch (m->type) {
	case MPIB_PEER_HELLO:
		mpib_put64(w, m->magic);
		mpib_put16(w, m->version_min);
		mpib_put16(w, m->version);
		put_node(w, &m->node);
		mpib_put(w, m->challenge, sizeof(m->challenge));
		break;
	case MPIB_PEER_WELCOME:
		mpib_put16(w, m->version);
		put_node(w, &m->node);
		mpib_put(w, m->challenge, sizeof(m->challenge));
		mpib_put(w, m->proof, sizeof(m->proof));
		break;
	case MPIB_PEER_REFUSED:
		put_why(w, m);
		break;
	case MPIB_PEER_READY:
		mpib_put(w, m->proof, sizeof(m->proof));
		break;
	case MPIB_PEER_PING:
	case MPIB_PEER_PONG:
		break;
	case MPIB_PEER_LANE_OPEN:
		mpib_put32(w, m->from);
		put_key(w, &m->key);
		put_lane(w, &m->lane_info);
		break;
	case MPIB_PEER_LANE_ACCEPT:
		mpib_put32(w, m->to);
		mpib_put32(w, m->from);
		put_lane(w, &m->lane_info);
		break;
	case MPIB_PEER_LANE_RAIL:
		mpib_put32(w, m->to);
		put_rail(w, &m->rail);
		break;
	case MPIB_PEER_CONN_OPEN:
		mpib_put32(w, m->from);
		mpib_put32(w, m->lane);
		mpib_put32(w, m->listen_id);
		mpib_put64(w, m->nonce);
		mpib_put32(w, m->uid);
		put_flow(w, &m->flow);
		break;
	case MPIB_PEER_CONN_ACCEPT:
		mpib_put32(w, m->to);
		mpib_put32(w, m->from);
		put_flow(w, &m->flow);
		break;
	case MPIB_PEER_LANE_CLOSE:
		mpib_put32(w, m->to);
		mpib_put32(w, m->from);
		put_why(w, m);
		break;
	case MPIB_PEER_LANE_REJECT:
	case MPIB_PEER_CONN_REJECT:
	case MPIB_PEER_CONN_CLOSE:
		mpib_put32(w, m->to);
		put_why(w, m);
		break;
	case MPIB_PEER_CONN_CANCEL:
	case MPIB_PEER_CONN_CLOSED:
		mpib_put32(w, m->to);
		break;
	}
}

static void get_body(struct mpib_reader *r, struct mpib_peer_msg *m)
{
	switch (m->type) {
	case MPIB_PEER_HELLO:
		get_hello(r, m);
		break;
	case MPIB_PEER_WELCOME:
		m->version = mpib_get16(r);
		get_node(r, &m->node);
		mpib_get(r, m->challenge, sizeof(m->challenge));
		mpib_get(r, m->proof, sizeof(m->proof));
		break;
	case MPIB_PEER_REFUSED:
		get_why(r, m);
		break;
	case MPIB_PEER_READY:
		mpib_get(r, m->proof, sizeof(m->proof));
		break;
	case MPIB_PEER_PING:
	case MPIB_PEER_PONG:
		break;
	case MPIB_PEER_LANE_OPEN:
		m->from = mpib_get32(r);
		get_key(r, &m->key);
		get_lane(r, &m->lane_info);
		break;
	case MPIB_PEER_LANE_ACCEPT:
		m->to = mpib_get32(r);
		m->from = mpib_get32(r);
		get_lane(r, &m->lane_info);
		break;
	case MPIB_PEER_LANE_RAIL:
		m->to = mpib_get32(r);
		get_rail(r, &m->rail);
		break;
	case MPIB_PEER_CONN_OPEN:
		m->from = mpib_get32(r);
		m->lane = mpib_get32(r);
		m->listen_id = mpib_get32(r);
		m->nonce = mpib_get64(r);
		m->uid = mpib_get32(r);
		get_flow(r, &m->flow);
		break;
	case MPIB_PEER_CONN_ACCEPT:
		m->to = mpib_get32(r);
		m->from = mpib_get32(r);
		get_flow(r, &m->flow);
		break;
	case MPIB_PEER_LANE_CLOSE:
		m->to = mpib_get32(r);
		m->from = mpib_get32(r);
		get_why(r, m);
		break;
	case MPIB_PEER_LANE_REJECT:
	case MPIB_PEER_CONN_REJECT:
	case MPIB_PEER_CONN_CLOSE:
		m->to = mpib_get32(r);
		get_why(r, m);
		break;
	case MPIB_PEER_CONN_CANCEL:
	case MPIB_PEER_CONN_CLOSED:
		m->to = mpib_get32(r);
		break;
	default:
		r->failed = true;
	}
}

size_t mpib_peer_encode(const struct mpib_peer_msg *m, uint8_t *buf)
{
	struct mpib_writer w = { buf + 4, buf + MPIB_PEER_FRAME_MAX, false };
	struct mpib_writer len = { buf, buf + 4, false };

	mpib_put8(&w, (uint8_t)m->type);
	put_body(&w, m);
	/* The longest message, a FENCED with MPIB_ANSWERS of the longest
	 * answers, is two thirds of a frame. */
	assert(!w.failed);
	mpib_put32(&len, (uint32_t)(w.at - buf) - 4);
	return (size_t)(w.at - buf);
}

int mpib_peer_decode(const uint8_t *buf, size_t len, struct mpib_peer_msg *m)
{
	struct mpib_reader r = { buf, buf + len, false };

	memset(m, 0, sizeof(*m));
	m->type = (enum mpib_peer_type)mpib_get8(&r);
	get_body(&r, m);
	return r.failed || r.at != r.end ? -EPROTO : 0;
}

const char *mpib_peer_type_name(enum mpib_peer_type type)
{
	static const char *const name[] = {
		[MPIB_PEER_HELLO] = "HELLO",
		[MPIB_PEER_WELCOME] = "WELCOME",
		[MPIB_PEER_REFUSED] = "REFUSED",
		[MPIB_PEER_READY] = "READY",
		[MPIB_PEER_PING] = "PING",
		[MPIB_PEER_PONG] = "PONG",
		[MPIB_PEER_LANE_OPEN] = "LANE_OPEN",
		[MPIB_PEER_LANE_ACCEPT] = "LANE_ACCEPT",
		[MPIB_PEER_LANE_REJECT] = "LANE_REJECT",
		[MPIB_PEER_LANE_CLOSE] = "LANE_CLOSE",
		[MPIB_PEER_CONN_OPEN] = "CONN_OPEN",
		[MPIB_PEER_CONN_ACCEPT] = "CONN_ACCEPT",
		[MPIB_PEER_CONN_REJECT] = "CONN_REJECT",
		[MPIB_PEER_CONN_CANCEL] = "CONN_CANCEL",
		[MPIB_PEER_CONN_CLOSE] = "CONN_CLOSE",
		[MPIB_PEER_CONN_CLOSED] = "CONN_CLOSED",
		[MPIB_PEER_LANE_RAIL] = "LANE_RAIL",
	};

	return type <= MPIB_PEER_LANE_RAIL && name[type] ? name[type] : "?";
}
