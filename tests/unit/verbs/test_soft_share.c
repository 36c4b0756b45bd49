/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two protection domains at one device, one with many QPs that all have
 * something to send: how much of it leaves in a turn, and when. Turns are made by
 * hand.
 */
#include "verbs/soft/qp.h"
#include "verbs/soft/wire/conn.h"
#include "verbs/soft/wire/rc.h"
#include "vt.h"

#define MANY 6
#define LONG (4u << 20)
#define PART (96u << 10) /* of a long message, in a turn */
#define SHORTER (80u << 10) /* the same, beside somebody who moves little */
#define LATELY 131072 /* turns that a thread counts as shared */

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

	/* Another test has shared the thread; that is over some time. */
	for (unsigned i = 0; i < LATELY; i++)
		turn_a(t);
	all_say(&p);
	assert_int_equal(turn_a(t), 0);
	arrive(t, MANY);
	sent(t, MANY);
	pairs_close(t, &p);
}

/* A long WRITE under way from an end of many's first pair to the other. */
struct longer {
	struct vt_end *from, *to;
	struct soft_qp *qp;
	struct vt_mem source, place;
	size_t left, arrived;
};

static void longer_begin(struct vt *t, struct longer *l, struct ibv_qp *qp,
			 struct vt_end *from, struct vt_end *to)
{
	struct ibv_sge sge;

	*l = (struct longer){ .from = from, .to = to, .qp = to_qp(qp) };
	l->source = vt_mem(t, from, LONG, VT_ALL);
	l->place = vt_mem(t, to, LONG, VT_ALL);
	vt_fill(l->source.p, LONG, 1);
	for (size_t i = 0; i < LONG; i++)
		l->place.p[i] = (uint8_t)~l->source.p[i];
	sge = vt_sge(&l->source, 0, LONG);
	vt_write(qp, 9, &sge, &l->place);
}

/* Bytes of it that the sender has given to its socket. */
static size_t longer_left(const struct longer *l)
{
	const struct soft_conn *conn = l->qp->conn;

	if (l->qp->sq_next == soft_sq_tail(l->qp))
		return LONG;
	if (!conn->has_cur)
		return l->qp->sq_off;
	return conn->cur.off + (conn->cur_off > SOFT_HDR_LEN
					? conn->cur_off - SOFT_HDR_LEN
					: 0);
}

/* Until all that has left is there, but for what is no whole word yet. Returns
 * how many messages came to that end meanwhile. */
static unsigned longer_arrive(struct longer *l)
{
	int64_t end = vt_ms() + 60000;
	size_t left = longer_left(l);
	unsigned said = 0;
	struct ibv_wc wc;

	while (l->arrived + (left < LONG ? 8 : 1) <= left) {
		if (ibv_poll_cq(l->to->recv.cq, 1, &wc) > 0)
			said++;
		while (l->arrived < left &&
		       l->place.p[l->arrived] == l->source.p[l->arrived])
			l->arrived++;
		assert_true(vt_ms() < end);
	}
	return said;
}

/* One turn of the device that sends. Returns how much of it left. */
static size_t longer_turn(struct longer *l)
{
	size_t before = longer_left(l);
	struct ibv_wc wc;

	ibv_poll_cq(l->from->send.cq, 1, &wc);
	return longer_left(l) - before;
}

/* All of it, after each turn in which it moves one without. */
static void longer_rests(struct longer *l)
{
	size_t last = 0;

	while (longer_left(l) < LONG) {
		size_t bytes = longer_turn(l);

		assert_true(bytes <= PART);
		assert_true(bytes == 0 || last == 0);
		last = bytes;
		longer_arrive(l);
	}
}

static void longer_end(struct vt *t, struct longer *l)
{
	vt_mem_free(t, &l->source);
	vt_mem_free(t, &l->place);
}

/* Both domains are there, and all pairs have connected. */
static void pairs_say(struct vt *t, struct pairs *p)
{
	pairs_open(t, p);
	pairs_share(t, p);
	all_say(p);
	say(p->one, p->one_b, MANY);
	sent(t, MANY + 1);
	for (unsigned i = 0; i <= MANY; i++)
		vt_wait(t, &t->b.recv);
}

/* A device that is shared, and a long message from a's end or from b's. */
static void shared_rests(struct vt *t, bool from_b)
{
	struct longer l;
	struct pairs p;

	pairs_say(t, &p);
	if (from_b)
		longer_begin(t, &l, p.many_b[0], &t->b, &t->a);
	else
		longer_begin(t, &l, p.many[0], &t->a, &t->b);
	longer_rests(&l);
	vt_wait(t, from_b ? &t->b.send : &t->a.send);
	pairs_close(t, &p);
	longer_end(t, &l);
}

static void who_moves_much_rests_a_turn_after_each(void **state)
{
	shared_rests(*state, false);
}

/* The other device of the thread has one domain only. */
static void a_thread_that_is_shared_is_so_on_each_device(void **state)
{
	shared_rests(*state, true);
}

/* In the turn in which a domain that moves little has something, the other has
 * nothing, but in the next one it has, when what it sent has been read. */
static void little_goes_first(struct vt *t, struct pairs *p, struct longer *l)
{
	struct ibv_wc wc;
	int said;

	while (longer_turn(l) == 0)
		;
	longer_arrive(l);
	assert_int_equal(longer_turn(l), 0); /* it rests */
	say(p->one, p->one_b, MANY);
	assert_int_equal(longer_turn(l), 0);
	said = ibv_poll_cq(t->b.recv.cq, 1, &wc);
	assert_true(longer_turn(l) > 0);
	if (said + (int)longer_arrive(l) == 0)
		vt_wait(t, &t->b.recv);
	sent(t, 1);
}

/* One user after another: whoever comes has the thread for himself. */
static void a_domain_that_is_gone_shares_nothing(void **state)
{
	struct vt *t = *state;
	struct pairs p = { 0 };
	struct longer l;

	for (unsigned i = 0; i < LATELY; i++)
		turn_a(t);
	pairs_share(t, &p);
	say(p.one, p.one_b, MANY);
	sent(t, 1);
	vt_wait(t, &t->b.recv);
	vt_destroy(t, p.one, p.one_b);
	assert_int_equal(t->v->dealloc_pd(p.pd), 0);
	vt_pair(t, &vt_usual, &p.one, &p.one_b);
	say(p.one, p.one_b, 0);
	sent(t, 1);
	vt_wait(t, &t->b.recv);
	longer_begin(t, &l, p.one, &t->a, &t->b);
	assert_true(longer_turn(&l) > PART);
	vt_wait(t, &t->a.send);
	vt_destroy(t, p.one, p.one_b);
	longer_end(t, &l);
}

static void who_moves_little_goes_first(void **state)
{
	struct vt *t = *state;
	unsigned times = 0;
	struct longer l;
	struct pairs p;

	pairs_say(t, &p);
	longer_begin(t, &l, p.many[0], &t->a, &t->b);
	for (; longer_left(&l) + 16ul * PART < LONG; times++)
		little_goes_first(t, &p, &l);
	assert_true(times > 0);
	longer_rests(&l);
	sent(t, 1);
	pairs_close(t, &p);
	longer_end(t, &l);
}

static bool has_arrived(struct vt *t, const struct longer *l)
{
	struct ibv_wc wc;

	assert_int_equal(ibv_poll_cq(t->b.recv.cq, 1, &wc), 0);
	return l->place.p[0] == l->source.p[0];
}

/* Both devices are of one thread: one reads when the other has rested. */
static void one_device_at_a_time_moves_much_beside_little(void **state)
{
	struct vt *t = *state;
	struct longer l;
	struct pairs p;

	pairs_say(t, &p);
	longer_begin(t, &l, p.many[0], &t->a, &t->b);
	longer_rests(&l);
	sent(t, 1);
	longer_end(t, &l);
	say(p.one, p.one_b, MANY);
	sent(t, 1);
	vt_wait(t, &t->b.recv);
	longer_begin(t, &l, p.many[0], &t->a, &t->b);
	while (longer_turn(&l) == 0)
		;
	assert_true(longer_left(&l) <= SHORTER);
	assert_false(has_arrived(t, &l));
	assert_int_equal(longer_turn(&l), 0);
	assert_true(has_arrived(t, &l));
	sent(t, 1);
	pairs_close(t, &p);
	longer_end(t, &l);
}

const struct CMUnitTest test_list[] = {
	vt_test(a_turn_serves_one_socket_of_each_domain),
	vt_test(a_domain_alone_has_the_whole_turn),
	vt_test(a_domain_that_is_gone_shares_nothing),
	vt_test(who_moves_much_rests_a_turn_after_each),
	vt_test(who_moves_little_goes_first),
	vt_test(one_device_at_a_time_moves_much_beside_little),
	vt_test(a_thread_that_is_shared_is_so_on_each_device),
	{ 0 },
};
