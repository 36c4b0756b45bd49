/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What copying memory costs on this machine.
 *
 *   bench-memory     hot, crossed, cold: GB/s; crossed_cpu: CPU-s/GB
 *
 * hot: 512 KiB again and again in one core's caches. crossed: 512 KiB in shared
 * memory that another core has just written, as the staging window and the
 * software HCA's loopback do. cold: 64 MiB.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "peers/args.h"
#include "peers/peer.h"

#define PART (512u << 10)
#define PARTS 8
#define COLD (64u << 20)
#define ROUNDS 1200

struct memory_shared {
	_Alignas(64) _Atomic unsigned written;
	_Alignas(64) _Atomic unsigned taken;
	_Alignas(4096) char part[PARTS][PART];
};

/* Copy in a way that the compiler cannot leave out, though nothing reads the
 * copy. */
static void copy(char *to, const char *from, size_t len)
{
	memcpy(to, from, len);
	__asm__ volatile("" : : "r"(to) : "memory");
}

static double rate(size_t bytes, unsigned rounds)
{
	char *from = aligned_alloc(4096, bytes),
	     *to = aligned_alloc(4096, bytes);
	uint64_t begun;

	if (!from || !to)
		peer_die("no memory");
	memset(from, 1, bytes);
	memset(to, 2, bytes);
	begun = peer_ns();
	for (unsigned i = 0; i < rounds; i++)
		copy(to, from, bytes);
	begun = peer_ns() - begun;
	free(from);
	free(to);
	return (double)bytes * rounds / (double)begun;
}

static void produce(void *arg)
{
	struct memory_shared *s = arg;

	peer_pin(1);
	for (unsigned i = 0; i < ROUNDS; i++) {
		/* Acquire, pairs with the release of `taken`: the reader has
		 * read the part, so it may be written again. */
		while (i - atomic_load_explicit(&s->taken,
						memory_order_acquire) >=
		       PARTS)
			;
		memset(s->part[i % PARTS], (int)i, PART);
		/* Release: the part has been written. */
		atomic_store_explicit(&s->written, i + 1, memory_order_release);
	}
}

static void consume(void *arg)
{
	struct memory_shared *s = arg;
	char *to = aligned_alloc(4096, PARTS * PART);
	uint64_t spent = 0;

	if (!to)
		peer_die("no memory");
	memset(to, 0, PARTS * PART);
	peer_pin(0);
	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t begun;

		/* Acquire, pairs with the release of `written`. */
		while (atomic_load_explicit(&s->written,
					    memory_order_acquire) <= i)
			;
		begun = peer_ns();
		copy(to + i % PARTS * PART, s->part[i % PARTS], PART);
		spent += peer_ns() - begun;
		/* Release: the part may be written again. */
		atomic_store_explicit(&s->taken, i + 1, memory_order_release);
	}
	free(to);
	peer_say("crossed", (double)PART * ROUNDS / (double)spent);
	peer_say("crossed_cpu", (double)spent / ((double)PART * ROUNDS));
}

int main(int argc, char **argv)
{
	peer_args(argc, argv, 0, 0, "");
	rate(PART, 100);
	peer_say("hot", rate(PART, 10000));
	peer_say("cold", rate(COLD, 6));
	peer_pair(consume, produce, peer_shared(sizeof(struct memory_shared)));
	return 0;
}
