/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile peers of a software HCA. A hostile peer is a socket that can greet
 * like a software HCA. Whatever a hostile peer sends, at worst its own QP
 * fails.
 */
#include "liar.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "verbs/soft/soft.h"

static int64_t ahead_ms; /* the tests set the clock forward by this many ms */

WRAPS(int, clock_gettime, clockid_t id, struct timespec *ts)
{
	int rc = __real_clock_gettime(id, ts);

	ts->tv_nsec += ahead_ms % 1000 * 1000000;
	ts->tv_sec += ahead_ms / 1000 + ts->tv_nsec / 1000000000;
	ts->tv_nsec %= 1000000000;
	return rc;
}

vt_test(only_a_correct_greeting_connects)
{
	struct ibv_qp *qp = liar_victim(t);

	for (int wrong = 0; wrong < 12; wrong++) {
		struct soft_hello h = liar_greeting(t, qp);
		int fd = liar_dial(t, qp->qp_num), status;

		h.qpn += wrong == 1;
		h.dest_qpn += wrong == 2;
		h.sq_psn += wrong == 3;
		h.rq_psn += wrong == 4;
		h.gid[15] = (uint8_t)(h.gid[15] + (wrong == 5));
		h.dest_gid[15] = (uint8_t)(h.dest_gid[15] + (wrong == 6));
		if (wrong == 7)
			h.status = SOFT_HELLO_OK;
		h.life = wrong == 8 ? 0 : h.life;
		h.peer_life = wrong == 9;
		h.ack = wrong == 10;
		h.token += wrong == 11;
		status = liar_greet(t, fd, &h);
		if (!wrong) {
			assert_int_equal(status, SOFT_HELLO_OK);
			close(fd);
			vt_destroy(t, qp, NULL);
			qp = liar_victim(t);
			continue;
		}
		/* In case 9, the caller claims that it had a connection before.
		 * The answer may then be that this connection is gone. In all
		 * other cases, the answer is to try later. */
		assert_true(status == -1 ||
			    status == (wrong == 9 ? SOFT_HELLO_GONE
						  : SOFT_HELLO_LATER));
		close(fd);
	}
}

vt_test(a_greeting_with_another_life_does_not_replace_a_connection)
{
	struct ibv_qp *qp = liar_victim(t);
	struct soft_hello h = liar_greeting(t, qp), other = h;
	int first = liar_dial(t, qp->qp_num), second = liar_dial(t, qp->qp_num);
	int third = liar_dial(t, qp->qp_num);
	char c;

	assert_int_equal(liar_greet(t, first, &h), SOFT_HELLO_OK);
	other.life++;
	assert_int_equal(liar_greet(t, second, &other), SOFT_HELLO_LATER);
	/* A greeting with the same `life` comes from the peer itself, whose
	 * first connection broke. So this greeting is accepted. */
	assert_int_equal(liar_greet(t, third, &h), SOFT_HELLO_OK);
	assert_true(recv(first, &c, 1, 0) <= 0);
	assert_true(recv(third, &c, 1, MSG_DONTWAIT) < 0);
	assert_int_equal(errno, EAGAIN);
	close(first);
	close(second);
	close(third);
}

/* A stranger may know or guess everything in a greeting except the token. */
vt_test(a_caller_without_the_token_cannot_cut_a_connection)
{
	struct ibv_qp *qp = liar_victim(t);
	struct soft_hello h = liar_greeting(t, qp), forged = h;
	int peer = liar_dial(t, qp->qp_num);
	char c;

	assert_int_equal(liar_greet(t, peer, &h), SOFT_HELLO_OK);
	for (unsigned i = 0; i < 4; i++) {
		int fd = liar_dial(t, qp->qp_num);

		forged.token =
			(const uint64_t[]){ 0, 1, ~h.token, h.token ^ 1 }[i];
		assert_int_equal(liar_greet(t, fd, &forged), SOFT_HELLO_LATER);
		/* The software HCA closes the connection after its answer. */
		assert_int_equal(recv(fd, &c, 1, 0), 0);
		close(fd);
	}
	assert_true(recv(peer, &c, 1, MSG_DONTWAIT) < 0);
	assert_int_equal(errno, EAGAIN);
	close(peer);
}

vt_test(a_token_is_set_before_the_qp_is_ready_and_is_not_0)
{
	struct ibv_qp *qp = vt_qp(t, &t->a, &vt_usual), *other;
	struct ibv_ece own, its, none = { 0 };

	assert_int_equal(t->v->query_ece(qp, &own), 0);
	assert_true(own.vendor_id && own.options);
	assert_int_equal(t->v->set_ece(qp, &none), -EINVAL);
	vt_destroy(t, qp, NULL);
	qp = liar_victim(t);
	assert_int_equal(t->v->set_ece(qp, &own), -EINVAL);
	other = liar_victim(t);
	assert_int_equal(t->v->query_ece(qp, &own), 0);
	assert_int_equal(t->v->query_ece(other, &its), 0);
	assert_memory_not_equal(&own, &its, sizeof(own));
}

static int accepted_by(struct vt *t, int listener)
{
	int64_t until = vt_ms() + 60000;
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) < 0) {
		assert_int_equal(errno, EAGAIN);
		assert_true(vt_ms() < until);
		ahead_ms++; /* the QP connects again at a later time */
		vt_turn(t);
	}
	return fd;
}

static int listen_as_b(struct vt *t, uint32_t qpn)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
				  .sin_port = htons(
					  (uint16_t)(24791 + (qpn >> 16))) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;

	memcpy(&sa.sin_addr, &t->b.info.gid.raw[12], 4);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(fd, 4), 0);
	return fd;
}

/* The peer's host may have just died, or its process may be stopped. */
vt_test(a_qp_connects_again_to_a_peer_that_accepts_but_never_answers)
{
	const uint32_t peer_qpn = 255u << 16 | 7;
	struct ibv_qp *qp = vt_qp(t, &t->a, &vt_usual);
	int listener = listen_as_b(t, peer_qpn), fd[2];
	uint8_t in[SOFT_HELLO_LEN];
	ssize_t n = -1;

	assert_int_equal(vt_to_init(t, qp, VT_ALL), 0);
	assert_int_equal(vt_to_rtr(t, qp, &t->b, peer_qpn, 3, &vt_usual), 0);
	assert_int_equal(vt_to_rts(t, qp, 4, &vt_usual), 0);
	fd[0] = accepted_by(t, listener);
	while ((n = recv(fd[0], in, sizeof(in), 0)) < 0)
		vt_turn(t);
	assert_int_equal(n, sizeof(in));
	/* less than the time after which the QP connects again */
	ahead_ms += 2000;
	for (int i = 0; i < 50; i++)
		vt_turn(t);
	assert_int_equal(recv(fd[0], in, 1, 0), -1);
	assert_int_equal(accept4(listener, NULL, NULL, 0), -1);
	ahead_ms += 2000;
	fd[1] = accepted_by(t, listener);
	assert_int_equal(recv(fd[0], in, 1, 0), 0);
	close(fd[0]);
	close(fd[1]);
	close(listener);
}

static void say(int fd, const struct soft_hdr *h)
{
	uint8_t buf[SOFT_HDR_LEN];

	soft_hdr_encode(buf, h);
	assert_int_equal(send(fd, buf, sizeof(buf), MSG_NOSIGNAL), sizeof(buf));
}

/* Send a READ without reading the answer, then a request with a wrong key,
 * whose NAK has to wait behind the answer. If `reset` is set, break the
 * connection while the answer is delayed and the bad request is not read yet.
 * Return the bad request. */
static struct soft_hdr be_refused(struct vt *t, int fd, bool reset)
{
	struct vt_mem m = vt_mem(t, &t->a, 16 << 20, VT_ALL);
	struct soft_hdr read = { .op = SOFT_OP_READ,
				 .len = (uint32_t)m.len,
				 .rkey = m.mr->rkey,
				 .addr = vt_addr(&m) };
	struct mpib_soft_fault none = { 0 }, slow = { .delay_ns = 1000000000 };
	struct linger abort = { .l_onoff = 1 };
	struct soft_hdr bad = read;

	bad.op = SOFT_OP_WRITE;
	bad.msn = 1;
	bad.rkey ^= 0x77001;
	if (reset)
		mpib_soft_set_fault(t->a.ctx, &slow);
	say(fd, &read);
	assert_true(vt_no_event(t, &t->a));
	say(fd, &bad);
	if (reset) {
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &abort, sizeof(abort));
		close(fd);
		mpib_soft_set_fault(t->a.ctx, &none);
	}
	assert_int_equal(vt_event(t, &t->a), IBV_EVENT_QP_ACCESS_ERR);
	return bad;
}

/* Send the refused request `bad` again, and read its NAK. */
static void be_refused_again(struct vt *t, int fd, const struct soft_hdr *bad)
{
	uint8_t buf[SOFT_HDR_LEN];
	struct soft_hdr h;

	say(fd, bad);
	while (recv(fd, buf, sizeof(buf), MSG_DONTWAIT) < 0) {
		assert_int_equal(errno, EAGAIN);
		vt_turn(t);
	}
	assert_true(soft_hdr_decode(buf, &h));
	assert_int_equal(h.op, SOFT_OP_NAK);
	assert_int_equal(h.status, SOFT_NAK_ACCESS);
	assert_int_equal(h.msn, bad->msn);
	assert_true(vt_no_event(t, &t->a));
	close(fd);
}

vt_test(a_caller_that_lost_its_connection_still_gets_its_nak)
{
	struct ibv_qp *qp = liar_victim(t);
	struct soft_hello h = liar_greeting(t, qp);
	int first = liar_dial(t, qp->qp_num), second;
	struct soft_hdr bad;

	assert_int_equal(liar_greet(t, first, &h), SOFT_HELLO_OK);
	bad = be_refused(t, first, false);
	assert_int_equal(vt_state(t, qp), IBV_QPS_RTS);
	second = liar_dial(t, qp->qp_num);
	assert_int_equal(liar_greet(t, second, &h), SOFT_HELLO_OK);
	be_refused_again(t, second, &bad);
	assert_int_equal(vt_state(t, qp), IBV_QPS_ERR);
	close(first);
}

/* Accept the connection of end a's `qp`, and answer as QP number `peer_qpn` of
 * end b. */
static int answer_as_b(struct vt *t, int listener, const struct ibv_qp *qp,
		       uint32_t peer_qpn)
{
	struct soft_hello h = { .status = SOFT_HELLO_OK,
				.qpn = peer_qpn,
				.dest_qpn = qp->qp_num,
				.sq_psn = 3,
				.rq_psn = 4,
				.life = 7 };
	int fd = accepted_by(t, listener);
	uint8_t buf[SOFT_HELLO_LEN];

	while (recv(fd, buf, sizeof(buf), 0) < 0) {
		assert_int_equal(errno, EAGAIN);
		vt_turn(t);
	}
	memcpy(h.gid, t->b.info.gid.raw, 16);
	memcpy(h.dest_gid, t->a.info.gid.raw, 16);
	soft_hello_encode(buf, &h);
	assert_int_equal(send(fd, buf, sizeof(buf), MSG_NOSIGNAL), sizeof(buf));
	return fd;
}

static void be_called_for_a_nak(struct vt *t, bool reset)
{
	const uint32_t peer_qpn = 255u << 16 | 7;
	struct ibv_qp *qp = vt_qp(t, &t->a, &vt_usual);
	int listener = listen_as_b(t, peer_qpn), fd;
	struct soft_hdr bad;

	assert_int_equal(vt_to_init(t, qp, VT_ALL), 0);
	assert_int_equal(vt_to_rtr(t, qp, &t->b, peer_qpn, 3, &vt_usual), 0);
	assert_int_equal(vt_to_rts(t, qp, 4, &vt_usual), 0);
	fd = answer_as_b(t, listener, qp, peer_qpn);
	bad = be_refused(t, fd, reset);
	assert_int_equal(vt_state(t, qp), IBV_QPS_RTS);
	if (!reset)
		close(fd);
	fd = answer_as_b(t, listener, qp, peer_qpn);
	be_refused_again(t, fd, &bad);
	assert_int_equal(vt_state(t, qp), IBV_QPS_ERR);
	close(listener);
}

vt_test(a_qp_whose_connection_broke_connects_again_to_get_its_nak)
{
	be_called_for_a_nak(t, false);
	be_called_for_a_nak(t, true);
}

vt_test(a_caller_that_sends_noise_is_disconnected)
{
	struct ibv_qp *qp = liar_victim(t);
	int fd = liar_dial(t, qp->qp_num);
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
}

/* Make a random header with some wrong fields and some plausible fields. */
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
		/* The victim may already have closed the connection. */
		if (send(fd, buf, sizeof(buf), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			break;
		if (h.op != SOFT_OP_READ && h.len <= sizeof(junk) &&
		    send(fd, junk, h.len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			break;
		if (vt_rand(rng) & 1)
			vt_turn(t);
	}
}

vt_test(wrong_headers_break_only_their_own_qp)
{
	enum {
		PAGE = 4096
	};
	struct vt_mem all = vt_mem(t, &t->a, 3 * PAGE, VT_ALL);
	struct vt_mem own = vt_mem(t, &t->a, PAGE, VT_LOCAL);
	struct ibv_sge sge = vt_sge(&own, 0, 64);
	struct vt_mem middle = { .p = all.p + PAGE, .len = PAGE };
	struct ibv_async_event ev;
	uint64_t rng = 0x11a5;

	/* Let peers access only the middle part of the buffer. */
	assert_int_equal(t->v->dereg_mr(all.mr), 0);
	assert_int_equal(t->v->reg_mr(t->a.pd, middle.p, PAGE, vt_addr(&middle),
				      VT_ALL, &middle.mr),
			 0);
	for (int round = 0; round < 1500; round++) {
		struct ibv_qp *qp = liar_victim(t);
		struct soft_hello h = liar_greeting(t, qp);
		int fd = liar_dial(t, qp->qp_num);

		assert_int_equal(liar_greet(t, fd, &h), SOFT_HELLO_OK);
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
