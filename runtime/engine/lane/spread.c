/* SPDX-License-Identifier: Apache-2.0 */
/* The virtual QPs of a lane: one per rail if the lane spreads. The control
 * thread creates them, and the shard thread uses them. */
#include "engine/lane/spread.h"

#include <errno.h>

#define CAP 32u /* maximum number of fragments in flight on a QP */
/* auto: the cheaper of split and spray must save more than 1/GAIN */
#define GAIN 8u
/* maximum number of sends in flight, and of waiting IMMs; the same at both
 * ends */
#define DEPTH 256u

/* Return the QP of a port. Ports of QPs that carry fragments come first, then
 * ports of QPs that carry IMMs. */
static struct mpib_lane_qp *port_qp(const struct mpib_lane_spread *x,
				    unsigned port)
{
	unsigned first = x->lane->numbered, n = x->lane->qps[x->rail] - first;

	return &x->lane->qp[x->rail][port < n ? first + port : port - n];
}

static bool spread_room(void *ctx, unsigned port)
{
	const struct mpib_lane_spread *x = ctx;
	const struct mpib_lane_qp *q = port_qp(x, port);

	/* The control thread owns the QPs of a rail that is not open. One QP
	 * gets at most about half of the pool's WRs that the other QPs leave
	 * free. */
	return (x->lane->open & mpib_rail_bit(x->rail)) &&
	       mpib_qp_fits(q, x->rail, 1) &&
	       mpib_qp_outstanding(q) < x->lane->shard->frags.left;
}

static void spread_post(void *ctx, unsigned port, struct mpib_wr *w,
			uint64_t wr_id)
{
	const struct mpib_lane_spread *x = ctx;

	w->wr.wr_id = mpib_wr_tag(MPIB_WR_SPREAD, mpib_wr_conn(wr_id), port);
	mpib_qp_add(port_qp(x, port), w);
}

static int spread_make(struct mpib_lane *lane, unsigned r)
{
	struct mpib_lane_spread *x = &lane->via[r];
	const struct mpib_vqp_ports ports = { spread_room, spread_post, x };
	const struct mpib_vqp_attr attr = {
		.mode = lane->numbered ? MPIB_VQP_DQPLB : MPIB_VQP_SPRAY,
		.n = lane->qps[r] - lane->numbered,
		.notifies = lane->numbered ? 1 : lane->qps[r],
		.ports = &ports,
		.cap = CAP,
		.frag = lane->frag,
		.depth = DEPTH,
		.number = r,
	};

	x->lane = lane;
	x->rail = (uint8_t)r;
	return mpib_vqp_create(lane->shard->vcq, &attr, &x->vqp);
}

enum mpib_spread mpib_engine_spread(const struct mpib_engine *engine)
{
	bool ar = engine->shard[0].ar_above != UINT32_MAX;
	enum mpib_spread spread = (enum mpib_spread)engine->cfg.spread;

	return ar && spread == MPIB_SPREAD_DQPLB ? MPIB_SPREAD_SPRAY : spread;
}

int mpib_spread_make(struct mpib_lane *lane)
{
	lane->numbered = lane->spread == MPIB_SPREAD_DQPLB;
	for (unsigned r = 0; r < lane->rails; r++) {
		int rc;

		mpib_choice_init(&lane->choice[r], GAIN);
		lane->round[r] = lane->qps[r];
		if (lane->spread == MPIB_SPREAD_SPLIT || lane->qps[r] < 2)
			continue;
		if (lane->numbered)
			lane->round[r] = 1;
		rc = spread_make(lane, r);
		if (rc < 0)
			return rc;
	}
	return 0;
}

void mpib_spread_free(struct mpib_lane *lane)
{
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		struct mpib_vqp *vqp = lane->via[r].vqp;

		if (!vqp)
			continue;
		mpib_vqp_reset(vqp);
		mpib_vqp_destroy(vqp);
		lane->via[r].vqp = NULL;
	}
}

void mpib_spread_reset(struct mpib_lane *lane, unsigned rail)
{
	if (!lane->via[rail].vqp)
		return;
	/* The QPs' chains of this turn may still contain WRs of the virtual
	 * QP. */
	for (unsigned i = 0; i < lane->qps[rail]; i++)
		mpib_qp_ring(&lane->qp[rail][i]);
	mpib_vqp_reset(lane->via[rail].vqp);
}

static bool spread_worth(struct mpib_lane *lane, unsigned r, uint32_t bytes)
{
	if (bytes <= lane->frag)
		return false;
	return lane->spread != MPIB_SPREAD_AUTO ||
	       mpib_choice_spread(&lane->choice[r], bytes);
}

uint8_t mpib_spread_rails(struct mpib_lane *lane, uint8_t before,
			  const uint32_t *bytes, uint8_t imm)
{
	uint8_t mask = 0;

	for (unsigned r = 0; r < lane->rails; r++) {
		if (!lane->via[r].vqp)
			continue;
		/* The IMM must come after earlier spread stripes of the slot,
		 * so only the virtual QP can order the IMM. */
		if (imm & before & mpib_rail_bit(r) ||
		    spread_worth(lane, r, bytes[r]))
			mask |= mpib_rail_bit(r);
	}
	return mask;
}

uint32_t mpib_spread_above(const struct mpib_lane *lane, unsigned rail)
{
	if (!lane->via[rail].vqp)
		return UINT32_MAX;
	if (lane->spread != MPIB_SPREAD_AUTO ||
	    lane->choice[rail].above < lane->frag)
		return lane->frag;
	return lane->choice[rail].above;
}

uint64_t mpib_spread_late(const struct mpib_lane *lane, unsigned rail)
{
	const struct mpib_vqp *vqp = lane->via[rail].vqp;

	return vqp ? mpib_vqp_late(vqp) : 0;
}

void mpib_spread_sent(struct mpib_lane_qp *q, uint64_t wr_id, bool ok)
{
	const struct mpib_lane_spread *x = &q->lane->via[q->rail];

	if (x->vqp && !q->lane->broken)
		mpib_vqp_port_sent(x->vqp, mpib_wr_op(wr_id), ok);
}

int mpib_spread_received(struct mpib_lane_qp *q, uint32_t imm, uint32_t bytes)
{
	struct mpib_lane *lane = q->lane;
	struct mpib_vqp *vqp = lane->via[q->rail].vqp;

	if (!vqp || lane->broken)
		return 0;
	if (q != &lane->qp[q->rail][0]) {
		return mpib_vqp_port_fragment(vqp, imm, bytes) < 0 ? -EPROTO
								   : 1;
	}
	/* The IMM of a replay (mask 0) does not wait for numbered fragments. */
	if (mpib_imm_mask(imm) == 0 || !mpib_spread_waits(bytes))
		return 0;
	return mpib_vqp_port_imm(vqp, imm, bytes) ? 1 : -EPROTO;
}

bool mpib_spread_next(struct mpib_lane_qp *q, uint32_t *imm, uint32_t *bytes)
{
	struct mpib_vqp *vqp = q->lane->via[q->rail].vqp;

	return vqp && !q->lane->broken && mpib_vqp_port_take(vqp, imm, bytes);
}

const char *mpib_spread_name(enum mpib_spread spread)
{
	static const char *const name[] = {
		[MPIB_SPREAD_SPLIT] = "split",
		[MPIB_SPREAD_SPRAY] = "spray",
		[MPIB_SPREAD_DQPLB] = "dqplb",
		[MPIB_SPREAD_AUTO] = "auto",
	};

	return spread <= MPIB_SPREAD_AUTO ? name[spread] : "?";
}
