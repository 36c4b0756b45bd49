/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read a buffer that a peer writes as NCCL's LL128 kernels do. A thread polls
 * the last 8 bytes of each line of 128 bytes. As soon as these are new, the
 * thread reads the other 120 bytes, without a completion.
 */
#include "vt.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum {
	WORDS = 16, /* words of a line; the last word is the flag */
	LINES = 1024, /* maximum number of lines of a message */
	MESSAGES = 1000,
	SPINS = 20000 /* polls after which the reader yields its core */
};

struct line {
	_Alignas(128) uint64_t word[WORDS];
};

struct reader {
	pthread_t thread;
	struct line *at;
	/* index of the line that the reader watches first; number of lines of
	 * the message */
	unsigned line, lines;
	/* number of the current message; 0: none yet, UINT64_MAX: stop */
	_Atomic uint64_t number;
	/* number of the last message that was read */
	_Atomic uint64_t seen;
	_Atomic unsigned looks;
	unsigned long torn; /* number of old words in lines with a new flag */
};

/* messages that arrived while the reader was polling */
static unsigned watched;

static uint64_t word_of(uint64_t number, unsigned line, unsigned word)
{
	return number << 32 | (line * WORDS + word);
}

/* Wait for the line's flag, then check the rest of the line at once. */
static void read_line(struct reader *r, uint64_t number, unsigned line)
{
	_Atomic uint64_t *at = (_Atomic uint64_t *)(void *)r->at[line].word;

	for (unsigned n = 1;
	     atomic_load_explicit(&at[WORDS - 1], memory_order_acquire) !=
	     word_of(number, line, WORDS - 1);
	     n++) {
		if (atomic_load(&r->number) != number)
			return;
		atomic_store_explicit(&r->looks, r->looks + 1,
				      memory_order_relaxed);
		if (n % SPINS == 0)
			sched_yield();
	}
	for (unsigned w = 0; w < WORDS - 1; w++)
		r->torn += atomic_load_explicit(&at[w], memory_order_relaxed) !=
			   word_of(number, line, w);
}

static void *read_lines(void *arg)
{
	struct reader *r = arg;
	uint64_t number;

	while ((number = atomic_load(&r->number)) != UINT64_MAX) {
		if (atomic_load(&r->seen) == number) {
			sched_yield();
			continue;
		}
		read_line(r, number, r->line);
		for (unsigned i = 0; i < r->lines; i++)
			read_line(r, number, i);
		atomic_store(&r->seen, number);
	}
	return NULL;
}

/* Wait until the reader polls while this thread runs, because only then could
 * it see a torn line. Return false if that does not happen soon. */
static bool is_watched(struct reader *r)
{
	unsigned looks = atomic_load(&r->looks);

	for (unsigned i = 0; i < 20000; i++) {
		if (atomic_load(&r->looks) - looks > 4)
			return true;
		if (i % 2000 == 1999) {
			sched_yield();
			looks = atomic_load(&r->looks);
		}
	}
	return false;
}

/* Draw the line that the reader watches first: the first, the last, or any. */
static unsigned draw_line(uint64_t *rng, unsigned lines)
{
	uint64_t draw = vt_rand(rng);

	switch (draw % 3) {
	case 0:
		return 0;
	case 1:
		return lines - 1;
	default:
		return (unsigned)(draw / 3 % lines);
	}
}

static void write_lines(struct vt *t, struct ibv_qp *qp, struct vt_mem *src,
			struct vt_mem *dst, struct reader *r, uint64_t number)
{
	struct line *from = (struct line *)(void *)src->p;
	static uint64_t rng = 1;
	struct ibv_sge sge;
	int64_t since = vt_ms();

	r->lines = 1 + (unsigned)(vt_rand(&rng) %
				  (number % 4 ? 16 : (uint64_t)LINES));
	r->line = draw_line(&rng, r->lines);
	for (unsigned i = 0; i < r->lines; i++)
		for (unsigned w = 0; w < WORDS; w++)
			from[i].word[w] = word_of(number, i, w);
	sge = vt_sge(src, 0, r->lines * sizeof(struct line));
	atomic_store(&r->number, number);
	watched += is_watched(r);
	vt_write(qp, number, &sge, dst);
	vt_expect(t, &t->a.send, number, IBV_WC_SUCCESS);
	while (atomic_load(&r->seen) != number) {
		assert_true(vt_ms() - since < 60000);
		sched_yield();
	}
}

vt_pair_test(a_flag_is_never_visible_before_its_line)
{
	struct vt_mem src, dst;
	struct reader r = { 0 };

	if (!t->soft)
		skip_as("another provider makes no promise");
	src = vt_mem(t, &t->a, LINES * sizeof(struct line), VT_ALL);
	dst = vt_mem(t, &t->b, LINES * sizeof(struct line), VT_ALL);
	r.at = (struct line *)(void *)dst.p;
	assert_int_equal(pthread_create(&r.thread, NULL, read_lines, &r), 0);
	for (uint64_t number = 1; number <= MESSAGES; number++)
		write_lines(t, qa, &src, &dst, &r, number);
	atomic_store(&r.number, UINT64_MAX);
	pthread_join(r.thread, NULL);
	print_message("%u of %u messages were watched\n", watched, MESSAGES);
	assert_int_equal(r.torn, 0);
}
