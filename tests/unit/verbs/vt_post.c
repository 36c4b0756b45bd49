/* SPDX-License-Identifier: Apache-2.0 */
/* Post requests and wait for their completions. */
#include <arpa/inet.h>

#include "vt.h"

#define WAIT_MS 60000

struct ibv_sge vt_sge(const struct vt_mem *m, size_t off, size_t len)
{
	return (struct ibv_sge){
		.addr = vt_addr(m) + off,
		.length = (uint32_t)len,
		.lkey = m->mr->lkey,
	};
}

int vt_rdma(struct ibv_qp *qp, enum ibv_wr_opcode op, uint64_t id,
	    unsigned flags, struct ibv_sge *sge, int nsge, uint64_t raddr,
	    uint32_t rkey)
{
	struct ibv_send_wr wr = {
		.wr_id = id,
		.sg_list = sge,
		.num_sge = nsge,
		.opcode = op,
		.send_flags = flags,
		.wr.rdma = { .remote_addr = raddr, .rkey = rkey },
	};
	struct ibv_send_wr *bad = NULL;

	return ibv_post_send(qp, &wr, &bad);
}

void vt_write(struct ibv_qp *qp, uint64_t id, struct ibv_sge *sge,
	      const struct vt_mem *m)
{
	assert_int_equal(vt_rdma(qp, IBV_WR_RDMA_WRITE, id, IBV_SEND_SIGNALED,
				 sge, 1, vt_addr(m), m->mr->rkey),
			 0);
}

void vt_read(struct ibv_qp *qp, uint64_t id, struct ibv_sge *sge,
	     const struct vt_mem *m)
{
	assert_int_equal(vt_rdma(qp, IBV_WR_RDMA_READ, id, IBV_SEND_SIGNALED,
				 sge, 1, vt_addr(m), m->mr->rkey),
			 0);
}

void vt_nothing(struct ibv_qp *qp, uint64_t id)
{
	assert_int_equal(vt_rdma(qp, IBV_WR_RDMA_WRITE, id, IBV_SEND_SIGNALED,
				 NULL, 0, 0, 0),
			 0);
}

int vt_send(struct ibv_qp *qp, enum ibv_wr_opcode op, uint64_t id,
	    unsigned flags, struct ibv_sge *sge, int nsge)
{
	return vt_rdma(qp, op, id, flags, sge, nsge, 0, 0);
}

int vt_send_imm(struct ibv_qp *qp, uint64_t id, uint32_t imm,
		struct ibv_sge *sge, int nsge)
{
	struct ibv_send_wr wr = {
		.wr_id = id,
		.sg_list = sge,
		.num_sge = nsge,
		.opcode = IBV_WR_SEND_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = htonl(imm),
	};
	struct ibv_send_wr *bad = NULL;

	return ibv_post_send(qp, &wr, &bad);
}

int vt_write_imm(struct ibv_qp *qp, uint64_t id, unsigned flags, uint32_t imm,
		 struct ibv_sge *sge, int nsge, uint64_t raddr, uint32_t rkey)
{
	struct ibv_send_wr wr = {
		.wr_id = id,
		.sg_list = sge,
		.num_sge = nsge,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = flags,
		.imm_data = htonl(imm),
		.wr.rdma = { .remote_addr = raddr, .rkey = rkey },
	};
	struct ibv_send_wr *bad = NULL;

	return ibv_post_send(qp, &wr, &bad);
}

int vt_recv(struct ibv_qp *qp, uint64_t id, struct ibv_sge *sge, int nsge)
{
	struct ibv_recv_wr wr = { .wr_id = id,
				  .sg_list = sge,
				  .num_sge = nsge };
	struct ibv_recv_wr *bad = NULL;

	return ibv_post_recv(qp, &wr, &bad);
}

int vt_srq_recv(struct ibv_srq *srq, uint64_t id, struct ibv_sge *sge, int nsge)
{
	struct ibv_recv_wr wr = { .wr_id = id,
				  .sg_list = sge,
				  .num_sge = nsge };
	struct ibv_recv_wr *bad = NULL;

	return ibv_post_srq_recv(srq, &wr, &bad);
}

static void collect(struct vt_cq *q)
{
	struct ibv_wc wc[16];
	int room = VT_CQE - (int)(q->tail - q->head);
	int n = ibv_poll_cq(q->cq, room < 16 ? room : 16, wc);

	assert_true(n >= 0);
	for (int i = 0; i < n; i++)
		q->wc[q->tail++ % VT_CQE] = wc[i];
}

/* No two queues may collect from the same CQ: the wrong queue could get a
 * completion. */
void vt_turn(struct vt *t)
{
	assert_ptr_not_equal(t->a.send.cq, t->a.recv.cq);
	assert_ptr_not_equal(t->b.send.cq, t->b.recv.cq);
	collect(&t->a.send);
	collect(&t->a.recv);
	collect(&t->b.send);
	collect(&t->b.recv);
}

bool vt_try(struct vt *t, struct vt_cq *q, struct ibv_wc *wc)
{
	if (q->head == q->tail)
		vt_turn(t);
	if (q->head == q->tail)
		return false;
	*wc = q->wc[q->head++ % VT_CQE];
	return true;
}

struct ibv_wc vt_wait(struct vt *t, struct vt_cq *q)
{
	int64_t end = vt_ms() + WAIT_MS;
	struct ibv_wc wc = { 0 };

	while (!vt_try(t, q, &wc))
		if (vt_ms() > end)
			fail_msg("no completion in %d ms", WAIT_MS);
	return wc;
}

struct ibv_wc vt_expect(struct vt *t, struct vt_cq *q, uint64_t id,
			enum ibv_wc_status status)
{
	struct ibv_wc wc = vt_wait(t, q);

	if (wc.status != status || wc.wr_id != id)
		print_error("got %s for %llu\n", ibv_wc_status_str(wc.status),
			    (unsigned long long)wc.wr_id);
	assert_int_equal(wc.status, status);
	assert_int_equal(wc.wr_id, id);
	return wc;
}

void vt_quiet(struct vt *t, struct vt_cq *q, int n)
{
	for (int i = 0; i < n; i++)
		vt_turn(t);
	assert_int_equal(q->head, q->tail);
}

enum ibv_event_type vt_event(struct vt *t, struct vt_end *e)
{
	int64_t end = vt_ms() + WAIT_MS;
	struct ibv_async_event ev;
	int rc;

	while ((rc = t->v->get_async_event(e->ctx, &ev)) == -EAGAIN) {
		vt_turn(t);
		if (vt_ms() > end)
			fail_msg("no event in %d ms", WAIT_MS);
	}
	assert_int_equal(rc, 0);
	t->v->ack_async_event(&ev);
	return ev.event_type;
}

void vt_refused(struct vt *t, struct ibv_qp *qp, enum ibv_event_type event)
{
	struct vt_end *e = vt_end_of(t, qp);

	if (t->rxe)
		assert_true(vt_no_event(t, e));
	else
		assert_int_equal(vt_event(t, e), event);
	assert_int_equal(vt_state(t, qp), IBV_QPS_ERR);
}

bool vt_no_event(struct vt *t, struct vt_end *e)
{
	struct ibv_async_event ev;

	for (int i = 0; i < 50; i++)
		vt_turn(t);
	return t->v->get_async_event(e->ctx, &ev) == -EAGAIN;
}
