/* SPDX-License-Identifier: Apache-2.0 */
/* A child that does what it must not do with its parent's contexts. */
#include "vt.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "verbs/soft/soft.h"

#define SIZE (1u << 20)
#define DONE 7

struct pair {
	struct vt_mem a, b;
	struct ibv_qp *qa, *qb;
};

static void exchange(struct vt *t, struct pair *p, unsigned n)
{
	struct ibv_sge sge = vt_sge(&p->a, 0, SIZE);

	for (unsigned i = 0; i < n; i++) {
		vt_fill(p->a.p, SIZE, i);
		assert_int_equal(vt_recv(p->qb, i, NULL, 0), 0);
		assert_int_equal(vt_write_imm(p->qa, i, IBV_SEND_SIGNALED, i,
					      &sge, 1, vt_addr(&p->b),
					      p->b.mr->rkey),
				 0);
		vt_expect(t, &t->a.send, i, IBV_WC_SUCCESS);
		vt_expect(t, &t->b.recv, i, IBV_WC_SUCCESS);
		assert_memory_equal(p->a.p, p->b.p, SIZE);
	}
}

/* All of it comes back, and says that there is nothing. */
static int misuse(struct vt *t, struct pair *p, bool close)
{
	struct ibv_async_event ev;
	struct ibv_context *ctx;
	struct ibv_wc wc;
	struct ibv_mr *mr;
	int rc = 0;

	for (int i = 0; i < 20000; i++) {
		rc |= ibv_poll_cq(t->a.send.cq, 1, &wc);
		rc |= ibv_poll_cq(t->b.recv.cq, 1, &wc);
		ibv_req_notify_cq(t->b.recv.cq, 0);
	}
	rc |= vt_to(t, p->qa, IBV_QPS_ERR) != -EIO;
	rc |= t->v->reg_mr(t->a.pd, p->a.p, SIZE, 0, VT_ALL, &mr) != -EIO;
	rc |= t->v->get_async_event(t->b.ctx, &ev) != -EIO;
	vt_send_imm(p->qa, 1, 1, NULL, 0);
	if (!close)
		return rc ? 1 : DONE;
	rc |= t->v->destroy_qp(p->qa) | t->v->destroy_qp(p->qb);
	rc |= t->v->dereg_mr(p->a.mr) | t->v->dereg_mr(p->b.mr);
	mpib_soft_abandon(t->b.ctx);
	/* One of its own works. */
	rc |= mpib_soft_open_threaded(&t->spec_b, &ctx);
	rc |= t->v->close(ctx);
	return rc ? 2 : DONE;
}

static void a_child_does_its_parent_no_harm(struct vt *t)
{
	struct pair p = { .a = vt_mem(t, &t->a, SIZE, VT_ALL),
			  .b = vt_mem(t, &t->b, SIZE, VT_ALL) };

	vt_pair(t, &vt_usual, &p.qa, &p.qb);
	exchange(t, &p, 2);
	for (int i = 0; i < 6; i++) {
		int status = 0;
		pid_t pid = fork();

		assert_true(pid >= 0);
		if (!pid)
			_exit(misuse(t, &p, i & 1));
		while (!waitpid(pid, &status, WNOHANG))
			exchange(t, &p, 1);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), DONE);
		exchange(t, &p, 2);
		assert_true(vt_no_event(t, &t->a));
	}
	vt_destroy(t, p.qa, p.qb);
	vt_mem_free(t, &p.a);
	vt_mem_free(t, &p.b);
}

vt_test(without_threads)
{
	a_child_does_its_parent_no_harm(*state);
}

vt_test(with_a_thread_that_makes_the_progress)
{
	struct vt *t = *state;
	struct vt_end saved;

#ifdef __SANITIZE_THREAD__
	skip_as("ThreadSanitizer ends a child that begins a thread");
#endif
	vt_thread_b(t, &saved);
	a_child_does_its_parent_no_harm(t);
	vt_unthread_b(t, &saved);
}
