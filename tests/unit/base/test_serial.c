/* SPDX-License-Identifier: Apache-2.0 */
#include "base/serial.h"

#include <unistd.h>

#include "test.h"

struct thing {
	uint8_t a;
	uint16_t b;
	uint32_t c, few;
	uint64_t d;
	int32_t e;
	bool f;
	char text[8];
	int fd, none;
};

static void pass(struct mpib_serial *p, struct thing *t)
{
	mpib_serial_mark(p, "thing");
	mpib_serial_u8(p, &t->a);
	mpib_serial_u16(p, &t->b);
	mpib_serial_u32(p, &t->c);
	mpib_serial_count(p, &t->few, 9);
	mpib_serial_u64(p, &t->d);
	mpib_serial_i32(p, &t->e);
	mpib_serial_bool(p, &t->f);
	mpib_serial_text(p, t->text, sizeof(t->text));
	mpib_serial_fd(p, &t->fd);
	mpib_serial_fd(p, &t->none);
	mpib_serial_mark(p, "end");
}

static struct thing example(void)
{
	return (struct thing){ 1,  0x1234, 0xdeadbeef, 9,      ~5ull,
			       -7, true,   "seven77",  dup(0), -1 };
}

/* As another process would get it. */
static void arrive(struct mpib_serial *to, const struct mpib_serial *from,
		   size_t len)
{
	uint8_t *bytes = malloc(len + 1);
	int *fd = calloc(from->fds + 1, sizeof(*fd));

	assert_non_null(bytes);
	assert_non_null(fd);
	memcpy(bytes, from->bytes, len);
	for (size_t i = 0; i < from->fds; i++)
		fd[i] = dup(from->fd[i]);
	mpib_serial_unpack(to, bytes, len, fd, from->fds);
}

static void what_is_packed_comes_out_again(void **state)
{
	struct thing in = example(), out = { 0 };
	struct mpib_serial p, q;

	mpib_serial_pack(&p);
	pass(&p, &in);
	assert_false(p.failed);
	arrive(&q, &p, p.len);
	pass(&q, &out);
	assert_false(q.failed);
	assert_int_equal(q.at, q.len);
	assert_int_equal(out.a, in.a);
	assert_int_equal(out.b, in.b);
	assert_int_equal(out.c, in.c);
	assert_int_equal(out.few, in.few);
	assert_true(out.d == in.d);
	assert_int_equal(out.e, in.e);
	assert_true(out.f);
	assert_string_equal(out.text, in.text);
	assert_true(out.fd >= 0 && out.fd != in.fd);
	assert_int_equal(out.none, -1);
	assert_int_equal(close(out.fd), 0);
	assert_int_equal(close(in.fd), 0);
	mpib_serial_fini(&q);
	mpib_serial_fini(&p);
}

static void one_that_is_cut_short_anywhere_fails(void **state)
{
	struct thing in = example();
	struct mpib_serial p, q;

	mpib_serial_pack(&p);
	pass(&p, &in);
	for (size_t len = 0; len < p.len; len++) {
		struct thing out = { .fd = -1 };

		arrive(&q, &p, len);
		pass(&q, &out);
		assert_true(q.failed);
		assert_true(q.why[0]);
		if (out.fd >= 0)
			close(out.fd);
		mpib_serial_fini(&q);
	}
	close(in.fd);
	mpib_serial_fini(&p);
}

static void a_count_above_its_bound_fails_and_is_0(void **state)
{
	uint32_t n = 10;
	struct mpib_serial p, q;

	mpib_serial_pack(&p);
	mpib_serial_u32(&p, &n);
	arrive(&q, &p, p.len);
	mpib_serial_count(&q, &n, 9);
	assert_true(q.failed);
	assert_int_equal(n, 0);
	mpib_serial_fini(&q);
	mpib_serial_fini(&p);
}

static void another_object_than_expected_fails_in_words(void **state)
{
	struct mpib_serial p, q;

	mpib_serial_pack(&p);
	mpib_serial_mark(&p, "lane");
	arrive(&q, &p, p.len);
	mpib_serial_mark(&q, "flow");
	assert_true(q.failed);
	assert_string_equal(q.why, "flow expected, lane found");
	mpib_serial_fini(&q);
	mpib_serial_fini(&p);
}

static void descriptors_that_nobody_took_are_closed(void **state)
{
	int in = dup(0), kept;
	struct mpib_serial p, q;

	mpib_serial_pack(&p);
	mpib_serial_fd(&p, &in);
	arrive(&q, &p, p.len);
	kept = q.fd[0];
	mpib_serial_fini(&q);
	assert_int_equal(close(kept), -1);
	mpib_serial_fini(&p);
	/* Packed ones stay their owner's. */
	assert_int_equal(close(in), 0);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(what_is_packed_comes_out_again),
	cmocka_unit_test(one_that_is_cut_short_anywhere_fails),
	cmocka_unit_test(a_count_above_its_bound_fails_and_is_0),
	cmocka_unit_test(another_object_than_expected_fails_in_words),
	cmocka_unit_test(descriptors_that_nobody_took_are_closed),
	{ 0 },
};
