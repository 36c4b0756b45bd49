/* SPDX-License-Identifier: Apache-2.0 */
/* Compare-and-swap and fetch-and-add: results, order, depth, refusals. */
#include "vt.h"

#include <errno.h>

#define ACCESS (VT_ALL | IBV_ACCESS_REMOTE_ATOMIC)
#define WORDS 64

struct fixture {
	struct vt_mem local, remote;
	struct ibv_qp *qa, *qb;
};

static void begin(struct vt *t, struct fixture *f, unsigned of_qp, int of_mem)
{
	struct vt_opt o = vt_usual;

	o.access = of_qp;
	f->local = vt_mem(t, &t->a, WORDS * 8, VT_LOCAL);
	f->remote = vt_mem(t, &t->b, WORDS * 8, of_mem);
	vt_pair(t, &o, &f->qa, &f->qb);
}

static uint64_t word(const struct vt_mem *m, size_t i)
{
	uint64_t v;

	memcpy(&v, m->p + i * 8, sizeof(v));
	return v;
}

static void set_word(struct vt_mem *m, size_t i, uint64_t v)
{
	memcpy(m->p + i * 8, &v, sizeof(v));
}

/* Into local word id; the remote word is at byte off. */
static int post(struct fixture *f, uint64_t id, size_t off, size_t len,
		struct ibv_send_wr wr)
{
	struct ibv_sge sge = vt_sge(&f->local, id * 8, len);
	struct ibv_send_wr *bad = NULL;

	wr.wr_id = id;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.send_flags |= IBV_SEND_SIGNALED;
	wr.wr.atomic.remote_addr = vt_addr(&f->remote) + off;
	if (!wr.wr.atomic.rkey)
		wr.wr.atomic.rkey = f->remote.mr->rkey;
	return ibv_post_send(f->qa, &wr, &bad);
}

static int add(struct fixture *f, uint64_t id, size_t off, uint64_t by)
{
	return post(f, id, off, 8,
		    (struct ibv_send_wr){ .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
					  .wr.atomic.compare_add = by });
}

static int swap(struct fixture *f, uint64_t id, size_t off, uint64_t want,
		uint64_t with)
{
	return post(f, id, off, 8,
		    (struct ibv_send_wr){ .opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
					  .wr.atomic = { .compare_add = want,
							 .swap = with } });
}

vt_test(adding_returns_what_was_there)
{
	struct vt *t = *state;
	struct fixture f;
	struct ibv_wc wc;

	begin(t, &f, ACCESS, ACCESS);
	set_word(&f.remote, 1, UINT64_MAX - 1);
	assert_int_equal(add(&f, 1, 8, 5), 0);
	wc = vt_expect(t, &t->a.send, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_FETCH_ADD);
	assert_int_equal(wc.byte_len, 8);
	assert_int_equal(word(&f.local, 1), UINT64_MAX - 1);
	assert_int_equal(word(&f.remote, 1), 3);
	assert_int_equal(word(&f.remote, 0), 0);
	assert_int_equal(word(&f.remote, 2), 0);
	vt_quiet(t, &t->b.recv, 5);
}

vt_test(swapping_wants_what_it_compares_with)
{
	struct vt *t = *state;
	struct fixture f;
	struct ibv_wc wc;

	begin(t, &f, ACCESS, ACCESS);
	set_word(&f.remote, 0, 0x1122334455667788);
	assert_int_equal(swap(&f, 1, 0, 0x1122334455667789, 7), 0);
	wc = vt_expect(t, &t->a.send, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_COMP_SWAP);
	assert_int_equal(word(&f.local, 1), 0x1122334455667788);
	assert_int_equal(word(&f.remote, 0), 0x1122334455667788);
	assert_int_equal(swap(&f, 2, 0, 0x1122334455667788, 7), 0);
	vt_expect(t, &t->a.send, 2, IBV_WC_SUCCESS);
	assert_int_equal(word(&f.local, 2), 0x1122334455667788);
	assert_int_equal(word(&f.remote, 0), 7);
}

/* More than the depth, and more than the HCA keeps results of. */
vt_test(each_of_many_counts_once_and_in_order)
{
	struct vt *t = *state;
	struct fixture f;

	begin(t, &f, ACCESS, ACCESS);
	for (int round = 0; round < 3; round++) {
		uint64_t from = (uint64_t)round * WORDS;

		for (uint64_t i = 0; i < WORDS; i++)
			assert_int_equal(add(&f, i, 0, 1), 0);
		for (uint64_t i = 0; i < WORDS; i++)
			vt_expect(t, &t->a.send, i, IBV_WC_SUCCESS);
		for (uint64_t i = 0; i < WORDS; i++)
			assert_int_equal(word(&f.local, i), from + i);
		assert_int_equal(word(&f.remote, 0), from + WORDS);
	}
}

vt_test(both_sides_add_to_one_word)
{
	struct vt *t = *state;
	struct fixture f;
	struct vt_mem back;
	struct ibv_send_wr *bad = NULL;

	begin(t, &f, ACCESS, ACCESS);
	back = vt_mem(t, &t->b, 8, VT_LOCAL);
	vt_mem_free(t, &f.local);
	f.local = vt_mem(t, &t->a, WORDS * 8, ACCESS);
	for (uint64_t i = 0; i < 32; i++) {
		struct ibv_sge sge = vt_sge(&back, 0, 8);
		struct ibv_send_wr wr = {
			.wr_id = i,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.atomic = { .remote_addr = vt_addr(&f.local) +
						      (WORDS - 1) * 8,
				       .compare_add = 1,
				       .rkey = f.local.mr->rkey },
		};

		assert_int_equal(add(&f, i, 0, 1), 0);
		assert_int_equal(ibv_post_send(f.qb, &wr, &bad), 0);
	}
	for (uint64_t i = 0; i < 32; i++) {
		vt_expect(t, &t->a.send, i, IBV_WC_SUCCESS);
		vt_expect(t, &t->b.send, i, IBV_WC_SUCCESS);
	}
	assert_int_equal(word(&f.remote, 0), 32);
	assert_int_equal(word(&f.local, WORDS - 1), 32);
	assert_int_equal(word(&back, 0), 31);
}

vt_test(a_read_and_an_atomic_share_the_depth_and_the_order)
{
	struct vt *t = *state;
	struct fixture f;

	begin(t, &f, ACCESS, ACCESS);
	for (uint64_t i = 0; i < 40; i += 2) {
		struct ibv_sge sge = vt_sge(&f.local, (i + 1) * 8, 8);

		assert_int_equal(add(&f, i, 0, 10), 0);
		vt_read(f.qa, i + 1, &sge, &f.remote);
	}
	for (uint64_t i = 0; i < 40; i++)
		vt_expect(t, &t->a.send, i, IBV_WC_SUCCESS);
	/* The word may be read late, but not before the add. */
	for (uint64_t i = 0; i < 40; i += 2) {
		assert_int_equal(word(&f.local, i), i * 5);
		assert_true(word(&f.local, i + 1) >= i * 5 + 10);
	}
}

vt_test(a_fenced_write_carries_what_was_fetched)
{
	struct vt *t = *state;
	struct fixture f;
	struct ibv_sge sge;

	begin(t, &f, ACCESS, ACCESS);
	set_word(&f.remote, 0, 77);
	sge = vt_sge(&f.local, 8, 8);
	assert_int_equal(add(&f, 1, 0, 1), 0);
	assert_int_equal(vt_rdma(f.qa, IBV_WR_RDMA_WRITE, 2,
				 IBV_SEND_SIGNALED | IBV_SEND_FENCE, &sge, 1,
				 vt_addr(&f.remote) + 16, f.remote.mr->rkey),
			 0);
	vt_expect(t, &t->a.send, 1, IBV_WC_SUCCESS);
	vt_expect(t, &t->a.send, 2, IBV_WC_SUCCESS);
	assert_int_equal(word(&f.remote, 2), 77);
}

static void refused(struct vt *t, struct fixture *f, size_t off, uint32_t rkey,
		    enum ibv_wc_status status, enum ibv_event_type event)
{
	assert_int_equal(
		post(f, 1, off, 8,
		     (struct ibv_send_wr){
			     .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
			     .wr.atomic = { .compare_add = 1, .rkey = rkey } }),
		0);
	vt_expect(t, &t->a.send, 1, status);
	assert_int_equal(vt_state(t, f->qa), IBV_QPS_ERR);
	vt_refused(t, f->qb, event);
	for (size_t i = 0; i < WORDS; i++)
		assert_int_equal(word(&f->remote, i), 0);
}

vt_test(an_address_between_two_words_is_refused)
{
	struct fixture f;

	begin(*state, &f, ACCESS, ACCESS);
	refused(*state, &f, 4, 0, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
}

vt_test(a_word_beyond_the_region_is_refused)
{
	struct fixture f;

	begin(*state, &f, ACCESS, ACCESS);
	refused(*state, &f, WORDS * 8ul, 0, IBV_WC_REM_ACCESS_ERR,
		IBV_EVENT_QP_ACCESS_ERR);
}

vt_test(an_unknown_rkey_is_refused)
{
	struct fixture f;

	begin(*state, &f, ACCESS, ACCESS);
	refused(*state, &f, 0, f.remote.mr->rkey ^ 0x77001,
		IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

vt_test(a_region_not_for_atomics_is_refused)
{
	struct fixture f;

	begin(*state, &f, ACCESS, VT_ALL);
	refused(*state, &f, 0, 0, IBV_WC_REM_ACCESS_ERR,
		IBV_EVENT_QP_ACCESS_ERR);
}

vt_test(a_qp_not_for_atomics_refuses)
{
	struct fixture f;

	begin(*state, &f, VT_ALL, ACCESS);
	refused(*state, &f, 0, 0, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
}

vt_test(the_answer_needs_eight_bytes_that_may_be_written)
{
	struct vt *t = *state;
	struct fixture f;

	if (t->rxe)
		skip();
	begin(t, &f, ACCESS, ACCESS);
	assert_int_equal(post(&f, 1, 0, 7,
			      (struct ibv_send_wr){
				      .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				      .wr.atomic.compare_add = 1 }),
			 0);
	vt_expect(t, &t->a.send, 1, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(word(&f.remote, 0), 0);
	begin(t, &f, ACCESS, ACCESS);
	assert_int_equal(
		post(&f, 2, 0, 8,
		     (struct ibv_send_wr){ .opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
					   .send_flags = IBV_SEND_INLINE }),
		EINVAL);
}
