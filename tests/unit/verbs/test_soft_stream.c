/* SPDX-License-Identifier: Apache-2.0 */
/* What comes in by a socket: where it was cut, and when it is acknowledged. */
#include "liar.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

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
	struct ibv_qp *qp = liar_victim(t);
	struct soft_hello h = liar_greeting(t, qp);
	int fd = liar_dial(t, qp->qp_num);
	struct vt_mem m = vt_mem(t, &t->a, 64, VT_ALL);
	struct ibv_sge sge = vt_sge(&m, 0, 0);
	struct soft_hdr got;

	assert_int_equal(liar_greet(t, fd, &h), SOFT_HELLO_OK);
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
}

#define ROOM (1u << 20)

struct stream {
	uint64_t rng;
	uint32_t msn;
	uint8_t *out; /* ROOM and more */
	uint8_t *want; /* what the peer's ROOM bytes are to look like */
};

static uint8_t *say_ack(uint8_t *at)
{
	const struct soft_hdr h = { .op = SOFT_OP_ACK };

	soft_hdr_encode(at, &h);
	return at + SOFT_HDR_LEN;
}

/* Writes of the first kinds of these lengths, around which the reader changes its
 * ways, each somewhere into m, with acks between some segments. Returns how many
 * bytes that is, total or more. */
static size_t draw(struct stream *s, const struct vt_mem *m, unsigned kinds,
		   size_t total)
{
	static const uint32_t lens[] = { 0,	1,     31,     32,    33,
					 63,	64,    65,     4063,  4095,
					 4096,	4097,  8192,   9000,  32767,
					 32768, 70000, 150000, 500000 };
	uint8_t *end = s->out;

	assert_in_range(kinds, 1, sizeof(lens) / sizeof(lens[0]));
	while ((size_t)(end - s->out) < total) {
		uint32_t n = lens[vt_rand(&s->rng) % kinds];
		uint32_t at = (uint32_t)(vt_rand(&s->rng) % (ROOM - n));
		struct soft_hdr h = { .op = SOFT_OP_WRITE,
				      .msn = s->msn++,
				      .len = n,
				      .rkey = m->mr->rkey,
				      .addr = vt_addr(m) + at };

		vt_fill(s->want + at, n, s->msn);
		for (uint32_t off = 0; !off || off < n; off += SOFT_SEGMENT) {
			uint32_t some =
				n - off < SOFT_SEGMENT ? n - off : SOFT_SEGMENT;

			if (off && vt_rand(&s->rng) % 4 == 0)
				end = say_ack(end);
			h.op = off ? SOFT_OP_MORE : h.op;
			h.addr = off ? off : h.addr;
			soft_hdr_encode(end, &h);
			memcpy(end + SOFT_HDR_LEN, s->want + at + off, some);
			end += SOFT_HDR_LEN + some;
		}
	}
	return (size_t)(end - s->out);
}

/* In pieces, each read to its end before the next is there. */
static void say(struct vt *t, int fd, struct stream *s, size_t len, size_t cut)
{
	const uint8_t *out = s->out;

	while (len) {
		size_t some = 1 + vt_rand(&s->rng) % cut;
		ssize_t n = send(fd, out, some < len ? some : len,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		assert_true(n >= 0 || errno == EAGAIN);
		if (n > 0) {
			out += n;
			len -= (size_t)n;
		}
		for (int i = 0; i < 8; i++)
			vt_turn(t);
	}
}

static void a_stream_may_be_cut_anywhere(void **state)
{
	struct vt *t = *state;
	struct ibv_qp *qp = liar_victim(t);
	struct soft_hello h = liar_greeting(t, qp);
	int fd = liar_dial(t, qp->qp_num);
	struct vt_mem m = vt_mem(t, &t->a, ROOM, VT_ALL);
	struct stream s = { .rng = 7,
			    .out = malloc(2 * ROOM),
			    .want = calloc(1, ROOM) };

	assert_non_null(s.out);
	assert_non_null(s.want);
	assert_int_equal(liar_greet(t, fd, &h), SOFT_HELLO_OK);
	say(t, fd, &s, draw(&s, &m, 8, 20000), 80);
	say(t, fd, &s, draw(&s, &m, 17, ROOM), 80000);
	say(t, fd, &s, draw(&s, &m, 19, ROOM), 200000);
	say(t, fd, &s, draw(&s, &m, 19, ROOM), 20000);
	for (int i = 0; i < 1000 && memcmp(m.p, s.want, ROOM) != 0; i++)
		vt_turn(t);
	assert_memory_equal(m.p, s.want, ROOM);
	close(fd);
	free(s.out);
	free(s.want);
}

static void an_end_right_behind_the_last_bytes_is_seen(void **state)
{
	struct vt *t = *state;
	struct ibv_qp *qp = liar_victim(t);
	struct soft_hello h = liar_greeting(t, qp);
	struct soft_hdr ack = { .op = SOFT_OP_ACK };
	uint8_t buf[SOFT_HDR_LEN];
	int fd = liar_dial(t, qp->qp_num);
	ssize_t n = -1;

	assert_int_equal(liar_greet(t, fd, &h), SOFT_HELLO_OK);
	soft_hdr_encode(buf, &ack);
	assert_int_equal(send(fd, buf, sizeof(buf), MSG_NOSIGNAL), sizeof(buf));
	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	for (int i = 0; i < 100 && n < 0; i++) {
		vt_turn(t);
		n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
	}
	assert_int_equal(n, 0);
	close(fd);
}

static void *turn_elsewhere(void *arg)
{
	vt_turn(arg);
	return NULL;
}

/* The ring of one thread is of no use to another, and there is none to be had. */
static void a_ring_that_cannot_be_made_is_done_without(void **state)
{
	struct vt *t = *state;
	struct vt_mem src = vt_mem(t, &t->a, ROOM, VT_ALL);
	struct vt_mem dst = vt_mem(t, &t->b, ROOM, VT_ALL);
	struct ibv_sge sge = vt_sge(&src, 0, ROOM);
	struct rlimit had, none;
	struct ibv_qp *qa, *qb;
	pthread_t thread;

	vt_fill(src.p, ROOM, 3);
	vt_pair(t, &vt_usual, &qa, &qb);
	for (uint64_t id = 0; id < 2; id++) {
		vt_write(qa, id, &sge, &dst);
		if (!id)
			vt_expect(t, &t->a.send, 0, IBV_WC_SUCCESS);
	}
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &had), 0);
	none = had;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(
			pthread_create(&thread, NULL, turn_elsewhere, t), 0);
		pthread_join(thread, NULL);
	}
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &had), 0);
	vt_expect(t, &t->a.send, 1, IBV_WC_SUCCESS);
	assert_memory_equal(src.p, dst.p, ROOM);
}

const struct CMUnitTest test_list[] = {
	vt_test(an_ack_waits_a_little_for_company),
	vt_test(a_stream_may_be_cut_anywhere),
	vt_test(an_end_right_behind_the_last_bytes_is_seen),
	vt_test(a_ring_that_cannot_be_made_is_done_without),
	{ 0 },
};
