/* SPDX-License-Identifier: Apache-2.0 */
#include "litmus.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#include "base/clock.h"

#define SEC 1000000000ull
#define SPINS 20000 /* spins before the thread yields its core */
#define JITTER 32

struct pair {
	const struct litmus *l;
	bool whole;
	_Atomic bool over;
	/* The step that each thread has reached. The last operation before a
	 * step is a store to this array, in a cache line that the other thread
	 * holds. This store leaves the store buffer slowly, and the stores of
	 * the step wait behind it. */
	_Alignas(64) _Atomic unsigned at[2][16];
	unsigned long steps, losses;
};

static void meet(struct pair *p, unsigned me, unsigned step)
{
	unsigned spins = 0;

	atomic_store_explicit(&p->at[me][0], step, memory_order_release);
	/* The other thread may be one step ahead. */
	while (atomic_load_explicit(&p->at[!me][0], memory_order_acquire) <
	       step) {
		if (++spins % SPINS == 0)
			sched_yield();
	}
}

static void linger(uint32_t *seed)
{
	*seed = *seed * 1103515245 + 12345;
	for (volatile unsigned n = (*seed >> 16) % JITTER; n > 0; n--)
		;
}

/* Make one lap over all places. Both threads begin each step at the same
 * time. */
static void lap(struct pair *p, unsigned me, unsigned *step, uint32_t *seed)
{
	void (*act)(unsigned) = me ? p->l->doze : p->l->tell;

	for (unsigned i = 0; i < LITMUS_PLACES; i++) {
		meet(p, me, ++*step);
		linger(seed);
		act(i);
	}
	meet(p, me, ++*step);
}

static void *doze(void *arg)
{
	struct pair *p = arg;
	unsigned step = 0;
	uint32_t seed = 7;

	for (;;) {
		lap(p, 1, &step, &seed);
		meet(p, 1, ++step); /* wait for the other thread's result */
		if (atomic_load_explicit(&p->over, memory_order_relaxed))
			return NULL;
	}
}

static void tell(struct pair *p)
{
	uint64_t until = mpib_now_ns() + (p->whole ? 1 : 4) * SEC;
	unsigned step = 0;
	uint32_t seed = 3;
	bool over = false;

	while (!over) {
		lap(p, 0, &step, &seed);
		for (unsigned i = 0; i < LITMUS_PLACES; i++) {
			p->losses += p->l->lost(i);
			p->l->renew(i);
		}
		p->steps += LITMUS_PLACES;
		over = p->losses || mpib_now_ns() >= until;
		/* A relaxed store is enough, since meet() orders it. */
		atomic_store_explicit(&p->over, over, memory_order_relaxed);
		meet(p, 0, ++step);
	}
}

/* Put each thread on its own core, since on one core they would run one after
 * the other. Return false if there is only one core. */
static bool part(pthread_t a, pthread_t b)
{
	pthread_t thread[] = { a, b };
	cpu_set_t may, one;
	unsigned n = 0;

	if (sched_getaffinity(0, sizeof(may), &may) < 0)
		return false;
	for (int cpu = 0; n < 2 && cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &may))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		if (pthread_setaffinity_np(thread[n++], sizeof(one), &one))
			return false;
	}
	return n == 2;
}

int litmus(const struct litmus *l, bool whole)
{
	struct pair p = { .l = l, .whole = whole };
	pthread_t other;

	for (unsigned i = 0; i < LITMUS_PLACES; i++)
		l->renew(i);
	if (pthread_create(&other, NULL, doze, &p)) {
		perror("pthread_create");
		return 1;
	}
	if (!part(pthread_self(), other))
		printf("on one core\n");
	tell(&p);
	pthread_join(other, NULL);
	printf("%lu of %lu wake-ups were lost\n", p.losses, p.steps);
	if (whole)
		return p.losses != 0;
	if (p.losses)
		return 0;
	printf("SKIPPED: two cores never ran both threads at once\n");
	return 77;
}
