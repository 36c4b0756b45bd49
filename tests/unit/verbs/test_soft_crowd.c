/* SPDX-License-Identifier: Apache-2.0 */
/* Several threads on one context: they post, and poll one queue. */
#include "vt.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#define POLLED 2000

struct poster {
	struct ibv_qp *qp;
	_Atomic int failed;
};

static void *post_many(void *arg)
{
	struct poster *p = arg;

	for (int i = 0; i < 2000; i++) {
		int rc;

		do {
			rc = vt_rdma(p->qp, IBV_WR_RDMA_WRITE, 1,
				     IBV_SEND_SIGNALED, NULL, 0, 0, 0);
		} while (rc == ENOMEM);
		if (rc)
			atomic_store(&p->failed, 1);
	}
	return NULL;
}

static void several_threads_post_while_another_polls(void **state)
{
	enum {
		N = 3
	};
	struct vt *t = *state;
	struct poster p[N] = { 0 };
	struct vt_end saved;
	struct ibv_qp *qa[N];
	pthread_t thread[N];
	int done = 0;
	int64_t until = vt_ms() + 60000;

	vt_thread_b(t, &saved);
	for (int i = 0; i < N; i++) {
		vt_pair(t, &vt_usual, &qa[i], &p[i].qp);
		assert_int_equal(
			pthread_create(&thread[i], NULL, post_many, &p[i]), 0);
	}
	while (done < N * 2000 && vt_ms() < until) {
		struct ibv_wc wc[8], none;
		int n = ibv_poll_cq(t->b.send.cq, 8, wc);

		assert_true(n >= 0);
		for (int i = 0; i < n; i++)
			assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
		done += n;
		ibv_poll_cq(t->a.recv.cq, 1, &none);
	}
	assert_int_equal(done, N * 2000);
	for (int i = 0; i < N; i++) {
		assert_int_equal(pthread_join(thread[i], NULL), 0);
		assert_int_equal(atomic_load(&p[i].failed), 0);
		vt_destroy(t, qa[i], p[i].qp);
	}
	vt_unthread_b(t, &saved);
}

struct polled {
	struct ibv_cq *cq;
	_Atomic int done;
	_Atomic int seen[POLLED];
};

static void *poll_many(void *arg)
{
	struct polled *p = arg;
	int64_t until = vt_ms() + 60000;

	while (atomic_load(&p->done) < POLLED && vt_ms() < until) {
		struct ibv_wc wc[4];
		int n = ibv_poll_cq(p->cq, 4, wc);

		for (int i = 0; i < n; i++)
			if (wc[i].status == IBV_WC_SUCCESS)
				atomic_fetch_add(&p->seen[wc[i].wr_id], 1);
		atomic_fetch_add(&p->done, n > 0 ? n : 0);
	}
	return NULL;
}

static void
several_threads_poll_one_queue_and_each_entry_comes_once(void **state)
{
	enum {
		N = 3
	};
	static struct polled p;
	struct vt *t = *state;
	struct vt_end saved;
	struct ibv_qp *qa, *qb;
	pthread_t thread[N];

	vt_thread_b(t, &saved);
	p = (struct polled){ .cq = t->b.send.cq };
	vt_pair(t, &vt_usual, &qa, &qb);
	for (int i = 0; i < N; i++)
		assert_int_equal(
			pthread_create(&thread[i], NULL, poll_many, &p), 0);
	for (uint64_t i = 0; i < POLLED; i++) {
		struct ibv_wc none;
		int rc;

		do {
			rc = vt_rdma(qb, IBV_WR_RDMA_WRITE, i,
				     IBV_SEND_SIGNALED, NULL, 0, 0, 0);
			ibv_poll_cq(t->a.recv.cq, 1, &none);
		} while (rc == ENOMEM);
		assert_int_equal(rc, 0);
	}
	while (atomic_load(&p.done) < POLLED) {
		struct ibv_wc none;

		ibv_poll_cq(t->a.recv.cq, 1, &none);
	}
	for (int i = 0; i < N; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	for (int i = 0; i < POLLED; i++)
		assert_int_equal(atomic_load(&p.seen[i]), 1);
	vt_destroy(t, qa, qb);
	vt_unthread_b(t, &saved);
}

const struct CMUnitTest test_list[] = {
	vt_test(several_threads_post_while_another_polls),
	vt_test(several_threads_poll_one_queue_and_each_entry_comes_once),
	{ 0 },
};
