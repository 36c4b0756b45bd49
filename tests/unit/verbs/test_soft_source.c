/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that bytes are sent from, and that its owner has taken away meanwhile. */
#include "liar.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bus.h"
#include "unkind.h"
#include "verbs/soft/ctx.h"

#define LEN (32u << 20) /* more than any socket holds */
#define TURNS 200

/* A region in a file, which can be cut off under it. */
struct source {
	struct vt_mem m;
	int fd;
};

static struct source source(struct vt *t, size_t len)
{
	struct source s = { .m = { .len = len },
			    .fd = memfd_create("source", MFD_CLOEXEC) };

	assert_int_equal(mpib_bus_catch(), 0);
	assert_int_equal(ftruncate(s.fd, (off_t)len), 0);
	s.m.p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, s.fd, 0);
	assert_ptr_not_equal(s.m.p, MAP_FAILED);
	assert_int_equal(t->v->reg_mr(t->a.pd, s.m.p, len, vt_addr(&s.m),
				      VT_ALL, &s.m.mr),
			 0);
	return s;
}

static void vanish(struct source *s)
{
	assert_int_equal(ftruncate(s->fd, 0), 0);
}

static void drop(struct vt *t, struct source *s)
{
	vt_mem_free(t, &s->m);
	close(s->fd);
}

static void turn(struct vt *t)
{
	for (int i = 0; i < TURNS; i++)
		vt_turn(t);
}

/* A peer that has greeted qp and reads nothing of its long WRITE. */
static int deaf_peer(struct vt *t, struct ibv_qp *qp, const struct source *s)
{
	struct soft_hello h = liar_greeting(t, qp);
	struct ibv_sge sge = vt_sge(&s->m, 0, LEN);
	int fd = liar_dial(t, qp->qp_num);

	assert_int_equal(liar_greet(t, fd, &h), SOFT_HELLO_OK);
	assert_int_equal(vt_rdma(qp, IBV_WR_RDMA_WRITE, 1, IBV_SEND_SIGNALED,
				 &sge, 1, 0, 1),
			 0);
	turn(t);
	return fd;
}

/* Read until the connection ends. Returns what the last bytes would be the op of,
 * if they were a header. */
static uint8_t read_all(struct vt *t, int fd)
{
	static uint8_t buf[1 << 16];
	uint8_t op = 0;
	ssize_t n;

	while ((n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT)) != 0) {
		if (n < 0 && errno != EAGAIN)
			break;
		if (n >= SOFT_HDR_LEN)
			op = buf[n - SOFT_HDR_LEN];
		vt_turn(t);
	}
	close(fd);
	return op;
}

/* The rest of the segment goes with the QP's last words. */
static void a_source_that_is_gone_ends_nobody_with_its_qp(void **state)
{
	struct vt *t = *state;
	struct ibv_qp *qp = liar_victim(t);
	struct source s = source(t, LEN);
	int fd = deaf_peer(t, qp, &s);

	vanish(&s);
	assert_int_equal(vt_to(t, qp, IBV_QPS_ERR), 0);
	vt_expect(t, &t->a.send, 1, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(read_all(t, fd), SOFT_OP_BYE);
	drop(t, &s);
}

/* The peer is not to take for the rest of the message what is not. */
static void what_cannot_be_sent_is_not_made_up(void **state)
{
	struct vt *t = *state;
	struct ibv_qp *qp = liar_victim(t);
	struct source s = source(t, LEN);
	int fd = deaf_peer(t, qp, &s);

	vanish(&s);
	assert_int_not_equal(read_all(t, fd), SOFT_OP_BYE);
	vt_expect(t, &t->a.send, 1, IBV_WC_LOC_PROT_ERR);
	drop(t, &s);
}

/* As when a GPU's memory is flushed that its owner gave as a file. */
static void
a_read_within_one_context_from_what_is_gone_ends_nobody(void **state)
{
	struct vt *t = *state;
	struct ibv_qp *from = vt_qp(t, &t->a, &vt_usual);
	struct ibv_qp *to = vt_qp(t, &t->a, &vt_usual);
	struct source s = source(t, 4096);
	struct vt_mem m = vt_mem(t, &t->a, 4096, VT_ALL);
	struct ibv_sge sge = vt_sge(&m, 0, 4096);

	vt_connect(t, from, to, &vt_usual);
	vanish(&s);
	vt_read(from, 1, &sge, &s.m);
	vt_expect(t, &t->a.send, 1, IBV_WC_SUCCESS);
	drop(t, &s);
}

static void nor_does_a_write_that_is_late(void **state)
{
	struct vt *t = *state;
	struct mpib_soft_fault late = { .late = 1 };
	struct source s = source(t, 4096);
	struct vt_mem m = vt_mem(t, &t->b, 4096, VT_ALL);
	struct vt_mem other = vt_mem(t, &t->a, 4096, VT_ALL);
	struct ibv_sge sge = vt_sge(&m, 0, 4096);
	struct ibv_qp *qa, *qb;

	vt_pair(t, &vt_usual, &qa, &qb);
	assert_int_equal(mpib_soft_set_fault(t->a.ctx, &late), 0);
	vt_write(qb, 1, &sge, &s.m);
	vt_expect(t, &t->b.send, 1, IBV_WC_SUCCESS);
	assert_false(TAILQ_EMPTY(&to_ctx(t->a.ctx)->late));
	vanish(&s);
	vt_read(qb, 2, &sge, &other);
	vt_expect(t, &t->b.send, 2, IBV_WC_SUCCESS);
	drop(t, &s);
}

/* The kernel sends what is there, and keeps silent about the rest. */
static void a_message_whose_end_is_gone_does_not_wait(void **state)
{
	struct vt *t = *state;
	struct source s = source(t, LEN);
	struct vt_mem to = vt_mem(t, &t->b, LEN, VT_ALL);
	struct ibv_sge sge = vt_sge(&s.m, 0, LEN);
	struct ibv_qp *qa, *qb;

	vt_pair(t, &vt_usual, &qa, &qb);
	assert_int_equal(ftruncate(s.fd, 3 * SOFT_SEGMENT), 0);
	vt_write(qa, 1, &sge, &to);
	vt_expect(t, &t->a.send, 1, IBV_WC_LOC_PROT_ERR);
	drop(t, &s);
}

/* Another's memory is no fault of those that are sent with it. */
static void only_what_cannot_be_sent_fails(void **state)
{
	struct vt *t = *state;
	struct source s = source(t, 4096);
	struct vt_mem from = vt_mem(t, &t->a, 4096, VT_ALL);
	struct vt_mem to = vt_mem(t, &t->b, 4096, VT_ALL);
	struct ibv_sge good = vt_sge(&from, 0, 64), bad = vt_sge(&s.m, 0, 64);
	struct ibv_qp *qa, *qb;

	vt_pair(t, &vt_usual, &qa, &qb);
	vanish(&s);
	for (uint64_t id = 1; id < 5; id++)
		vt_write(qa, id, id == 3 ? &bad : &good, &to);
	vt_expect(t, &t->a.send, 1, IBV_WC_SUCCESS);
	vt_expect(t, &t->a.send, 2, IBV_WC_SUCCESS);
	vt_expect(t, &t->a.send, 3, IBV_WC_LOC_PROT_ERR);
	vt_expect(t, &t->a.send, 4, IBV_WC_WR_FLUSH_ERR);
	drop(t, &s);
}

/* Of a message of which the peer has some, the rest. */
static void what_was_before_a_long_one_that_cannot_be_sent_is_done(void **state)
{
	struct vt *t = *state;
	struct source s = source(t, LEN);
	struct vt_mem from = vt_mem(t, &t->a, 4096, VT_ALL);
	struct vt_mem to = vt_mem(t, &t->b, LEN, VT_ALL);
	struct ibv_sge good = vt_sge(&from, 0, 64), bad = vt_sge(&s.m, 0, LEN);
	struct ibv_qp *qa, *qb;

	vt_pair(t, &vt_usual, &qa, &qb);
	assert_int_equal(ftruncate(s.fd, 3 * SOFT_SEGMENT), 0);
	vt_write(qa, 1, &good, &to);
	vt_write(qa, 2, &bad, &to);
	vt_expect(t, &t->a.send, 1, IBV_WC_SUCCESS);
	vt_expect(t, &t->a.send, 2, IBV_WC_LOC_PROT_ERR);
	drop(t, &s);
}

/* A READ from there costs its QP, and no request of this end is blamed. */
static void an_answer_that_cannot_be_sent_is_no_requests_fault(void **state)
{
	struct vt *t = *state;
	struct vt_opt o = vt_usual;
	struct source s = source(t, 4096);
	struct vt_mem from = vt_mem(t, &t->a, 4096, VT_ALL);
	struct vt_mem to = vt_mem(t, &t->b, 4096, VT_ALL);
	struct ibv_sge out = vt_sge(&from, 0, 64), in = vt_sge(&to, 0, 64);
	struct ibv_qp *qa, *qb;

	o.timeout = 12;
	o.retry_cnt = 1;
	vt_pair(t, &o, &qa, &qb);
	vanish(&s);
	vt_read(qb, 1, &in, &s.m);
	while (vt_state(t, qa) == IBV_QPS_RTS) {
		struct ibv_wc wc;

		vt_write(qa, 2, &out, &to);
		wc = vt_wait(t, &t->a.send);
		assert_true(wc.status == IBV_WC_SUCCESS ||
			    wc.status == IBV_WC_WR_FLUSH_ERR);
	}
	assert_int_equal(vt_event(t, &t->a), IBV_EVENT_QP_ACCESS_ERR);
	vt_expect(t, &t->b.send, 1, IBV_WC_RETRY_EXC_ERR);
	drop(t, &s);
}

/* What b writes is there, and a waits for a message to say so in. */
static void arrive(struct vt *t, struct ibv_qp *qb, struct vt_mem *from,
		   struct vt_mem *at)
{
	struct ibv_sge sge = vt_sge(from, 0, 64);

	memset(from->p, 7, 64);
	vt_write(qb, 1, &sge, at);
	while (at->p[63] != 7)
		vt_turn(t);
}

/* As an HCA has, which acknowledges what comes as it comes. */
static void who_cannot_send_has_said_what_it_got(void **state)
{
	struct vt *t = *state;
	struct source s = source(t, 4096);
	struct vt_mem a = vt_mem(t, &t->a, 4096, VT_ALL);
	struct vt_mem b = vt_mem(t, &t->b, 4096, VT_ALL);
	struct ibv_sge bad = vt_sge(&s.m, 0, 64);
	struct ibv_qp *qa, *qb;

	vt_pair(t, &vt_usual, &qa, &qb);
	vanish(&s);
	arrive(t, qb, &b, &a);
	vt_write(qa, 2, &bad, &b);
	vt_expect(t, &t->a.send, 2, IBV_WC_LOC_PROT_ERR);
	vt_expect(t, &t->b.send, 1, IBV_WC_SUCCESS);
	drop(t, &s);
}

static void who_cannot_answer_has_said_what_it_got(void **state)
{
	struct vt *t = *state;
	struct vt_opt o = vt_usual;
	struct source s = source(t, 4096);
	struct vt_mem a = vt_mem(t, &t->a, 4096, VT_ALL);
	struct vt_mem b = vt_mem(t, &t->b, 4096, VT_ALL);
	struct ibv_sge in = vt_sge(&b, 64, 64);
	struct ibv_qp *qa, *qb;

	o.timeout = 12;
	o.retry_cnt = 1;
	vt_pair(t, &o, &qa, &qb);
	vanish(&s);
	arrive(t, qb, &b, &a);
	vt_read(qb, 2, &in, &s.m);
	vt_expect(t, &t->b.send, 1, IBV_WC_SUCCESS);
	vt_expect(t, &t->b.send, 2, IBV_WC_RETRY_EXC_ERR);
	vt_refused(t, qa, IBV_EVENT_QP_ACCESS_ERR);
	drop(t, &s);
}

/* Its segment cannot be ended, so another connection has to say so. */
static void who_stops_amid_a_segment_has_said_what_it_got(void **state)
{
	struct vt *t = *state;
	struct source s = source(t, 4096);
	struct vt_mem a = vt_mem(t, &t->a, 4096, VT_ALL);
	struct vt_mem b = vt_mem(t, &t->b, 4096, VT_ALL);
	struct ibv_sge bad = vt_sge(&s.m, 0, 4096);
	struct ibv_qp *qa, *qb;

	/* A sendmsg that io_uring makes is not seen here. */
	if (strcmp(mpib_soft_engine_name(t->a.ctx), "epoll") != 0) {
		drop(t, &s);
		skip();
	}
	vt_pair(t, &vt_usual, &qa, &qb);
	memcpy(&unkind.only, &t->a.info.gid.raw[12], sizeof(unkind.only));
	unkind.stop_at = SOFT_HDR_LEN + 100;
	vt_write(qa, 2, &bad, &b);
	while (unkind.stop_at != SIZE_MAX)
		vt_turn(t);
	arrive(t, qb, &b, &a);
	vanish(&s);
	unkind_go_on();
	unkind = (struct unkind){ .rng = 1 };
	vt_expect(t, &t->b.send, 1, IBV_WC_SUCCESS);
	vt_expect(t, &t->a.send, 2, IBV_WC_LOC_PROT_ERR);
	drop(t, &s);
}

const struct CMUnitTest test_list[] = {
	vt_test(a_source_that_is_gone_ends_nobody_with_its_qp),
	vt_test(what_cannot_be_sent_is_not_made_up),
	vt_test(a_read_within_one_context_from_what_is_gone_ends_nobody),
	vt_test(nor_does_a_write_that_is_late),
	vt_test(a_message_whose_end_is_gone_does_not_wait),
	vt_test(only_what_cannot_be_sent_fails),
	vt_test(what_was_before_a_long_one_that_cannot_be_sent_is_done),
	vt_test(an_answer_that_cannot_be_sent_is_no_requests_fault),
	vt_test(who_cannot_send_has_said_what_it_got),
	vt_test(who_cannot_answer_has_said_what_it_got),
	vt_test(who_stops_amid_a_segment_has_said_what_it_got),
	{ 0 },
};
