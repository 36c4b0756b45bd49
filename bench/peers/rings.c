/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues of 64-byte slots between two processes, each on a core of its own:
 * the round trip of one message, and messages per second one way.
 *
 *   bench-rings [MESSAGES]   line_rtt, seq_rtt, ck_rtt: us; seq_rate,
 *                            ck_rate: M/s. MESSAGES / 20 round trips.
 *
 * line: a number in one cache line, the lower bound. seq: mpib/ring.h. ck:
 * ck_ring of Concurrency Kit, single producer and consumer.
 */
#include <ck_ring.h>
#include <mpib/ring.h>
#include <stdatomic.h>
#include <string.h>

#include "peers/args.h"
#include "peers/peer.h"

#define SLOTS 64
#define MESSAGES 4000000

struct item {
	uint64_t number;
	char rest[48];
};

CK_RING_PROTOTYPE(item, item)

struct seq_queue {
	struct mpib_ring_slot slot[SLOTS];
	_Alignas(64) _Atomic uint64_t head;
};

struct ck_queue {
	ck_ring_t ring;
	_Alignas(64) struct item item[SLOTS];
};

struct rings_shared {
	_Alignas(64) _Atomic uint64_t line;
	struct seq_queue seq[2];
	struct ck_queue ck[2];
	uint64_t messages, rounds;
};

/* One end of a pair: it takes messages from in and puts messages into out. */
struct rings_end {
	struct rings_shared *s;
	struct mpib_producer out;
	struct mpib_consumer in;
	unsigned me;
};

static struct rings_end end_of(struct rings_shared *s, unsigned me)
{
	struct seq_queue *out = &s->seq[me], *in = &s->seq[!me];

	peer_pin(me);
	return (struct rings_end){
		.s = s,
		.me = me,
		.out = { .slot = out->slot,
			 .head = &out->head,
			 .mask = SLOTS - 1 },
		.in = { .slot = in->slot, .head = &in->head, .size = SLOTS },
	};
}

static void line_put(struct rings_end *e, uint64_t n)
{
	atomic_store_explicit(&e->s->line, n, memory_order_release);
}

static void line_take(struct rings_end *e, uint64_t n)
{
	while (atomic_load_explicit(&e->s->line, memory_order_acquire) != n)
		;
}

static void seq_put(struct rings_end *e, uint64_t n)
{
	struct mpib_desc d = { .off = n };
	int room;

	while ((room = mpib_ring_room(&e->out, 1)) == 0)
		;
	if (room < 0)
		peer_die("the ring's head is impossible");
	mpib_ring_push(&e->out, &d);
}

static void seq_take(struct rings_end *e, uint64_t n)
{
	struct mpib_desc d;

	while (!mpib_ring_pop(&e->in, &d))
		;
	if (d.off != n)
		peer_die("ring: %llu came for %llu", (unsigned long long)d.off,
			 (unsigned long long)n);
	/* Publish the head for 16 slots at once, as a shard does per turn. */
	if (n % 16 == 0)
		mpib_ring_publish(&e->in);
}

static void ck_put(struct rings_end *e, uint64_t n)
{
	struct ck_queue *q = &e->s->ck[e->me];
	struct item it = { .number = n };

	while (!CK_RING_ENQUEUE_SPSC(item, &q->ring, q->item, &it))
		;
}

static void ck_take(struct rings_end *e, uint64_t n)
{
	struct ck_queue *q = &e->s->ck[!e->me];
	struct item it;

	while (!CK_RING_DEQUEUE_SPSC(item, &q->ring, q->item, &it))
		;
	if (it.number != n)
		peer_die("ck_ring: %llu came for %llu",
			 (unsigned long long)it.number, (unsigned long long)n);
}

struct queue {
	const char *name;
	void (*put)(struct rings_end *e, uint64_t n);
	void (*take)(struct rings_end *e, uint64_t n);
};

static const struct queue queues[] = {
	{ "seq", seq_put, seq_take },
	{ "ck", ck_put, ck_take },
};

static void say(const char *name, const char *what, double value)
{
	char metric[32];

	strcpy(metric, name);
	strcat(metric, what);
	peer_say(metric, value);
}

static void first(void *arg)
{
	struct rings_end e = end_of(arg, 0);
	uint64_t rounds = e.s->rounds, messages = e.s->messages;
	uint64_t begun = peer_ns();

	/* The first process writes odd numbers, the second even ones. */
	for (uint64_t i = 0; i < rounds; i++) {
		line_put(&e, 2 * i + 1);
		line_take(&e, 2 * i + 2);
	}
	say("line", "_rtt", (double)(peer_ns() - begun) / (double)rounds / 1e3);

	for (unsigned k = 0; k < 2; k++) {
		begun = peer_ns();
		for (uint64_t i = 0; i < rounds; i++) {
			queues[k].put(&e, i);
			queues[k].take(&e, i);
		}
		say(queues[k].name, "_rtt",
		    (double)(peer_ns() - begun) / (double)rounds / 1e3);
		begun = peer_ns();
		for (uint64_t i = rounds; i < rounds + messages; i++)
			queues[k].take(&e, i);
		say(queues[k].name, "_rate",
		    (double)messages * 1e3 / (double)(peer_ns() - begun));
	}
}

static void second(void *arg)
{
	struct rings_end e = end_of(arg, 1);
	uint64_t rounds = e.s->rounds, messages = e.s->messages;

	for (uint64_t i = 0; i < rounds; i++) {
		line_take(&e, 2 * i + 1);
		line_put(&e, 2 * i + 2);
	}
	for (unsigned k = 0; k < 2; k++) {
		for (uint64_t i = 0; i < rounds; i++) {
			queues[k].take(&e, i);
			queues[k].put(&e, i);
		}
		for (uint64_t i = rounds; i < rounds + messages; i++)
			queues[k].put(&e, i);
	}
}

int main(int argc, char **argv)
{
	struct rings_shared *s = peer_shared(sizeof(*s));

	peer_args(argc, argv, 0, 1, "[MESSAGES]");
	s->messages = argc > 1 ? peer_size("MESSAGES", argv[1], 20, 1ull << 40)
			       : MESSAGES;
	s->rounds = s->messages / 20;

	for (unsigned i = 0; i < 2; i++)
		ck_ring_init(&s->ck[i].ring, SLOTS);
	peer_pair(first, second, s);
	return 0;
}
