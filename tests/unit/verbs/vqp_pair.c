/* SPDX-License-Identifier: Apache-2.0 */
#include "vqp_pair.h"

#include <errno.h>
#include <sys/mman.h>

struct vt *vv_dev[MPIB_VQP_DEVICES];
struct vv_side vv_tx, vv_rx;
static struct mpib_vqp_attr attr;
struct vt_opt vv_opt;

int vv_setup(void **state)
{
	for (unsigned d = 0; d < MPIB_VQP_DEVICES; d++) {
		void *t;

		if (vt_setup(&t) < 0)
			return -1;
		vv_dev[d] = t;
	}
	vv_opt = vt_usual;
	*state = vv_dev;
	return 0;
}

int vv_teardown(void **state)
{
	int rc = 0;

	for (unsigned d = 0; d < MPIB_VQP_DEVICES; d++) {
		void *t = vv_dev[d];

		rc |= vt_teardown(&t);
	}
	return rc;
}

static struct vt_end *end_of(const struct vv_side *s, unsigned d)
{
	return s == &vv_tx ? &vv_dev[d]->a : &vv_dev[d]->b;
}

static struct ibv_qp *make_qp(const struct vv_side *s, unsigned d)
{
	struct vt_end one = *end_of(s, d);

	one.recv = one.send; /* both directions use the same CQ */
	return vt_qp(vv_dev[d], &one, &vv_opt);
}

static void make_side(struct vv_side *s)
{
	struct mpib_vqp_qp qp[VV_QPS], notify[MPIB_VQP_DEVICES];
	struct ibv_cq *cqs[MPIB_VQP_DEVICES];
	struct mpib_vqp_attr a = attr;

	memset(s, 0, sizeof(*s));
	s->mem = mmap(NULL, VV_BYTES, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(s->mem, MAP_FAILED);
	for (unsigned d = 0; d < MPIB_VQP_DEVICES; d++) {
		cqs[d] = end_of(s, d)->send.cq;
		assert_int_equal(
			vv_dev[d]->v->reg_mr(end_of(s, d)->pd, s->mem, VV_BYTES,
					     (uint64_t)(uintptr_t)s->mem,
					     VT_ALL, &s->mr[d]),
			0);
	}
	for (unsigned i = 0; i < a.n; i++) {
		unsigned d = i % MPIB_VQP_DEVICES;

		s->data[i] = make_qp(s, d);
		qp[i] = (struct mpib_vqp_qp){ s->data[i], (uint8_t)d };
	}
	for (unsigned d = 0;
	     a.mode == MPIB_VQP_SPRAY && a.n > 1 && d < MPIB_VQP_DEVICES; d++) {
		s->notify[d] = make_qp(s, d);
		notify[a.notifies++] =
			(struct mpib_vqp_qp){ s->notify[d], (uint8_t)d };
	}
	a.qp = qp;
	a.notify = notify;
	assert_int_equal(mpib_wr_pool_init(&s->pool), 0);
	assert_int_equal(
		mpib_vcq_create(cqs, MPIB_VQP_DEVICES, &s->pool, &s->vcq), 0);
	assert_int_equal(mpib_vqp_create(s->vcq, &a, &s->vqp), 0);
}

void vv_start(enum mpib_vqp_mode mode, unsigned n, uint32_t depth, bool replay)
{
	attr = (struct mpib_vqp_attr){ .mode = mode,
				       .n = n,
				       .cap = VV_CAP,
				       .frag = VV_FRAG,
				       .depth = depth,
				       .replay = replay };
	make_side(&vv_tx);
	make_side(&vv_rx);
	for (unsigned i = 0; i < n; i++)
		vt_connect(vv_dev[i % MPIB_VQP_DEVICES], vv_tx.data[i],
			   vv_rx.data[i], &vv_opt);
	for (unsigned d = 0; d < MPIB_VQP_DEVICES; d++) {
		if (vv_tx.notify[d])
			vt_connect(vv_dev[d], vv_tx.notify[d], vv_rx.notify[d],
				   &vv_opt);
	}
	assert_int_equal(mpib_vqp_prepare(vv_tx.vqp), 0);
	assert_int_equal(mpib_vqp_prepare(vv_rx.vqp), 0);
}

static void side_down(struct vv_side *s)
{
	int64_t limit = vt_ms() + 60000;
	struct mpib_vwc wc[64];

	for (unsigned i = 0; i < VV_QPS; i++) {
		if (s->data[i])
			vt_to(vv_dev[i % MPIB_VQP_DEVICES], s->data[i],
			      IBV_QPS_ERR);
	}
	for (unsigned d = 0; d < MPIB_VQP_DEVICES; d++) {
		if (s->notify[d])
			vt_to(vv_dev[d], s->notify[d], IBV_QPS_ERR);
	}
	while (mpib_vqp_destroy(s->vqp) == -EBUSY) {
		mpib_vcq_poll(s->vcq, 64, wc);
		assert_true(vt_ms() < limit);
	}
	mpib_vcq_destroy(s->vcq);
	/* All WRs must be back in the pool. */
	assert_int_equal(s->pool.left, MPIB_WR_POOL);
	mpib_wr_pool_fini(&s->pool);
	for (unsigned i = 0; i < VV_QPS; i++)
		vt_destroy(vv_dev[i % MPIB_VQP_DEVICES], s->data[i], NULL);
	for (unsigned d = 0; d < MPIB_VQP_DEVICES; d++) {
		vt_destroy(vv_dev[d], s->notify[d], NULL);
		assert_int_equal(vv_dev[d]->v->dereg_mr(s->mr[d]), 0);
	}
	munmap(s->mem, VV_BYTES);
}

void vv_stop(void)
{
	side_down(&vv_tx);
	side_down(&vv_rx);
}

struct mpib_vsend vv_send_of(uint64_t wr_id, size_t off, uint64_t len)
{
	struct mpib_vsend w = {
		.wr_id = wr_id,
		.local = (uint64_t)(uintptr_t)vv_tx.mem + off,
		.remote = (uint64_t)(uintptr_t)vv_rx.mem + off,
		.length = len,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.flags = IBV_SEND_SIGNALED,
		.devices = (1u << MPIB_VQP_DEVICES) - 1,
	};

	for (unsigned d = 0; d < MPIB_VQP_DEVICES; d++) {
		w.key[d].lkey = vv_tx.mr[d]->lkey;
		w.key[d].rkey = vv_rx.mr[d]->rkey;
	}
	return w;
}

int vv_post(uint64_t wr_id, size_t off, uint64_t len)
{
	const struct mpib_vsend w = vv_send_of(wr_id, off, len);

	return mpib_vqp_post_send(vv_tx.vqp, &w);
}

int vv_want(uint64_t wr_id)
{
	const struct mpib_vrecv r = { .wr_id = wr_id };

	return mpib_vqp_post_recv(vv_rx.vqp, &r);
}

bool vv_poll_side(struct vv_side *s, struct mpib_vwc *wc)
{
	int got = mpib_vcq_poll(s->vcq, 1, wc);

	assert_true(got >= 0);
	if (!got)
		return false;
	assert_int_equal(wc->recv, s == &vv_rx);
	assert_int_equal(wc->wr_id, s->done++);
	s->failed += wc->status != IBV_WC_SUCCESS;
	return true;
}

void vv_finish(uint64_t n, bool replay)
{
	int64_t limit = vt_ms() + 60000;
	struct mpib_vwc wc;

	while (vv_tx.done < n || vv_rx.done < n) {
		vv_poll_side(&vv_tx, &wc);
		vv_poll_side(&vv_rx, &wc);
		if (replay)
			assert_true(mpib_vqp_replay(vv_tx.vqp) != -ENETDOWN);
		assert_true(vt_ms() < limit);
	}
}
