/* SPDX-License-Identifier: Apache-2.0 */
/* peer/outbox.h: what goes in comes out in its order, whoever takes it. */
#include "peer/outbox.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "peer/codec.h"
#include "test.h"

#define BIG (64u << 10)

static struct mpib_seal open_link;

/* Frame number n of len bytes, its length in front. */
static const uint8_t *frame(unsigned n, size_t len)
{
	static uint8_t buf[BIG];

	memset(buf, (int)n, len);
	mpib_frame_set_len(buf, len - 4);
	return buf;
}

static size_t waits(const struct mpib_outbox *o)
{
	return mpib_fifo_waits(&o->bytes);
}

/* Everything that waits, sent and compared with len bytes. */
static void expect_sent(struct mpib_outbox *o, const void *bytes, size_t len)
{
	uint8_t *got = malloc(len + 1);
	int end[2];

	assert_non_null(got);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, end), 0);
	assert_int_equal(mpib_outbox_send(o, end[0]), len);
	assert_true(mpib_outbox_empty(o));
	assert_int_equal(recv(end[1], got, len + 1, MSG_DONTWAIT), len);
	assert_memory_equal(got, bytes, len);
	close(end[0]);
	close(end[1]);
	free(got);
}

static void an_empty_one_sends_nothing(void **state)
{
	struct mpib_outbox o = { 0 };

	assert_true(mpib_outbox_empty(&o));
	assert_int_equal(mpib_outbox_send(&o, -1), 0);
	mpib_outbox_fini(&o);
}

/* Frames of 10 and 20 bytes, told in both. */
static void put_two(struct mpib_outbox *o, uint8_t *both)
{
	memcpy(both, frame(1, 10), 10);
	memcpy(both + 10, frame(2, 20), 20);
	assert_true(mpib_outbox_put(o, &open_link, both, 10));
	assert_true(mpib_outbox_put(o, &open_link, both + 10, 20));
}

static void frames_leave_in_the_order_they_came(void **state)
{
	struct mpib_outbox o = { 0 };
	uint8_t both[30];

	put_two(&o, both);
	assert_false(mpib_outbox_empty(&o));
	expect_sent(&o, both, sizeof(both));
	mpib_outbox_fini(&o);
}

/* A socket takes as much as it likes, and more frames come meanwhile. */
static void a_full_socket_loses_and_repeats_nothing(void **state)
{
	struct mpib_outbox o = { 0 };
	uint8_t *want = malloc(12 * BIG), *got = malloc(12 * BIG);
	size_t put = 0, taken = 0;
	int end[2], small = 4096;
	bool was_full = false;

	assert_true(want && got);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, end), 0);
	setsockopt(end[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	for (unsigned i = 0; i < 12 || !mpib_outbox_empty(&o); i++) {
		ssize_t n;

		if (i < 12) {
			memcpy(want + put, frame(i, BIG), BIG);
			assert_true(mpib_outbox_put(&o, &open_link, want + put,
						    BIG));
			put += BIG;
		}
		while ((n = mpib_outbox_send(&o, end[0])) > 0)
			;
		assert_int_equal(n, 0);
		was_full |= !mpib_outbox_empty(&o);
		while ((n = recv(end[1], got + taken, put - taken,
				 MSG_DONTWAIT)) > 0)
			taken += (size_t)n;
	}
	assert_true(was_full);
	assert_int_equal(taken, put);
	assert_memory_equal(got, want, put);
	close(end[0]);
	close(end[1]);
	free(want);
	free(got);
	mpib_outbox_fini(&o);
}

static void a_peer_that_is_gone_is_an_error(void **state)
{
	struct mpib_outbox o = { 0 };
	int end[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, end), 0);
	close(end[1]);
	assert_true(mpib_outbox_put(&o, &open_link, frame(1, 10), 10));
	assert_int_equal(mpib_outbox_send(&o, end[0]), -EPIPE);
	assert_int_equal(waits(&o), 10);
	close(end[0]);
	mpib_outbox_fini(&o);
}

static void who_does_not_read_gets_no_more_than_the_limit(void **state)
{
	struct mpib_outbox o = { 0 };
	unsigned n = 0;
	size_t held;

	while (mpib_outbox_put(&o, &open_link, frame(n, BIG), BIG))
		assert_true(++n <= MPIB_OUTBOX_MAX / BIG);
	assert_true(n >= 8); /* a burst is no overflow */
	assert_non_null(strstr(o.overflow, "does not read"));
	held = waits(&o);
	assert_int_equal(held, n * BIG);
	/* Nor a small one: frames after a gap would mean nothing. */
	assert_false(mpib_outbox_put(&o, &open_link, frame(n, 8), 8));
	assert_int_equal(waits(&o), held);
	mpib_outbox_fini(&o);
	assert_null(o.overflow);
}

static void a_sealed_frame_carries_its_seal_and_says_so(void **state)
{
	const struct mpib_cluster_key key = { .set = true, .key = { 7 } };
	struct mpib_outbox o = { 0 };
	struct mpib_seal tx, rx;
	struct mpib_auth a = { { 1 } };

	mpib_seal_init(&tx, &key, &a, false);
	mpib_seal_init(&rx, &key, &a, false);
	for (unsigned i = 0; i < 2; i++) {
		uint8_t *at;

		assert_true(mpib_outbox_put(&o, &tx, frame(i, 20), 20));
		at = o.bytes.buf + i * (20 + MPIB_SEAL_BYTES);
		assert_int_equal(mpib_frame_len(at), 16 + MPIB_SEAL_BYTES);
		assert_true(mpib_seal_open(&rx, at + 4, 16, at + 20));
		assert_memory_equal(at + 4, frame(i, 20) + 4, 16);
	}
	assert_int_equal(waits(&o), 2 * (20 + MPIB_SEAL_BYTES));
	mpib_outbox_fini(&o);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(an_empty_one_sends_nothing),
	cmocka_unit_test(frames_leave_in_the_order_they_came),
	cmocka_unit_test(a_full_socket_loses_and_repeats_nothing),
	cmocka_unit_test(a_peer_that_is_gone_is_an_error),
	cmocka_unit_test(who_does_not_read_gets_no_more_than_the_limit),
	cmocka_unit_test(a_sealed_frame_carries_its_seal_and_says_so),
	{ 0 },
};
