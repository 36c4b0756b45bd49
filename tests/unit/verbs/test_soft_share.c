/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two protection domains at one device, one with many QPs that all have
 * something to send: how much of it leaves in a turn. Turns are made by hand.
 */
#include "vt.h"

#define MANY 6
#define LONG (1u << 20)

struct pairs {
	struct ibv_pd *pd, *own; /* of the one QP; what the end had */
	struct ibv_qp *many[MANY], *many_b[MANY], *one, *one_b;
};

static void pairs_open(struct vt *t, struct pairs *p)
{
	*p = (struct pairs){ 0 };
	for (unsigned i = 0; i < MANY; i++)
		vt_pair(t, &vt_usual, &p->many[i], &p->many_b[i]);
}

static void pairs_share(struct vt *t, struct pairs *p)
{
	assert_int_equal(t->v->alloc_pd(t->a.ctx, &p->pd), 0);
	p->own = t->a.pd;
	t->a.pd = p->pd;
	vt_pair(t, &vt_usual, &p->one, &p->one_b);
	t->a.pd = p->own;
}

static void pairs_close(struct vt *t, struct pairs *p)
{
	vt_destroy(t, p->one, p->one_b);
	for (unsigned i = 0; i < MANY; i++)
		vt_destroy(t, p->many[i], p->many_b[i]);
	if (p->pd)
		assert_int_equal(t->v->dealloc_pd(p->pd), 0);
}

/* An empty message from a's end. */
static void say(struct ibv_qp *qp, struct ibv_qp *to, uint64_t id)
{
	assert_int_equal(vt_recv(to, id, NULL, 0), 0);
	assert_int_equal(
		vt_send(qp, IBV_WR_SEND, id, IBV_SEND_SIGNALED, NULL, 0), 0);
}

static void all_say(struct pairs *p)
{
	for (unsigned i = 0; i < MANY; i++)
		say(p->many[i], p->many_b[i], i);
}

/* One turn of a's device, in which so many messages were acknowledged. */
static unsigned turn_a(struct vt *t)
{
	struct ibv_wc wc[2 * MANY];
	int n = ibv_poll_cq(t->a.send.cq, 2 * MANY, wc);

	assert_true(n >= 0);
	for (int i = 0; i < n; i++)
		assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
	return (unsigned)n;
}

/* n messages come to b, and no more; a makes no turn meanwhile. Returns which as
 * bits. */
static unsigned arrive(struct vt *t, unsigned n)
{
	int64_t end = vt_ms() + 60000;
	unsigned got = 0, which = 0;
	struct ibv_wc wc;

	for (unsigned quiet = 0; quiet < 100;) {
		int some = ibv_poll_cq(t->b.recv.cq, 1, &wc);

		assert_true(some >= 0);
		if (some > 0) {
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			which |= 1u << wc.wr_id;
			got++;
		}
		quiet = got < n || some > 0 ? 0 : quiet + 1;
		assert_true(vt_ms() < end);
	}
	assert_int_equal(got, n);
	return which;
}

static void sent(struct vt *t, unsigned n)
{
	while (n--)
		assert_int_equal(vt_wait(t, &t->a.send).status, IBV_WC_SUCCESS);
}

static void a_turn_serves_one_socket_of_each_domain(void **state)
{
	struct vt *t = *state;
	struct pairs p;

	pairs_open(t, &p);
	pairs_share(t, &p);
	for (unsigned round = 0; round < 10; round++) {
		unsigned seen, over;

		/* Connect, or have all answered of the last round. */
		all_say(&p);
		say(p.one, p.one_b, MANY);
		sent(t, MANY + 1);
		for (unsigned i = 0; i <= MANY; i++)
			vt_wait(t, &t->b.recv);

		all_say(&p);
		say(p.one, p.one_b, MANY);
		over = turn_a(t);
		seen = arrive(t, 2);
		assert_true(seen & 1u << MANY);
		/* Each of the others comes to its turn. */
		while (seen != (2u << MANY) - 1) {
			unsigned more;

			over += turn_a(t);
			more = arrive(t, 1);
			assert_false(more & seen);
			seen |= more;
		}
		sent(t, MANY + 1 - over);
	}
	pairs_close(t, &p);
}

static void a_domain_alone_has_the_whole_turn(void **state)
{
	struct vt *t = *state;
	struct pairs p;

	pairs_open(t, &p);
	all_say(&p);
	sent(t, MANY);
	for (unsigned i = 0; i < MANY; i++)
		vt_wait(t, &t->b.recv);

	all_say(&p);
	assert_int_equal(turn_a(t), 0);
	arrive(t, MANY);
	sent(t, MANY);
	pairs_close(t, &p);
}

/* A long message of one is cut, so that a turn with it is not longer. */
static void a_message_is_moved_in_parts_while_domains_share(void **state)
{
	struct vt *t = *state;
	struct pairs p;
	struct vt_mem from = vt_mem(t, &t->a, LONG, VT_ALL),
		      to = vt_mem(t, &t->b, LONG, VT_ALL);
	struct ibv_sge sge = vt_sge(&from, 0, LONG);
	unsigned turns = 0;

	pairs_open(t, &p);
	pairs_share(t, &p);
	vt_fill(from.p, LONG, 1);
	all_say(&p);
	say(p.one, p.one_b, MANY);
	sent(t, MANY + 1);
	for (unsigned i = 0; i <= MANY; i++)
		vt_wait(t, &t->b.recv);

	assert_int_equal(vt_rdma(p.many[0], IBV_WR_RDMA_WRITE, 9,
				 IBV_SEND_SIGNALED, &sge, 1, vt_addr(&to),
				 to.mr->rkey),
			 0);
	for (struct ibv_wc wc; ibv_poll_cq(t->a.send.cq, 1, &wc) == 0; turns++)
		ibv_poll_cq(t->b.recv.cq, 1, &wc);
	/* No turn of either end moves more than an eighth of it. */
	assert_true(turns >= 8);
	assert_memory_equal(from.p, to.p, LONG);
	pairs_close(t, &p);
	vt_mem_free(t, &from);
	vt_mem_free(t, &to);
}

const struct CMUnitTest test_list[] = {
	vt_test(a_turn_serves_one_socket_of_each_domain),
	vt_test(a_domain_alone_has_the_whole_turn),
	vt_test(a_message_is_moved_in_parts_while_domains_share),
	{ 0 },
};
