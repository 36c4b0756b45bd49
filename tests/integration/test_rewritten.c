/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors that a thread rewrites while both shards take them, with sequence
 * words and summaries: REWRITTEN=N of them, in one process, so that nothing but
 * the shards' own work is between two. What is taken was valid as it was copied,
 * or ends its connection. Whatever clients and shards map has a page without
 * access on either side (engine_pair.c), and memory of another user, whose
 * regions have the same numbers, stays as it was.
 */
#include <inttypes.h>
#include <pthread.h>

#include "arg.h"
#include "draw.h"
#include "engine/conn/conn.h"
#include "engine_pair.h"
#include "rewrite.h"

#define PAIRS 8u
#define LEN 64u
#define NEAR 16u /* slots from the head on that are rewritten */
#define CANARY 0xc7
#define CANARY_AT (1u << 20) /* of both halves of the other user's memory */
#define STUCK 5000u /* rounds */
#define NEIGHBOUR 65536u /* bytes of its messages, one in so many rounds */

struct one {
	struct pair_end end[2]; /* which sends, which receives */
	uint64_t since[2]; /* indices that the rings began at */
	uint64_t head[2];
	unsigned idle; /* rounds in which nothing was taken */
};

static struct pair hostile, other;
static struct one one[PAIRS];
static struct pair_end tx, rx; /* the other user's */

static _Atomic bool stop;
static _Atomic uint64_t changes;

static void fill_canary(struct pair_node *n)
{
	memset(n->mem + CANARY_AT, CANARY, PAIR_RX - CANARY_AT);
	memset(n->mem + PAIR_RX + CANARY_AT, CANARY, PAIR_RX - CANARY_AT);
}

static void check_canary(const struct pair_node *n)
{
	for (uint32_t i = CANARY_AT; i < PAIR_RX; i++) {
		assert_int_equal((uint8_t)n->mem[i], CANARY);
		assert_int_equal((uint8_t)n->mem[PAIR_RX + i], CANARY);
	}
}

/* A slot that is taken next, or soon. */
static struct mpib_ring_slot *slot_near(struct pair_node *n, uint64_t *rng)
{
	uint64_t i = draw(rng, PAIRS);
	/* Relaxed: any slot will do. */
	uint64_t head = atomic_load_explicit(&n->reply->conn[i].head,
					     memory_order_relaxed);

	return &n->submit->ring[i][(head + draw(rng, NEAR)) % MPIB_RING_SLOTS];
}

static void *write_wildly(void *arg)
{
	uint64_t rng = 1000, n = 0;

	(void)arg;
	/* Relaxed, both: nothing hangs on their order. */
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		struct pair_node *at = &hostile.node[draw(&rng, 2)];
		struct mpib_ring_slot *s = slot_near(at, &rng);

		if (draw(&rng, 100000) == 0)
			atomic_store(&s->seq, draw(&rng, 200));
		else if (draw(&rng, 1000) == 0)
			atomic_fetch_or(&at->submit->summary.word[0],
					draw(&rng, UINT64_MAX));
		else if (draw(&rng, 1000) == 0)
			atomic_fetch_or(&at->submit->summary.top,
					draw(&rng, UINT64_MAX));
		else
			rewrite_slot(s, at->mr, PAIR_MEM, LEN, &rng);
		atomic_store_explicit(&changes, ++n, memory_order_relaxed);
	}
	return NULL;
}

/* Whether the request that the next descriptor is of was begun, and is not over. */
static bool under_way(const struct pair_end *e, uint64_t since)
{
	uint64_t next = e->ring.tail;
	int32_t result;

	return next >= since + MPIB_REQUESTS &&
	       !mpib_completion_poll(
		       pair_completion(e, (uint8_t)(next % MPIB_REQUESTS)),
		       (uint32_t)(next - MPIB_REQUESTS) + 1, &result);
}

/* Fill the ring with what looks right; how many were taken of it. */
static uint64_t push_all(struct one *o, unsigned way)
{
	struct pair_end *e = &o->end[way];
	uint64_t head = atomic_load(e->ring.head), taken = head - o->head[way];
	const struct pair_node *n = &hostile.node[way];

	o->head[way] = head;
	while (!under_way(e, o->since[way])) {
		struct mpib_desc d = {
			.op = way ? MPIB_OP_RECV : MPIB_OP_SEND,
			.req = (uint8_t)(e->ring.tail % MPIB_REQUESTS),
			.n = 1,
			.gen = (uint32_t)e->ring.tail + 1,
			.mr = n->mr,
			.off = way ? PAIR_RX + e->index * LEN : e->index * LEN,
			.len = LEN,
			.total = LEN,
		};

		mpib_ring_push(&e->ring, &d);
	}
	atomic_fetch_or(&e->submit->summary.word[0], 1ull << e->index);
	atomic_fetch_or(&e->submit->summary.top, 1);
	return taken;
}

static void open_one(uint32_t i)
{
	struct one *o = &one[i];

	pair_connect(&hostile, i, 0, &o->end[0], &o->end[1]);
	o->idle = 0;
	for (unsigned way = 0; way < 2; way++) {
		struct pair_end *e = &o->end[way];

		for (unsigned k = 0; k < MPIB_RING_SLOTS; k++)
			atomic_store(&e->ring.slot[k].seq, 0);
		o->since[way] = atomic_load(e->ring.head);
		o->head[way] = e->ring.tail = o->since[way];
	}
}

static void close_one(struct one *o)
{
	bool stopped[2] = { false }, gone[2] = { false };

	for (unsigned way = 0; way < 2; way++)
		engine_conn_stop(o->end[way].conn, -ECONNABORTED, pair_set_flag,
				 &stopped[way]);
	pair_until(&hostile, &stopped[0]);
	pair_until(&hostile, &stopped[1]);
	for (unsigned way = 0; way < 2; way++)
		engine_conn_destroy(o->end[way].conn, pair_set_flag,
				    &gone[way]);
	pair_until(&hostile, &gone[0]);
	pair_until(&hostile, &gone[1]);
}

struct found {
	uint64_t taken, broken, stuck, neighbour;
};

static void step(uint32_t i, struct found *n)
{
	struct one *o = &one[i];
	uint64_t taken = push_all(o, 0) + push_all(o, 1);
	bool broken = o->end[0].conn->broken || o->end[1].conn->broken;

	n->taken += taken;
	o->idle = taken ? 0 : o->idle + 1;
	/* A send of more than it has parts of waits for the rest. */
	if (!broken && o->idle < STUCK)
		return;
	n->broken += broken;
	n->stuck += !broken;
	close_one(o);
	open_one(i);
}

static void what_changes_while_it_is_taken_harms_nobody(void **state)
{
	const char *asked = getenv("REWRITTEN");
	uint64_t most = asked ? arg_number(asked, UINT64_MAX) : 200000;
	struct found n = { 0 };
	pthread_t writer;

#ifdef __SANITIZE_THREAD__
	skip_as("it races on purpose, in its own memory");
#endif
	assert_int_equal(pthread_create(&writer, NULL, write_wildly, NULL), 0);
	/* Goes on where the writer has had no core yet. */
	for (uint64_t round = 0; n.taken < most || !n.broken; round++) {
		for (uint32_t i = 0; i < PAIRS; i++)
			step(i, &n);
		pair_turn(&hostile);
		if (round % NEIGHBOUR == 0) {
			pair_transfer(&other, &tx, &rx,
				      (uint8_t)(n.neighbour % MPIB_REQUESTS),
				      NEIGHBOUR, NEIGHBOUR,
				      (unsigned)n.neighbour);
			n.neighbour++;
		}
	}
	atomic_store(&stop, true);
	pthread_join(writer, NULL);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(hostile.node[i].lanes_broken, 0);
		assert_int_equal(other.node[i].broken, 0);
		check_canary(&other.node[i]);
	}
	print_message("%" PRIu64 " descriptors under %" PRIu64
		      " changes: %" PRIu64 " connections ended, %" PRIu64
		      " waited for ever, nothing was touched that is not "
		      "theirs; a neighbour's %" PRIu64 " messages, 0 wrong\n",
		      n.taken, atomic_load(&changes), n.broken, n.stuck,
		      n.neighbour);
}

static int setup(void **state)
{
	struct mpib_engine_config cfg;

	mpib_engine_config_init(&cfg);
	pair_open(&hostile, &cfg, MPIB_IMM_V2);
	pair_join(&hostile, &other, 1);
	for (uint32_t i = 0; i < PAIRS; i++)
		open_one(i);
	pair_connect(&other, 0, 0, &tx, &rx);
	fill_canary(&other.node[0]);
	fill_canary(&other.node[1]);
	return 0;
}

static int teardown(void **state)
{
	pair_close(&hostile);
	pair_leave(&other);
	return 0;
}

const struct CMUnitTest test_list[] = {
	fixture_test(what_changes_while_it_is_taken_harms_nobody),
	{ 0 },
};
