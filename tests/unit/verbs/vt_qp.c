/* SPDX-License-Identifier: Apache-2.0 */
/* Create QPs, and move them from RESET to RTS. */
#include "vt.h"

const struct vt_opt vt_usual = {
	.send_wr = 64,
	.recv_wr = 64,
	.sge = 4,
	.inline_data = 64,
	.access = VT_ALL,
	/* a second, because rxe has a bug when it repeats writes */
	.timeout = 18,
	.retry_cnt = 7,
	.rnr_retry = 7,
	.min_rnr_timer = 1,
	.rd_atomic = 4,
};

struct vt_opt vt_quick(void)
{
	struct vt_opt o = vt_usual;

	o.timeout = 8;
	o.retry_cnt = 1;
	return o;
}

struct ibv_qp *vt_qp(struct vt *t, struct vt_end *e, const struct vt_opt *o)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = e->send.cq,
		.recv_cq = e->recv.cq,
		.srq = o->srq && o->srq->context == e->ctx ? o->srq : NULL,
		.cap = { .max_send_wr = o->send_wr,
			 .max_recv_wr = o->recv_wr,
			 .max_send_sge = o->sge,
			 .max_recv_sge = o->sge,
			 .max_inline_data = o->inline_data },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = o->sig_all,
	};
	struct ibv_qp *qp;

	assert_int_equal(t->v->create_qp(e->pd, &attr, &qp), 0);
	t->qp = realloc(t->qp, (t->qps + 1) * sizeof(struct ibv_qp *));
	t->qp[t->qps++] = qp;
	return qp;
}

struct vt_end *vt_end_of(struct vt *t, struct ibv_qp *qp)
{
	return qp->pd == t->a.pd ? &t->a : &t->b;
}

int vt_to_init(struct vt *t, struct ibv_qp *qp, unsigned access)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = vt_end_of(t, qp) == &t->a ? t->spec_a.port
						      : t->spec_b.port,
		.qp_access_flags = access,
	};

	return t->v->modify_qp(qp, &attr,
			       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				       IBV_QP_ACCESS_FLAGS);
}

int vt_to_rtr(struct vt *t, struct ibv_qp *qp, const struct vt_end *peer,
	      uint32_t dest, uint32_t rq_psn, const struct vt_opt *o)
{
	struct vt_end *own = vt_end_of(t, qp);
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = own->info.mtu < peer->info.mtu ? own->info.mtu
							   : peer->info.mtu,
		.dest_qp_num = dest,
		.rq_psn = rq_psn,
		.max_dest_rd_atomic = o->rd_atomic,
		.min_rnr_timer = o->min_rnr_timer,
		.ah_attr = { .port_num = own == &t->a ? t->spec_a.port
						      : t->spec_b.port,
			     .dlid = peer->info.lid },
	};

	if (own->info.link_layer == IBV_LINK_LAYER_ETHERNET) {
		attr.ah_attr.is_global = 1;
		attr.ah_attr.grh.dgid = peer->info.gid;
		attr.ah_attr.grh.sgid_index = own->info.gid_index;
		attr.ah_attr.grh.hop_limit = 64;
	}
	return t->v->modify_qp(qp, &attr,
			       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				       IBV_QP_MAX_DEST_RD_ATOMIC |
				       IBV_QP_MIN_RNR_TIMER);
}

int vt_to_rts(struct vt *t, struct ibv_qp *qp, uint32_t sq_psn,
	      const struct vt_opt *o)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = sq_psn,
		.timeout = o->timeout,
		.retry_cnt = o->retry_cnt,
		.rnr_retry = o->rnr_retry,
		.max_rd_atomic = o->rd_atomic,
	};

	return t->v->modify_qp(qp, &attr,
			       IBV_QP_STATE | IBV_QP_TIMEOUT |
				       IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

int vt_to(struct vt *t, struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	return t->v->modify_qp(qp, &attr, IBV_QP_STATE);
}

enum ibv_qp_state vt_state(struct vt *t, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	assert_int_equal(t->v->query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

void vt_connect(struct vt *t, struct ibv_qp *qa, struct ibv_qp *qb,
		const struct vt_opt *o)
{
	struct vt_end *ea = vt_end_of(t, qa), *eb = vt_end_of(t, qb);
	uint32_t psn_a = qa->qp_num * 7 & 0xffffff;
	uint32_t psn_b = qb->qp_num * 5 & 0xffffff;

	assert_int_equal(vt_to_init(t, qa, o->access), 0);
	assert_int_equal(vt_to_init(t, qb, o->access), 0);
	assert_int_equal(vt_to_rtr(t, qa, eb, qb->qp_num, psn_b, o), 0);
	assert_int_equal(vt_to_rtr(t, qb, ea, qa->qp_num, psn_a, o), 0);
	assert_int_equal(vt_to_rts(t, qa, psn_a, o), 0);
	assert_int_equal(vt_to_rts(t, qb, psn_b, o), 0);
}

void vt_pair(struct vt *t, const struct vt_opt *o, struct ibv_qp **qa,
	     struct ibv_qp **qb)
{
	*qa = vt_qp(t, &t->a, o);
	*qb = vt_qp(t, &t->b, o);
	vt_connect(t, *qa, *qb, o);
}

void vt_forget(struct vt *t, const struct ibv_qp *qp)
{
	for (unsigned i = 0; i < t->qps; i++) {
		if (t->qp[i] == qp)
			t->qp[i] = t->qp[--t->qps];
	}
}

static void destroy_one(struct vt *t, struct ibv_qp *qp)
{
	vt_forget(t, qp);
	assert_int_equal(t->v->destroy_qp(qp), 0);
}

void vt_destroy(struct vt *t, struct ibv_qp *qa, struct ibv_qp *qb)
{
	if (qa)
		destroy_one(t, qa);
	if (qb)
		destroy_one(t, qb);
}

struct ibv_srq *vt_srq(struct vt *t, struct vt_end *e, uint32_t wr)
{
	struct ibv_srq_init_attr attr = {
		.attr = { .max_wr = wr, .max_sge = 2 },
	};
	struct ibv_srq *srq;

	assert_int_equal(t->v->create_srq(e->pd, &attr, &srq), 0);
	assert_null(t->srq);
	t->srq = srq;
	return srq;
}
