/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion queues: a ring whose producer is the thread that holds ctx->lock
 * and whose consumer is the thread in poll_cq. In threaded mode poll_lock
 * allows one consumer at a time.
 */
#include "verbs/soft/cq.h"

#include <errno.h>
#include <stdlib.h>

#include "verbs/soft/ctx.h"
#include "verbs/soft/qp.h"
#include "verbs/soft/soft.h"
#include "verbs/soft/wire/rc.h"
#include "verbs/soft/wire/soft_wire.h"

/* Return whether c counts in ctx->sleepers while c is armed. Then the owner of
 * c is woken. In threaded mode c is not included, because the context's thread
 * adds itself to ctx->sleepers when it sleeps. */
static bool keeps_awake(struct ibv_cq *c)
{
	return c->channel && !to_ctx(c->context)->threaded;
}

static bool take_back(struct ibv_cq *c)
{
	if (!atomic_exchange(&to_cq(c)->armed, 0))
		return false;
	if (keeps_awake(c))
		atomic_fetch_sub(&to_ctx(c->context)->sleepers, 1);
	return true;
}

bool soft_disarm_cq(struct ibv_cq *c, bool spoke)
{
	struct soft_ctx *ctx = to_ctx(c->context);

	(void)spoke; /* `armed` is more exact */
	if (take_back(c))
		return false;
	/* cq_notify() has disarmed cq under ctx->lock, so the event is complete
	 * once this thread has the lock. */
	soft_lock(ctx);
	soft_unlock(ctx);
	return true;
}

/* Arm cq. The callers of this function and of cq_notify() hold ctx->lock. So if
 * a completion comes before the CQ is armed, the next poll finds the
 * completion. If a completion comes later, cq_notify() finds the CQ armed.
 * Without the lock both functions would need a full fence, and cq_notify()
 * would execute it at each completion. */
static void cq_arm(struct soft_ctx *ctx, struct soft_cq *cq, int want)
{
	/* Keep the value 1 if another thread has armed the CQ for any
	 * completion. */
	if (atomic_load(&cq->armed) != 1 &&
	    !atomic_exchange(&cq->armed, want) && keeps_awake(&cq->ibv))
		atomic_fetch_add(&ctx->sleepers, 1);
}

int soft_req_notify_cq(struct ibv_cq *c, int solicited_only)
{
	struct soft_ctx *ctx = to_ctx(c->context);
	struct soft_cq *cq = to_cq(c);
	int want = solicited_only ? 2 : 1;

	/* A CQ armed for any completion is also armed for solicited ones.
	 * Acquire pairs with the exchange in cq_arm(): entries made before the
	 * CQ was armed are visible to the caller's next poll. */
	if (atomic_load_explicit(&cq->armed, memory_order_acquire) == 1)
		return 0;
	if (ctx->threaded) {
		soft_data_lock(ctx);
		cq_arm(ctx, cq, want);
		soft_data_unlock(ctx);
		return 0;
	}
	soft_lock(ctx);
	cq_arm(ctx, cq, want);
	/* soft_unlock() kicks the sleepers. The caller counts as one: if it
	 * goes to sleep, WRs that were posted but not sent yet must wake it. */
	soft_unlock(ctx);
	return 0;
}

static void cq_overrun(struct soft_ctx *ctx, struct soft_cq *cq)
{
	if (cq->overrun)
		return;
	cq->overrun = true;
	soft_event(ctx, &cq->ev, IBV_EVENT_CQ_ERR);
}

/* The callers of this function and of cq_arm() hold ctx->lock, so the load may
 * be relaxed. */
static void cq_notify(struct soft_ctx *ctx, struct soft_cq *cq, bool solicited)
{
	int armed = atomic_load_explicit(&cq->armed, memory_order_relaxed);

	if (!armed || (armed == 2 && !solicited))
		return;
	if (!atomic_exchange(&cq->armed, 0) || !cq->ibv.channel)
		return;
	if (keeps_awake(&cq->ibv))
		atomic_fetch_sub(&ctx->sleepers, 1);
	soft_channel_push((struct soft_channel *)cq->ibv.channel, cq);
}

static struct soft_cqe *cqe_begin(struct soft_ctx *ctx, struct soft_cq *cq)
{
	uint32_t tail, head;

	tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
	/* Acquire pairs with the release in poll_ring(): the consumer has
	 * copied the entry before it is overwritten. */
	head = atomic_load_explicit(&cq->head, memory_order_acquire);
	if (cq->overrun || tail - head > cq->mask) {
		cq_overrun(ctx, cq);
		return NULL;
	}
	return &cq->ring[tail & cq->mask];
}

/* The CQ is full, so an entry of qp is lost and qp cannot continue. qp goes to
 * ERR in the next turn, not now, because the callers still use its queues. */
static void cqe_lost(struct soft_qp *qp)
{
	if (qp_state(qp) == IBV_QPS_ERR || qp->dying)
		return;
	soft_event(qp->ctx, &qp->ev, IBV_EVENT_QP_FATAL);
	qp->dying = true;
	/* A time of 1 ns is in the past, so the next turn ends qp, see
	 * soft_dial(). */
	qp->die_at = 1;
	soft_timer_update(qp);
}

static void cqe_end(struct soft_ctx *ctx, struct soft_cq *cq, bool solicited)
{
	uint32_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);

	/* Release pairs with the acquire in poll_ring(): a consumer that sees
	 * the new `tail` sees whole entries. */
	atomic_store_explicit(&cq->tail, tail + 1, memory_order_release);
	cq_notify(ctx, cq, solicited);
}

/* Fill the undefined fields of a completion with garbage, so that no caller
 * relies on these fields. On an error an HCA sets only four fields. */
static void cq_garbage(struct ibv_wc *wc)
{
	wc->opcode = (enum ibv_wc_opcode)0x5a;
	wc->byte_len = 0xdeadbeef;
	wc->imm_data = 0xa5a5a5a5;
	wc->src_qp = 0xbadbad;
	wc->wc_flags = IBV_WC_WITH_IMM | IBV_WC_GRH;
	wc->vendor_err = 0x100 + (uint32_t)wc->status;
}

static uint32_t life_of(struct soft_ctx *ctx, uint32_t idx)
{
	/* Relaxed: the polling thread changed `life` itself (soft_cq_forget()),
	 * or the program has synchronized this thread with the thread that
	 * changed `life`. */
	return atomic_load_explicit(&ctx->qps[idx].life, memory_order_relaxed);
}

void soft_cq_forget(struct soft_qp *qp)
{
	atomic_fetch_add_explicit(&qp->ctx->qps[qp->idx].life, 1,
				  memory_order_relaxed);
}

void soft_cq_send(struct soft_qp *qp, uint32_t idx, enum ibv_wc_status st)
{
	struct soft_swqe *w = soft_swqe(qp, idx);
	struct soft_cqe *e = cqe_begin(qp->ctx, qp->scq);

	if (!e) {
		cqe_lost(qp);
		return;
	}
	e->life = life_of(qp->ctx, qp->idx);
	e->of_sq = true;
	e->sq_done = idx + 1;
	e->wc = (struct ibv_wc){
		.wr_id = w->wr_id,
		.status = st,
		.opcode = (enum ibv_wc_opcode)w->wc_op,
		.byte_len = w->len,
		.qp_num = qp->ibv.qp_num,
	};
	if (st)
		cq_garbage(&e->wc);
	cqe_end(qp->ctx, qp->scq, st != IBV_WC_SUCCESS);
}

void soft_cq_recv(struct soft_qp *qp, enum ibv_wc_status st)
{
	const struct soft_hdr *h = &qp->rx;
	struct soft_cqe *e = cqe_begin(qp->ctx, qp->rcq);
	bool write = h->op == SOFT_OP_WRITE_IMM;

	if (!e) {
		cqe_lost(qp);
		return;
	}
	e->life = life_of(qp->ctx, qp->idx);
	e->of_sq = false;
	e->wc = (struct ibv_wc){
		.wr_id = qp->recv_wr_id,
		.status = st,
		.opcode = write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
		.byte_len = h->len,
		.qp_num = qp->ibv.qp_num,
	};
	if (write || h->op == SOFT_OP_SEND_IMM) {
		e->wc.imm_data = h->imm;
		e->wc.wc_flags = IBV_WC_WITH_IMM;
	}
	if (st)
		cq_garbage(&e->wc);
	cqe_end(qp->ctx, qp->rcq,
		st != IBV_WC_SUCCESS || h->flags & SOFT_F_SOLICITED);
}

/* Free the send queue of e's QP up to e, unless the QP was destroyed. */
static void cq_reclaim(struct soft_ctx *ctx, const struct soft_cqe *e)
{
	_Atomic uint64_t *done = &ctx->qps[e->wc.qp_num & 0xffff].sq_done;
	/* Relaxed: post_send runs on this thread. In threaded mode ctx->lock
	 * orders post_send after the turn that completed e. destroy_qp and
	 * reset replace the whole word, so that the compare-exchange fails. */
	uint64_t was = atomic_load_explicit(done, memory_order_relaxed);

	while (was >> 32 == e->wc.qp_num &&
	       (int32_t)(e->sq_done - (uint32_t)was) > 0) {
		uint64_t now = was >> 32 << 32 | e->sq_done;

		if (atomic_compare_exchange_weak_explicit(done, &was, now,
							  memory_order_relaxed,
							  memory_order_relaxed))
			break;
	}
}

static int poll_ring(struct soft_cq *cq, int n, struct ibv_wc *wc)
{
	struct soft_ctx *ctx = to_ctx(cq->ibv.context);
	uint32_t head, tail, from;
	int i = 0;

	head = atomic_load_explicit(&cq->head, memory_order_relaxed);
	/* Acquire pairs with the release in cqe_end(). */
	tail = atomic_load_explicit(&cq->tail, memory_order_acquire);
	from = head;
	for (; i < n && head != tail; head++) {
		struct soft_cqe *e = &cq->ring[head & cq->mask];

		if (e->life != life_of(ctx, e->wc.qp_num & (SOFT_NQP - 1)))
			continue;
		wc[i++] = e->wc;
		if (e->of_sq)
			cq_reclaim(ctx, e);
	}
	if (head != from)
		/* Release pairs with the acquire in cqe_begin(). */
		atomic_store_explicit(&cq->head, head, memory_order_release);
	return i;
}

static bool wants_turn(struct soft_cq *cq, int n)
{
	uint32_t head, tail;

	head = atomic_load_explicit(&cq->head, memory_order_relaxed);
	/* Relaxed: the result only decides whether to make a turn. */
	tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
	return tail - head < (uint32_t)n;
}

static int poll_threaded(struct soft_cq *cq, int n, struct ibv_wc *wc)
{
	int got;

	do {
		pthread_mutex_lock(&cq->poll_lock);
		got = poll_ring(cq, n, wc);
		pthread_mutex_unlock(&cq->poll_lock);
	} while (!got && n && soft_poll_turn(to_ctx(cq->ibv.context), cq));
	return got;
}

int soft_poll_cq(struct ibv_cq *c, int n, struct ibv_wc *wc)
{
	struct soft_ctx *ctx = to_ctx(c->context);

	if (n < 0)
		return -EINVAL;
	if (ctx->threaded)
		return poll_threaded(to_cq(c), n, wc);
	if (wants_turn(to_cq(c), n))
		soft_turn(ctx);
	return poll_ring(to_cq(c), n, wc);
}

/*
 * Creation and destruction of completion queues.
 */

static uint32_t round_up(uint32_t n)
{
	uint32_t size = 1;

	while (size < n)
		size *= 2;
	return size;
}

int soft_create_cq(struct ibv_context *c, int cqe, void *cq_context,
		   struct ibv_comp_channel *ch, struct ibv_cq **out)
{
	struct soft_ctx *ctx = to_ctx(c);
	struct soft_cq *cq;
	uint32_t size;

	if (soft_is_gone(ctx))
		return -EIO;
	if (cqe < 1 || cqe > ctx->limits.dev.max_cqe)
		return -EINVAL;
	if (ctx->ncqs >= (unsigned)ctx->limits.dev.max_cq)
		return -ENOMEM;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -ENOMEM;
	size = round_up((uint32_t)cqe);
	cq->ring = calloc(size, sizeof(*cq->ring));
	if (!cq->ring) {
		free(cq);
		return -ENOMEM;
	}
	cq->mask = size - 1;
	cq->ev.element = &cq->ibv;
	cq->ibv.context = c;
	cq->ibv.channel = ch;
	cq->ibv.cq_context = cq_context;
	cq->ibv.cqe = (int)size;
	pthread_mutex_init(&cq->poll_lock, NULL);
	pthread_mutex_init(&cq->ibv.mutex, NULL);
	pthread_cond_init(&cq->ibv.cond, NULL);

	soft_lock(ctx);
	ctx->ncqs++;
	if (ch)
		ch->refcnt++;
	soft_unlock(ctx);
	*out = &cq->ibv;
	return 0;
}

int soft_destroy_cq(struct ibv_cq *c)
{
	struct soft_ctx *ctx = to_ctx(c->context);
	struct soft_cq *cq = to_cq(c);

	soft_lock(ctx);
	if (cq->refs) {
		soft_unlock(ctx);
		return -EBUSY;
	}
	ctx->ncqs--;
	soft_unlock(ctx);
	soft_disarm_cq(c, false);

	if (c->channel)
		soft_channel_forget((struct soft_channel *)c->channel, cq);
	soft_events_drain(ctx, &cq->ev);
	if (c->channel) {
		soft_lock(ctx);
		c->channel->refcnt--;
		soft_unlock(ctx);
	}
	pthread_cond_destroy(&c->cond);
	pthread_mutex_destroy(&c->mutex);
	pthread_mutex_destroy(&cq->poll_lock);
	free(cq->ring);
	free(cq);
	return 0;
}
