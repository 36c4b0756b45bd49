/* SPDX-License-Identifier: Apache-2.0 */
#include <mpib/ring.h>

#include <pthread.h>
#include <sched.h>

#include "test.h"

#define SLOTS 64u

struct ring {
	struct mpib_ring_slot slot[SLOTS];
	_Alignas(MPIB_CACHELINE) _Atomic uint64_t head;
	struct mpib_producer p;
	struct mpib_consumer c;
};

/* Open a ring whose indices begin at `start`. */
static void open_ring(struct ring *r, uint64_t start)
{
	memset(r, 0, sizeof(*r));
	atomic_init(&r->head, start);
	r->p = (struct mpib_producer){ r->slot, &r->head, start, start,
				       SLOTS - 1 };
	r->c = (struct mpib_consumer){ r->slot, &r->head, start, SLOTS };
}

static struct mpib_desc numbered(uint64_t i)
{
	return (struct mpib_desc){ .op = MPIB_OP_SEND, .off = i, .gen = 7 };
}

static void push(struct ring *r, uint64_t i)
{
	struct mpib_desc d = numbered(i);

	assert_true(mpib_ring_room(&r->p, 1) > 0);
	mpib_ring_push(&r->p, &d);
}

static void pop(struct ring *r, uint64_t i)
{
	struct mpib_desc d, want = numbered(i);

	assert_true(mpib_ring_pop(&r->c, &d));
	assert_memory_equal(&d, &want, sizeof(d));
}

TEST(descriptors_are_popped_in_the_order_of_their_pushes)
{
	struct ring r;
	struct mpib_desc d;

	open_ring(&r, 0);
	assert_false(mpib_ring_pop(&r.c, &d));
	for (uint64_t i = 0; i < 40; i++)
		push(&r, i);
	for (uint64_t i = 0; i < 40; i++)
		pop(&r, i);
	assert_false(mpib_ring_pop(&r.c, &d));
}

TEST(a_full_ring_has_room_only_after_the_head_is_published)
{
	struct ring r;

	open_ring(&r, 0);
	for (uint64_t i = 0; i < SLOTS; i++)
		push(&r, i);
	assert_int_equal(mpib_ring_room(&r.p, 1), 0);
	pop(&r, 0);
	pop(&r, 1);
	assert_int_equal(mpib_ring_room(&r.p, 1), 0);
	mpib_ring_publish(&r.c);
	assert_int_equal(mpib_ring_room(&r.p, 1), 2);
	push(&r, SLOTS);
	push(&r, SLOTS + 1);
	assert_int_equal(mpib_ring_room(&r.p, 1), 0);
}

/* For each possible number of descriptors in the ring, let the indices pass
 * `edge`. A test that only fills the ring and then drains it would miss a wrong
 * comparison. */
static void cross(uint64_t edge)
{
	for (unsigned depth = 1; depth <= SLOTS; depth++) {
		uint64_t start = edge - 100, i;
		struct ring r;

		open_ring(&r, start);
		for (i = 0; i < depth; i++)
			push(&r, i);
		for (; i < 300; i++) {
			pop(&r, i - depth);
			mpib_ring_publish(&r.c);
			push(&r, i);
		}
		if (depth == SLOTS)
			assert_int_equal(mpib_ring_room(&r.p, 1), 0);
		for (i -= depth; i < 300; i++)
			pop(&r, i);
	}
}

TEST(indices_are_correct_beyond_2_to_the_32)
{
	cross(1ull << 32);
}

TEST(indices_are_correct_beyond_2_to_the_64)
{
	cross(0);
}

TEST(an_impossible_head_is_refused)
{
	struct ring r;

	open_ring(&r, 1000);
	for (uint64_t i = 0; i < SLOTS; i++)
		push(&r, i);
	atomic_store(&r.head, 1000 + SLOTS + 1); /* ahead of the tail */
	assert_int_equal(mpib_ring_room(&r.p, 1), -EPROTO);
	atomic_store(&r.head, 999); /* more than SLOTS behind the tail */
	assert_int_equal(mpib_ring_room(&r.p, 1), -EPROTO);
	atomic_store(&r.head, 1000 + SLOTS);
	assert_int_equal(mpib_ring_room(&r.p, 1), SLOTS);
}

TEST(a_descriptor_with_a_wrong_sequence_is_not_popped)
{
	struct mpib_desc d;
	struct ring r;

	open_ring(&r, 5);
	atomic_store(&r.slot[5].seq, 5 + SLOTS + 1);
	assert_false(mpib_ring_pop(&r.c, &d));
	atomic_store(&r.slot[5].seq, 5);
	assert_false(mpib_ring_pop(&r.c, &d));
	assert_int_equal(r.c.next, 5);
}

TEST(only_an_impossible_sequence_is_reported_as_a_jump)
{
	static const uint64_t wild[] = {
		5, 7, 6 + SLOTS, 6 + 2 * SLOTS, 6 + (1ull << 31), UINT64_MAX
	};
	struct mpib_desc d;
	struct ring r;

	open_ring(&r, 5);
	assert_false(mpib_ring_jumped(&r.c));
	for (uint64_t i = 0; i < 3 * SLOTS; i++) {
		push(&r, i);
		assert_false(mpib_ring_jumped(&r.c));
		assert_true(mpib_ring_pop(&r.c, &d));
		mpib_ring_publish(&r.c);
		assert_false(mpib_ring_jumped(&r.c));
	}
	open_ring(&r, 5);
	for (unsigned i = 0; i < sizeof(wild) / sizeof(*wild); i++) {
		atomic_store(&r.slot[5].seq, wild[i]);
		assert_true(mpib_ring_jumped(&r.c));
	}
}

#define RUN 200000u

static void *produce(void *arg)
{
	struct ring *r = arg;

	for (uint64_t i = 0; i < RUN; i++) {
		struct mpib_desc d = numbered(i);

		while (mpib_ring_room(&r->p, 1) == 0)
			sched_yield();
		mpib_ring_push(&r->p, &d);
	}
	return NULL;
}

TEST(two_threads_neither_lose_nor_change_descriptors)
{
	pthread_t thread;
	struct ring r;
	uint64_t wrong = 0;

	open_ring(&r, (1ull << 32) - RUN / 2);
	assert_int_equal(pthread_create(&thread, NULL, produce, &r), 0);
	for (uint64_t i = 0; i < RUN; i++) {
		struct mpib_desc d, want = numbered(i);

		while (!mpib_ring_pop(&r.c, &d))
			sched_yield();
		wrong += memcmp(&d, &want, sizeof(d)) != 0;
		if (i % 8 == 7)
			mpib_ring_publish(&r.c);
	}
	pthread_join(thread, NULL);
	assert_int_equal(wrong, 0);
}
