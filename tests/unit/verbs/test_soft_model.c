/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random messages, compared with a simple model of what verbs promise. No
 * matter what the network does, each request must be executed once, in order
 * and with its data, and must complete if it is signalled. Each message must
 * use the oldest receive. The argument is the number of seeds.
 */
#include "model.h"

#include "unkind.h"

enum {
	REQUESTS = 250, /* requests of each side */
	/* TCP may take seconds to retransmit */
	STUCK_MS = 100000
};

static unsigned seeds = 2;

static bool take_all(struct model *m)
{
	struct vt_end *ends[] = { &m->t->a, &m->t->b };
	struct ibv_wc wc;
	bool any = false;

	for (int half = 0; half < 2; half++) {
		while (vt_try(m->t, &ends[half]->send, &wc)) {
			model_take_sent(m, &wc, half);
			any = true;
		}
		while (vt_try(m->t, &ends[half]->recv, &wc)) {
			model_take_received(m, &wc, half);
			any = true;
		}
	}
	return any;
}

/* If nothing is in flight, deregister the memory of `s` and register it
 * again. */
static void register_again(struct model *m, struct side *s)
{
	if (s->done != s->posted || s->peer->done != s->peer->posted ||
	    s->recv_done != s->recv_posted)
		return;
	assert_int_equal(m->t->v->dereg_mr(s->mem.mr), 0);
	assert_int_equal(m->t->v->reg_mr(s->end->pd, s->mem.p, ALL,
					 vt_addr(&s->mem), VT_ALL, &s->mem.mr),
			 0);
}

static bool feed(struct model *m, struct side *s)
{
	bool more = s->posted < REQUESTS;

	for (uint64_t i = model_draw(m, 5); more && i; i--) {
		if (s->posted - s->done > WINDOW - 2)
			break;
		if (model_draw(m, 10))
			model_post_request(m, s);
		else
			model_post_counter(m, s);
	}
	/* If the last request is not signalled, post one more request, whose
	 * completion shows that all requests are done. */
	if (!more && s->done != s->posted &&
	    !s->sent[(s->posted - 1) % WINDOW].signaled &&
	    s->posted - s->done < WINDOW)
		model_post_last(s);

	if (model_draw(m, 3) == 0)
		for (uint64_t i = model_draw(m, 6); i; i--)
			if (s->recv_posted - s->recv_done < RECVS)
				model_post_receive(m, s);
	if (model_draw(m, 50) == 0)
		register_again(m, s);
	return more || s->done != s->posted || s->first != s->last;
}

static void say_where(struct model *m)
{
	for (int i = 0; i < PAIRS; i++)
		for (int half = 0; half < 2; half++) {
			struct side *s = &m->side[i][half];

			print_error("pair %d half %d: sent %d of %d, "
				    "received %d of %d, receives %d\n",
				    i, half, (int)s->done, (int)s->posted,
				    (int)s->first, (int)s->last,
				    (int)s->recv_posted);
		}
}

static void run(struct model *m)
{
	int64_t moved = vt_ms();

	for (bool busy = true; busy;) {
		busy = false;
		m->turns++;
		for (int i = 0; i < PAIRS; i++)
			for (int half = 0; half < 2; half++)
				busy |= feed(m, &m->side[i][half]);
		if (take_all(m)) {
			moved = vt_ms();
			/* Break connections only after some progress, so that
			 * some data can pass between two breaks. */
			if (m->breaks && model_draw(m, m->breaks) == 0)
				m->broken += unkind_break();
			if (unkind.cut && model_draw(m, 100) == 0)
				unkind.no_memory = 1;
		}
		if (vt_ms() - moved > STUCK_MS) {
			say_where(m);
			fail_msg("nothing moves");
		}
	}
}

static void side_begin(struct model *m, int pair, int half)
{
	struct side *s = &m->side[pair][half];

	s->peer = &m->side[pair][!half];
	s->end = half ? &m->t->b : &m->t->a;
	s->mem = vt_mem(m->t, s->end, ALL, VT_ALL);
	vt_fill(s->mem.p + READABLE, 2 * BIG, (uint64_t)pair * 2);
}

static void pair_begin(struct model *m, int pair, struct vt_opt *o)
{
	struct side *s = m->side[pair];
	struct vt_opt with = *o;

	side_begin(m, pair, 0);
	side_begin(m, pair, 1);
	if (pair == PAIRS - 1)
		with.srq = m->srq;
	s[0].qp = vt_qp(m->t, s[0].end, o);
	s[1].qp = vt_qp(m->t, s[1].end, &with);
	vt_connect(m->t, s[0].qp, s[1].qp, o);
}

static void traffic_of(struct vt *t, uint64_t seed)
{
	struct model *m = calloc(1, sizeof(*m));
	struct ibv_srq_init_attr srq = { .attr = { RECVS, PIECES, 0 } };
	struct vt_opt o = vt_usual;

	assert_non_null(m);
	m->t = t;
	m->rng = seed * 0x9e3779b97f4a7c15u | 1;
	unkind.rng = m->rng;
	unkind.room = model_draw(m, 2) ? 4608 : 0;
	unkind.cut = model_draw(m, 2) ? 30 : 0;
	m->breaks = model_draw(m, 3) ? 8 : 0;
	o.sge = PIECES;
	o.access = VT_ALL;
	o.rd_atomic = (uint8_t)(1 + model_draw(m, 4));
	o.timeout = 20;
	assert_int_equal(t->v->create_srq(t->b.pd, &srq, &m->srq), 0);
	print_message("seed %lu: space %d, %u %% cut, breaks %u\n",
		      (unsigned long)seed, unkind.room, unkind.cut, m->breaks);
	for (int i = 0; i < PAIRS; i++)
		pair_begin(m, i, &o);
	run(m);
	print_message("broken %u, turns %u\n", m->broken, m->turns);
	for (int i = 0; i < PAIRS; i++) {
		vt_destroy(t, m->side[i][0].qp, m->side[i][1].qp);
		vt_mem_free(t, &m->side[i][0].mem);
		vt_mem_free(t, &m->side[i][1].mem);
	}
	assert_int_equal(t->v->destroy_srq(m->srq), 0);
	unkind = (struct unkind){ .rng = 1 };
	free(m);
}

vt_test(requests_are_executed_once_and_in_order)
{
	for (unsigned seed = 1; seed <= seeds; seed++)
		traffic_of(t, seed);
}

unsigned *test_times = &seeds;
