/* SPDX-License-Identifier: Apache-2.0 */
/* Creation and destruction of virtual QPs, and checks of posted WRs. */
#include <endian.h>
#include <errno.h>
#include <mpib/vqp.h>
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

/* Return whether the receiver's window can hold all numbers in flight. DQPLB
 * numbers fragments and checks the span per fragment. SPLIT and SPRAY number
 * messages, of which at most `depth` are in flight. */
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
	/* The caller must give notify QPs if and only if the mode uses them. */
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
	/* QP numbers are unique only within a device, so the key is the device
	 * and the QP number. */
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

/* Check that the weights of the devices in use sum up to 1024. If there are no
 * weights, give all devices the same weight. */
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

/* Return whether the receiver puts sequence numbers in order. */
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
	/* Check the keys also for length 0: SPRAY's notice needs a remote
	 * key. */
	return (wr->devices & need) == need;
}

/* Return the size of the longest physical WR that is made from `wr`. */
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
	/* A WR that completes a receive must also complete at the sender. */
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
	/* A WRITE without IMM carries no number, so the receiver could not put
	 * the WRITE before the next message. */
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

/*
 * The physical WRs that each mode posts for a virtual WR.
 *
 * SPLIT: each device carries one part of the message, on one of its QPs, with
 * an IMM that contains the mask of all parts. Cuts are multiples of 128 bytes;
 * the last device with a weight carries the rest. A WRITE without IMM has no
 * number, and WRs of different QPs have no order. So the next message waits
 * until the WRITE is complete. Then the message posts an IMM on each device
 * that carried a part of the WRITE.
 *
 * SPRAY: fragments go over all QPs as WRITEs. WRs of different QPs have no
 * order, so notices are sent only after all fragments are complete. Each device
 * that carried a fragment or an earlier WRITE sends one notice. Only notices
 * are numbered. A notice gets its number when it is posted, in message order,
 * so that a failed message leaves no gap. A SEND, on QP 0, waits until all
 * earlier WRs are complete.
 *
 * DQPLB: fragments go over all QPs, each with an IMM that carries the number of
 * the fragment and marks the last fragment of a message. The receiver sorts the
 * numbers. So a fragment waits for earlier fragments only if its number would
 * be too far (MPIB_SEQ_SPAN) from the oldest incomplete number. If the virtual
 * QP has ports, the caller posts one IMM after each message, in message order.
 */

#define ALIGN 128u
#define ALL 1024u

/* Set part[] to the number of bytes for each device. Return the mask of the
 * devices that carry bytes. For an empty message, return the last device with a
 * weight. */
static unsigned split_cut(const struct mpib_vqp *v, uint64_t length,
			  uint64_t *part)
{
	unsigned used = 0, last = 0;
	uint64_t given = 0;

	for (unsigned d = 0; d < MPIB_VQP_DEVICES; d++) {
		part[d] = 0;
		if (!(v->devices & 1u << d) || !v->attr.weight[d])
			continue;
		last = d;
		part[d] = length / ALL * v->attr.weight[d] +
			  length % ALL * v->attr.weight[d] / ALL;
		part[d] &= ~(uint64_t)(ALIGN - 1);
		given += part[d];
	}
	part[last] += length - given;
	for (unsigned d = 0; d < MPIB_VQP_DEVICES; d++)
		used |= (unsigned)(part[d] > 0) << d;
	return used ? used : 1u << last;
}

uint64_t mpib_vqp_largest(const struct mpib_vqp *v, uint64_t length)
{
	uint64_t part[MPIB_VQP_DEVICES], most = 0;

	split_cut(v, length, part);
	for (unsigned d = 0; d < MPIB_VQP_DEVICES; d++)
		most = part[d] > most ? part[d] : most;
	return most;
}

bool mpib_vqp_split(struct mpib_vqp *v, uint64_t id)
{
	struct mpib_vwr *w = mpib_vqp_tx(v, id);
	uint64_t part[MPIB_VQP_DEVICES], off = 0;
	unsigned used = split_cut(v, w->wr.length, part);
	bool imm = w->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	struct mpib_phys *p[MPIB_VQP_DEVICES] = { 0 };

	if (imm && mpib_vqp_unsettled(v))
		return false;
	used |= imm ? v->untold : 0;
	/* Post all parts or none, because the offsets of unposted parts are not
	 * stored. */
	if (v->vcq->pool->left < MPIB_VQP_DEVICES)
		return false;
	for (unsigned d = 0; d < MPIB_VQP_DEVICES; d++) {
		if (!(used & 1u << d))
			continue;
		p[d] = mpib_vqp_pick_of(v, d);
		if (!p[d])
			return false;
	}
	if (imm) {
		w->seq = v->seq;
		v->seq = mpib_seq_next(v->seq);
		v->untold = 0;
	} else {
		v->unordered = id + 1;
		v->untold |= (uint8_t)used;
	}
	for (unsigned d = 0; d < MPIB_VQP_DEVICES; d++) {
		if (!(used & 1u << d))
			continue;
		mpib_vqp_fragment(p[d], id, off, (uint32_t)part[d],
				  MPIB_VQP_DATA, w->wr.opcode,
				  imm ? mpib_vqp_part_imm(w->seq, used, 1u << d)
				      : 0);
		off += part[d];
	}
	return true;
}

bool mpib_vqp_spray(struct mpib_vqp *v, uint64_t id)
{
	struct mpib_vwr *w = mpib_vqp_tx(v, id);
	bool imm = w->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;

	v->unordered = id + 1;
	while ((w->offset < w->wr.length || (w->wr.head.length && !w->used)) &&
	       w->status == IBV_WC_SUCCESS) {
		uint64_t rest = w->wr.length - w->offset;
		uint32_t len =
			rest < v->attr.frag ? (uint32_t)rest : v->attr.frag;
		struct mpib_phys *p = mpib_vqp_pick(v);

		if (!p ||
		    !mpib_vqp_fragment(p, id, w->offset, len, MPIB_VQP_DATA,
				       IBV_WR_RDMA_WRITE, 0))
			return false;
		w->offset += len;
		w->used |= (uint8_t)(1u << p->device);
		v->untold |= w->used;
	}
	if (imm && !w->wr.more && w->status == IBV_WC_SUCCESS) {
		/* If no device carried data, post on the first notify QP. */
		if (!v->untold)
			v->untold = (uint8_t)(1u << v->notifies[0].device);
		w->used = w->to_tell = v->untold;
		v->untold = 0;
	}
	return true;
}

void mpib_vqp_tell(struct mpib_vqp *v, uint64_t id)
{
	struct mpib_vwr *w = mpib_vqp_tx(v, id);

	if (v->attr.ports) {
		w->begun |= mpib_vqp_tell_own(v, id);
		return;
	}
	if (!w->begun) {
		w->begun = true;
		w->seq = v->seq;
		v->seq = mpib_seq_next(v->seq);
	}
	for (unsigned d = 0; d < MPIB_VQP_DEVICES; d++) {
		struct mpib_phys *p = v->notify[d];

		if (!(w->to_tell & 1u << d))
			continue;
		if (!mpib_vqp_room(p) ||
		    !mpib_vqp_fragment(
			    p, id, 0, 0, MPIB_VQP_TELL,
			    IBV_WR_RDMA_WRITE_WITH_IMM,
			    mpib_vqp_part_imm(w->seq, w->used, 1u << d)))
			return;
		w->to_tell &= (uint8_t) ~(1u << d);
	}
}

bool mpib_vqp_dqplb(struct mpib_vqp *v, uint64_t id)
{
	struct mpib_vwr *w = mpib_vqp_tx(v, id);

	while (!w->begun || w->offset < w->wr.length) {
		uint64_t rest = w->wr.length - w->offset;
		uint32_t len =
			rest < v->attr.frag ? (uint32_t)rest : v->attr.frag;
		bool last = rest == len && !w->wr.more;
		uint32_t imm = v->out.next | (last ? MPIB_VQP_NOTIFY : 0);
		struct mpib_phys *p;

		if (w->status != IBV_WC_SUCCESS)
			return true;
		p = mpib_seq_may_send(&v->out) ? mpib_vqp_pick(v) : NULL;
		if (!p ||
		    !mpib_vqp_fragment(p, id, w->offset, len, MPIB_VQP_DATA,
				       IBV_WR_RDMA_WRITE_WITH_IMM, imm))
			return false;
		v->out.next = mpib_seq_next(v->out.next);
		w->offset += len;
		w->begun = true;
		w->to_tell = last && v->attr.ports;
	}
	return !w->to_tell || mpib_vqp_tell_own(v, id);
}

/*
 * Virtual QPs with ports. The caller and the virtual QP post to the same
 * physical QPs, so the WRs of both share the send queue's room and complete in
 * the order of the posts. For each port, the virtual QP has a list of its own
 * WRs in flight. The caller reports when the oldest WR of this list has
 * completed.
 */

bool mpib_vqp_tell_own(struct mpib_vqp *v, uint64_t id)
{
	struct mpib_vwr *vw = mpib_vqp_tx(v, id);
	const struct mpib_vqp_control *c = &vw->wr.control;
	struct mpib_phys *p = &v->notifies[vw->wr.on];
	struct mpib_wr *w;

	if (!mpib_vqp_room(p))
		return false;
	w = mpib_wr_take(v->vcq->pool);
	if (!w)
		return false;
	w->owner = id;
	w->kind = MPIB_VQP_TELL;
	w->wr.num_sge = 0;
	mpib_vqp_add_sge(w, c->local, c->length, c->lkey);
	if (c->copied)
		w->wr.send_flags |= IBV_SEND_INLINE;
	w->wr.imm_data = htobe32(vw->wr.imm);
	w->wr.wr.rdma.remote_addr = c->remote;
	w->wr.wr.rdma.rkey = c->rkey;
	vw->to_tell = 0;
	vw->left++;
	mpib_vqp_enqueue(p, w);
	return true;
}

uint32_t mpib_vqp_send_room(const struct mpib_vqp *vqp)
{
	return vqp->attr.depth - (uint32_t)(vqp->tx_head - vqp->tx_tail);
}

uint32_t mpib_vqp_wrs(const struct mpib_vqp *vqp, uint64_t length)
{
	uint64_t n = (length + vqp->attr.frag - 1) / vqp->attr.frag;

	/* DQPLB also numbers an empty message, so an empty message needs one
	 * WR. */
	return n == 0 && vqp->attr.mode == MPIB_VQP_DQPLB ? 1 : (uint32_t)n;
}

static struct mpib_phys *phys_of(struct mpib_vqp *v, unsigned port)
{
	return port < v->attr.n ? &v->data[port]
				: &v->notifies[port - v->attr.n];
}

void mpib_vqp_port_sent(struct mpib_vqp *vqp, unsigned port, bool ok)
{
	struct mpib_phys *p = phys_of(vqp, port);
	struct mpib_vwr *vw;
	struct mpib_wr *w;

	if (STAILQ_EMPTY(&p->wrs)) {
		vqp->vcq->counts.unknown++;
		return;
	}
	w = mpib_vqp_pop(p);
	vw = mpib_vqp_tx(vqp, w->owner);
	if (ok)
		mpib_vqp_note_answer(vqp, w);
	mpib_wr_give(vqp->vcq->pool, w);
	if (ok && --vw->left == 0)
		mpib_vqp_make_ready(vqp);
}

int mpib_vqp_port_fragment(struct mpib_vqp *vqp, uint32_t imm, uint32_t bytes)
{
	int took = mpib_seq_arrived(vqp->in, imm & 0xffffff, 1, 1,
				    imm & MPIB_VQP_NOTIFY, bytes);
	bool last;

	vqp->vcq->counts.late += took == 0;
	while (mpib_seq_take(vqp->in, &last, &bytes))
		vqp->arrived += last;
	return took;
}

bool mpib_vqp_port_imm(struct mpib_vqp *vqp, uint32_t imm, uint32_t bytes)
{
	struct mpib_vrx *r;

	if (vqp->rx_head - vqp->rx_tail > vqp->mask)
		return false;
	r = mpib_vqp_rx(vqp, vqp->rx_head++);
	r->imm = imm;
	r->bytes = bytes;
	return true;
}

bool mpib_vqp_port_take(struct mpib_vqp *vqp, uint32_t *imm, uint32_t *bytes)
{
	const struct mpib_vrx *r = mpib_vqp_rx(vqp, vqp->rx_tail);

	if (vqp->rx_tail == vqp->rx_head || !vqp->arrived)
		return false;
	vqp->rx_tail++;
	vqp->arrived--;
	*imm = r->imm;
	*bytes = (uint32_t)r->bytes;
	return true;
}

uint64_t mpib_vqp_late(const struct mpib_vqp *vqp)
{
	return vqp->late + (vqp->in ? vqp->in->late : 0);
}

static void port_empty(struct mpib_phys *p, struct mpib_wr_pool *pool)
{
	while (!STAILQ_EMPTY(&p->wrs))
		mpib_wr_give(pool, mpib_vqp_pop(p));
}

void mpib_vqp_reset(struct mpib_vqp *vqp)
{
	for (unsigned i = 0; i < vqp->attr.n + vqp->attr.notifies; i++)
		port_empty(phys_of(vqp, i), vqp->vcq->pool);
	vqp->late = mpib_vqp_late(vqp);
	if (vqp->in)
		*vqp->in = (struct mpib_seq){ 0 };
	vqp->out = (struct mpib_seq_sent){ 0 };
	vqp->seq = 0;
	vqp->untold = 0;
	vqp->tx_tail = vqp->tx_next = vqp->tx_head;
	vqp->rx_tail = vqp->rx_head;
	vqp->arrived = 0;
	mpib_vqp_leave(vqp);
}
