/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encoding and decoding of lanes in messages: the QPs of a lane (LANE_OPEN,
 * LANE_ACCEPT) and the state of a rail (LANE_RAIL).
 */
#include <mpib/wire.h>

#include "engine/split/policy.h"
#include "peer/part.h"

static void put_qps(struct mpib_encoder *w, const struct mpib_lane_rail_info *p)
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

static void get_qps(struct mpib_decoder *r, struct mpib_lane_rail_info *p)
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

void mpib_put_lane(struct mpib_encoder *w, const struct mpib_peer_msg *msg)
{
	const struct mpib_lane_info *i = &msg->lane_info;

	mpib_put8(w, i->imm_version);
	mpib_put8(w, i->mode);
	mpib_put8(w, i->path);
	mpib_put8(w, i->failover);
	mpib_put8(w, i->rails);
	for (unsigned r = 0; r < i->rails; r++)
		put_qps(w, &i->rail[r]);
	mpib_put8(w, i->spread);
	mpib_put8(w, i->delivered);
	mpib_put8(w, i->away);
}

void mpib_get_lane(struct mpib_decoder *r, struct mpib_peer_msg *msg)
{
	struct mpib_lane_info *i = &msg->lane_info;

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
	i->spread = mpib_get8(r);
	i->delivered = mpib_get8(r);
	i->away = mpib_get8(r);
	if (i->spread > MPIB_SPREAD_AUTO || i->away >= (1u << i->rails) - 1)
		r->failed = true;
}

/* Bytes of seen that the slots need. */
static unsigned seen_bytes(const struct mpib_recv_bitmap *a)
{
	return (a->slots * MPIB_RAILS + 7u) / 8;
}

static void put_bitmap(struct mpib_encoder *w, const struct mpib_recv_bitmap *a)
{
	mpib_put32(w, a->conn);
	mpib_put8(w, a->sender);
	mpib_put64(w, a->first);
	mpib_put16(w, a->slots);
	mpib_put(w, a->seen, seen_bytes(a));
}

static void get_bitmap(struct mpib_decoder *r, struct mpib_recv_bitmap *a)
{
	a->conn = mpib_get32(r);
	a->sender = mpib_get8(r);
	a->first = mpib_get64(r);
	a->slots = mpib_get16(r);
	if (a->slots > MPIB_SLOTS || a->conn >= MPIB_WIRE_CONNS_MAX) {
		r->failed = true;
		return;
	}
	mpib_get(r, a->seen, seen_bytes(a));
}

void mpib_put_rail(struct mpib_encoder *w, const struct mpib_peer_msg *msg)
{
	const struct mpib_rail_msg *m = &msg->rail;

	mpib_put8(w, m->type);
	mpib_put8(w, m->rail);
	mpib_put32(w, m->epoch);
	switch ((enum mpib_rail_msg_type)m->type) {
	case MPIB_RAIL_FENCE:
		mpib_put8(w, m->cause);
		break;
	case MPIB_RAIL_FENCED:
		mpib_put8(w, m->more);
		mpib_put8(w, m->bitmaps);
		for (unsigned i = 0; i < m->bitmaps; i++)
			put_bitmap(w, &m->bitmap[i]);
		break;
	case MPIB_RAIL_RECONNECT:
		put_qps(w, &m->info);
		break;
	case MPIB_RAIL_UP:
		break;
	case MPIB_RAIL_DRAIN:
		mpib_put8(w, m->on);
		break;
	}
}

void mpib_get_rail(struct mpib_decoder *r, struct mpib_peer_msg *msg)
{
	struct mpib_rail_msg *m = &msg->rail;

	m->type = mpib_get8(r);
	m->rail = mpib_get8(r);
	m->epoch = mpib_get32(r);
	switch ((enum mpib_rail_msg_type)m->type) {
	case MPIB_RAIL_FENCE:
		m->cause = mpib_get8(r);
		break;
	case MPIB_RAIL_FENCED:
		m->more = mpib_get8(r);
		m->bitmaps = mpib_get8(r);
		if (m->bitmaps > MPIB_RECV_BITMAPS) {
			r->failed = true;
			m->bitmaps = 0;
		}
		for (unsigned i = 0; i < m->bitmaps; i++)
			get_bitmap(r, &m->bitmap[i]);
		break;
	case MPIB_RAIL_RECONNECT:
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
