/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two devices of a thread, at each of which one domain moves much and one moves
 * little: in whatever order they have their turns, both are served. Turns are
 * made by hand.
 */
#include <limits.h>

#include "verbs/soft/ctx.h"
#include "verbs/soft/qp.h"
#include "verbs/soft/wire/conn.h"
#include "vt.h"

#define LONG (16u << 20)
#define WARM 16 /* turns after which both are known to move much */
#define REST_MOST 64 /* turns that a device rests for another's */
#define ON_END 3 /* operations of one that the other may wait for */

/* A device, and the domain there that writes to the other. */
struct side {
	struct vt_end *end, *peer;
	struct ibv_pd *much; /* what the end had */
	struct ibv_qp *little, *qp;
	struct vt_mem source, place;
	unsigned on_end; /* operations, since the other side began to wait */
	bool done;
};

static void side_open(struct vt *t, struct side *s, struct vt_end *end,
		      struct vt_end *peer)
{
	*s = (struct side){ .end = end, .peer = peer, .much = end->pd };
	s->source = vt_mem(t, end, LONG, VT_ALL);
	s->place = vt_mem(t, peer, LONG, VT_ALL);
	vt_fill(s->source.p, LONG, 1);
}

static void sides_open(struct vt *t, struct side *s)
{
	side_open(t, &s[0], &t->a, &t->b);
	side_open(t, &s[1], &t->b, &t->a);
	vt_pair(t, &vt_usual, &s[0].qp, &s[1].qp);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(t->v->alloc_pd(s[i].end->ctx, &s[i].end->pd),
				 0);
	vt_pair(t, &vt_usual, &s[0].little, &s[1].little);
}

static void sides_close(struct vt *t, struct side *s)
{
	vt_destroy(t, s[0].qp, s[1].qp);
	vt_destroy(t, s[0].little, s[1].little);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(t->v->dealloc_pd(s[i].end->pd), 0);
		s[i].end->pd = s[i].much;
		vt_mem_free(t, &s[i].source);
		vt_mem_free(t, &s[i].place);
	}
}

static void begin(struct side *s)
{
	struct ibv_sge sge = vt_sge(&s->source, 0, LONG);

	vt_write(s->qp, 0, &sge, &s->place);
}

/* An empty message of who moves little. */
static void say(struct side *from, struct side *to)
{
	assert_int_equal(vt_recv(to->little, 1, NULL, 0), 0);
	assert_int_equal(vt_send(from->little, IBV_WR_SEND, 1,
				 IBV_SEND_SIGNALED, NULL, 0),
			 0);
}

static void take(struct side *s, struct vt_cq *q)
{
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(q->cq, 16, wc);

	assert_true(n >= 0);
	for (int i = 0; i < n; i++) {
		assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
		s->done |= wc[i].wr_id == 0;
	}
}

static bool waits(const struct side *s)
{
	const struct soft_conn *conn = to_qp(s->qp)->conn;

	return conn && conn->queued;
}

/* One turn of a side's device. */
static void turn(struct side *s, struct side *other, bool recv)
{
	struct soft_ctx *ctx = to_ctx(s->end->ctx);
	uint64_t before = ctx->much_at;

	take(s, recv ? &s->end->recv : &s->end->send);
	if (ctx->much_at != before) {
		s->on_end++;
		other->on_end = 0;
	}
	if (!waits(other))
		s->on_end = 0;
}

/* How the sides have their turns. */
struct run {
	struct side *side;
	const char *order;
	bool talk; /* who moves little always has something */
	unsigned turns; /* at most */
	unsigned most; /* operations on end of one side */
};

static void run(struct run *r)
{
	const char *c = r->order;

	for (unsigned n = 0; n < r->turns; n++) {
		struct side *s = &r->side[*c == 'b'];
		struct side *other = &r->side[*c != 'b'];

		if (s->done && other->done)
			break;
		if (r->talk || n % 64 == 0)
			say(s, other);
		turn(s, other, n / 4 % 2);
		if (n > WARM && s->on_end > r->most)
			r->most = s->on_end;
		if (!*++c)
			c = r->order;
	}
}

static void assert_served(struct vt *t, const char *order, bool talk)
{
	struct side s[2];
	struct run r = {
		.side = s, .order = order, .talk = talk, .turns = UINT_MAX
	};

	sides_open(t, s);
	begin(&s[0]);
	begin(&s[1]);
	run(&r);
	assert_in_range(r.most, 1, ON_END);
	sides_close(t, s);
}

static void both_are_served_whatever_the_order(void **state)
{
	static const char *const orders[] = { "ab",  "abba", "aab",  "aba",
					      "abb", "baa",  "aaab", "aabb" };

	for (unsigned i = 0; i < sizeof(orders) / sizeof(orders[0]); i++)
		assert_served(*state, orders[i], false);
}

static void both_are_served_beside_who_always_moves_little(void **state)
{
	assert_served(*state, "ab", true);
}

/* A device comes that a thread with more turns has turned, while the other was the
 * last that moved much. */
static void turns_of_another_thread_say_nothing(void **state)
{
	struct vt *t = *state;
	struct soft_ctx *a = to_ctx(t->a.ctx), *b = to_ctx(t->b.ctx);
	struct side s[2];
	struct run r = { .side = s, .order = "ab" };
	unsigned came = 0;

	sides_open(t, s);
	begin(&s[0]);
	begin(&s[1]);
	for (unsigned i = 0; i < 32; i++) {
		r.turns = 2 * WARM + i % 7;
		run(&r);
		if (a->much_at < b->much_at) {
			a->much_at = UINT64_MAX / 2;
			came++;
		}
	}
	assert_false(s[0].done || s[1].done);
	assert_true(came > 0);
	assert_in_range(r.most, 1, ON_END);
	sides_close(t, s);
}

/* Somebody has closed it, or its port is gone, when the other has rested for it. */
static void a_device_without_turns_is_not_waited_for_long(void **state)
{
	struct vt *t = *state;
	struct side s[2];
	struct run r = { .side = s, .order = "ab", .turns = 4 * WARM };
	unsigned rested = 0;

	sides_open(t, s);
	begin(&s[0]);
	begin(&s[1]);
	do {
		run(&r);
		assert_false(s[0].done || s[1].done);
		r.turns = 2;
	} while (s[0].on_end == 0); /* until b has had to rest */
	do {
		turn(&s[0], &s[1], false);
	} while (to_ctx(t->a.ctx)->rest && rested++ < REST_MOST);
	assert_in_range(rested, 2, REST_MOST);
	sides_close(t, s);
}

const struct CMUnitTest test_list[] = {
	vt_test(both_are_served_whatever_the_order),
	vt_test(both_are_served_beside_who_always_moves_little),
	vt_test(turns_of_another_thread_say_nothing),
	vt_test(a_device_without_turns_is_not_waited_for_long),
	{ 0 },
};
