/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <sys/mman.h>

#include "test.h"

#define PATIENCE 2000000

struct rig rig;

static void make_side(struct rig *r, struct side *s)
{
	struct mpib_vqp_qp qp[HCA_QPS], notify[MPIB_VQP_DEVICES];
	struct ibv_cq *cqs[MPIB_VQP_DEVICES];
	struct mpib_vqp_attr attr = r->attr;

	for (unsigned d = 0; d < r->devices; d++) {
		hca_open(&s->hca[d]);
		cqs[d] = &s->hca[d].cq;
	}
	for (unsigned i = 0; i < attr.n; i++) {
		unsigned d = i % r->devices;

		s->data[i] = hca_qp(&s->hca[d]);
		qp[i] = (struct mpib_vqp_qp){ &s->data[i]->qp, (uint8_t)d };
	}
	attr.notifies = 0;
	for (unsigned d = 0; attr.mode == MPIB_VQP_SPRAY && attr.n > 1 &&
			     d < r->devices && d < attr.n;
	     d++) {
		s->notify[d] = hca_qp(&s->hca[d]);
		notify[d] =
			(struct mpib_vqp_qp){ &s->notify[d]->qp, (uint8_t)d };
		attr.notifies++;
	}
	attr.qp = qp;
	attr.notify = notify;
	attr.number = 77;
	assert_int_equal(mpib_wr_pool_init(&s->pool), 0);
	assert_int_equal(mpib_vcq_create(cqs, r->devices, &s->pool, &s->vcq),
			 0);
	assert_int_equal(mpib_vqp_create(s->vcq, &attr, &s->vqp), 0);
	assert_int_equal(mpib_vqp_prepare(s->vqp), 0);
	s->mem = mmap(NULL, r->bytes, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(s->mem != MAP_FAILED);
}

void rig_up(struct rig *r, const struct mpib_vqp_attr *attr, unsigned devices,
	    size_t bytes)
{
	unsigned seed = r->seed;

	memset(r, 0, sizeof(*r));
	r->attr = *attr;
	r->devices = devices;
	r->bytes = bytes;
	r->seed = seed ? seed : 1;
	r->up = true;
	make_side(r, &r->tx);
	make_side(r, &r->rx);
	for (unsigned i = 0; i < attr->n; i++)
		hca_join(r->tx.data[i], r->rx.data[i]);
	for (unsigned d = 0; d < devices; d++) {
		if (r->tx.notify[d])
			hca_join(r->tx.notify[d], r->rx.notify[d]);
	}
}

static void take_down(struct rig *r, struct side *s)
{
	struct mpib_vwc wc[64];

	for (unsigned d = 0; d < r->devices; d++) {
		for (unsigned i = 0; i < s->hca[d].qps; i++)
			hca_break(&s->hca[d].qp[i]);
	}
	for (unsigned i = 0; i < 1000; i++)
		mpib_vcq_poll(s->vcq, 64, wc);
	assert_int_equal(mpib_vqp_destroy(s->vqp), 0);
	mpib_vcq_destroy(s->vcq);
	/* All WRs must be back in the pool. */
	assert_int_equal(s->pool.left, MPIB_WR_POOL);
	mpib_wr_pool_fini(&s->pool);
	for (unsigned d = 0; d < r->devices; d++)
		hca_close(&s->hca[d]);
	munmap(s->mem, r->bytes);
}

void rig_start(struct rig *r, enum mpib_vqp_mode mode, unsigned n,
	       unsigned devices, bool replay)
{
	const struct mpib_vqp_attr attr = {
		.mode = mode, .n = n, .cap = 8, .frag = 4096, .replay = replay
	};

	rig_up(r, &attr, devices, 2u << 20);
}

void rig_down(struct rig *r)
{
	if (!r->up)
		return;
	r->up = false;
	take_down(r, &r->tx);
	take_down(r, &r->rx);
}

int teardown(void **state)
{
	rig_down(&rig);
	return 0;
}

int rig_post(struct rig *r, uint64_t wr_id, enum ibv_wr_opcode opcode,
	     unsigned flags, uint64_t off, uint64_t len)
{
	struct mpib_vsend wr = {
		.wr_id = wr_id,
		.local = (uint64_t)(uintptr_t)r->tx.mem + off,
		.remote = (uint64_t)(uintptr_t)r->rx.mem + off,
		.length = len,
		.opcode = opcode,
		.flags = flags,
		.imm = 0x1234,
		.devices = (1u << r->devices) - 1,
		.key = { { 1, 2 }, { 3, 4 } },
	};

	return mpib_vqp_post_send(r->tx.vqp, &wr);
}

int rig_write(struct rig *r, uint64_t wr_id, uint64_t off, uint64_t len)
{
	return rig_post(r, wr_id, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_SIGNALED,
			off, len);
}

void rig_recv(struct rig *r, uint64_t wr_id)
{
	const struct mpib_vrecv wr = { .wr_id = wr_id };

	assert_int_equal(mpib_vqp_post_recv(r->rx.vqp, &wr), 0);
}

int rig_poll(struct side *s, struct mpib_vwc *wc, int n)
{
	return mpib_vcq_poll(s->vcq, n, wc);
}

unsigned rig_steps(struct rig *r, unsigned n)
{
	unsigned did = 0;

	for (unsigned d = 0; d < r->devices; d++)
		did += hca_run(&r->tx.hca[d], &r->seed, n);
	return did;
}

static struct mpib_vwc one(struct rig *r, struct side *s, struct side *other)
{
	struct mpib_vwc wc;

	for (unsigned i = 0; i < PATIENCE; i++) {
		if (rig_poll(s, &wc, 1) == 1)
			return wc;
		/* The other side must work, too, but must not return
		 * completions yet. */
		rig_poll(other, &wc, 0);
		rig_steps(r, 1 + (unsigned)rand_r(&r->seed) % 4);
	}
	fail_msg("no completion comes");
	return (struct mpib_vwc){ 0 };
}

struct mpib_vwc rig_sent(struct rig *r)
{
	return one(r, &r->tx, &r->rx);
}

struct mpib_vwc rig_got(struct rig *r)
{
	return one(r, &r->rx, &r->tx);
}

void rig_fill(char *p, uint64_t len, unsigned seed)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15ull + 1, i;

	for (i = 0; i + 8 <= len; i += 8) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(p + i, &x, 8);
	}
	for (; i < len; i++)
		p[i] = (char)(seed + i);
}
