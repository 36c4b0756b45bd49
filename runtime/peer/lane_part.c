/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes in messages: the QPs of a lane (LANE_OPEN, LANE_ACCEPT) and the state of a
 * rail (LANE_RAIL).
 */
#include <mpib/wire.h>

#include "engine/split/policy.h"
#include "peer/part.h"

/* A number of a QP, or of its first packet. */
static void code_24(struct mpib_codec *c, uint32_t *v)
{
	mpib_code32(c, v);
	if (!c->to)
		*v &= 0xffffff;
}

static void code_qps(struct mpib_codec *c, struct mpib_lane_rail_info *p)
{
	mpib_code(c, p->gid, sizeof(p->gid));
	mpib_code16(c, &p->lid);
	mpib_code8(c, &p->mtu);
	mpib_code8(c, &p->link_layer);
	mpib_code8(c, &p->qps);
	mpib_code32(c, &p->max_msg_sz);
	if (mpib_code_bad(c, p->qps < 1 || p->qps > MPIB_QPS_MAX ||
				     p->mtu < 1 || p->mtu > IBV_MTU_4096 ||
				     p->max_msg_sz < MPIB_MSG_LEAST))
		p->qps = 0;
	for (unsigned q = 0; q < p->qps; q++) {
		code_24(c, &p->qpn[q]);
		code_24(c, &p->psn[q]);
	}
	mpib_code_bool(c, &p->ece);
	for (unsigned q = 0; p->ece && q < p->qps; q++) {
		mpib_code32(c, &p->ece_vendor[q]);
		mpib_code32(c, &p->ece_options[q]);
	}
}

void mpib_code_lane(struct mpib_codec *c, struct mpib_peer_msg *msg)
{
	struct mpib_lane_info *i = &msg->lane_info;

	mpib_code8(c, &i->imm_version);
	mpib_code8(c, &i->mode);
	mpib_code8(c, &i->path);
	mpib_code8(c, &i->failover);
	mpib_code8(c, &i->rails);
	if (mpib_code_bad(c, i->rails < 1 || i->rails > MPIB_RAILS ||
				     i->mode > MPIB_MODE_STATIC ||
				     i->path > MPIB_PATH_INTER ||
				     (i->imm_version != MPIB_IMM_V1 &&
				      i->imm_version != MPIB_IMM_V2)))
		i->rails = 0;
	for (unsigned r = 0; r < i->rails && !c->failed; r++)
		code_qps(c, &i->rail[r]);
	mpib_code8(c, &i->spread);
	mpib_code_bool(c, &i->delivered);
	mpib_code8(c, &i->away);
	mpib_code_bad(c, i->spread > MPIB_SPREAD_AUTO ||
				 i->away >= (1u << i->rails) - 1);
}

static void code_bitmap(struct mpib_codec *c, struct mpib_recv_bitmap *a)
{
	mpib_code32(c, &a->conn);
	mpib_code_bool(c, &a->sender);
	mpib_code64(c, &a->first);
	mpib_code16(c, &a->slots);
	if (mpib_code_bad(c, a->slots > MPIB_SLOTS ||
				     a->conn >= MPIB_WIRE_CONNS_MAX))
		return;
	/* As many bytes of it as the slots need. */
	mpib_code(c, a->seen, (a->slots * MPIB_RAILS + 7u) / 8);
}

void mpib_code_rail(struct mpib_codec *c, struct mpib_peer_msg *msg)
{
	struct mpib_rail_msg *m = &msg->rail;

	mpib_code8(c, &m->type);
	mpib_code8(c, &m->rail);
	mpib_code32(c, &m->epoch);
	switch ((enum mpib_rail_msg_type)m->type) {
	case MPIB_RAIL_FENCE:
		mpib_code8(c, &m->cause);
		break;
	case MPIB_RAIL_FENCED:
		mpib_code_bool(c, &m->more);
		mpib_code8(c, &m->bitmaps);
		if (mpib_code_bad(c, m->bitmaps > MPIB_RECV_BITMAPS))
			m->bitmaps = 0;
		for (unsigned i = 0; i < m->bitmaps; i++)
			code_bitmap(c, &m->bitmap[i]);
		break;
	case MPIB_RAIL_RECONNECT:
		code_qps(c, &m->info);
		break;
	case MPIB_RAIL_UP:
		break;
	case MPIB_RAIL_DRAIN:
		mpib_code_bool(c, &m->on);
		break;
	case MPIB_RAIL_LOOK:
		break;
	case MPIB_RAIL_LOOKED:
		mpib_code_bool(c, &m->moved);
		break;
	default:
		mpib_code_bad(c, true);
	}
	mpib_code_bad(c, m->rail >= MPIB_RAILS || m->cause >= MPIB_CAUSES);
}
