/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a peer may send: the codec, and a socket that is no software HCA but
 * knows how to greet one. Whatever it says, at worst its QP is lost.
 */
#include "vt.h"

#include "verbs/soft/wire/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

/* Smaller than the device's address, so that this side connects. */
#define LIAR_ADDR "127.20.0.9"
#define LIAR_QPN 0x4711

static void a_header_survives_the_way(void **state)
{
	struct soft_hdr h = { .op = SOFT_OP_WRITE_IMM,
			      .flags = SOFT_F_SOLICITED,
			      .msn = 0x01020304,
			      .ack = 0xfffefdfc,
			      .len = 77,
			      .rkey = 0xdeadbeef,
			      .addr = 0x1122334455667788,
			      .imm = 0x99 };
	uint8_t buf[SOFT_HDR_LEN];
	struct soft_hdr back;

	(void)state;
	soft_hdr_encode(buf, &h);
	assert_true(soft_hdr_decode(buf, &back));
	assert_int_equal(back.op, h.op);
	assert_int_equal(back.flags, h.flags);
	assert_int_equal(back.msn, h.msn);
	assert_int_equal(back.ack, h.ack);
	assert_int_equal(back.len, h.len);
	assert_int_equal(back.rkey, h.rkey);
	assert_int_equal(back.addr, h.addr);
	assert_int_equal(back.imm, h.imm);
}

static bool accepted(struct soft_hdr h, unsigned pad)
{
	uint8_t buf[SOFT_HDR_LEN];
	struct soft_hdr back;

	soft_hdr_encode(buf, &h);
	buf[3] = (uint8_t)pad;
	return soft_hdr_decode(buf, &back);
}

static void impossible_headers_are_refused(void **state)
{
	(void)state;
	assert_true(accepted((struct soft_hdr){ .op = SOFT_OP_ACK }, 0));
	assert_false(accepted((struct soft_hdr){ .op = SOFT_OP_ACK }, 1));
	assert_false(accepted((struct soft_hdr){ .op = 0 }, 0));
	assert_false(accepted((struct soft_hdr){ .op = SOFT_OP_LAST + 1 }, 0));
	assert_false(
		accepted((struct soft_hdr){ .op = SOFT_OP_ACK, .len = 1 }, 0));
	assert_false(accepted(
		(struct soft_hdr){ .op = SOFT_OP_WRITE, .flags = 2 }, 0));
	assert_false(accepted((struct soft_hdr){ .op = SOFT_OP_WRITE,
						 .len = SOFT_MAX_MSG + 1 },
			      0));
	assert_false(accepted((struct soft_hdr){ .op = SOFT_OP_NAK }, 0));
	assert_false(accepted((struct soft_hdr){ .op = SOFT_OP_NAK,
						 .status = SOFT_NAK_LAST + 1 },
			      0));
	assert_false(accepted(
		(struct soft_hdr){ .op = SOFT_OP_RNR, .status = 32 }, 0));
	assert_false(accepted(
		(struct soft_hdr){ .op = SOFT_OP_SEND, .status = 1 }, 0));
}

static int dial(struct vt *t, uint32_t qpn)
{
	struct sockaddr_in sa = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	inet_pton(AF_INET, LIAR_ADDR, &sa.sin_addr);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	inet_pton(AF_INET, t->spec_a.name, &sa.sin_addr);
	sa.sin_port = htons((uint16_t)(24791 + (qpn >> 16)));
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	return fd;
}

static struct vt_end liar(struct vt *t)
{
	struct vt_end e = { .info = t->a.info };

	e.info.gid = t->a.info.gid;
	inet_pton(AF_INET, LIAR_ADDR, &e.info.gid.raw[12]);
	return e;
}

static struct soft_hello greeting(struct vt *t, struct ibv_qp *qp)
{
	struct vt_end e = liar(t);
	struct soft_hello h = { .status = SOFT_HELLO_ASK,
				.qpn = LIAR_QPN,
				.dest_qpn = qp->qp_num,
				.sq_psn = 5,
				.rq_psn = 6 };

	memcpy(h.gid, e.info.gid.raw, 16);
	memcpy(h.dest_gid, t->a.info.gid.raw, 16);
	return h;
}

static struct ibv_qp *victim(struct vt *t)
{
	struct ibv_qp *qp = vt_qp(t, &t->a, &vt_usual);
	struct vt_end e = liar(t);

	assert_int_equal(vt_to_init(t, qp, VT_ALL), 0);
	assert_int_equal(vt_to_rtr(t, qp, &e, LIAR_QPN, 5, &vt_usual), 0);
	assert_int_equal(vt_to_rts(t, qp, 6, &vt_usual), 0);
	return qp;
}

/* The status of the answer; -1: the connection ends without one. */
static int greet(struct vt *t, int fd, const struct soft_hello *h)
{
	uint8_t buf[SOFT_HELLO_LEN];
	struct soft_hello back;
	size_t got = 0;

	soft_hello_encode(buf, h);
	assert_int_equal(send(fd, buf, sizeof(buf), MSG_NOSIGNAL), sizeof(buf));
	while (got < sizeof(buf)) {
		ssize_t n =
			recv(fd, buf + got, sizeof(buf) - got, MSG_DONTWAIT);

		vt_turn(t);
		if (n == 0 || (n < 0 && errno != EAGAIN)) {
			print_error("n %zd errno %d\n", n, errno);
			return -1;
		}
		if (n > 0)
			got += (size_t)n;
	}
	assert_true(soft_hello_decode(buf, &back));
	return (int)back.status;
}

static void only_the_right_greeting_connects(void **state)
{
	struct vt *t = *state;
	struct ibv_qp *qp = victim(t);

	for (int wrong = 0; wrong < 8; wrong++) {
		struct soft_hello h = greeting(t, qp);
		int fd = dial(t, qp->qp_num), status;

		h.qpn += wrong == 1;
		h.dest_qpn += wrong == 2;
		h.sq_psn += wrong == 3;
		h.rq_psn += wrong == 4;
		h.gid[15] = (uint8_t)(h.gid[15] + (wrong == 5));
		h.dest_gid[15] = (uint8_t)(h.dest_gid[15] + (wrong == 6));
		if (wrong == 7)
			h.status = SOFT_HELLO_OK;
		status = greet(t, fd, &h);
		if (!wrong) {
			assert_int_equal(status, SOFT_HELLO_OK);
			close(fd);
			vt_destroy(t, qp, NULL);
			qp = victim(t);
			continue;
		}
		assert_true(status == SOFT_HELLO_LATER || status == -1);
		close(fd);
	}
	vt_destroy(t, qp, NULL);
}

static void a_second_connection_is_turned_away(void **state)
{
	struct vt *t = *state;
	struct ibv_qp *qp = victim(t);
	struct soft_hello h = greeting(t, qp);
	int first = dial(t, qp->qp_num), second = dial(t, qp->qp_num);

	assert_int_equal(greet(t, first, &h), SOFT_HELLO_OK);
	assert_int_equal(greet(t, second, &h), SOFT_HELLO_LATER);
	close(first);
	close(second);
	vt_destroy(t, qp, NULL);
}

static void noise_instead_of_a_greeting_is_cut_off(void **state)
{
	struct vt *t = *state;
	struct ibv_qp *qp = victim(t);
	int fd = dial(t, qp->qp_num);
	uint8_t noise[300];
	ssize_t n;

	vt_fill(noise, sizeof(noise), 3);
	assert_int_equal(send(fd, noise, sizeof(noise), MSG_NOSIGNAL),
			 sizeof(noise));
	while ((n = recv(fd, noise, sizeof(noise), MSG_DONTWAIT)) < 0 &&
	       errno == EAGAIN)
		vt_turn(t);
	assert_true(n <= 0);
	close(fd);
	vt_destroy(t, qp, NULL);
}

/* A header that is wrong in some ways and plausible in others. */
static struct soft_hdr draw(uint64_t *rng, const struct vt_mem *m)
{
	uint64_t r = vt_rand(rng);
	struct soft_hdr h = {
		.op = (uint8_t)(r % 16 < 14 ? 1 + r % SOFT_OP_LAST : r),
		.flags = r >> 8 & 15 ? 0 : (uint8_t)(r >> 12),
		.msn = r >> 16 & 3 ? (uint32_t)(r >> 18 & 3)
				   : (uint32_t)vt_rand(rng),
		.ack = r >> 20 & 3 ? (uint32_t)(r >> 22 & 1)
				   : (uint32_t)vt_rand(rng),
		.len = r >> 24 & 7 ? (uint32_t)(r >> 27 & 255)
				   : (uint32_t)vt_rand(rng),
		.rkey = r >> 35 & 3 ? m->mr->rkey : (uint32_t)vt_rand(rng),
		.addr = r >> 37 & 3 ? vt_addr(m) + (r >> 39 & 4095)
				    : vt_rand(rng),
	};

	if (h.op == SOFT_OP_NAK || h.op == SOFT_OP_RNR)
		h.status = (uint8_t)(r >> 51 & 3);
	if (h.op < SOFT_OP_WRITE)
		h.len = 0;
	return h;
}

static void tell_lies(struct vt *t, int fd, uint64_t *rng,
		      const struct vt_mem *m)
{
	uint8_t junk[512];

	vt_fill(junk, sizeof(junk), *rng);
	for (int i = 0; i < 12; i++) {
		struct soft_hdr h = draw(rng, m);
		uint8_t buf[SOFT_HDR_LEN];

		soft_hdr_encode(buf, &h);
		/* It may have hung up already. */
		if (send(fd, buf, sizeof(buf), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			break;
		if (h.op != SOFT_OP_READ && h.len <= sizeof(junk) &&
		    send(fd, junk, h.len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			break;
		if (vt_rand(rng) & 1)
			vt_turn(t);
	}
}

static void lies_cost_no_more_than_the_qp(void **state)
{
	enum {
		PAGE = 4096
	};
	struct vt *t = *state;
	struct vt_mem all = vt_mem(t, &t->a, 3 * PAGE, VT_ALL);
	struct vt_mem own = vt_mem(t, &t->a, PAGE, VT_LOCAL);
	struct ibv_sge sge = vt_sge(&own, 0, 64);
	struct vt_mem middle = { .p = all.p + PAGE, .len = PAGE };
	struct ibv_async_event ev;
	uint64_t rng = 0x11a5;

	/* Only the middle of the buffer is anybody's to write. */
	assert_int_equal(t->v->dereg_mr(all.mr), 0);
	assert_int_equal(t->v->reg_mr(t->a.pd, middle.p, PAGE, vt_addr(&middle),
				      VT_ALL, &middle.mr),
			 0);
	for (int round = 0; round < 1500; round++) {
		struct ibv_qp *qp = victim(t);
		struct soft_hello h = greeting(t, qp);
		int fd = dial(t, qp->qp_num);

		assert_int_equal(greet(t, fd, &h), SOFT_HELLO_OK);
		assert_int_equal(vt_recv(qp, 1, &sge, 1), 0);
		assert_int_equal(
			vt_rdma(qp, IBV_WR_RDMA_READ, 2, 0, &sge, 1, 0, 0), 0);
		tell_lies(t, fd, &rng, &middle);
		for (int i = 0; i < 4; i++)
			vt_turn(t);
		close(fd);
		vt_turn(t);
		vt_destroy(t, qp, NULL);
		while (!t->v->get_async_event(t->a.ctx, &ev))
			t->v->ack_async_event(&ev);
		t->a.send.head = t->a.send.tail;
		t->a.recv.head = t->a.recv.tail;
	}
	for (int i = 0; i < PAGE; i++) {
		assert_int_equal(all.p[i], 0);
		assert_int_equal(all.p[2 * PAGE + i], 0);
	}
	vt_mem_free(t, &own);
	assert_int_equal(t->v->dereg_mr(middle.mr), 0);
	assert_int_equal(t->v->reg_mr(t->a.pd, all.p, all.len, vt_addr(&all),
				      VT_ALL, &all.mr),
			 0);
	vt_mem_free(t, &all);
}

/* n small writes at once, the first is number msn; they have landed. */
static void write_some(struct vt *t, int fd, uint32_t msn, unsigned n,
		       struct vt_mem *m)
{
	uint8_t buf[2 * (SOFT_HDR_LEN + 8)], *at = buf;

	for (unsigned i = 0; i < n; i++) {
		struct soft_hdr h = { .op = SOFT_OP_WRITE,
				      .msn = msn + i,
				      .len = 8,
				      .rkey = m->mr->rkey,
				      .addr = vt_addr(m) };

		soft_hdr_encode(at, &h);
		memset(at + SOFT_HDR_LEN, (int)h.msn + 1, 8);
		at += SOFT_HDR_LEN + 8;
	}
	assert_int_equal(send(fd, buf, (size_t)(at - buf), MSG_NOSIGNAL),
			 at - buf);
	while (m->p[7] != msn + n)
		vt_turn(t);
}

static struct soft_hdr heard(int fd)
{
	uint8_t buf[SOFT_HDR_LEN];
	struct soft_hdr h;

	assert_int_equal(recv(fd, buf, sizeof(buf), MSG_WAITALL), sizeof(buf));
	assert_true(soft_hdr_decode(buf, &h));
	return h;
}

static void an_ack_waits_a_little_for_company(void **state)
{
	struct vt *t = *state;
	struct ibv_qp *qp = victim(t);
	struct soft_hello h = greeting(t, qp);
	int fd = dial(t, qp->qp_num);
	struct vt_mem m = vt_mem(t, &t->a, 64, VT_ALL);
	struct ibv_sge sge = vt_sge(&m, 0, 0);
	struct soft_hdr got;

	assert_int_equal(greet(t, fd, &h), SOFT_HELLO_OK);
	/* What the owner sends next carries it. */
	write_some(t, fd, 0, 1, &m);
	assert_int_equal(vt_rdma(qp, IBV_WR_RDMA_WRITE, 2, 0, &sge, 1, 0, 0),
			 0);
	vt_turn(t);
	got = heard(fd);
	assert_int_equal(got.op, SOFT_OP_WRITE);
	assert_int_equal(got.ack, 1);
	/* The owner has nothing to send. */
	write_some(t, fd, 1, 1, &m);
	for (int i = 0; i < 8; i++)
		vt_turn(t);
	got = heard(fd);
	assert_int_equal(got.op, SOFT_OP_ACK);
	assert_int_equal(got.ack, 2);
	/* With a second one it does not wait. */
	write_some(t, fd, 2, 2, &m);
	vt_turn(t);
	got = heard(fd);
	assert_int_equal(got.op, SOFT_OP_ACK);
	assert_int_equal(got.ack, 4);
	close(fd);
	vt_destroy(t, qp, NULL);
	vt_mem_free(t, &m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		vt_test(a_header_survives_the_way),
		vt_test(impossible_headers_are_refused),
		vt_test(only_the_right_greeting_connects),
		vt_test(a_second_connection_is_turned_away),
		vt_test(noise_instead_of_a_greeting_is_cut_off),
		vt_test(lies_cost_no_more_than_the_qp),
		vt_test(an_ack_waits_a_little_for_company),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
