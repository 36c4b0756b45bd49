/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order within a QP, and a soak: thousands of WRITE_WITH_IMM of random sizes
 * over several QPs, every byte compared. The seed is printed, and taken from
 * MPIB_TEST_SEED; MPIB_TEST_SOAK is how many, where the network is slow.
 */
#include "vt.h"

#include <arpa/inet.h>
#include <stdlib.h>

static void writes_become_visible_in_posted_order(void **state)
{
	enum {
		N = 200,
		SIZE = 4000
	};
	struct vt *t = *state;
	struct vt_mem src = vt_mem(t, &t->a, N * SIZE, VT_LOCAL);
	struct vt_mem dst = vt_mem(t, &t->b, SIZE, VT_ALL);
	struct vt_opt o = vt_usual;
	struct ibv_qp *qa, *qb;

	o.send_wr = 2 * N;
	o.recv_wr = N;
	for (size_t i = 0; i < N; i++)
		memset(src.p + i * SIZE, (int)i, SIZE);
	vt_pair(t, &o, &qa, &qb);
	for (size_t i = 0; i < N; i++) {
		struct ibv_sge sge = vt_sge(&src, i * SIZE, SIZE);

		assert_int_equal(vt_recv(qb, i, NULL, 0), 0);
		/* All to the same place: the last of them must remain. */
		assert_int_equal(vt_rdma(qa, IBV_WR_RDMA_WRITE, i, 0, &sge, 1,
					 vt_addr(&dst), dst.mr->rkey),
				 0);
		assert_int_equal(vt_write_imm(qa, i, IBV_SEND_SIGNALED,
					      (uint32_t)i, NULL, 0, 0, 0),
				 0);
	}
	for (size_t i = 0; i < N; i++) {
		struct ibv_wc wc = vt_expect(t, &t->b.recv, i, IBV_WC_SUCCESS);

		assert_int_equal(ntohl(wc.imm_data), i);
		vt_expect(t, &t->a.send, i, IBV_WC_SUCCESS);
	}
	assert_int_equal(dst.p[0], N - 1);
	assert_int_equal(dst.p[SIZE - 1], N - 1);
}

enum {
	QPS = 6,
	SLOTS = 8,
	MAX_LEN = 1 << 20
};

/* Message k of a QP lies in slot k % SLOTS of its part of both buffers. */
struct soak {
	struct vt *t;
	struct vt_mem src, dst;
	struct ibv_qp *qa[QPS], *qb[QPS];
	uint32_t sent[QPS], received[QPS], acked[QPS];
	uint32_t len[QPS][SLOTS];
	uint64_t rng;
	unsigned total, done;
};

static size_t offset_of(unsigned q, uint32_t k)
{
	return ((size_t)q * SLOTS + k % SLOTS) * MAX_LEN;
}

static uint32_t draw_len(struct soak *s)
{
	uint64_t r = vt_rand(&s->rng);

	switch (r >> 60) {
	case 0:
		return 0;
	case 1:
	case 2:
		return (uint32_t)(r % MAX_LEN) + 1;
	case 3:
	case 4:
	case 5:
	case 6:
		return (uint32_t)(r % 65536);
	default:
		return (uint32_t)(r % 600);
	}
}

static void soak_send(struct soak *s)
{
	unsigned q = (unsigned)(vt_rand(&s->rng) % QPS);
	uint32_t k = s->sent[q];
	size_t off = offset_of(q, k);
	uint32_t len, cut;
	struct ibv_sge sge[2];

	/* The slot is free once the receiver has compared it. */
	if (k - s->received[q] == SLOTS || k - s->acked[q] == SLOTS)
		return;
	len = draw_len(s);
	cut = len ? (uint32_t)(vt_rand(&s->rng) % len) : 0;
	s->len[q][k % SLOTS] = len;
	vt_fill(s->src.p + off, len, (uint64_t)q << 32 | k);
	sge[0] = vt_sge(&s->src, off, cut);
	sge[1] = vt_sge(&s->src, off + cut, len - cut);
	assert_int_equal(vt_recv(s->qb[q], (uint64_t)q << 32 | k, NULL, 0), 0);
	assert_int_equal(vt_write_imm(s->qa[q], (uint64_t)q << 32 | k,
				      IBV_SEND_SIGNALED, k, sge, 2,
				      vt_addr(&s->dst) + off, s->dst.mr->rkey),
			 0);
	s->sent[q]++;
	s->total++;
}

static void soak_collect(struct soak *s)
{
	struct ibv_wc wc;

	while (vt_try(s->t, &s->t->b.recv, &wc)) {
		unsigned q = (unsigned)(wc.wr_id >> 32);
		uint32_t k = s->received[q]++;
		size_t off = offset_of(q, k);

		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal((uint32_t)wc.wr_id, k);
		assert_int_equal(ntohl(wc.imm_data), k);
		assert_int_equal(wc.byte_len, s->len[q][k % SLOTS]);
		assert_memory_equal(s->src.p + off, s->dst.p + off,
				    wc.byte_len);
		s->done++;
	}
	while (vt_try(s->t, &s->t->a.send, &wc)) {
		unsigned q = (unsigned)(wc.wr_id >> 32);

		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal((uint32_t)wc.wr_id, s->acked[q]);
		s->acked[q]++;
	}
}

static void a_soak_of_random_writes_delivers_every_byte(void **state)
{
	struct vt *t = *state;
	const char *env = getenv("MPIB_TEST_SEED");
	const char *soak = getenv("MPIB_TEST_SOAK");
	unsigned messages = soak ? (unsigned)atoi(soak) : 3000;
	struct soak s = { .t = t, .rng = 0x5eed };
	int64_t until = vt_ms() + 60000;

	if (env)
		s.rng = strtoull(env, NULL, 0) | 1;
	print_message("seed %llu\n", (unsigned long long)s.rng);
	s.src = vt_mem(t, &t->a, (size_t)QPS * SLOTS * MAX_LEN, VT_LOCAL);
	s.dst = vt_mem(t, &t->b, (size_t)QPS * SLOTS * MAX_LEN, VT_ALL);
	for (int i = 0; i < QPS; i++)
		vt_pair(t, &vt_usual, &s.qa[i], &s.qb[i]);
	while (s.done < messages) {
		assert_true(vt_ms() < until);
		if (s.total < messages)
			soak_send(&s);
		soak_collect(&s);
	}
}

const struct CMUnitTest test_list[] = {
	vt_test(writes_become_visible_in_posted_order),
	vt_test(a_soak_of_random_writes_delivers_every_byte),
	{ 0 },
};
