/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ordinary memory through the staging window: index 0 sends, index 1 receives,
 * the test turns the shard between them.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "ipc/client.h"
#include "loop.h"
#include "test.h"

static void a_message_larger_than_the_window_passes_through(void **state)
{
	struct mpib_request *s = send_at(0, BYTES, 0), *r = recv_at(0, BYTES);
	size_t size = 0;

	assert_int_equal(finish(r, s, &size), 0);
	assert_int_equal(size, BYTES);
	assert_memory_equal(to, from, BYTES);
}

static void a_message_may_end_before_the_receive_does(void **state)
{
	static const size_t sizes[] = { 0,     1,     16383, 16384,
					16385, 70000, 0,     200000 };

	for (unsigned i = 0; i < 8; i++) {
		struct mpib_request *r = recv_at(0, BYTES - i);
		struct mpib_request *s = send_at(i, sizes[i], 0);
		size_t size = 99;

		memset(to, 0x55, BYTES);
		assert_int_equal(finish(r, s, &size), 0);
		assert_int_equal(size, sizes[i]);
		assert_memory_equal(to, from + i, size);
		assert_int_equal(to[size], 0x55);
	}
}

#define AT_ONCE 24 /* sends of one tag */

/* A stream of random messages, each into its own place. */
struct stream {
	struct mpib_request *s[MPIB_REQUESTS], *r[MPIB_REQUESTS];
	size_t size[64], got[64];
	unsigned sent, posted, s_done, r_done, n;
	size_t most; /* of one */
};

static void post_some(struct stream *st)
{
	void *data;
	size_t room;

	while (st->sent < st->n && st->sent - st->s_done < AT_ONCE) {
		st->s[st->sent % MPIB_REQUESTS] =
			send_at(st->sent * 100, st->size[st->sent], 0);
		st->sent++;
	}
	while (st->posted < st->n && st->posted - st->r_done < MPIB_REQUESTS) {
		/* Some for more than will come. */
		room = st->posted % 3 ? st->size[st->posted] : st->most;
		data = to + st->posted * st->most;
		assert_int_equal(mpib_irecv(rx, 1, &data, &room, NULL,
					    &to_region,
					    &st->r[st->posted % MPIB_REQUESTS]),
				 0);
		st->posted++;
	}
}

static void take_some(struct stream *st)
{
	int done = 1;

	while (done && st->s_done < st->sent) {
		assert_int_equal(mpib_test(st->s[st->s_done % MPIB_REQUESTS],
					   &done, NULL),
				 0);
		st->s_done += (unsigned)done;
	}
	done = 1;
	while (done && st->r_done < st->posted) {
		assert_int_equal(mpib_test(st->r[st->r_done % MPIB_REQUESTS],
					   &done, &st->got[st->r_done]),
				 0);
		st->r_done += (unsigned)done;
	}
}

static void keep_apart(unsigned n, size_t most)
{
	unsigned seed = 42;

	for (int lap = 0; lap < 20; lap++) {
		struct stream st = { .n = n, .most = most };

		for (unsigned i = 0; i < st.n; i++)
			st.size[i] =
				(size_t)rand_r(&seed) % (i % 4 ? most + 1 : 70);
		for (int i = 0; i < 100000 && st.r_done < st.n; i++) {
			post_some(&st);
			fake_turn(f, 0, 1, (uint32_t)rand_r(&seed) % 40000);
			take_some(&st);
		}
		assert_int_equal(st.r_done, st.n);
		take_some(&st);
		assert_int_equal(st.s_done, st.n);
		for (unsigned i = 0; i < st.n; i++) {
			assert_int_equal(st.got[i], st.size[i]);
			assert_memory_equal(to + i * most, from + i * 100,
					    st.size[i]);
		}
	}
}

static void many_messages_in_flight_keep_apart(void **state)
{
	keep_apart(60, 16384);
}

/* More than a small one holds. */
static void they_keep_apart_while_the_windows_grow(void **state)
{
	keep_apart(20, 49152);
	assert_int_equal(atomic_load(&f->asked[MPIB_CTL_POOL]), 4);
	assert_int_equal(f->pool[2].size, f->welcome.window);
	assert_int_equal(f->pool[3].size, f->welcome.window);
}

static void mixed_memory_is_pushed_in_the_order_posted(void **state)
{
	char *mem = mpib_mem_alloc(c, 4096);
	struct mpib_request *big, *small, *a, *b;
	struct mpib_region *region;

	strcpy(mem, "after");
	assert_int_equal(mpib_reg(c, mem, 4096, &region), 0);
	big = send_at(0, 300000, 0);
	assert_int_equal(mpib_isend(tx, mem, 6, 0, region, &small), 0);
	a = recv_at(0, 300000);
	b = recv_at(400000, 6);
	assert_int_equal(finish(a, big, NULL), 0);
	assert_int_equal(finish(b, small, NULL), 0);
	assert_memory_equal(to, from, 300000);
	assert_string_equal(to + 400000, "after");
}

static void a_send_too_large_fails_with_both_sizes(void **state)
{
	struct mpib_request *r = recv_at(0, 40000), *s = send_at(0, 50000, 0);
	int done = 0;

	assert_int_equal(finish(r, NULL, NULL), -EMSGSIZE);
	assert_string_equal(mpib_strerror(),
			    "send of 50000 bytes is larger than the posted "
			    "receive of 40000 bytes");
	assert_int_equal(mpib_test(s, &done, NULL), -EMSGSIZE);
	assert_int_equal(done, 1);
	/* The connection is as good as before. */
	s = send_at(7, 100000, 0);
	r = recv_at(0, 100000);
	assert_int_equal(finish(r, s, NULL), 0);
	assert_memory_equal(to, from + 7, 100000);
}

/* Of a grouped receive it is the connection that fails, which has the text. */
static void one_too_large_for_its_group_says_what_the_proxy_says(void **state)
{
	struct mpib_request *s = send_at(0, 50000, 0);

	atomic_store(&f->reply->conn[0].broken, -EMSGSIZE);
	end_as(0, s, -EMSGSIZE);
	assert_int_equal(finish(s, NULL, NULL), -EMSGSIZE);
	assert_string_equal(mpib_strerror(), "the peer has no such listener");
	assert_true(tx->window.lost);
}

static void a_window_is_given_to_the_next_connection(void **state)
{
	for (int i = 0; i < 5; i++) {
		/* Closed with requests under way, at any point of them. */
		struct mpib_request *s = send_at(0, 200000, 0);
		struct mpib_request *r = recv_at(0, 200000);

		(void)s;
		(void)r;
		fake_turn(f, 0, 1, (uint32_t)i * 17000);
		mpib_close(tx);
		mpib_close(rx);
		connect_both();
		r = recv_at(0, 100000);
		s = send_at((size_t)i, 100000, 0);
		assert_int_equal(finish(r, s, NULL), 0);
		assert_memory_equal(to, from + i, 100000);
	}
	/* One window for each, of which one is kept while both are closed. */
	assert_int_equal(atomic_load(&f->asked[MPIB_CTL_POOL]), 2 + 5);
}

static void windows_go_back_with_the_connections_and_the_regions(void **state)
{
	struct mpib_handle h = { .magic = MPIB_HANDLE_MAGIC };
	struct mpib_conn *conn[16];
	unsigned pools;

	for (unsigned i = 0; i < 16; i++) {
		assert_int_equal(mpib_connect(c, &h, -1, &conn[i]), 0);
		assert_int_equal(mpib_prepare(conn[i], from_region), 0);
	}
	/* Their peers take their time. */
	atomic_store(&f->hold_closing, true);
	mpib_close(tx);
	mpib_close(rx);
	for (unsigned i = 0; i < 16; i++)
		mpib_close(conn[i]);
	/* The proxy has heard all that was said before the answer to this. */
	assert_int_equal(mpib_connect(c, &h, -1, &tx), 0);
	pools = atomic_load(&f->asked[MPIB_CTL_POOL]);
	assert_true(pools >= 5);
	assert_int_equal(atomic_load(&f->asked[MPIB_CTL_DEREG]), pools - 1);
	mpib_close(tx);
	assert_int_equal(mpib_dereg(from_region), 0);
	assert_int_equal(mpib_dereg(to_region), 0);
	assert_int_equal(mpib_connect(c, &h, -1, &tx), 0);
	assert_int_equal(atomic_load(&f->asked[MPIB_CTL_DEREG]), pools);
}

static void progress_of_long_ago_is_not_taken_for_its_own(void **state)
{
	struct mpib_request *r, *s;
	int done;

	/* As if generations had come round since. */
	mpib_completion_advance(&f->reply->completion[1][0], 1, 16384);
	memset(to, 'y', 20000);
	r = recv_at(0, 20000);
	assert_int_equal(mpib_test(r, &done, NULL), 0);
	assert_int_equal(to[0], 'y');
	s = send_at(3, 20000, 0);
	assert_int_equal(finish(r, s, NULL), 0);
	assert_memory_equal(to, from + 3, 20000);
}

static void
pools_begin_with_a_window_and_grow_with_the_connections(void **state)
{
	static const size_t windows[] = { 1, 1, 2, 4, 8 };
	struct mpib_handle h = { .magic = MPIB_HANDLE_MAGIC };
	struct mpib_conn *conn[16];

	for (unsigned i = 0; i < 16; i++) {
		assert_int_equal(mpib_connect(c, &h, -1, &conn[i]), 0);
		assert_int_equal(mpib_prepare(conn[i], from_region), 0);
	}
	assert_int_equal(atomic_load(&f->asked[MPIB_CTL_POOL]), 5);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(f->pool[i].size,
				 windows[i] * f->welcome.window);
	for (unsigned i = 0; i < 16; i++)
		mpib_close(conn[i]);
}

struct dereg {
	_Atomic bool go, over;
	unsigned wrong;
};

/* Takes the receive buffer away and uses it for something else. */
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

static void after_dereg_nobody_touches_the_memory(void **state)
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
			/* The last bytes wait for the other thread. */
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
int __real_sched_yield(void);
int __wrap_sched_yield(void);

int __wrap_sched_yield(void)
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

static void a_dereg_waits_for_a_copy_that_is_under_way(void **state)
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

static void a_deregistered_send_puts_nothing_on_the_wire(void **state)
{
	struct mpib_request *s = send_at(0, 200000, 0);
	struct mpib_request *r = recv_at(0, 200000);

	assert_int_equal(mpib_dereg(from_region), 0);
	memset(from, 0x33, BYTES);
	assert_int_equal(finish(s, r, NULL), -ECANCELED);
	/* The proxy still has it as READY. */
	assert_int_equal(mpib_ready(tx), -ECANCELED);
	assert_int_equal(mpib_ready(rx), 1);
	assert_null(memchr(to + 65536, 0x33, 200000 - 65536));
	assert_int_equal(to[199999], 0);
}

/* The first fills the window and waits for its receive. */
static void a_send_that_is_wanted_has_room_whatever_waits(void **state)
{
	struct mpib_request *first = send_at(0, 200000, 0), *second;
	int32_t tag = 1;
	int done;

	second = send_at(0, 16000, 1);
	assert_int_equal(second->pos, 0);
	mpib_want_tell(&f->reply->conn[0].want, tx->ring.tail, &tag, 1);
	assert_int_equal(mpib_test(first, &done, NULL), 0);
	assert_int_equal(second->pos, 16000);
	/* It need not wait for what lies before it in the window. */
	end_as(0, second, 16000);
	assert_int_equal(mpib_test(second, &done, NULL), 0);
	assert_int_equal(done, 1);
	assert_int_equal(mpib_test(first, &done, NULL), 0);
	assert_int_equal(done, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, loop_start, loop_stop)

const struct CMUnitTest test_list[] = {
	TEST(a_message_larger_than_the_window_passes_through),
	TEST(a_message_may_end_before_the_receive_does),
	TEST(many_messages_in_flight_keep_apart),
	cmocka_unit_test_setup_teardown(they_keep_apart_while_the_windows_grow,
					loop_start_wide, loop_stop),
	TEST(mixed_memory_is_pushed_in_the_order_posted),
	TEST(a_send_too_large_fails_with_both_sizes),
	TEST(one_too_large_for_its_group_says_what_the_proxy_says),
	TEST(a_window_is_given_to_the_next_connection),
	TEST(windows_go_back_with_the_connections_and_the_regions),
	TEST(progress_of_long_ago_is_not_taken_for_its_own),
	TEST(pools_begin_with_a_window_and_grow_with_the_connections),
	TEST(after_dereg_nobody_touches_the_memory),
	TEST(a_dereg_waits_for_a_copy_that_is_under_way),
	TEST(a_send_that_is_wanted_has_room_whatever_waits),
	TEST(a_deregistered_send_puts_nothing_on_the_wire),
	{ 0 },
};
