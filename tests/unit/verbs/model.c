/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include <arpa/inet.h>

uint64_t model_draw(struct model *m, uint64_t n)
{
	return vt_rand(&m->rng) % n;
}

static size_t data_slot(uint64_t n)
{
	return (size_t)(n % WINDOW) * BIG;
}

static size_t write_slot(uint64_t n)
{
	return (size_t)(WINDOW + n % WINDOW) * BIG;
}

static size_t recv_slot(uint64_t n)
{
	return (size_t)(2 * WINDOW + n % RECVS) * BIG;
}

static uint32_t draw_len(struct model *m)
{
	static const uint32_t edges[] = { 0,	1,     7,     8,     63,
					  4096, 65535, 65536, 65537, 131072 };

	switch (model_draw(m, 8)) {
	case 0:
		return edges[model_draw(m, sizeof(edges) / sizeof(edges[0]))];
	case 1:
		return (uint32_t)model_draw(m, BIG);
	case 2:
	case 3:
		return (uint32_t)model_draw(m, 5000);
	default:
		return (uint32_t)model_draw(m, 300);
	}
}

/* Divide `len` bytes, beginning at `off`, into pieces. Some pieces are empty.
 * An empty piece gets an invalid key, which must not matter. */
static int cut(struct model *m, const struct vt_mem *mem, size_t off,
	       uint32_t len, bool is_inline, struct ibv_sge *sge)
{
	int n = 0;

	while (len && n < PIECES - 1) {
		uint32_t some = n == PIECES - 2 || model_draw(m, 2)
					? len
					: (uint32_t)model_draw(m, len + 1);

		sge[n] = vt_sge(mem, off, some);
		if (!some || is_inline)
			sge[n].lkey = 0xdead;
		n++;
		off += some;
		len -= some;
	}
	return n;
}

void model_post_receive(struct model *m, struct side *s)
{
	struct ibv_sge sge[PIECES];
	int n = cut(m, &s->mem, recv_slot(s->recv_posted), BIG, false, sge);

	if (s->qp->srq)
		assert_int_equal(vt_srq_recv(m->srq, s->recv_posted++, sge, n),
				 0);
	else
		assert_int_equal(vt_recv(s->qp, s->recv_posted++, sge, n), 0);
}

static struct request *begin_request(struct side *s, struct request r)
{
	struct request *slot = &s->sent[s->posted % WINDOW];

	r.seed = s->posted * 31 + s->qp->qp_num;
	*slot = r;
	return slot;
}

static void post(struct side *s, const struct request *r,
		 struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	wr->wr_id = s->posted++;
	wr->opcode = r->op;
	wr->imm_data = htonl((uint32_t)wr->wr_id);
	wr->send_flags |= r->signaled ? IBV_SEND_SIGNALED : 0;
	assert_int_equal(ibv_post_send(s->qp, wr, &bad), 0);
}

static bool is_signaled(struct model *m, struct side *s)
{
	/* At least every (WINDOW / 2)-th request must be signalled, so that the
	 * test sees when it may post more. */
	return s->posted % (WINDOW / 2) == 0 || model_draw(m, 3) == 0;
}

/* Post a READ of the peer's counter, then a fenced WRITE that changes the
 * counter after the READ. */
void model_post_counter(struct model *m, struct side *s)
{
	struct ibv_sge sge = vt_sge(&s->mem, data_slot(s->posted), 8);
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1 };
	struct request *r;

	wr.wr.rdma.rkey = s->peer->mem.mr->rkey;
	wr.wr.rdma.remote_addr = vt_addr(&s->peer->mem) + COUNTER;
	r = begin_request(s, (struct request){ .op = IBV_WR_RDMA_READ,
					       .len = 8,
					       .signaled = is_signaled(m, s),
					       .was = s->counter + 1 });
	post(s, r, &wr);
	s->counter++;
	sge.addr = (uintptr_t)&s->counter;
	wr.send_flags = IBV_SEND_FENCE | IBV_SEND_INLINE;
	r = begin_request(s, (struct request){ .op = IBV_WR_RDMA_WRITE,
					       .signaled = is_signaled(m, s) });
	post(s, r, &wr);
}

void model_post_request(struct model *m, struct side *s)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_RDMA_WRITE,	    IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND,
		IBV_WR_SEND_WITH_IMM,	    IBV_WR_RDMA_READ,
	};
	struct request *r = begin_request(
		s, (struct request){ .op = ops[model_draw(m, 6)],
				     .len = draw_len(m),
				     .signaled = is_signaled(m, s) });
	bool read = r->op == IBV_WR_RDMA_READ;
	bool is_inline = !read && r->len <= 64 && model_draw(m, 2);
	uint8_t *data = s->mem.p + data_slot(s->posted);
	struct ibv_sge sge[PIECES];
	struct ibv_send_wr wr = { .sg_list = sge };
	uint64_t n = s->posted;

	wr.num_sge = cut(m, &s->mem, data_slot(n), r->len, is_inline, sge);
	wr.send_flags = (is_inline ? IBV_SEND_INLINE : 0) |
			(model_draw(m, 4) ? 0 : IBV_SEND_FENCE) |
			(model_draw(m, 2) ? 0 : IBV_SEND_SOLICITED);
	wr.wr.rdma.rkey = s->peer->mem.mr->rkey;
	wr.wr.rdma.remote_addr = vt_addr(&s->peer->mem) + write_slot(n);
	if (read) {
		r->seed = model_draw(m, BIG);
		wr.wr.rdma.remote_addr =
			vt_addr(&s->peer->mem) + READABLE + r->seed;
		memset(data, 0x5a, r->len);
	} else {
		vt_fill(data, r->len, r->seed);
	}
	post(s, r, &wr);
	if (is_inline)
		memset(data, 0xee, r->len);
	if (r->op != IBV_WR_RDMA_WRITE && !read)
		s->peer->expected[s->peer->last++ % (4 * WINDOW)] = *r;
	if (r->op != IBV_WR_RDMA_WRITE && !read)
		s->peer->expected[(s->peer->last - 1) % (4 * WINDOW)].was = n;
}

void model_post_last(struct side *s)
{
	struct request r = { .op = IBV_WR_RDMA_WRITE, .signaled = true };
	struct ibv_send_wr wr = { 0 };

	post(s, begin_request(s, r), &wr);
}

static void assert_bytes(const uint8_t *at, uint32_t len, uint64_t seed)
{
	static uint8_t want[BIG + 8];

	vt_fill(want, len, seed);
	assert_memory_equal(at, want, len);
}

/* Check the data of the completed request `n` of `s`. */
static void check_done(struct side *s, uint64_t n)
{
	const struct request *r = &s->sent[n % WINDOW];
	const uint8_t *data = s->mem.p + data_slot(n);
	uint64_t was;

	if (r->was) {
		memcpy(&was, data, sizeof(was));
		assert_int_equal(was + 1, r->was);
	} else if (r->op == IBV_WR_RDMA_READ) {
		assert_memory_equal(data, s->peer->mem.p + READABLE + r->seed,
				    r->len);
	} else if (r->len && (r->op == IBV_WR_RDMA_WRITE ||
			      r->op == IBV_WR_RDMA_WRITE_WITH_IMM)) {
		assert_bytes(s->peer->mem.p + write_slot(n), r->len, r->seed);
	}
}

static struct side *side_of(struct model *m, const struct ibv_wc *wc, int half)
{
	for (int i = 0; i < PAIRS; i++)
		if (m->side[i][half].qp->qp_num == wc->qp_num)
			return &m->side[i][half];
	fail_msg("a completion of an unknown QP");
	return NULL;
}

void model_take_sent(struct model *m, const struct ibv_wc *wc, int half)
{
	struct side *s = side_of(m, wc, half);
	uint64_t n = s->done;

	assert_int_equal(wc->status, IBV_WC_SUCCESS);
	while (n < s->posted && !s->sent[n % WINDOW].signaled)
		n++;
	assert_true(n < s->posted);
	assert_int_equal(wc->wr_id, n);
	for (; s->done <= n; s->done++)
		check_done(s, s->done);
}

void model_take_received(struct model *m, const struct ibv_wc *wc, int half)
{
	struct side *s = side_of(m, wc, half);
	const struct request *r = &s->expected[s->first % (4 * WINDOW)];
	bool write = r->op == IBV_WR_RDMA_WRITE_WITH_IMM;
	bool imm = write || r->op == IBV_WR_SEND_WITH_IMM;

	assert_int_equal(wc->status, IBV_WC_SUCCESS);
	assert_true(s->first < s->last);
	assert_int_equal(wc->wr_id, s->recv_done);
	assert_int_equal(wc->opcode,
			 write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV);
	assert_int_equal(wc->byte_len, r->len);
	assert_int_equal(wc->wc_flags, imm ? IBV_WC_WITH_IMM : 0);
	if (imm)
		assert_int_equal(ntohl(wc->imm_data), (uint32_t)r->was);
	if (!write)
		assert_bytes(s->mem.p + recv_slot(s->recv_done), r->len,
			     r->seed);
	s->first++;
	s->recv_done++;
}
