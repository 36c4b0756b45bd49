/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ordinary memory is sent through the staging window. Index 0 sends, index 1
 * receives, and the test makes the turns of the shard between them.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "ipc/client.h"
#include "loop.h"
#include "test.h"

#define CASE(name) TEST_OF(name, loop_start, loop_stop)

CASE(a_send_that_is_too_large_fails_with_both_sizes)
{
	struct mpib_request *r = recv_at(0, 40000), *s = send_at(0, 50000, 0);
	int done = 0;

	assert_int_equal(finish(r, NULL, NULL), -EMSGSIZE);
	assert_string_equal(mpib_strerror(),
			    "send of 50000 bytes is larger than the posted "
			    "receive of 40000 bytes");
	assert_int_equal(mpib_test(s, &done, NULL), -EMSGSIZE);
	assert_int_equal(done, 1);
	/* The connection still works. */
	s = send_at(7, 100000, 0);
	r = recv_at(0, 100000);
	assert_int_equal(finish(r, s, NULL), 0);
	assert_memory_equal(to, from + 7, 100000);
}

/* If the receive is a group, the whole connection fails, and the text of the
 * error comes from the proxy. */
CASE(a_send_too_large_for_its_group_fails_with_the_proxys_reason)
{
	struct mpib_request *s = send_at(0, 50000, 0);

	fake_break(f, 0, -EMSGSIZE);
	end_as(0, s, -EMSGSIZE);
	assert_int_equal(finish(s, NULL, NULL), -EMSGSIZE);
	assert_string_equal(mpib_strerror(), "the peer has no such listener");
	assert_true(tx->window.lost);
}

CASE(windows_are_released_with_their_connections)
{
	struct mpib_handle h = { .magic = MPIB_HANDLE_MAGIC };

	send_at(0, 1000, 0);
	recv_at(0, 1000);
	assert_int_equal(asked(MPIB_CTL_POOL), 2);
	/* The connections stay in the state CLOSING. */
	atomic_store(&f->hold_closing, true);
	mpib_close(tx);
	mpib_close(rx);
	/* When this request is answered, the proxy has read all earlier
	 * requests. */
	assert_int_equal(mpib_connect(c, &h, -1, &tx), 0);
	assert_int_equal(asked(MPIB_CTL_DEREG), 2);
}

CASE(old_progress_is_not_counted_for_a_new_request)
{
	struct mpib_request *r, *s;
	int done;

	/* Write progress with the generation that the new request will have. An
	 * old request leaves such progress when the generations have
	 * wrapped. */
	mpib_completion_advance(&f->reply->completion[1][0], 1, 16384);
	memset(to, 'y', 20000);
	r = recv_at(0, 20000);
	assert_int_equal(mpib_test(r, &done, NULL), 0);
	assert_int_equal(to[0], 'y');
	s = send_at(3, 20000, 0);
	assert_int_equal(finish(r, s, NULL), 0);
	assert_memory_equal(to, from + 3, 20000);
}

/* The helper may hold the client's lock for long, while it talks to a proxy. */
CASE(a_post_does_not_wait_for_the_lock)
{
	struct mpib_request *send, *receive;
	size_t size = 1000;
	void *data = to;

	(void)state;
	mpib_client_hold(c);
	assert_int_equal(mpib_isend(tx, from, size, 0, from_region, &send), 0);
	assert_null(send);
	assert_int_equal(
		mpib_irecv(rx, 1, &data, &size, NULL, &to_region, &receive), 0);
	assert_null(receive);
	mpib_client_unlock(c);
	send = send_at(0, size, 0);
	assert_int_equal(finish(recv_at(0, size), send, NULL), 0);
	assert_memory_equal(to, from, size);
}

struct dereg {
	_Atomic bool go, over;
	unsigned wrong;
};

/* Deregister the receive buffer, and check that it does not change
 * afterwards. */
static void *deregister(void *arg)
{
	struct dereg *d = arg;

	while (!atomic_load(&d->go))
		sched_yield();
	d->wrong = mpib_dereg(to_region) != 0;
	memset(to, 0x77, BYTES);
	for (int i = 0; i < 20; i++)
		sched_yield();
	for (unsigned i = 0; i < BYTES; i++)
		d->wrong += to[i] != 0x77;
	atomic_store(&d->over, true);
	return NULL;
}

CASE(deregistered_memory_is_not_accessed)
{
	for (int lap = 0; lap < 8; lap++) {
		struct mpib_request *s = send_at(0, BYTES, 0);
		struct mpib_request *r = recv_at(0, BYTES);
		struct dereg d = { 0 };
		int done = 0, rc = 0;
		pthread_t thread;

		assert_int_equal(pthread_create(&thread, NULL, deregister, &d),
				 0);
		for (int i = 0; !done && rc == 0; i++) {
			if (i == lap * 5)
				atomic_store(&d.go, true);
			/* Do not move the last bytes before the other thread is
			 * done. */
			if (i < 100 || atomic_load(&d.over))
				fake_turn(f, 0, 1, 9000);
			rc = mpib_test(r, &done, NULL);
			if (s && mpib_test(s, &(int){ 0 }, NULL) < 0)
				s = NULL;
		}
		pthread_join(thread, NULL);
		assert_int_equal(rc, -ECANCELED);
		assert_int_equal(done, 1);
		assert_int_equal(d.wrong, 0);
		assert_int_equal(mpib_reg(c, to, BYTES, &to_region), 0);
		mpib_close(tx);
		mpib_close(rx);
		connect_both();
	}
}

static _Thread_local bool deregisters;
static _Atomic bool dereg_waits;

WRAPS(int, sched_yield, void)
{
	if (deregisters)
		atomic_store(&dereg_waits, true);
	return __real_sched_yield();
}

static void *take_away(void *over)
{
	int rc;

	deregisters = true;
	rc = mpib_dereg(to_region);
	atomic_store((_Atomic bool *)over, true);
	return rc ? over : NULL;
}

CASE(a_dereg_waits_for_a_copy_in_progress)
{
	_Atomic bool over = false;
	pthread_t thread;
	void *failed;

	assert_true(mpib_region_copy_begin(to_region));
	assert_int_equal(pthread_create(&thread, NULL, take_away, &over), 0);
	while (!atomic_load(&over) && !atomic_load(&dereg_waits))
		__real_sched_yield();
	assert_false(atomic_load(&over));
	mpib_region_copy_end(to_region);
	pthread_join(thread, &failed);
	assert_null(failed);
}

CASE(a_send_whose_memory_was_deregistered_sends_no_byte)
{
	struct mpib_request *s = send_at(0, 200000, 0);
	struct mpib_request *r = recv_at(0, 200000);

	assert_int_equal(mpib_dereg(from_region), 0);
	memset(from, 0x33, BYTES);
	assert_int_equal(finish(s, r, NULL), -ECANCELED);
	/* `tx` has failed, although the proxy still reports both ends as
	 * READY. */
	assert_int_equal(mpib_ready(tx), -ECANCELED);
	assert_int_equal(mpib_ready(rx), 1);
	assert_null(memchr(to + 65536, 0x33, 200000 - 65536));
	assert_int_equal(to[199999], 0);
}

/* The first message fills the window and waits for its receive. */
CASE(a_send_with_a_posted_receive_gets_room_while_an_earlier_send_waits)
{
	struct mpib_request *first = send_at(0, 200000, 0), *second;
	int32_t tag = 1;
	int done;

	second = send_at(0, 16000, 1);
	assert_int_equal(second->pos, 0);
	mpib_want_tell(&f->reply->conn[0].want, tx->ring.tail, &tag, 1);
	assert_int_equal(mpib_test(first, &done, NULL), 0);
	assert_int_equal(second->pos, 16000);
	/* The second send completes before the first send, although the bytes
	 * of the first send come first in the window. */
	end_as(0, second, 16000);
	assert_int_equal(mpib_test(second, &done, NULL), 0);
	assert_int_equal(done, 1);
	assert_int_equal(mpib_test(first, &done, NULL), 0);
	assert_int_equal(done, 0);
}

static void count_posted(void *user, struct mpib_request *r,
			 enum mpib_watch what)
{
	(void)r;
	*(unsigned *)user += what == MPIB_WATCH_POSTED;
}

static void test_in_vain(struct mpib_request *r, unsigned times)
{
	int done;

	for (unsigned i = 0; i < times; i++) {
		assert_int_equal(mpib_test(r, &done, NULL), 0);
		assert_false(done);
	}
}

/* A second call of mpib_report() restarts the count of tests. */
CASE(mpib_report_later_reports_after_1024_tests_without_a_result)
{
	unsigned posted = 0, at = 0;

	for (unsigned reports = 1; reports <= 2; reports++) {
		struct mpib_request *r;

		assert_int_equal(mpib_report(rx, MPIB_REPORT_LATER,
					     count_posted, &posted),
				 0);
		r = recv_at(at++, 1);
		test_in_vain(r, 1023);
		recv_at(at++, 1);
		assert_int_equal(posted, reports - 1);
		test_in_vain(r, 1);
		for (unsigned i = 0; i < 2; i++)
			recv_at(at++, 1);
		assert_int_equal(posted, reports);
	}
}
