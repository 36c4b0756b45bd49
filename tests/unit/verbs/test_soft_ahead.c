/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose memory a turn reads into: that of the thread that makes it, be it the
 * turn of one context or of several.
 */
#include "vt.h"

#include "verbs/soft/ctx.h"
#include "verbs/soft/wire/conn.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define LEN (100u << 10)
#define MESSAGES 8u

/* Where the context of an end was last read into, and how often; of each by the
 * thread that turns it. */
static struct {
	struct ibv_context *ctx;
	const uint8_t *into;
	unsigned reads, elsewhere;
} end[2];

static _Atomic bool no_memory;

void __real_soft_stream_rx_done(struct soft_conn *conn, struct soft_op *op);
void __wrap_soft_stream_rx_done(struct soft_conn *conn, struct soft_op *op);
void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);

void __wrap_soft_stream_rx_done(struct soft_conn *conn, struct soft_op *op)
{
	for (unsigned i = 0; i < 2; i++) {
		if (&conn->ctx->vctx.context != end[i].ctx)
			continue;
		end[i].elsewhere += end[i].into && end[i].into != op->ahead;
		end[i].into = op->ahead;
		end[i].reads++;
	}
	__real_soft_stream_rx_done(conn, op);
}

void *__wrap_malloc(size_t n)
{
	if (atomic_load(&no_memory) && n >= (size_t)SOFT_OPS * SOFT_AHEAD)
		return NULL;
	return __real_malloc(n);
}

static void watch(struct vt *t)
{
	memset(end, 0, sizeof(end));
	end[0].ctx = t->a.ctx;
	end[1].ctx = t->b.ctx;
}

/* A connected pair, and memory at both ends. */
struct way {
	struct ibv_qp *qa, *qb;
	struct vt_mem from, to;
};

static struct way way(struct vt *t)
{
	struct way w = { 0 };
	struct ibv_sge none;

	w.from = vt_mem(t, &t->a, LEN, VT_LOCAL);
	w.to = vt_mem(t, &t->b, LEN, VT_ALL);
	vt_pair(t, &vt_usual, &w.qa, &w.qb);
	/* The hellos are over. */
	none = vt_sge(&w.from, 0, 0);
	assert_int_equal(vt_recv(w.qb, 0, NULL, 0), 0);
	assert_int_equal(vt_write_imm(w.qa, 0, IBV_SEND_SIGNALED, 0, &none, 0,
				      vt_addr(&w.to), w.to.mr->rkey),
			 0);
	vt_expect(t, &t->b.recv, 0, IBV_WC_SUCCESS);
	vt_expect(t, &t->a.send, 0, IBV_WC_SUCCESS);
	return w;
}

static void post(struct way *w, uint64_t id)
{
	struct ibv_sge sge = vt_sge(&w->from, 0, LEN);

	vt_fill(w->from.p, LEN, id);
	assert_int_equal(vt_recv(w->qb, id, NULL, 0), 0);
	assert_int_equal(vt_write_imm(w->qa, id, IBV_SEND_SIGNALED, 0, &sge, 1,
				      vt_addr(&w->to), w->to.mr->rkey),
			 0);
}

static void a_thread_reads_all_its_contexts_into_the_same_memory(void **state)
{
	struct vt *t = *state;
	struct way w = way(t);

	watch(t);
	for (unsigned i = 0; i < MESSAGES; i++) {
		post(&w, i);
		vt_expect(t, &t->b.recv, i, IBV_WC_SUCCESS);
		vt_expect(t, &t->a.send, i, IBV_WC_SUCCESS);
		assert_memory_equal(w.from.p, w.to.p, LEN);
	}
	for (unsigned i = 0; i < 2; i++) {
		assert_in_range(end[i].reads, 1, UINT32_MAX);
		assert_int_equal(end[i].elsewhere, 0);
	}
	assert_ptr_equal(end[0].into, end[1].into);
}

struct other {
	struct ibv_cq *cq;
	struct ibv_wc wc;
	_Atomic bool done;
	pthread_t thread;
};

/* Turn the context until something came. */
static void *receive(void *arg)
{
	struct other *o = arg;

	while (ibv_poll_cq(o->cq, 1, &o->wc) == 0)
		sched_yield();
	atomic_store(&o->done, true);
	return NULL;
}

/* Turn this thread's context until what it posted is done, and the other thread
 * has got it. What a reads is b's ack. */
static void finish(struct vt *t, const struct way *w, struct other *o)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(t->a.send.cq, 1, &wc) == 0)
		sched_yield();
	assert_int_equal(pthread_join(o->thread, NULL), 0);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(o->wc.status, IBV_WC_SUCCESS);
	assert_memory_equal(w->from.p, w->to.p, LEN);
}

static void two_threads_read_into_memory_of_their_own(void **state)
{
	struct vt *t = *state;
	struct way w = way(t);
	struct other o = { .cq = t->b.recv.cq };
	const uint8_t *mine;

	watch(t);
	post(&w, 7);
	assert_int_equal(pthread_create(&o.thread, NULL, receive, &o), 0);
	finish(t, &w, &o);
	mine = end[0].into;
	assert_non_null(mine);
	assert_non_null(end[1].into);
	assert_ptr_not_equal(mine, end[1].into);
	/* That thread is gone; this one goes on for it, with its own. */
	end[1].into = NULL;
	post(&w, 8);
	vt_expect(t, &t->b.recv, 8, IBV_WC_SUCCESS);
	vt_expect(t, &t->a.send, 8, IBV_WC_SUCCESS);
	assert_ptr_equal(end[1].into, mine);
}

static void without_memory_to_read_into_bytes_wait_in_the_socket(void **state)
{
	struct vt *t = *state;
	struct way w = way(t);
	struct other o = { .cq = t->b.recv.cq };
	struct ibv_wc wc;

	watch(t);
	atomic_store(&no_memory, true);
	post(&w, 9);
	assert_int_equal(pthread_create(&o.thread, NULL, receive, &o), 0);
	for (unsigned i = 0; i < 200; i++) {
		assert_int_equal(ibv_poll_cq(t->a.send.cq, 1, &wc), 0);
		sched_yield();
	}
	assert_false(atomic_load(&o.done));
	assert_int_equal(end[1].reads, 0);
	atomic_store(&no_memory, false);
	finish(t, &w, &o);
}

const struct CMUnitTest test_list[] = {
	vt_test(a_thread_reads_all_its_contexts_into_the_same_memory),
	vt_test(two_threads_read_into_memory_of_their_own),
	vt_test(without_memory_to_read_into_bytes_wait_in_the_socket),
	{ 0 },
};
