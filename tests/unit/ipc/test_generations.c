/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generations come round after 2^31 requests. A word of a place that was not used
 * since would then say of another request that it is over. Here a connection counts on
 * in leaps: as many laps of its ring as a leap has would change nothing.
 */
#include "ipc/client.h"

/* Its c would be shadowed there. */
#include "attached.h"

static struct mpib_conn *rx;

static void receiver(void)
{
	struct mpib_handle h;
	struct mpib_listener *l;

	assert_int_equal(mpib_listen(c, &h, &l), 0);
	assert_int_equal(mpib_accept(l, &rx), 0);
	assert_int_equal(mpib_ready(rx), 1);
	mpib_close_listen(l);
	fake_conn_open(f, 0);
}

static struct mpib_request *post(void *mem, struct mpib_region *region)
{
	size_t size = 8;
	struct mpib_request *r;
	struct mpib_desc d;

	assert_int_equal(mpib_irecv(rx, 1, &mem, &size, NULL, &region, &r), 0);
	assert_non_null(r);
	assert_true(mpib_ring_pop(&f->conn[0].ring, &d));
	mpib_ring_publish(&f->conn[0].ring);
	assert_int_equal(d.gen, r->gen);
	return r;
}

static void finish(struct mpib_request *r)
{
	mpib_completion_finish(&f->reply->completion[0][mpib_request_index(r)],
			       r->gen, 8);
}

/* No place has a word that says that r is over. */
static void nothing_says_so(const struct mpib_request *r)
{
	for (unsigned i = 0; i < MPIB_REQUESTS; i++)
		assert_int_not_equal(
			atomic_load(&f->reply->completion[0][i].word) >> 32,
			r->gen);
}

static void end(struct mpib_request *r)
{
	int done;

	finish(r);
	assert_int_equal(mpib_test(r, &done, NULL), 0);
	assert_int_equal(done, 1);
}

/* A place that was used once, in a burst, is used again before its word looks like
 * that of another. */
static void no_place_rests_until_generations_come_round(void **state)
{
	struct mpib_request *r[MPIB_REQUESTS];
	struct mpib_region *region;
	void *mem;

	attach();
	receiver();
	mem = mpib_mem_alloc(c, 4096);
	assert_int_equal(mpib_reg(c, mem, 4096, &region), 0);
	for (unsigned i = 0; i < MPIB_REQUESTS; i++)
		r[i] = post(mem, region);
	for (unsigned i = 0; i < MPIB_REQUESTS; i++)
		end(r[i]);
	for (unsigned leap = 0; leap < 2 * (UINT32_MAX / MPIB_TURN); leap++) {
		rx->gen += MPIB_TURN - 2 * MPIB_RING_SLOTS;
		for (unsigned i = 0; i < MPIB_RING_SLOTS; i++) {
			r[0] = post(mem, region);
			nothing_says_so(r[0]);
			end(r[0]);
		}
	}
}

/* The same of a place that could not be used, as its request was not tested. */
static void
a_place_whose_word_has_the_next_generation_is_passed_over(void **state)
{
	struct mpib_request *r, *late;
	struct mpib_region *region;
	int done;
	void *mem;

	attach();
	receiver();
	mem = mpib_mem_alloc(c, 4096);
	assert_int_equal(mpib_reg(c, mem, 4096, &region), 0);
	late = post(mem, region);
	finish(late);
	rx->gen = late->gen - 4;
	r = post(mem, region);
	end(r);
	end(late);
	r = post(mem, region);
	assert_ptr_not_equal(r, late);
	assert_int_equal(r->gen, late->gen);
	assert_int_equal(mpib_test(r, &done, NULL), 0);
	assert_int_equal(done, 0);
	end(r);
}

/* So that the words say how many receives are over. */
static void what_finds_the_ring_full_is_not_counted(void **state)
{
	struct mpib_region *region;
	struct mpib_request *r;
	size_t size = 8;
	unsigned n = 0;
	int done;
	void *mem;

	attach();
	receiver();
	mem = mpib_mem_alloc(c, 4096);
	assert_int_equal(mpib_reg(c, mem, 4096, &region), 0);
	for (;;) {
		assert_int_equal(
			mpib_irecv(rx, 1, &mem, &size, NULL, &region, &r), 0);
		if (!r)
			break;
		assert_int_equal(r->gen, rx->first_gen + 2 * n++);
		finish(r);
		assert_int_equal(mpib_test(r, &done, NULL), 0);
		assert_int_equal(done, 1);
	}
	assert_int_equal(n, MPIB_RING_SLOTS);
	atomic_store(&f->reply->conn[0].head, n);
	fake_conn_open(f, 0);
	r = post(mem, region);
	assert_int_equal(r->gen, rx->first_gen + 2 * n);
}

/* Short connections, that use one place each, are many. */
static void a_connection_begins_with_the_place_whose_turn_it_is(void **state)
{
	struct mpib_region *region;
	uint32_t used = 0;
	void *mem;

	attach();
	mem = mpib_mem_alloc(c, 4096);
	assert_int_equal(mpib_reg(c, mem, 4096, &region), 0);
	for (unsigned i = 0; i < MPIB_REQUESTS; i++) {
		struct mpib_request *r;

		receiver();
		r = post(mem, region);
		used |= 1u << mpib_request_index(r);
		end(r);
		rx->gen += MPIB_TURN;
		mpib_close(rx);
	}
	assert_int_equal(used, UINT32_MAX);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

const struct CMUnitTest test_list[] = {
	TEST(no_place_rests_until_generations_come_round),
	TEST(a_place_whose_word_has_the_next_generation_is_passed_over),
	TEST(what_finds_the_ring_full_is_not_counted),
	TEST(a_connection_begins_with_the_place_whose_turn_it_is),
	{ 0 },
};
