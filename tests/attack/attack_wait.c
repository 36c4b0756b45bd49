/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users post sends without receives, and receives without sends, on thousands
 * of connections. The users also post requests that complete immediately, as
 * fast as the proxy accepts them, and set summary bits of rings that do not
 * exist. These attacks must cost the shard little CPU time, and must not delay
 * other users.
 */
#include <mpib/control.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "raw_client.h"
#include "test.h"
#include "victim.h"

#define CLIENTS 8u
#define MANY_CLIENTS 240u /* a user may have 256 clients */
#define PAIRS 500u /* pairs of ends per client */
#define PACE_US 300 /* pause, to stay within quota.messages */
#define MANY (MPIB_RING_SLOTS + 8) /* more descriptors than a ring holds */
#define PARTS 5
#ifndef TURN_US /* sanitizer builds set a very high limit */
#define TURN_US 200 /* maximum CPU time of the shard per turn, in us */
#define MOVED 4000 /* messages that the victim moves during the attack */
#endif

static struct node node[2];
static struct victim *victim;
/* tells the test that every connection has outstanding requests */
static int ready[2];

static int setup(void **state)
{
	victim = victim_between(node, NULL);
	return pipe(ready);
}

/* The attacker posts sends or receives of messages in many parts, but never
 * posts the last part. */
struct begun {
	uint8_t op;
	unsigned parts; /* 0: the message ends, and more parts follow */
};

/* Wait for room in the ring. If the client overwrote entries, the proxy would
 * disconnect it. */
static void until_room(const struct raw_client *x, uint32_t index)
{
	while (x->tail[index] - atomic_load(&x->reply->conn[index].head) >=
	       MPIB_RING_SLOTS)
		usleep(50);
}

static void begin_parts(struct raw_client *x, uint32_t index, uint32_t mr,
			const struct begun *b)
{
	struct mpib_desc d = { .op = b->op, .n = 1, .gen = 1, .mr = mr };

	d.len = 1;
	d.total = b->parts + 1;
	for (unsigned i = 0; i < b->parts; i++) {
		until_room(x, index);
		d.pos = i;
		raw_push(x, index, &d);
	}
}

/* Move a message of one byte from connection rx + 1 to rx. */
static void move_one(struct raw_client *x, uint32_t rx, uint32_t mr)
{
	struct mpib_desc d = { .op = MPIB_OP_RECV, .n = 1, .gen = 1, .mr = mr };
	int32_t bytes;

	d.len = d.total = 1;
	raw_push(x, rx, &d);
	d.op = MPIB_OP_SEND;
	raw_push(x, rx + 1, &d);
	while (!mpib_completion_poll(&x->reply->completion[rx + 1][0], 1,
				     &bytes))
		usleep(50);
}

static bool begin_on_all(struct raw_client *x, const struct begun *b)
{
	uint32_t mr;
	void *mem;

	if (!raw_attach(x, tenant_dial(node[0].dir, MPIB_CONTROL_SOCK,
				       SOCK_SEQPACKET)) ||
	    !raw_pool(x, 4096, &mr, &mem))
		return false;
	for (uint32_t i = 0; i < PAIRS; i++) {
		if (!raw_pair(x, 2 * i, 2 * i + 1))
			return false;
		if (b->parts)
			begin_parts(x, 2 * i + (b->op == MPIB_OP_SEND), mr, b);
		else
			move_one(x, 2 * i, mr);
		usleep(PACE_US);
	}
	return true;
}

/* Fill a ring with parts of the message that has ended. The shard drops such a
 * part in the turn in which it reads the descriptor. */
static void fill_with_late_parts(struct raw_client *x, uint32_t index)
{
	uint64_t head = atomic_load(&x->reply->conn[index].head);
	struct mpib_desc d = { .op = MPIB_OP_SEND, .n = 1, .gen = 1 };

	d.pos = d.len = 1;
	d.total = 2;
	while (x->tail[index] - head < MPIB_RING_SLOTS)
		raw_put(x, index, &d);
}

static void flood(struct raw_client *client)
{
	for (unsigned i = 0;; i = (i + 1) % CLIENTS) {
		for (uint32_t k = 0; k < PAIRS; k++)
			fill_with_late_parts(&client[i], 2 * k + 1);
		for (unsigned w = 0; w <= 2 * PAIRS / 64; w++)
			raw_ring(&client[i], w, UINT64_MAX);
	}
}

static int begin_and_wait(void *arg)
{
	const struct begun *b = arg;
	static struct raw_client client[CLIENTS];

	for (unsigned i = 0; i < CLIENTS; i++) {
		if (!begin_on_all(&client[i], b))
			return 1;
	}
	if (!b->parts && write(ready[1], "x", 1) == 1)
		flood(client);
	return tenant_stay(ready[1]);
}

/* Set summary bits of connections that were never opened. */
static int name_what_is_not(void *arg)
{
	static struct raw_client client[MANY_CLIENTS];

	(void)arg;
	tenant_many_descriptors();
	for (unsigned i = 0; i < MANY_CLIENTS; i++) {
		if (!raw_attach(&client[i],
				tenant_dial(node[0].dir, MPIB_CONTROL_SOCK,
					    SOCK_SEQPACKET)))
			return 1;
	}
	if (write(ready[1], "x", 1) != 1)
		return 1;
	for (unsigned i = 0;; i = (i + 1) % MANY_CLIENTS) {
		struct mpib_summary *sum = &client[i].submit->summary;

		for (unsigned w = 0; w < MPIB_INDEXES_MAX / 64; w++)
			atomic_store(&sum->word[w], UINT64_MAX);
		atomic_store(&sum->top, UINT64_MAX);
	}
}

static uint64_t turns_so_far(void)
{
	json_t *info = node_ask(&node[0], "info");
	const json_t *shard =
		json_array_get(json_object_get(info, "shards"), 0);
	const json_t *turns = json_object_get(shard, "turns");
	uint64_t n = (uint64_t)json_integer_value(turns);

	assert_true(json_is_integer(turns));
	json_decref(info);
	return n;
}

/* Measure the shard while the victim moves a part of its messages. Return the
 * shard's CPU time per turn, in microseconds. */
static uint64_t us_per_turn(void)
{
	uint64_t turns = turns_so_far(), us = shards_us(node[0].pid);

	victim_goes_on(victim, MOVED / PARTS);
	us = shards_us(node[0].pid) - us;
	turns = turns_so_far() - turns;
	print_message("the shard used %llu us of CPU time in %llu turns\n",
		      (unsigned long long)us, (unsigned long long)turns);
	return us / turns;
}

/* Check that the shard's turns take at most `most_us` during the attack. Use
 * the lowest measurement, since other load on the machine only adds time. */
static void turns_stay_below(uint64_t most_us, int (*attack)(void *arg),
			     struct begun b)
{
	uint64_t best = UINT64_MAX;
	pid_t pid;

	attack_needs_root();
	pid = attacker_begin(attack, &b, ready[0]);
	for (unsigned i = 0; i < PARTS; i++) {
		uint64_t us = us_per_turn();

		best = us < best ? us : best;
	}
	child_kill(pid);
	assert_in_range(best, 0, most_us);
}

static void turns_stay_short(struct begun b)
{
	turns_stay_below(TURN_US, begin_and_wait, b);
}

TEST(sends_without_receives_take_little_cpu_time)
{
	turns_stay_short((struct begun){ MPIB_OP_SEND, 1 });
}

TEST(full_rings_of_sends_take_little_cpu_time)
{
	turns_stay_short((struct begun){ MPIB_OP_SEND, MANY });
}

TEST(full_rings_of_receives_take_little_cpu_time)
{
	turns_stay_short((struct begun){ MPIB_OP_RECV, MANY });
}

TEST(late_parts_of_a_message_take_little_cpu_time)
{
	turns_stay_short((struct begun){ MPIB_OP_SEND, 0 });
}

TEST(summary_bits_without_a_ring_take_little_cpu_time)
{
	turns_stay_below(TURN_US / 10, name_what_is_not, (struct begun){ 0 });
}

struct test_group test_group = { setup, victim_teardown };
