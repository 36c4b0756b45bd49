/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual QPs whose physical ones are somebody else's: the test plays these. */
#include <endian.h>
#include <errno.h>
#include <mpib/vqp.h>

#include "test.h"

#define N 4
#define FRAG 4096u

struct posted {
	unsigned port;
	struct ibv_send_wr wr;
	struct ibv_sge sge[MPIB_WR_SGES];
	uint64_t wr_id;
};

static struct mpib_wr_pool pool;
static struct mpib_vcq *vcq;
static struct mpib_vqp *vqp;
static struct posted posted_log[256];
static unsigned posts, closed; /* closed: a bit per port without room */

static uint32_t room(void *ctx, unsigned port)
{
	(void)ctx;
	return !(closed & 1u << port);
}

static void post(void *ctx, unsigned port, struct mpib_wr *w, uint64_t wr_id)
{
	struct posted *p = &posted_log[posts++];

	(void)ctx;
	p->port = port;
	p->wr = w->wr;
	p->wr_id = wr_id;
	memcpy(p->sge, w->sge, sizeof(p->sge));
	assert_ptr_equal(w->wr.sg_list, w->sge);
	/* It is told apart from those that are free once posted. */
	assert_int_not_equal(w->kind, 0);
	w->wr.wr_id = 77;
}

static void start(enum mpib_vqp_mode mode)
{
	const struct mpib_vqp_ports ports = { room, post, NULL };
	const struct mpib_vqp_attr attr = {
		.mode = mode,
		.n = N,
		.notifies = 2,
		.ports = &ports,
		.cap = 32,
		.frag = FRAG,
		.depth = 8,
		.number = 5,
	};

	posts = closed = 0;
	assert_int_equal(mpib_wr_pool_init(&pool), 0);
	assert_int_equal(mpib_vcq_create(NULL, 0, &pool, &vcq), 0);
	assert_int_equal(mpib_vqp_create(vcq, &attr, &vqp), 0);
}

static int teardown(void **state)
{
	mpib_vqp_reset(vqp);
	assert_int_equal(mpib_vqp_destroy(vqp), 0);
	mpib_vcq_destroy(vcq);
	assert_int_equal(pool.left, MPIB_WR_POOL);
	mpib_wr_pool_fini(&pool);
	return 0;
}

static int send(uint64_t wr_id, uint64_t len, bool more)
{
	const struct mpib_vsend wr = {
		.wr_id = wr_id,
		.local = 0x10000,
		.remote = 0x20000,
		.length = len,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.flags = more ? 0 : IBV_SEND_SIGNALED,
		.imm = 0xabc,
		.devices = 1,
		.key = { { 1, 2 } },
		.more = more,
		.on = 1,
		.control = { .local = 0x30000,
			     .remote = 0x40000,
			     .length = 64,
			     .lkey = 3,
			     .rkey = 4,
			     .copied = true },
	};

	return mpib_vqp_post_send(vqp, &wr);
}

static unsigned take(struct mpib_vwc *wc)
{
	return (unsigned)mpib_vcq_take(vcq, 8, wc);
}

static void is_notice(const struct posted *p)
{
	assert_int_equal(p->port, N + 1);
	assert_int_equal(p->wr.opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
	assert_int_equal(be32toh(p->wr.imm_data), 0xabc);
	assert_int_equal(p->wr.num_sge, 1);
	assert_int_equal(p->sge[0].addr, 0x30000);
	assert_int_equal(p->sge[0].length, 64);
	assert_int_equal(p->sge[0].lkey, 3);
	assert_int_equal(p->wr.wr.rdma.remote_addr, 0x40000);
	assert_int_equal(p->wr.wr.rdma.rkey, 4);
	assert_true(p->wr.send_flags & IBV_SEND_INLINE);
}

static void spray_tells_on_the_named_port_when_all_is_answered(void **state)
{
	struct mpib_vwc wc[8];

	start(MPIB_VQP_SPRAY);
	assert_int_equal(send(9, 3 * FRAG + 1, false), 0);
	assert_int_equal(posts, 4);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(posted_log[i].port, i);
		assert_int_equal(posted_log[i].wr_id, 9);
		assert_int_equal(posted_log[i].wr.opcode, IBV_WR_RDMA_WRITE);
		assert_int_equal(posted_log[i].sge[0].addr, 0x10000 + i * FRAG);
		assert_int_equal(posted_log[i].wr.wr.rdma.remote_addr,
				 0x20000 + i * FRAG);
	}
	assert_int_equal(posted_log[3].sge[0].length, 1);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(take(wc), 0);
		assert_int_equal(posts, 4);
		mpib_vqp_port_sent(vqp, i, true);
	}
	assert_int_equal(take(wc), 0);
	assert_int_equal(posts, 5);
	is_notice(&posted_log[4]);
	mpib_vqp_port_sent(vqp, N + 1, true);
	assert_int_equal(take(wc), 1);
	assert_int_equal(wc[0].wr_id, 9);
	assert_int_equal(wc[0].qp_num, 5);
	assert_int_equal(take(wc), 0);
	assert_false(mpib_vcq_busy(vcq));
}

/* As on one QP: an IMM comes after every write that was posted before it. */
static void a_notice_tells_of_what_was_posted_before_it(void **state)
{
	struct mpib_vwc wc[8];

	start(MPIB_VQP_SPRAY);
	assert_int_equal(send(1, FRAG, true), 0);
	assert_int_equal(send(2, FRAG, false), 0);
	assert_int_equal(send(3, 0, false), 0);
	assert_int_equal(posts, 2);
	mpib_vqp_port_sent(vqp, 1, true);
	assert_int_equal(take(wc), 0);
	assert_int_equal(posts, 2);
	mpib_vqp_port_sent(vqp, 0, true);
	assert_int_equal(take(wc), 0); /* 1 wanted none */
	assert_int_equal(posts, 4);
	is_notice(&posted_log[2]);
	is_notice(&posted_log[3]);
	mpib_vqp_port_sent(vqp, N + 1, true);
	mpib_vqp_port_sent(vqp, N + 1, true);
	assert_int_equal(take(wc), 2);
	assert_int_equal(wc[0].wr_id, 2);
	assert_int_equal(wc[1].wr_id, 3);
}

static void dqplb_tells_at_once_and_one_number_says_how_far(void **state)
{
	static const uint32_t imm[] = { 0, 1, 2 | MPIB_VQP_NOTIFY };

	start(MPIB_VQP_DQPLB);
	assert_int_equal(send(1, 2 * FRAG, true), 0);
	assert_int_equal(send(2, FRAG, false), 0);
	assert_int_equal(posts, 4);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(posted_log[i].wr.opcode,
				 IBV_WR_RDMA_WRITE_WITH_IMM);
		assert_int_equal(be32toh(posted_log[i].wr.imm_data), imm[i]);
	}
	is_notice(&posted_log[3]);
}

static void what_has_no_room_waits_in_order(void **state)
{
	struct mpib_vwc wc[8];

	start(MPIB_VQP_DQPLB);
	closed = 1u << (N + 1);
	assert_int_equal(send(1, FRAG, false), 0);
	assert_int_equal(send(2, FRAG, false), 0);
	assert_int_equal(posts, 1); /* the second does not overtake */
	assert_int_equal(take(wc), 0);
	closed = 0;
	assert_int_equal(take(wc), 0);
	assert_int_equal(posts, 4);
	is_notice(&posted_log[1]);
	is_notice(&posted_log[3]);
}

static void an_imm_waits_for_its_numbers(void **state)
{
	uint32_t imm, bytes;

	start(MPIB_VQP_DQPLB);
	assert_true(mpib_vqp_port_imm(vqp, 11, 64));
	assert_true(mpib_vqp_port_imm(vqp, 12, 0));
	assert_false(mpib_vqp_port_take(vqp, &imm, &bytes));
	assert_int_equal(1,
			 mpib_vqp_port_fragment(vqp, 2 | MPIB_VQP_NOTIFY, 10));
	assert_int_equal(1, mpib_vqp_port_fragment(vqp, 0, 10));
	assert_false(mpib_vqp_port_take(vqp, &imm, &bytes));
	assert_int_equal(1,
			 mpib_vqp_port_fragment(vqp, 1 | MPIB_VQP_NOTIFY, 10));
	assert_true(mpib_vqp_port_take(vqp, &imm, &bytes));
	assert_int_equal(imm, 11);
	assert_int_equal(bytes, 64);
	assert_true(mpib_vqp_port_take(vqp, &imm, &bytes));
	assert_int_equal(imm, 12);
	assert_false(mpib_vqp_port_take(vqp, &imm, &bytes));
	/* Late, and not twice. */
	assert_int_equal(0,
			 mpib_vqp_port_fragment(vqp, 1 | MPIB_VQP_NOTIFY, 10));
	assert_int_equal(mpib_vqp_late(vqp), 1);
	/* Numbers may come first. */
	assert_int_equal(1,
			 mpib_vqp_port_fragment(vqp, 3 | MPIB_VQP_NOTIFY, 10));
	assert_false(mpib_vqp_port_take(vqp, &imm, &bytes));
	for (unsigned i = 0; i < 8; i++)
		assert_true(mpib_vqp_port_imm(vqp, i, 0));
	assert_false(mpib_vqp_port_imm(vqp, 8, 0));
}

static void a_reset_begins_anew(void **state)
{
	struct mpib_vwc wc[8];
	uint32_t imm, bytes;

	start(MPIB_VQP_DQPLB);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(send(i, FRAG, false), 0);
	assert_int_equal(send(8, FRAG, false), -EAGAIN);
	assert_int_equal(mpib_vqp_send_room(vqp), 0);
	mpib_vqp_port_fragment(vqp, MPIB_VQP_NOTIFY, 1);
	mpib_vqp_port_fragment(vqp, MPIB_VQP_NOTIFY, 1);
	mpib_vqp_port_sent(vqp, 0, false); /* its virtual WR never ends */
	mpib_vqp_reset(vqp);
	assert_int_equal(pool.left, MPIB_WR_POOL);
	assert_int_equal(mpib_vqp_send_room(vqp), 8);
	assert_false(mpib_vqp_port_take(vqp, &imm, &bytes));
	assert_int_equal(take(wc), 0);
	assert_int_equal(mpib_vqp_late(vqp), 1); /* of all its life */
	posts = 0;
	assert_int_equal(send(1, FRAG, false), 0);
	assert_int_equal(be32toh(posted_log[0].wr.imm_data), MPIB_VQP_NOTIFY);
	/* What was under way before is nobody's. */
	mpib_vqp_port_sent(vqp, 2, true);
	assert_int_equal(take(wc), 0);
}

static void what_cannot_go_via_ports_is_refused(void **state)
{
	const struct mpib_vqp_ports ports = { room, post, NULL };
	struct mpib_vqp_attr attr = { .mode = MPIB_VQP_SPLIT,
				      .n = 2,
				      .notifies = 1,
				      .ports = &ports,
				      .cap = 1 };
	struct mpib_vqp *other;
	struct mpib_vsend wr = { .opcode = IBV_WR_SEND,
				 .flags = IBV_SEND_SIGNALED,
				 .devices = 1 };

	start(MPIB_VQP_SPRAY);
	assert_int_equal(mpib_vqp_create(vcq, &attr, &other), -EINVAL);
	attr.mode = MPIB_VQP_SPRAY;
	attr.notifies = 0;
	assert_int_equal(mpib_vqp_create(vcq, &attr, &other), -EINVAL);
	assert_int_equal(mpib_vqp_post_send(vqp, &wr), -EINVAL);
	wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr.on = 2;
	assert_int_equal(mpib_vqp_post_send(vqp, &wr), -EINVAL);
}

const struct CMUnitTest test_list[] = {
	teardown_test(spray_tells_on_the_named_port_when_all_is_answered),
	teardown_test(a_notice_tells_of_what_was_posted_before_it),
	teardown_test(dqplb_tells_at_once_and_one_number_says_how_far),
	teardown_test(what_has_no_room_waits_in_order),
	teardown_test(an_imm_waits_for_its_numbers),
	teardown_test(a_reset_begins_anew),
	teardown_test(what_cannot_go_via_ports_is_refused),
	{ 0 },
};
