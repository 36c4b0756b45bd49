/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test the largest message, 2 GiB - 1 bytes, between two real proxies. The
 * software HCA, like real HCAs, accepts at most 1 GiB per WR, so the message
 * needs several WRs.
 */
#include <mpib/abi.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

#include "ends.h"
#include "test.h"

#define ROOM ((size_t)MPIB_SIZE_MAX + 1)

static struct node a, b;

static int stop(void **state)
{
	node_stop(&a);
	node_stop(&b);
	return 0;
}

/* Let clients wait up to two minutes for an answer, because on a busy machine
 * the proxy needs many seconds to allocate the pages of such a large buffer. */
static void start_node(struct node *node, unsigned n, const char *sup)
{
	node_start(node, n, "--log-level", "error", "--client-answer", "120",
		   "--quota-memory", "10G", sup ? "--sup" : NULL, sup, NULL);
}

static void start(const char *sup)
{
	struct sysinfo memory;

	start_node(&a, 3, sup);
	start_node(&b, 4, sup);
	/* Both buffers and the staging windows need this memory. */
	sysinfo(&memory);
	if ((memory.freeram + memory.bufferram) * memory.mem_unit <= 3 * ROOM)
		skip_as("6 GiB of memory are not free");
}

static char *ordinary_memory(struct mpib_client *client,
			     struct mpib_region **mr)
{
	char *mem = mmap(NULL, ROOM, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(mem != MAP_FAILED);
	assert_int_equal(mpib_reg(client, mem, ROOM, mr), 0);
	return mem;
}

/* Fill the memory with numbers that depend on `seed`. */
static void fill(char *mem, uint64_t seed)
{
	for (size_t i = 0; i < ROOM; i += sizeof(seed), seed += 0x9e3779b9)
		memcpy(mem + i, &seed, sizeof(seed));
}

static void move(const struct ends *e, int tag)
{
	struct mpib_request *recv, *send;
	int sent = 0, received = 0;
	size_t got = 0;

	fill(e->src, (uint64_t)tag << 32);
	e->dst[MPIB_SIZE_MAX] = 0x55;
	recv = ends_receive(e, tag);
	send = ends_send(e, MPIB_SIZE_MAX, tag);
	/* Call mpib_test() for the two requests alternately: each end copies
	 * only within this call. */
	while (!sent || !received) {
		if (!sent)
			assert_int_equal(mpib_test(send, &sent, NULL), 0);
		if (!received)
			assert_int_equal(mpib_test(recv, &received, &got), 0);
	}
	assert_int_equal(got, MPIB_SIZE_MAX);
	assert_int_equal(memcmp(e->src, e->dst, MPIB_SIZE_MAX), 0);
	assert_int_equal(e->dst[MPIB_SIZE_MAX], 0x55);
}

static void move_and_detach(struct ends *e)
{
	e->room = MPIB_SIZE_MAX;
	move(e, 1);
	/* The connection still works afterwards. */
	ends_move(e, 1000, 2);
	ends_detach(e);
}

/* The message is in memory that the proxy can map, so the rails read and write
 * it in place. */
static void move_in_place(const struct node *from, const struct node *to)
{
	struct ends e;

	ends_open(&e, from, to, ROOM);
	move_and_detach(&e);
}

/* The message is in ordinary memory, so the clients copy it through their
 * windows. */
static void move_staged(const struct node *from, const struct node *to)
{
	struct ends e;

	ends_open(&e, from, to, 4096);
	e.src = ordinary_memory(e.from, &e.src_mr);
	e.dst = ordinary_memory(e.to, &e.dst_mr);
	move_and_detach(&e);
	munmap(e.src, ROOM);
	munmap(e.dst, ROOM);
}

/* Each transfer takes many seconds. So the tests cover each pair of: one rail or
 * two, in place or staged, between two nodes or within one. */

#define CASE(name) TEST_OF(name, NULL, stop)

CASE(over_two_rails_the_largest_message_arrives)
{
	start(NULL);
	move_in_place(&a, &b);
	move_staged(&a, &a);
}

CASE(over_one_rail_the_largest_message_arrives)
{
	start("none");
	move_in_place(&a, &a);
	move_staged(&a, &b);
}
