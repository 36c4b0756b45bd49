/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads: a context that makes its own turns, control verbs that are called
 * while the context's owner runs, and a context that gets another owner.
 */
#include "vt.h"

#include "verbs/soft/soft.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

static struct ibv_wc wait_a(struct vt *t)
{
	int64_t until = vt_ms() + 60000;
	struct ibv_wc wc;

	/* Only end `a` makes turns here. */
	while (ibv_poll_cq(t->a.send.cq, 1, &wc) == 0)
		assert_true(vt_ms() < until);
	return wc;
}

vt_threaded_test(a_passive_target_needs_no_polling_thread)
{
	enum {
		SIZE = 300000
	};
	struct vt_mem src = vt_mem(t, &t->a, 2 * SIZE, VT_LOCAL);
	struct vt_mem dst = vt_mem(t, &t->b, SIZE, VT_ALL);
	struct ibv_sge out = vt_sge(&src, 0, SIZE);
	struct ibv_sge in = vt_sge(&src, SIZE, SIZE);
	struct ibv_qp *qa, *qb;

	vt_fill(src.p, SIZE, 15);
	vt_pair(t, &vt_usual, &qa, &qb);
	for (int i = 0; i < 20; i++) {
		vt_write(qa, 1, &out, &dst);
		vt_read(qa, 2, &in, &dst);
		assert_int_equal(wait_a(t).status, IBV_WC_SUCCESS);
		assert_int_equal(wait_a(t).status, IBV_WC_SUCCESS);
		assert_memory_equal(src.p, src.p + SIZE, SIZE);
	}
}

vt_threaded_test(a_blocking_channel_wakes_in_threaded_mode)
{
	struct ibv_comp_channel *ch;
	struct ibv_cq *plain, *cq, *which;
	struct ibv_qp *qa, *qb;
	struct ibv_wc wc;
	void *ctx;

	assert_int_equal(t->v->create_comp_channel(t->b.ctx, &ch), 0);
	assert_int_equal(t->v->create_cq(t->b.ctx, 16, NULL, ch, &cq), 0);
	plain = t->b.recv.cq;
	t->b.recv.cq = cq;
	vt_pair(t, &vt_usual, &qa, &qb);
	for (int i = 0; i < 50; i++) {
		assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
		assert_int_equal(vt_recv(qb, 1, NULL, 0), 0);
		assert_int_equal(vt_send_imm(qa, 2, 0, NULL, 0), 0);
		assert_int_equal(wait_a(t).status, IBV_WC_SUCCESS);
		assert_int_equal(t->v->get_cq_event(ch, &which, &ctx), 0);
		assert_ptr_equal(which, cq);
		t->v->ack_cq_events(cq, 1);
		assert_int_equal(ibv_poll_cq(cq, 1, &wc), 1);
	}
	vt_destroy(t, qa, qb);
	t->b.recv.cq = plain;
	assert_int_equal(t->v->destroy_cq(cq), 0);
	assert_int_equal(t->v->destroy_comp_channel(ch), 0);
}

/* A thread of the library must not take signals that the program waits for. */
vt_threaded_test(signals_go_to_the_programs_threads)
{
	const struct timespec patience = { .tv_sec = 10 };
	sigset_t mine, before;
	struct ibv_qp *qa, *qb;

	/* An answer shows that the context's thread runs. */
	vt_pair(t, &vt_usual, &qa, &qb);
	vt_nothing(qa, 1);
	assert_int_equal(wait_a(t).status, IBV_WC_SUCCESS);
	sigemptyset(&mine);
	sigaddset(&mine, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &mine, &before);
	assert_int_equal(kill(getpid(), SIGUSR1), 0);
	assert_int_equal(sigtimedwait(&mine, NULL, &patience), SIGUSR1);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ib_write_lat relies on the fact that the last byte becomes visible last. So
 * does the engine when it reads a CTS. */
vt_threaded_test(the_last_byte_of_a_write_becomes_visible_last)
{
	enum {
		ROUNDS = 300
	};
	static const uint32_t sizes[] = { 8, 64, 104, 4000, 4104, 100000 };
	struct vt_mem src = vt_mem(t, &t->a, 100000, VT_LOCAL);
	struct vt_mem dst = vt_mem(t, &t->b, 100000, VT_ALL);
	struct ibv_qp *qa, *qb;

	vt_pair(t, &vt_usual, &qa, &qb);
	for (unsigned i = 0; i < ROUNDS; i++) {
		uint32_t len = sizes[i % 6];
		struct ibv_sge sge = vt_sge(&src, 0, len);
		uint64_t *last = (uint64_t *)(void *)(dst.p + len - 8), want;
		int64_t until = vt_ms() + 60000;
		struct mpib_port_info info;
		struct ibv_wc wc;
		int n = 0;

		memset(dst.p, 0, len);
		/* Query the port only because the query takes the lock of `b`.
		 * ThreadSanitizer needs this lock: it does not see that
		 * messages order the actions of the two threads. */
		assert_int_equal(t->v->query_port(t->b.ctx, 1, &info), 0);
		vt_fill(src.p, len, i + 1);
		memcpy(&want, src.p + len - 8, 8);
		vt_write(qa, 1, &sge, &dst);
		while (__atomic_load_n(last, __ATOMIC_ACQUIRE) != want) {
			n += ibv_poll_cq(t->a.send.cq, 1, &wc);
			assert_true(vt_ms() < until);
		}
		assert_memory_equal(src.p, dst.p, len);
		if (!n)
			wc = wait_a(t);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	}
}

vt_threaded_test(a_context_can_be_closed_with_its_objects)
{
	/* Keep pointers to the abandoned objects, so that the leak checker
	 * finds no leak. */
	static struct vt_end left;
	static struct ibv_qp *left_qp;
	struct vt_opt o = vt_usual;
	struct ibv_qp *qa;

	/* The timeout is a second. The thread of `b` must run within that time,
	 * to connect the pair. */
	o.timeout = 18;
	o.retry_cnt = 0;
	vt_pair(t, &o, &qa, &left_qp);
	assert_int_equal(vt_recv(left_qp, 1, NULL, 0), 0);
	assert_int_equal(vt_send_imm(qa, 2, 0, NULL, 0), 0);
	assert_int_equal(wait_a(t).status, IBV_WC_SUCCESS);
	assert_int_equal(t->v->close(t->b.ctx), -EBUSY);
	mpib_soft_abandon(t->b.ctx);
	vt_forget(t, left_qp);
	left = t->b;
	t->b = t->plain_b;
	t->plain_b.ctx = NULL;
	assert_ptr_equal(left.pd->context, left.ctx);
	assert_int_equal(vt_send_imm(qa, 3, 0, NULL, 0), 0);
	assert_int_equal(wait_a(t).status, IBV_WC_RETRY_EXC_ERR);
}

struct control {
	struct vt *t;
	_Atomic int stop;
	_Atomic int failed;
	_Atomic unsigned rounds;
};

static int control_round(struct vt *t, struct ibv_cq *cq, char *buf)
{
	struct ibv_qp_init_attr init = { .send_cq = cq,
					 .recv_cq = cq,
					 .cap = { .max_send_wr = 4,
						  .max_recv_wr = 4 },
					 .qp_type = IBV_QPT_RC };
	struct ibv_srq_init_attr sattr = { .attr = { .max_wr = 8 } };
	struct ibv_qp_attr attr;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	int rc;

	rc = t->v->reg_mr(t->b.pd, buf, 64, (uintptr_t)buf, VT_ALL, &mr);
	rc = rc ?: t->v->create_srq(t->b.pd, &sattr, &srq);
	rc = rc ?: t->v->create_qp(t->b.pd, &init, &qp);
	rc = rc ?: vt_to_init(t, qp, VT_ALL);
	rc = rc ?: vt_to(t, qp, IBV_QPS_ERR);
	rc = rc ?: t->v->query_qp(qp, &attr, IBV_QP_STATE, &init);
	rc = rc ?: t->v->destroy_qp(qp);
	rc = rc ?: t->v->destroy_srq(srq);
	return rc ?: t->v->dereg_mr(mr);
}

static void *control_loop(void *arg)
{
	struct control *c = arg;
	static char buf[64];
	struct ibv_cq *cq;

	if (c->t->v->create_cq(c->t->b.ctx, 16, NULL, NULL, &cq))
		atomic_store(&c->failed, 1);
	while (!atomic_load(&c->stop) && !atomic_load(&c->failed)) {
		if (control_round(c->t, cq, buf))
			atomic_store(&c->failed, 1);
		atomic_fetch_add(&c->rounds, 1);
	}
	if (c->t->v->destroy_cq(cq))
		atomic_store(&c->failed, 1);
	return NULL;
}

vt_pair_test(control_verbs_do_not_disturb_a_running_owner)
{
	struct control c = { .t = t };
	struct vt_mem src = vt_mem(t, &t->a, 65536, VT_LOCAL);
	struct vt_mem dst = vt_mem(t, &t->b, 65536, VT_ALL);
	struct ibv_sge sge = vt_sge(&src, 0, 65536);
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, control_loop, &c), 0);
	for (unsigned i = 0; i < 500 || atomic_load(&c.rounds) < 20; i++) {
		assert_int_equal(atomic_load(&c.failed), 0);
		vt_fill(src.p, 64, i);
		assert_int_equal(vt_recv(qb, 1, NULL, 0), 0);
		assert_int_equal(vt_write_imm(qa, 2, IBV_SEND_SIGNALED, 0, &sge,
					      1, vt_addr(&dst), dst.mr->rkey),
				 0);
		vt_expect(t, &t->b.recv, 1, IBV_WC_SUCCESS);
		assert_memory_equal(src.p, dst.p, 64);
		vt_expect(t, &t->a.send, 2, IBV_WC_SUCCESS);
	}
	atomic_store(&c.stop, 1);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(atomic_load(&c.failed), 0);
}

/* Messages that are sent by one thread after the other. */
struct move {
	struct vt *t;
	struct ibv_qp *qa, *qb;
	int done;
};

static void *exchange(void *arg)
{
	struct move *m = arg;
	int64_t until = vt_ms() + 60000;
	struct ibv_wc wc;
	bool sent = false, received = false;

	if (vt_recv(m->qb, 1, NULL, 0) || vt_send_imm(m->qa, 2, 0, NULL, 0))
		return NULL;
	while ((!sent || !received) && vt_ms() < until) {
		received |= vt_try(m->t, &m->t->b.recv, &wc);
		sent |= vt_try(m->t, &m->t->a.send, &wc);
	}
	m->done += sent && received;
	return NULL;
}

vt_test(progress_may_move_to_another_thread)
{
	struct move m = { .t = t };
	pthread_t thread;

	vt_pair(t, &vt_usual, &m.qa, &m.qb);
	for (int i = 0; i < 4; i++) {
		exchange(&m);
		assert_int_equal(pthread_create(&thread, NULL, exchange, &m),
				 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
	}
	assert_int_equal(m.done, 8);
}
