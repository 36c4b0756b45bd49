/* SPDX-License-Identifier: Apache-2.0 */
/* RDMA READ: placement, depth, order with WRITEs, fences, and refusals. */
#include "vt.h"

struct fixture {
	struct vt_mem local, remote;
	struct ibv_qp *qa, *qb;
};

static void begin(struct vt *t, struct fixture *f, const struct vt_opt *o,
		  size_t len, int access)
{
	f->local = vt_mem(t, &t->a, len, VT_LOCAL);
	f->remote = vt_mem(t, &t->b, len, access);
	vt_fill(f->remote.p, len, 5);
	vt_pair(t, o, &f->qa, &f->qb);
}

static int post_read(struct fixture *f, uint64_t id, unsigned flags, size_t off,
		     size_t len)
{
	struct ibv_sge sge = vt_sge(&f->local, off, len);

	return vt_rdma(f->qa, IBV_WR_RDMA_READ, id, IBV_SEND_SIGNALED | flags,
		       &sge, 1, vt_addr(&f->remote) + off, f->remote.mr->rkey);
}

vt_test(a_read_fetches_any_size)
{
	static const size_t sizes[] = { 0, 1, 4063, 4064, 100000, 1 << 20 };
	struct fixture f;

	begin(t, &f, &vt_usual, 1 << 20, VT_ALL);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct ibv_wc wc;

		memset(f.local.p, 0, f.local.len);
		assert_int_equal(post_read(&f, i, 0, 0, sizes[i]), 0);
		wc = vt_expect(t, &t->a.send, i, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, IBV_WC_RDMA_READ);
		assert_int_equal(wc.byte_len, sizes[i]);
		assert_memory_equal(f.local.p, f.remote.p, sizes[i]);
	}
	vt_quiet(t, &t->b.recv, 5);
}

vt_test(a_read_scatters_over_several_pieces)
{
	struct fixture f;
	struct ibv_sge sge[3];

	begin(t, &f, &vt_usual, 65536, VT_ALL);
	sge[0] = vt_sge(&f.local, 10, 5000);
	sge[1] = vt_sge(&f.local, 10000, 1);
	sge[2] = vt_sge(&f.local, 20000, 10000);
	assert_int_equal(vt_rdma(f.qa, IBV_WR_RDMA_READ, 1, IBV_SEND_SIGNALED,
				 sge, 3, vt_addr(&f.remote) + 3,
				 f.remote.mr->rkey),
			 0);
	vt_expect(t, &t->a.send, 1, IBV_WC_SUCCESS);
	assert_memory_equal(f.local.p + 10, f.remote.p + 3, 5000);
	assert_memory_equal(f.local.p + 10000, f.remote.p + 5003, 1);
	assert_memory_equal(f.local.p + 20000, f.remote.p + 5004, 10000);
}

/* The engine uses a QP that is connected to itself to flush device memory. */
vt_test(a_qp_connected_to_itself_reads_what_it_wrote)
{
	enum {
		SIZE = 50000
	};
	struct vt_mem from = vt_mem(t, &t->a, SIZE, VT_LOCAL);
	struct vt_mem to = vt_mem(t, &t->a, SIZE, VT_ALL);
	struct vt_mem back = vt_mem(t, &t->a, SIZE, VT_LOCAL);
	struct ibv_sge out = vt_sge(&from, 0, SIZE);
	struct ibv_sge in = vt_sge(&back, 0, SIZE);
	struct ibv_qp *qp = vt_qp(t, &t->a, &vt_usual);

	vt_fill(from.p, SIZE, 9);
	assert_int_equal(vt_to_init(t, qp, VT_ALL), 0);
	assert_int_equal(vt_to_rtr(t, qp, &t->a, qp->qp_num, 77, &vt_usual), 0);
	assert_int_equal(vt_to_rts(t, qp, 77, &vt_usual), 0);
	vt_write(qp, 1, &out, &to);
	vt_read(qp, 2, &in, &to);
	vt_expect(t, &t->a.send, 1, IBV_WC_SUCCESS);
	vt_expect(t, &t->a.send, 2, IBV_WC_SUCCESS);
	assert_memory_equal(back.p, from.p, SIZE);
}

vt_test(reads_and_writes_complete_in_posted_order)
{
	enum {
		N = 30,
		SIZE = 2000
	};
	struct fixture f;
	struct vt_mem src = vt_mem(t, &t->a, SIZE, VT_LOCAL);
	struct ibv_sge sge = vt_sge(&src, 0, SIZE);

	begin(t, &f, &vt_usual, N * SIZE, VT_ALL);
	vt_fill(src.p, SIZE, 6);
	for (size_t i = 0; i < N; i++) {
		uint64_t at = vt_addr(&f.remote) + i * SIZE;

		if (i % 3)
			assert_int_equal(post_read(&f, i, 0, i * SIZE, SIZE),
					 0);
		else
			assert_int_equal(vt_rdma(f.qa, IBV_WR_RDMA_WRITE, i,
						 IBV_SEND_SIGNALED, &sge, 1, at,
						 f.remote.mr->rkey),
					 0);
	}
	for (size_t i = 0; i < N; i++)
		vt_expect(t, &t->a.send, i, IBV_WC_SUCCESS);
	for (size_t i = 0; i < N; i++)
		assert_memory_equal(i % 3 ? f.local.p + i * SIZE : src.p,
				    f.remote.p + i * SIZE, SIZE);
}

vt_test(a_fenced_send_carries_what_the_read_fetched)
{
	struct fixture f;
	struct vt_mem dst = vt_mem(t, &t->b, 30000, VT_LOCAL);
	struct ibv_sge in, out = vt_sge(&dst, 0, 30000);

	begin(t, &f, &vt_usual, 30000, VT_ALL);
	in = vt_sge(&f.local, 0, 30000);
	assert_int_equal(vt_recv(f.qb, 3, &out, 1), 0);
	assert_int_equal(post_read(&f, 1, 0, 0, 30000), 0);
	assert_int_equal(vt_send(f.qa, IBV_WR_SEND, 2,
				 IBV_SEND_SIGNALED | IBV_SEND_FENCE, &in, 1),
			 0);
	vt_expect(t, &t->a.send, 1, IBV_WC_SUCCESS);
	vt_expect(t, &t->a.send, 2, IBV_WC_SUCCESS);
	vt_expect(t, &t->b.recv, 3, IBV_WC_SUCCESS);
	assert_memory_equal(dst.p, f.remote.p, 30000);
}

vt_test(both_sides_can_read_at_once)
{
	enum {
		SIZE = 600000
	};
	struct fixture f;
	struct vt_mem back = vt_mem(t, &t->b, SIZE, VT_LOCAL);
	struct vt_mem theirs = vt_mem(t, &t->a, SIZE, VT_ALL);
	struct ibv_sge sge = vt_sge(&back, 0, SIZE);

	begin(t, &f, &vt_usual, SIZE, VT_ALL);
	vt_fill(theirs.p, SIZE, 8);
	assert_int_equal(post_read(&f, 1, 0, 0, SIZE), 0);
	vt_read(f.qb, 2, &sge, &theirs);
	vt_expect(t, &t->a.send, 1, IBV_WC_SUCCESS);
	vt_expect(t, &t->b.send, 2, IBV_WC_SUCCESS);
	assert_memory_equal(f.local.p, f.remote.p, SIZE);
	assert_memory_equal(back.p, theirs.p, SIZE);
}

vt_test(a_read_of_a_region_without_read_access_is_refused)
{
	struct fixture f;

	begin(t, &f, &vt_usual, 4096,
	      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	assert_int_equal(post_read(&f, 1, 0, 0, 64), 0);
	vt_expect(t, &t->a.send, 1, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(vt_state(t, f.qa), IBV_QPS_ERR);
	assert_int_equal(f.local.p[0], 0);
	vt_refused(t, f.qb, IBV_EVENT_QP_ACCESS_ERR);
}

vt_test(a_read_from_a_qp_without_read_access_is_refused)
{
	struct vt_opt o = vt_usual;
	struct fixture f;

	o.access = IBV_ACCESS_REMOTE_WRITE;
	begin(t, &f, &o, 4096, VT_ALL);
	assert_int_equal(post_read(&f, 1, 0, 0, 64), 0);
	vt_expect(t, &t->a.send, 1, IBV_WC_REM_INV_REQ_ERR);
	vt_refused(t, f.qb, IBV_EVENT_QP_REQ_ERR);
}

vt_test(a_read_into_memory_that_may_not_be_written_fails)
{
	struct fixture f;
	struct vt_mem ro = vt_mem(t, &t->a, 4096, 0);
	struct ibv_sge sge = vt_sge(&ro, 0, 64);

	begin(t, &f, &vt_usual, 4096, VT_ALL);
	vt_read(f.qa, 1, &sge, &f.remote);
	vt_expect(t, &t->a.send, 1, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(ro.p[0], 0);
}
