/* SPDX-License-Identifier: Apache-2.0 */
/* Creation and destruction of virtual QPs; checks of what is posted. */
#include <mpib/vqp.h>

#include <errno.h>
#include <stdlib.h>

#include "vqp/internal.h"

#define DEPTH 256u
#define DEPTH_MAX 65536u

static uint32_t most_of(const struct mpib_vqp_attr *a)
{
	return a->message && a->message < MPIB_VQP_FRAG_MAX ? a->message
							    : MPIB_VQP_FRAG_MAX;
}

static bool frag_fits(const struct mpib_vqp_attr *a)
{
	return most_of(a) >= 128 && a->frag <= most_of(a) && a->frag % 128 == 0;
}

static uint32_t frag_of(const struct mpib_vqp_attr *a)
{
	uint32_t most = most_of(a) & ~127u;

	if (a->frag)
		return a->frag;
	return most < MPIB_VQP_FRAG ? most : MPIB_VQP_FRAG;
}

static bool fits_ports(const struct mpib_vqp_attr *a)
{
	return a->n >= 1 && a->n <= MPIB_VQP_QPS && a->notifies >= 1 &&
	       a->notifies <= MPIB_VQP_QPS && a->cap >= 1 &&
	       a->mode != MPIB_VQP_SPLIT && a->mode <= MPIB_VQP_DQPLB &&
	       a->depth <= DEPTH_MAX && !(a->depth & (a->depth - 1)) &&
	       frag_fits(a) && (uint64_t)a->cap * a->n <= MPIB_SEQ_INFLIGHT;
}

/* Whether no more numbers can be on their way than the receiver's window takes.
 * DQPLB numbers fragments and checks the span per fragment. SPLIT and SPRAY
 * number messages, of which at most depth are on their way. */
static bool fits_window(const struct mpib_vqp_attr *a)
{
	if ((uint64_t)a->cap * a->n > MPIB_SEQ_INFLIGHT)
		return false;
	return a->n == 1 || a->mode == MPIB_VQP_DQPLB ||
	       a->depth <= MPIB_SEQ_SPAN;
}

static bool qps_fit(const struct mpib_vcq *vcq, const struct mpib_vqp_qp *qp,
		    unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		const struct ibv_cq *cq;

		if (!qp || !qp[i].qp || qp[i].device >= vcq->n)
			return false;
		cq = vcq->cq[qp[i].device];
		if (qp[i].qp->send_cq != cq || qp[i].qp->recv_cq != cq)
			return false;
	}
	return true;
}

static bool vqp_fits(const struct mpib_vcq *vcq, const struct mpib_vqp_attr *a)
{
	bool multi = a->n > 1;

	if (a->ports)
		return fits_ports(a);
	if (vcq->n < 1 || a->n < 1 || a->n > MPIB_VQP_QPS || a->cap < 1 ||
	    a->mode > MPIB_VQP_DQPLB || a->depth > DEPTH_MAX ||
	    a->depth & (a->depth - 1) || !frag_fits(a))
		return false;
	/* Notify QPs are given if and only if the mode uses them. */
	if ((multi && a->mode == MPIB_VQP_SPRAY) != (a->notifies > 0) ||
	    a->notifies > MPIB_VQP_DEVICES)
		return false;
	return fits_window(a) && qps_fit(vcq, a->qp, a->n) &&
	       qps_fit(vcq, a->notify, a->notifies);
}

static int make_phys(struct mpib_vqp *v, struct mpib_phys *p,
		     const struct mpib_vqp_qp *qp, unsigned index)
{
	struct mpib_phys *there;

	p->vqp = v;
	p->qp = qp->qp;
	p->device = qp->device;
	p->index = (uint16_t)index;
	/* QP numbers are unique only within a device, so both are the key. */
	p->key.device = qp->device;
	p->key.qpn = qp->qp->qp_num;
	STAILQ_INIT(&p->wrs);
	HASH_FIND(hh, v->vcq->known, &p->key, sizeof(p->key), there);
	if (there)
		return -EEXIST;
	HASH_ADD(hh, v->vcq->known, key, sizeof(p->key), p);
	return 0;
}

static void vqp_forget(struct mpib_vqp *v, struct mpib_phys *p, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (p[i].vqp && p[i].qp && p[i].hh.tbl)
			HASH_DELETE(hh, v->vcq->known, &p[i]);
	}
}

static void free_vqp(struct mpib_vqp *v)
{
	if (v->data)
		vqp_forget(v, v->data, v->attr.n);
	if (v->notifies)
		vqp_forget(v, v->notifies, v->attr.notifies);
	free(v->data);
	free(v->notifies);
	free(v->tx);
	free(v->rx);
	free(v->early);
	free(v->in);
	free(v);
}

static void make_port(struct mpib_vqp *v, struct mpib_phys *p, unsigned port)
{
	p->vqp = v;
	p->index = (uint16_t)port;
	STAILQ_INIT(&p->wrs);
}

static void make_ports(struct mpib_vqp *v)
{
	v->ports = *v->attr.ports;
	v->devices = 1;
	for (unsigned i = 0; i < v->attr.n; i++)
		make_port(v, &v->data[i], i);
	for (unsigned i = 0; i < v->attr.notifies; i++)
		make_port(v, &v->notifies[i], v->attr.n + i);
}

static int register_all(struct mpib_vqp *v, const struct mpib_vqp_attr *a)
{
	int rc = 0;

	if (a->ports) {
		make_ports(v);
		return 0;
	}
	for (unsigned i = 0; rc == 0 && i < a->n; i++) {
		rc = make_phys(v, &v->data[i], &a->qp[i], i);
		v->devices |= 1u << a->qp[i].device;
	}
	for (unsigned i = 0; rc == 0 && i < a->notifies; i++) {
		rc = make_phys(v, &v->notifies[i], &a->notify[i], a->n + i);
		v->notify[a->notify[i].device] = &v->notifies[i];
	}
	/* SPRAY: each device that carries data needs a notify QP. */
	for (unsigned d = 0; rc == 0 && d < MPIB_VQP_DEVICES; d++) {
		if (a->notifies && v->devices & 1u << d && !v->notify[d])
			rc = -EINVAL;
	}
	return rc;
}

/* Check that the weights sum to 1024 over the devices in use; without weights
 * all devices get the same. */
static int set_weights(struct mpib_vqp *v)
{
	uint32_t *w = v->attr.weight;
	uint64_t sum = 0;
	unsigned n = 0;

	for (unsigned d = 0; d < MPIB_VQP_DEVICES; d++) {
		bool there = v->devices & 1u << d;

		if (w[d] && !there)
			return -EINVAL;
		sum += w[d];
		n += there;
	}
	for (unsigned d = 0; sum == 0 && d < MPIB_VQP_DEVICES; d++)
		w[d] = v->devices & 1u << d ? 1024 / n : 0;
	return sum == 0 || sum == 1024 ? 0 : -EINVAL;
}

/* Whether the receiver puts sequence numbers in order. */
static bool vqp_counts(const struct mpib_vqp_attr *a)
{
	return a->ports ? a->mode == MPIB_VQP_DQPLB : a->n > 1;
}

int mpib_vqp_create(struct mpib_vcq *vcq, const struct mpib_vqp_attr *attr,
		    struct mpib_vqp **vqp)
{
	struct mpib_vqp *v;
	int rc = -ENOMEM;

	if (!vqp_fits(vcq, attr))
		return -EINVAL;
	v = calloc(1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	v->vcq = vcq;
	v->attr = *attr;
	v->attr.message = most_of(attr);
	v->attr.frag = frag_of(attr);
	v->attr.depth = attr->depth ? attr->depth : DEPTH;
	v->mask = v->attr.depth - 1;
	v->multi = attr->n > 1 || attr->ports;
	v->alive = attr->n;
	STAILQ_INIT(&v->lost);
	v->data = calloc(attr->n, sizeof(*v->data));
	v->notifies = calloc(attr->notifies + 1, sizeof(*v->notifies));
	v->tx = calloc(v->attr.depth, sizeof(*v->tx));
	v->rx = calloc(v->attr.depth, sizeof(*v->rx));
	v->early_mask = v->mask;
	while (v->early_mask <
	       v->attr.depth + MPIB_SEQ_WINDOW + (uint64_t)attr->cap * attr->n)
		v->early_mask = 2 * v->early_mask + 1;
	if (!attr->ports)
		v->early = calloc((size_t)v->early_mask + 1, sizeof(*v->early));
	if (vqp_counts(attr))
		v->in = calloc(1, sizeof(*v->in));
	if (!v->data || !v->notifies || !v->tx || !v->rx ||
	    (!attr->ports && !v->early) || (vqp_counts(attr) && !v->in))
		goto err_free;
	rc = register_all(v, attr);
	if (rc == 0)
		rc = set_weights(v);
	if (rc < 0)
		goto err_free;
	*vqp = v;
	return 0;

err_free:
	free_vqp(v);
	return rc;
}

static bool vqp_quiet(const struct mpib_phys *p, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (p[i].inflight || p[i].recvs)
			return false;
	}
	return true;
}

int mpib_vqp_destroy(struct mpib_vqp *vqp)
{
	struct mpib_wr *w;

	if (!vqp_quiet(vqp->data, vqp->attr.n) ||
	    !vqp_quiet(vqp->notifies, vqp->attr.notifies))
		return -EBUSY;
	while ((w = STAILQ_FIRST(&vqp->lost))) {
		STAILQ_REMOVE_HEAD(&vqp->lost, link);
		mpib_wr_give(vqp->vcq->pool, w);
	}
	mpib_vqp_leave(vqp);
	free_vqp(vqp);
	return 0;
}

static bool keys_given(const struct mpib_vqp *v, const struct mpib_vsend *wr)
{
	unsigned need = v->devices;

	if (!v->multi || wr->opcode == IBV_WR_SEND)
		need = 1u << v->data[0].device;
	/* Also for length 0: SPRAY's notice still names a remote key. */
	return (wr->devices & need) == need;
}

/* Bytes of the longest physical WR that wr becomes. */
static uint64_t longest_wr(const struct mpib_vqp *v,
			   const struct mpib_vsend *wr, bool pass)
{
	bool cut = !pass && wr->length > v->attr.frag;

	if (!pass && v->attr.mode == MPIB_VQP_SPLIT)
		return mpib_vqp_largest(v, wr->length);
	return wr->head.length + (cut ? v->attr.frag : wr->length);
}

static int check_send(const struct mpib_vqp *v, const struct mpib_vsend *wr)
{
	bool imm = wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	bool pass = !v->multi || wr->opcode == IBV_WR_SEND;

	if (wr->opcode != IBV_WR_RDMA_WRITE && !imm &&
	    wr->opcode != IBV_WR_SEND)
		return -EINVAL;
	if (wr->flags & ~(unsigned)IBV_SEND_SIGNALED)
		return -EINVAL;
	/* A WR that completes a receive must complete at the sender, too. */
	if (imm && !wr->more && !(wr->flags & IBV_SEND_SIGNALED))
		return -EINVAL;
	if (wr->head.length && v->attr.mode == MPIB_VQP_SPLIT && !pass)
		return -EINVAL;
	if (wr->opcode == IBV_WR_SEND && !mpib_vqp_passes(v))
		return -EINVAL;
	if (v->attr.ports && wr->on >= v->attr.notifies)
		return -EINVAL;
	if (!v->attr.ports && (wr->more || wr->on || wr->control.length))
		return -EINVAL;
	/* A plain WRITE carries no number, so the receiver could not put it
	 * and the next message in order. */
	if (v->multi && v->attr.mode == MPIB_VQP_DQPLB &&
	    wr->opcode == IBV_WR_RDMA_WRITE)
		return -EINVAL;
	if (!keys_given(v, wr))
		return -EINVAL;
	return longest_wr(v, wr, pass) > v->attr.message ? -EMSGSIZE : 0;
}

int mpib_vqp_post_send(struct mpib_vqp *vqp, const struct mpib_vsend *wr)
{
	int rc = check_send(vqp, wr);

	if (rc < 0)
		return rc;
	if (!mpib_vqp_healthy(vqp))
		return -ENETDOWN;
	if (vqp->tx_head - vqp->tx_tail > vqp->mask)
		return -EAGAIN;
	*mpib_vqp_tx(vqp, vqp->tx_head++) = (struct mpib_vwr){ .wr = *wr };
	mpib_vqp_make_busy(vqp);
	mpib_vqp_advance(vqp);
	mpib_vqp_flush(vqp->vcq);
	return 0;
}
