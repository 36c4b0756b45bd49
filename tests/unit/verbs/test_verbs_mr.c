/* SPDX-License-Identifier: Apache-2.0 */
/* Memory regions: keys, iova, access rights, dma-bufs, and what dereg_mr()
 * guarantees. */
#include "vt.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

vt_pair_test(an_iova_replaces_the_address)
{
	struct vt_mem src = vt_mem(t, &t->a, 4096, VT_LOCAL);
	struct vt_mem raw = vt_mem(t, &t->b, 8192, VT_ALL);
	struct ibv_sge sge = vt_sge(&src, 0, 100);
	struct ibv_mr *mr;

	vt_fill(src.p, 100, 1);
	assert_int_equal(
		t->v->reg_mr(t->b.pd, raw.p, 8192, 0x10000, VT_ALL, &mr), 0);
	assert_int_equal(vt_rdma(qa, IBV_WR_RDMA_WRITE, 1, IBV_SEND_SIGNALED,
				 &sge, 1, 0x10000 + 50, mr->rkey),
			 0);
	vt_expect(t, &t->a.send, 1, IBV_WC_SUCCESS);
	assert_memory_equal(raw.p + 50, src.p, 100);
	assert_int_equal(vt_rdma(qa, IBV_WR_RDMA_WRITE, 2, IBV_SEND_SIGNALED,
				 &sge, 1, vt_addr(&raw), mr->rkey),
			 0);
	vt_expect(t, &t->a.send, 2, IBV_WC_REM_ACCESS_ERR);
	vt_refused(t, qb, IBV_EVENT_QP_ACCESS_ERR);
	vt_destroy(t, qa, qb);
	assert_int_equal(t->v->dereg_mr(mr), 0);
}

vt_pair_test(a_deregistered_key_is_invalid_even_if_registered_again)
{
	struct vt_mem src = vt_mem(t, &t->a, 4096, VT_LOCAL);
	struct vt_mem dst = vt_mem(t, &t->b, 4096, VT_ALL);
	struct ibv_sge sge = vt_sge(&src, 0, 100);
	uint32_t old = dst.mr->rkey;

	assert_int_equal(t->v->dereg_mr(dst.mr), 0);
	assert_int_equal(t->v->reg_mr(t->b.pd, dst.p, 4096, vt_addr(&dst),
				      VT_ALL, &dst.mr),
			 0);
	assert_int_not_equal(dst.mr->rkey, old);
	assert_int_equal(vt_rdma(qa, IBV_WR_RDMA_WRITE, 1, IBV_SEND_SIGNALED,
				 &sge, 1, vt_addr(&dst), old),
			 0);
	vt_expect(t, &t->a.send, 1, IBV_WC_REM_ACCESS_ERR);
	vt_refused(t, qb, IBV_EVENT_QP_ACCESS_ERR);
	vt_mem_free(t, &dst);
}

vt_test(remote_write_access_needs_local_write_access)
{
	static char buf[64];
	struct ibv_mr *mr;

	assert_int_equal(t->v->reg_mr(t->a.pd, buf, sizeof(buf), (uintptr_t)buf,
				      IBV_ACCESS_REMOTE_WRITE, &mr),
			 -EINVAL);
}

vt_test(any_region_may_allow_remote_atomics)
{
	static char buf[64];
	struct ibv_mr *mr;

	assert_int_equal(t->v->reg_mr(t->a.pd, buf, sizeof(buf), (uintptr_t)buf,
				      VT_ALL | IBV_ACCESS_REMOTE_ATOMIC, &mr),
			 0);
	assert_int_equal(t->v->dereg_mr(mr), 0);
	assert_int_equal(t->v->reg_mr(t->a.pd, buf, sizeof(buf), (uintptr_t)buf,
				      IBV_ACCESS_REMOTE_ATOMIC, &mr),
			 -EINVAL);
}

vt_test(access_flags_that_the_device_lacks_are_unsupported)
{
	static char buf[64];
	struct ibv_mr *mr;

	/* Other devices may support these flags. */
	if (!t->soft)
		skip();
	assert_int_equal(t->v->reg_mr(t->a.pd, buf, sizeof(buf), (uintptr_t)buf,
				      VT_ALL | IBV_ACCESS_MW_BIND, &mr),
			 -EOPNOTSUPP);
	assert_int_equal(t->v->reg_mr(t->a.pd, buf, sizeof(buf), 0,
				      VT_ALL | IBV_ACCESS_ZERO_BASED, &mr),
			 -EOPNOTSUPP);
	assert_int_equal(t->v->reg_mr(t->a.pd, buf, sizeof(buf), (uintptr_t)buf,
				      VT_ALL | 1 << 15, &mr),
			 -EINVAL);
}

vt_test(unmapped_memory_is_not_registered)
{
	long page = sysconf(_SC_PAGESIZE);
	struct ibv_mr *mr;
	void *p = mmap(NULL, (size_t)page * 2, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	munmap((char *)p + page, (size_t)page);
	assert_true(t->v->reg_mr(t->a.pd, p, (size_t)page * 2, (uintptr_t)p,
				 VT_LOCAL, &mr) < 0);
	munmap(p, (size_t)page);
}

vt_test(memory_for_reading_is_not_registered_for_writing)
{
	struct ibv_mr *mr;
	void *p =
		mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	assert_true(t->v->reg_mr(t->a.pd, p, 4096, (uintptr_t)p, VT_ALL, &mr) <
		    0);
	munmap(p, 4096);
}

vt_pair_test(memory_without_pages_gets_pages_when_a_peer_writes_it)
{
	const size_t len = 16 * (size_t)sysconf(_SC_PAGESIZE);
	struct vt_mem src = vt_mem(t, &t->a, 4096, VT_LOCAL);
	struct ibv_sge sge = vt_sge(&src, 0, 100);
	unsigned char *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char there[16];
	struct ibv_mr *mr;

	if (!t->v->on_demand) {
		munmap(p, len);
		skip();
	}
	assert_int_equal(t->v->reg_mr(t->b.pd, p, len, (uintptr_t)p,
				      VT_ALL | IBV_ACCESS_ON_DEMAND, &mr),
			 0);
	assert_int_equal(mincore(p, len, there), 0);
	assert_int_equal(there[7] & 1, 0);
	memset(src.p, 7, 100);
	assert_int_equal(vt_rdma(qa, IBV_WR_RDMA_WRITE, 1, IBV_SEND_SIGNALED,
				 &sge, 1, (uintptr_t)p + len / 2, mr->rkey),
			 0);
	vt_expect(t, &t->a.send, 1, IBV_WC_SUCCESS);
	assert_memory_equal(p + len / 2, src.p, 100);
	vt_destroy(t, qa, qb);
	assert_int_equal(t->v->dereg_mr(mr), 0);
	munmap(p, len);
}

vt_pair_test(a_dmabuf_is_written_through_its_fd)
{
	struct vt_mem src = vt_mem(t, &t->a, 4096, VT_LOCAL);
	struct ibv_sge sge = vt_sge(&src, 0, 1000);
	/* The iova may differ from the offset in the dma-buf, but only by whole
	 * pages. */
	const uint64_t iova = 0x7000 + 5000 % 4096;
	uint8_t back[1000];
	struct ibv_mr *mr;
	int fd, rc, copy;

	fd = memfd_create("dmabuf", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 65536), 0);
	rc = t->v->reg_dmabuf_mr(t->b.pd, 5000, 10000, iova, fd, VT_ALL, &mr);
	if (!t->soft) {
		/* A real device does not accept a memfd as a dma-buf. */
		assert_true(rc < 0);
		close(fd);
		return;
	}
	assert_int_equal(rc, 0);
	copy = dup(fd);
	close(fd);
	vt_fill(src.p, 1000, 3);
	assert_int_equal(vt_rdma(qa, IBV_WR_RDMA_WRITE, 1, IBV_SEND_SIGNALED,
				 &sge, 1, iova + 9000, mr->rkey),
			 0);
	vt_expect(t, &t->a.send, 1, IBV_WC_SUCCESS);
	assert_int_equal(pread(copy, back, 1000, 14000), 1000);
	assert_memory_equal(back, src.p, 1000);
	vt_destroy(t, qa, qb);
	assert_int_equal(t->v->dereg_mr(mr), 0);
	close(copy);
}

vt_test(a_region_beyond_the_end_of_a_dmabuf_is_refused)
{
	struct ibv_mr *mr;
	int fd;

	if (!t->soft)
		skip();
	fd = memfd_create("dmabuf", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, 8192), 0);
	assert_int_equal(
		t->v->reg_dmabuf_mr(t->b.pd, 4096, 4097, 0, fd, VT_ALL, &mr),
		-EINVAL);
	assert_int_equal(t->v->reg_dmabuf_mr(t->b.pd, UINT64_MAX - 10, 100, 0,
					     fd, VT_ALL, &mr),
			 -EINVAL);
	/* The iova differs from the offset in the dma-buf by a part of a
	 * page. */
	assert_int_equal(t->v->reg_dmabuf_mr(t->b.pd, 100, 4096, 0x7000, fd,
					     VT_ALL, &mr),
			 -EINVAL);
	close(fd);
	assert_true(t->v->reg_dmabuf_mr(t->b.pd, 0, 4096, 0, fd, VT_ALL, &mr) <
		    0);
}

/* Return whether the WRITE was complete before it could be stopped. This is
 * possible on a device that moves bytes by itself, but not on a device that
 * moves bytes only in the test's turns. */
static bool was_through(const struct vt *t, const struct ibv_wc *wc)
{
	return !t->can_fault && wc->status == IBV_WC_SUCCESS;
}

static void begun(struct vt *t, const struct vt_mem *dst)
{
	while (!dst->p[4096])
		vt_turn(t);
	if (t->can_fault)
		assert_int_equal(dst->p[dst->len - 1], 0);
}

#define BIG (32 << 20)

/* A WRITE that takes long because of its size. */
struct big {
	struct vt_mem src, dst;
	struct ibv_sge sge;
	struct ibv_qp *qa, *qb;
};

static struct big big(struct vt *t)
{
	struct big b = {
		.src = vt_mem(t, &t->a, BIG, VT_LOCAL),
		.dst = vt_mem(t, &t->b, BIG, VT_ALL),
	};

	b.sge = vt_sge(&b.src, 0, BIG);
	memset(b.src.p, 1, BIG);
	vt_pair(t, &vt_usual, &b.qa, &b.qb);
	return b;
}

/* Deregister the destination of a big WRITE half way. After the deregistration,
 * the device must not access the memory. */
vt_test(dereg_stops_a_write_that_is_arriving)
{
	struct ibv_wc wc;
	struct big b;

	if (t->same)
		skip();
	b = big(t);
	vt_write(b.qa, 1, &b.sge, &b.dst);
	begun(t, &b.dst);
	vt_mem_free(t, &b.dst);
	wc = vt_wait(t, &t->a.send);
	if (!was_through(t, &wc)) {
		assert_int_equal(wc.status, IBV_WC_REM_ACCESS_ERR);
		vt_refused(t, b.qb, IBV_EVENT_QP_ACCESS_ERR);
	}
}

vt_test(dereg_stops_a_write_that_is_leaving)
{
	struct ibv_wc wc;
	struct big b;

	if (t->same)
		skip();
	b = big(t);
	assert_int_equal(vt_write_imm(b.qa, 1, IBV_SEND_SIGNALED, 0, &b.sge, 1,
				      vt_addr(&b.dst), b.dst.mr->rkey),
			 0);
	assert_int_equal(vt_recv(b.qb, 2, NULL, 0), 0);
	begun(t, &b.dst);
	vt_mem_free(t, &b.src);
	wc = vt_wait(t, &t->a.send);
	if (!was_through(t, &wc)) {
		assert_int_equal(wc.status, t->rxe ? IBV_WC_LOC_QP_OP_ERR
						   : IBV_WC_LOC_PROT_ERR);
		/* An incomplete message must not complete a receive. */
		vt_quiet(t, &t->b.recv, 50);
	}
}

vt_test(many_regions_have_different_keys)
{
	enum {
		N = 1000
	};
	static char buf[N];
	struct ibv_mr *mr[N];

	for (int i = 0; i < N; i++)
		assert_int_equal(t->v->reg_mr(t->a.pd, buf + i, 1,
					      (uintptr_t)buf + (unsigned)i,
					      VT_ALL, &mr[i]),
				 0);
	for (int i = 0; i < N; i++)
		for (int j = 0; j < i; j++) {
			assert_true(mr[i]->rkey != mr[j]->rkey);
			assert_true(mr[i]->lkey != mr[j]->lkey);
		}
	for (int i = 0; i < N; i++)
		assert_int_equal(t->v->dereg_mr(mr[i]), 0);
}
