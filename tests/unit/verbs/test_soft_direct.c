/* SPDX-License-Identifier: Apache-2.0 */
/* What is read from a socket into its place, and what may not be. */
#include "liar.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bus.h"

#define LEN (300u << 10)
#define FIRST (50u << 10)
#define ODD (FIRST + 5u) /* bytes, which end within a word */
#define TURNS 20

/* A peer that writes LEN bytes of from into region, in the pieces that it likes. */
struct say {
	struct vt *t;
	int fd;
	uint8_t from[LEN];
};

static struct say *dial(struct vt *t)
{
	struct ibv_qp *qp = liar_victim(t);
	struct soft_hello h = liar_greeting(t, qp);
	struct say *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	s->t = t;
	s->fd = liar_dial(t, qp->qp_num);
	vt_fill(s->from, LEN, 1);
	assert_int_equal(liar_greet(t, s->fd, &h), SOFT_HELLO_OK);
	return s;
}

static void hang_up(struct say *s)
{
	close(s->fd);
	free(s);
}

static void say(const struct say *s, const void *p, size_t len)
{
	assert_int_equal(send(s->fd, p, len, MSG_NOSIGNAL), len);
}

static void turn(const struct say *s)
{
	for (int i = 0; i < TURNS; i++)
		vt_turn(s->t);
}

static void say_header(const struct say *s, uint8_t op, uint64_t addr,
		       uint32_t rkey)
{
	const struct soft_hdr h = { .op = op,
				    .len = op == SOFT_OP_ACK ? 0 : LEN,
				    .rkey = rkey,
				    .addr = addr };
	uint8_t buf[SOFT_HDR_LEN];

	soft_hdr_encode(buf, &h);
	say(s, buf, sizeof(buf));
}

/* From byte off to the end, with the headers that belong there. */
static void say_rest(const struct say *s, uint32_t off, uint32_t end)
{
	while (off < end) {
		uint32_t left = SOFT_SEGMENT - off % SOFT_SEGMENT;

		if (off % SOFT_SEGMENT == 0)
			say_header(s, SOFT_OP_MORE, off, 0);
		left = left < end - off ? left : end - off;
		say(s, s->from + off, left);
		off += left;
	}
	turn(s);
}

/* The last bytes of what has come, which fill no word: without a copy they are in
 * their place, as all others. */
static bool odd_bytes_are_there(struct vt *t, int access)
{
	struct say *s = dial(t);
	struct vt_mem m = vt_mem(t, &t->a, LEN, access);
	bool there;

	say_header(s, SOFT_OP_WRITE, vt_addr(&m), m.mr->rkey);
	say(s, s->from, FIRST);
	turn(s);
	say_rest(s, FIRST, ODD);
	assert_memory_equal(m.p, s->from, FIRST);
	there = !memcmp(m.p, s->from, ODD);
	say_rest(s, ODD, LEN);
	assert_memory_equal(m.p, s->from, LEN);
	hang_up(s);
	return there;
}

static void only_what_nobody_looks_at_is_read_into_its_place(void **state)
{
	assert_true(
		odd_bytes_are_there(*state, VT_ALL | MPIB_ACCESS_ANY_ORDER));
}

static void what_somebody_may_look_at_is_written_word_by_word(void **state)
{
	assert_false(odd_bytes_are_there(*state, VT_ALL));
}

/* What follows the ack was read to where it would belong without that. */
static void an_ack_between_segments_moves_no_byte(void **state)
{
	struct vt *t = *state;
	struct say *s = dial(t);
	struct vt_mem m =
		vt_mem(t, &t->a, LEN + 4096, VT_ALL | MPIB_ACCESS_ANY_ORDER);

	say_header(s, SOFT_OP_WRITE, vt_addr(&m), m.mr->rkey);
	say(s, s->from, FIRST);
	turn(s);
	say(s, s->from + FIRST, SOFT_SEGMENT - FIRST);
	say_header(s, SOFT_OP_ACK, 0, 0);
	say_rest(s, SOFT_SEGMENT, LEN);
	assert_memory_equal(m.p, s->from, LEN);
	for (unsigned i = LEN; i < m.len; i++)
		assert_int_equal(m.p[i], 0);
	hang_up(s);
}

/* A process that owns the file has taken the pages from left on away, before what
 * follows the first bytes of the message comes. */
static void pages_are_gone_from(struct vt *t, off_t left, uint32_t first)
{
	struct say *s = dial(t);
	int fd = memfd_create("gone", MFD_CLOEXEC);
	struct vt_mem m = { .len = LEN };
	uint8_t ack[SOFT_HDR_LEN];

	assert_int_equal(mpib_bus_catch(), 0);
	assert_int_equal(ftruncate(fd, LEN), 0);
	m.p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(m.p, MAP_FAILED);
	assert_int_equal(t->v->reg_mr(t->a.pd, m.p, LEN, vt_addr(&m),
				      VT_ALL | MPIB_ACCESS_ANY_ORDER, &m.mr),
			 0);
	say_header(s, SOFT_OP_WRITE, vt_addr(&m), m.mr->rkey);
	say(s, s->from, FIRST);
	turn(s);
	say_rest(s, FIRST, first);
	assert_int_equal(ftruncate(fd, left), 0);
	say_rest(s, first, LEN);
	/* It is done, whatever became of its bytes. */
	assert_int_equal(recv(s->fd, ack, sizeof(ack), MSG_DONTWAIT),
			 sizeof(ack));
	assert_int_equal(ack[0], SOFT_OP_ACK);
	assert_int_equal(t->v->dereg_mr(m.mr), 0);
	munmap(m.p, LEN);
	close(fd);
	hang_up(s);
}

static void a_place_that_is_gone_costs_no_connection(void **state)
{
	pages_are_gone_from(*state, 0, FIRST);
}

static void nor_does_one_that_is_gone_in_part(void **state)
{
	/* All that follows is there when the read ends at the missing page. */
	pages_are_gone_from(*state, 260 << 10, 220 << 10);
}

const struct CMUnitTest test_list[] = {
	vt_test(only_what_nobody_looks_at_is_read_into_its_place),
	vt_test(what_somebody_may_look_at_is_written_word_by_word),
	vt_test(an_ack_between_segments_moves_no_byte),
	vt_test(a_place_that_is_gone_costs_no_connection),
	vt_test(nor_does_one_that_is_gone_in_part),
	{ 0 },
};
