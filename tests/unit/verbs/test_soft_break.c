/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends that move less than all, connections that end, and ends of QPs: what a
 * real HCA's user never hears of must not be heard here.
 */
#include "vt.h"

#include "unkind.h"
#include "verbs/soft/soft.h"
#include "verbs/soft/wire/wire.h"

#define BIG (8u << 20)

struct pair {
	struct vt_mem a, b;
	struct ibv_qp *qa, *qb;
};

static void end(struct vt *t, struct pair *p)
{
	unkind = (struct unkind){ .rng = 1 };
	vt_destroy(t, p->qa, p->qb);
	vt_mem_free(t, &p->a);
	vt_mem_free(t, &p->b);
}

static void post(struct ibv_qp *qp, enum ibv_wr_opcode op, uint64_t id,
		 unsigned flags, struct ibv_sge sge, const struct vt_mem *to,
		 size_t at)
{
	assert_int_equal(vt_rdma(qp, op, id, flags, &sge, 1, vt_addr(to) + at,
				 to->mr->rkey),
			 0);
}

/* Connected, and something has passed. */
static void begin(struct vt *t, struct pair *p, size_t size,
		  const struct vt_opt *o)
{
	p->a = vt_mem(t, &t->a, size, VT_ALL);
	p->b = vt_mem(t, &t->b, size, VT_ALL);
	vt_pair(t, o, &p->qa, &p->qb);
	post(p->qa, IBV_WR_RDMA_WRITE, 1, IBV_SEND_SIGNALED,
	     vt_sge(&p->a, 0, 8), &p->b, 0);
	vt_expect(t, &t->a.send, 1, IBV_WC_SUCCESS);
}

/* A sendmsg that io_uring makes is not seen here. */
static void needs_epoll(struct vt *t)
{
	if (strcmp(mpib_soft_engine_name(t->a.ctx), "epoll") != 0)
		skip();
}

static void a_fenced_write_waits_for_a_read_that_is_half_sent(void **state)
{
	struct vt *t = *state;
	struct pair p;

	needs_epoll(t);
	for (size_t half = 1; half < SOFT_HDR_LEN; half += 5) {
		begin(t, &p, 4096, &vt_usual);
		memset(p.a.p, 0xbb, 64);
		memset(p.b.p + 64, 0xaa, 64);
		/* The WRITE goes out whole, of the READ's header a part. */
		unkind.stop_at = SOFT_HDR_LEN + 64 + half;
		post(p.qa, IBV_WR_RDMA_WRITE, 2, 0, vt_sge(&p.a, 0, 64), &p.b,
		     256);
		post(p.qa, IBV_WR_RDMA_READ, 3, IBV_SEND_SIGNALED,
		     vt_sge(&p.a, 128, 64), &p.b, 64);
		post(p.qa, IBV_WR_RDMA_WRITE, 4,
		     IBV_SEND_SIGNALED | IBV_SEND_FENCE, vt_sge(&p.a, 0, 64),
		     &p.b, 64);
		for (int i = 0; i < 10; i++)
			vt_turn(t);
		unkind_go_on();
		vt_expect(t, &t->a.send, 3, IBV_WC_SUCCESS);
		vt_expect(t, &t->a.send, 4, IBV_WC_SUCCESS);
		assert_int_equal(p.a.p[128], 0xaa);
		assert_int_equal(p.b.p[64], 0xbb);
		end(t, &p);
	}
}

static void a_read_that_is_half_sent_counts_as_one(void **state)
{
	struct vt *t = *state;
	struct vt_opt o = vt_usual;
	struct pair p;

	needs_epoll(t);
	o.rd_atomic = 1;
	begin(t, &p, 4096, &o);
	unkind.stop_at = SOFT_HDR_LEN + 64 + 7;
	post(p.qa, IBV_WR_RDMA_WRITE, 2, 0, vt_sge(&p.a, 0, 64), &p.b, 256);
	for (uint64_t id = 3; id < 6; id++)
		post(p.qa, IBV_WR_RDMA_READ, id, IBV_SEND_SIGNALED,
		     vt_sge(&p.a, 128, 64), &p.b, 64);
	for (int i = 0; i < 10; i++)
		vt_turn(t);
	unkind_go_on();
	for (uint64_t id = 3; id < 6; id++)
		vt_expect(t, &t->a.send, id, IBV_WC_SUCCESS);
	end(t, &p);
}

static void post_add(struct ibv_qp *qp, uint64_t id, struct ibv_sge *sge,
		     const struct vt_mem *to)
{
	struct ibv_send_wr *bad,
		wr = { .wr_id = id,
		       .sg_list = sge,
		       .num_sge = 1,
		       .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		       .send_flags = IBV_SEND_SIGNALED,
		       .wr.atomic = { .remote_addr = vt_addr(to),
				      .rkey = to->mr->rkey,
				      .compare_add = 5 } };

	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
}

static uint32_t address(const struct vt_end *e)
{
	uint32_t ip;

	memcpy(&ip, e->info.gid.raw + 12, sizeof(ip));
	return ip;
}

/* Its answer was lost, and its repetition leaves in two pieces. */
static void a_repeated_atomic_that_is_half_sent_is_not_answered(void **state)
{
	struct vt *t = *state;
	struct vt_opt o = vt_usual;
	struct vt_mem word;
	struct ibv_sge sge;
	struct pair p;

	needs_epoll(t);
	o.access = VT_ALL | IBV_ACCESS_REMOTE_ATOMIC;
	for (size_t half = 0; half < 16; half += 3) {
		begin(t, &p, 4096, &o);
		word = vt_mem(t, &t->b, 4096, (int)o.access);
		word.p[0] = 7;
		sge = vt_sge(&p.a, 0, 8);
		unkind.only = address(&t->b);
		unkind.stop_at = SIZE_MAX;
		post_add(p.qa, 2, &sge, &word);
		while (word.p[0] == 7)
			vt_turn(t);
		assert_true(unkind_break());
		unkind.only = address(&t->a);
		unkind.stop_at = SOFT_HDR_LEN + half;
		while (unkind.stop_at != SIZE_MAX)
			vt_turn(t);
		for (int i = 0; i < 20; i++)
			vt_turn(t);
		unkind_go_on();
		vt_expect(t, &t->a.send, 2, IBV_WC_SUCCESS);
		assert_int_equal(p.a.p[0], 7);
		assert_int_equal(word.p[0], 12);
		vt_mem_free(t, &word);
		end(t, &p);
	}
}

static void a_broken_connection_is_made_anew_and_nothing_is_lost(void **state)
{
	enum {
		N = 16
	};
	struct vt *t = *state;
	struct pair p;

	for (int round = 0; round < 12; round++) {
		begin(t, &p, BIG, &vt_usual);
		unkind.rng = (uint64_t)round + 1;
		vt_fill(p.a.p, BIG, (uint64_t)round);
		for (uint64_t id = 0; id < N; id++)
			assert_int_equal(vt_recv(p.qb, id, NULL, 0), 0);
		post(p.qa, IBV_WR_RDMA_WRITE, 99, 0, vt_sge(&p.a, 0, BIG), &p.b,
		     0);
		for (uint32_t id = 0; id < N; id++) {
			assert_int_equal(vt_send_imm(p.qa, id, id, NULL, 0), 0);
			if (id % 4 == 0)
				vt_turn(t);
		}
		for (int i = 0; i < round; i++)
			vt_turn(t);
		assert_true(unkind_break());
		for (uint64_t id = 0; id < N; id++) {
			vt_expect(t, &t->a.send, id, IBV_WC_SUCCESS);
			vt_expect(t, &t->b.recv, id, IBV_WC_SUCCESS);
		}
		vt_quiet(t, &t->b.recv, 100);
		assert_memory_equal(p.a.p, p.b.p, BIG);
		end(t, &p);
	}
}

static void an_idle_pair_survives_a_break_too(void **state)
{
	struct vt *t = *state;
	struct pair p;

	begin(t, &p, 4096, &vt_usual);
	for (unsigned i = 0; i < 8; i++) {
		assert_true(unkind_break());
		for (int k = 0; k < 50; k++)
			vt_turn(t);
		/* Whichever side speaks first. */
		post(i & 1 ? p.qb : p.qa, IBV_WR_RDMA_WRITE, i,
		     IBV_SEND_SIGNALED, vt_sge(i & 1 ? &p.b : &p.a, 0, 8),
		     i & 1 ? &p.a : &p.b, 0);
		vt_expect(t, i & 1 ? &t->b.send : &t->a.send, i,
			  IBV_WC_SUCCESS);
	}
	end(t, &p);
}

/* Only a could connect again, and has no cause to. */
static void a_connection_that_one_end_forgot_is_made_anew(void **state)
{
	struct vt *t = *state;
	struct pair p;

	begin(t, &p, 4096, &vt_usual);
	while (!unkind_forget(address(&t->b)))
		vt_turn(t);
	post(p.qb, IBV_WR_RDMA_WRITE, 2, IBV_SEND_SIGNALED, vt_sge(&p.b, 0, 8),
	     &p.a, 0);
	vt_expect(t, &t->b.send, 2, IBV_WC_SUCCESS);
	end(t, &p);
}

static void a_peer_that_was_reset_is_not_gone_on_with(void **state)
{
	struct vt *t = *state;
	struct vt_opt o = vt_usual;
	struct pair p;

	o.timeout = 10;
	o.retry_cnt = 1;
	begin(t, &p, 4096, &o);
	/* The same numbers, and another life. */
	assert_int_equal(vt_to(t, p.qb, IBV_QPS_RESET), 0);
	assert_int_equal(vt_to_init(t, p.qb, VT_ALL), 0);
	assert_int_equal(vt_to_rtr(t, p.qb, &t->a, p.qa->qp_num,
				   p.qa->qp_num * 7 & 0xffffff, &o),
			 0);
	assert_int_equal(vt_to_rts(t, p.qb, p.qb->qp_num * 5 & 0xffffff, &o),
			 0);
	post(p.qa, IBV_WR_RDMA_WRITE, 2, IBV_SEND_SIGNALED, vt_sge(&p.a, 0, 8),
	     &p.b, 0);
	vt_expect(t, &t->a.send, 2, IBV_WC_RETRY_EXC_ERR);
	end(t, &p);
}

/* b has the message and goes, though a large write of its own is half out. */
static void who_has_completed_a_receive_may_destroy_its_qp(void **state)
{
	struct vt *t = *state;
	struct pair p;

	for (int round = 0; round < 4; round++) {
		unkind.room = round & 1 ? 65536 : 0;
		begin(t, &p, BIG, &vt_usual);
		assert_int_equal(vt_recv(p.qb, 7, NULL, 0), 0);
		for (int i = 0; i < 4; i++)
			post(p.qb, IBV_WR_RDMA_WRITE, 8, 0,
			     vt_sge(&p.b, 0, BIG), &p.a, 0);
		assert_int_equal(vt_send_imm(p.qa, 2, 3, NULL, 0), 0);
		vt_expect(t, &t->b.recv, 7, IBV_WC_SUCCESS);
		vt_destroy(t, NULL, p.qb);
		vt_expect(t, &t->a.send, 2, IBV_WC_SUCCESS);
		p.qb = NULL;
		end(t, &p);
	}
}

static void a_read_of_what_is_deregistered_meanwhile_is_refused(void **state)
{
	struct vt *t = *state;
	struct pair p;
	struct ibv_wc wc;

	unkind.room = 65536;
	begin(t, &p, BIG, &vt_usual);
	post(p.qa, IBV_WR_RDMA_READ, 2, IBV_SEND_SIGNALED, vt_sge(&p.a, 0, BIG),
	     &p.b, 0);
	vt_fill(p.b.p, BIG, 5);
	while (p.a.p[8] != p.b.p[8] && !vt_try(t, &t->a.send, &wc))
		;
	assert_int_equal(t->v->dereg_mr(p.b.mr), 0);
	vt_expect(t, &t->a.send, 2, IBV_WC_REM_ACCESS_ERR);
	vt_refused(t, p.qb, IBV_EVENT_QP_ACCESS_ERR);
	assert_int_equal(t->v->reg_mr(t->b.pd, p.b.p, BIG, vt_addr(&p.b),
				      VT_ALL, &p.b.mr),
			 0);
	end(t, &p);
}

static void a_write_whose_source_is_deregistered_fails_alone(void **state)
{
	struct vt *t = *state;
	struct vt_mem gone = vt_mem(t, &t->a, BIG, VT_LOCAL);
	struct pair p;

	unkind.room = 65536;
	begin(t, &p, BIG, &vt_usual);
	memset(gone.p, 1, BIG);
	post(p.qa, IBV_WR_RDMA_WRITE, 2, IBV_SEND_SIGNALED, vt_sge(&p.a, 0, 64),
	     &p.b, 0);
	post(p.qa, IBV_WR_RDMA_WRITE, 3, IBV_SEND_SIGNALED,
	     vt_sge(&gone, 0, BIG), &p.b, 0);
	post(p.qa, IBV_WR_RDMA_WRITE, 4, IBV_SEND_SIGNALED, vt_sge(&p.a, 0, 64),
	     &p.b, 0);
	while (p.b.p[100] != 1)
		vt_turn(t);
	assert_int_equal(t->v->dereg_mr(gone.mr), 0);
	gone.mr = NULL;
	/* What came before it is done, though nobody had said so. */
	vt_expect(t, &t->a.send, 2, IBV_WC_SUCCESS);
	vt_expect(t, &t->a.send, 3, IBV_WC_LOC_PROT_ERR);
	vt_expect(t, &t->a.send, 4, IBV_WC_WR_FLUSH_ERR);
	vt_mem_free(t, &gone);
	end(t, &p);
}

/* Of memory the kernel tells nobody that it has some again, and a thread that asks
 * at each turn only keeps busy. */
static void a_send_that_found_no_memory_is_tried_again_later(void **state)
{
	const unsigned most = 4;
	struct vt *t = *state;
	struct ibv_wc wc;
	struct pair p;
	int64_t from;

	needs_epoll(t);
	begin(t, &p, 4096, &vt_usual);
	unkind.no_memory = most;
	from = vt_ms();
	post(p.qa, IBV_WR_RDMA_WRITE, 2, IBV_SEND_SIGNALED, vt_sge(&p.a, 0, 64),
	     &p.b, 256);
	while (unkind.no_memory) {
		unsigned tries;

		assert_false(vt_try(t, &t->a.send, &wc));
		tries = most - unkind.no_memory;
		assert_true(tries <= 1 + (vt_ms() - from) / 100);
		assert_true(vt_ms() - from < 10000);
	}
	vt_expect(t, &t->a.send, 2, IBV_WC_SUCCESS);
	end(t, &p);
}

static void a_listener_without_descriptors_has_them_later(void **state)
{
	struct vt *t = *state;
	struct pair p;

	unkind.no_files = 3;
	begin(t, &p, 4096, &vt_usual);
	assert_int_equal(unkind.no_files, 0);
	end(t, &p);
}

const struct CMUnitTest test_list[] = {
	vt_test(a_fenced_write_waits_for_a_read_that_is_half_sent),
	vt_test(a_read_that_is_half_sent_counts_as_one),
	vt_test(a_repeated_atomic_that_is_half_sent_is_not_answered),
	vt_test(a_broken_connection_is_made_anew_and_nothing_is_lost),
	vt_test(an_idle_pair_survives_a_break_too),
	vt_test(a_connection_that_one_end_forgot_is_made_anew),
	vt_test(a_peer_that_was_reset_is_not_gone_on_with),
	vt_test(who_has_completed_a_receive_may_destroy_its_qp),
	vt_test(a_read_of_what_is_deregistered_meanwhile_is_refused),
	vt_test(a_write_whose_source_is_deregistered_fails_alone),
	vt_test(a_send_that_found_no_memory_is_tried_again_later),
	vt_test(a_listener_without_descriptors_has_them_later),
	{ 0 },
};
