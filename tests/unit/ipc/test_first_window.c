/* SPDX-License-Identifier: Apache-2.0 */
/* The small window that a connection begins with, and the whole one after it. */
#include <errno.h>

#include "ipc/client.h"
#include "loop.h"
#include "test.h"

#define FIRST (512u << 10)
#define WHOLE (2u << 20)
#define EACH 60000

static unsigned pools(void)
{
	return atomic_load(&f->asked[MPIB_CTL_POOL]);
}

/* Until both are over. */
static void end(struct mpib_request *s, struct mpib_request *r)
{
	int sent = 0, here = 0;

	for (int i = 0; i < 10000 && !(sent && here); i++) {
		fake_turn(f, 0, 1, 30000);
		if (!sent)
			assert_int_equal(mpib_test(s, &sent, NULL), 0);
		if (!here)
			assert_int_equal(mpib_test(r, &here, NULL), 0);
	}
	assert_true(sent && here);
}

static void move(size_t at, size_t size)
{
	struct mpib_request *r = recv_at(0, size);

	end(send_at(at, size, 0), r);
	assert_memory_equal(to, from + at, size);
}

static void what_has_room_goes_by_small_windows(void **state)
{
	for (unsigned i = 0; i < 60; i++)
		move(i, 100000);
	assert_int_equal(pools(), 2);
	assert_int_equal(f->pool[0].size, FIRST);
	assert_int_equal(f->pool[1].size, FIRST);
}

/* Of either end; a receive may be larger than what it gets. */
static void posts_that_wait_for_room_get_whole_windows(void **state)
{
	struct mpib_request *r[2];

	for (unsigned i = 0; pools() < 3; i++) {
		assert_true(i < 40);
		r[0] = recv_at(0, 600000);
		r[1] = recv_at(0, 600000);
		for (unsigned k = 0; k < 2; k++)
			end(send_at(k, 100, 0), r[k]);
	}
	assert_int_equal(f->pool[2].size, WHOLE);
}

/* As if so many posts had found no room that a whole window is worth it. */
static void want_whole(struct mpib_conn *conn)
{
	conn->window.no_room = 1000;
}

/* Six sends lie in the small window when a whole one comes. */
static void what_is_in_the_small_one_leaves_it(void **state)
{
	struct mpib_request *s[7];

	for (unsigned i = 0; i < 6; i++)
		s[i] = send_at(i * 1000, EACH, 0);
	assert_int_equal(pools(), 1);
	want_whole(tx);
	s[6] = send_at(6000, EACH, 0);
	assert_int_equal(pools(), 2);
	assert_int_equal(f->pool[1].size, WHOLE);
	for (unsigned i = 0; i < 7; i++) {
		end(s[i], recv_at(0, EACH));
		assert_memory_equal(to, from + i * 1000, EACH);
	}
}

static void receives_in_the_small_one_come_out_of_it(void **state)
{
	struct mpib_request *r[8];

	for (unsigned i = 0; i < 8; i++) {
		if (i == 7)
			want_whole(rx);
		r[i] = recv_at(i * EACH, EACH);
	}
	assert_int_equal(pools(), 2);
	assert_int_equal(f->pool[1].size, WHOLE);
	for (unsigned i = 0; i < 8; i++) {
		end(send_at(i * 1000, EACH, 0), r[i]);
		assert_memory_equal(to + i * EACH, from + i * 1000, EACH);
	}
}

static void the_small_one_goes_back_when_it_is_empty(void **state)
{
	struct mpib_index *x = &c->at->index[0];
	struct mpib_request *s[2];

	s[0] = send_at(0, EACH, 0);
	want_whole(tx);
	s[1] = send_at(7, EACH, 0);
	mpib_client_hold(c);
	mpib_windows_sweep(c, 1000000);
	mpib_client_unlock(c);
	assert_ptr_equal(x->before.pool->seg.addr, tx->window.base_before);
	for (unsigned i = 0; i < 2; i++)
		end(s[i], recv_at(0, EACH));
	mpib_client_hold(c);
	mpib_windows_sweep(c, 2000000);
	mpib_client_unlock(c);
	assert_null(x->before.pool);
	assert_non_null(x->window.pool);
}

/* Neither of the two, until the connection is closed. */
static void of_a_failed_connection_it_stays(void **state)
{
	struct mpib_index *x = &c->at->index[0];
	struct mpib_request *s[2];

	s[0] = send_at(0, EACH, 0);
	want_whole(tx);
	s[1] = send_at(7, EACH, 0);
	atomic_store(&f->reply->conn[0].broken, -ECONNRESET);
	for (unsigned i = 0; i < 2; i++)
		end_as(0, s[i], -ECONNRESET);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(finish(s[i], NULL, NULL), -ECONNRESET);
	mpib_client_hold(c);
	mpib_windows_sweep(c, 1000000);
	mpib_windows_sweep(c, 2000000);
	mpib_client_unlock(c);
	assert_non_null(x->before.pool);
	assert_non_null(x->window.pool);
}

/* Without a whole one all goes on by the small one, and few questions are
 * asked. */
static void a_whole_one_that_is_refused_is_done_without(void **state)
{
	unsigned before;

	move(1, 100);
	before = pools();
	atomic_store(&f->refuse_pool, -EDQUOT);
	for (unsigned i = 0; i < 60; i++)
		move(i, 600000);
	assert_in_range(pools() - before, 2, 20);
	before = pools();
	mpib_close(tx);
	mpib_close(rx);
	connect_both();
	atomic_store(&f->pool_most, FIRST);
	/* Large, and asked for first. */
	move(3, BYTES - 3);
	move(0, BYTES);
	assert_true(pools() > before);
}

/* Nor is one done without that a group needs: it says why it has none. */
static void a_group_without_the_one_it_needs_is_told_why(void **state)
{
	static const int tag[2] = { 0, 1 };
	struct mpib_region *region[2] = { to_region, to_region };
	void *data[2] = { to, to + 500000 };
	size_t size[2] = { 400000, 400000 };
	struct mpib_request *r;

	move(1, 100);
	atomic_store(&f->refuse_pool, -EDQUOT);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(mpib_irecv(rx, 2, data, size, tag, region, &r),
				 -EDQUOT);
	atomic_store(&f->refuse_pool, 0);
	assert_int_equal(mpib_irecv(rx, 2, data, size, tag, region, &r), 0);
	assert_non_null(r);
}

static void one_prepared_is_whole(void **state)
{
	assert_int_equal(mpib_prepare(tx, from_region), 0);
	assert_int_equal(f->pool[0].size, WHOLE);
	move(1, 100);
	assert_int_equal(mpib_prepare(tx, from_region), 0);
	assert_int_equal(pools(), 2);
}

#define TEST(name)                                                             \
	cmocka_unit_test_setup_teardown(name, loop_start_wide, loop_stop)

const struct CMUnitTest test_list[] = {
	TEST(what_has_room_goes_by_small_windows),
	TEST(posts_that_wait_for_room_get_whole_windows),
	TEST(what_is_in_the_small_one_leaves_it),
	TEST(receives_in_the_small_one_come_out_of_it),
	TEST(the_small_one_goes_back_when_it_is_empty),
	TEST(of_a_failed_connection_it_stays),
	TEST(a_whole_one_that_is_refused_is_done_without),
	TEST(a_group_without_the_one_it_needs_is_told_why),
	TEST(one_prepared_is_whole),
	{ 0 },
};
