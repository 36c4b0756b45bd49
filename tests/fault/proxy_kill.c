/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy_kill [N]: one of two proxies is killed N times under traffic. Every
 * call of its clients ends in an error, and so do those of its peers' clients
 * that talk to it; connections that have nothing to do with it go on. Started
 * again where it was, with nothing cleaned up, it serves whoever attaches.
 */
#include <stdio.h>

#include "mover.h"
#include "node.h"
#include "test.h"

#define MOVERS 8
#define HANG_MS 60000

static struct node node[2];
static unsigned kills = 4;

/* What took how long, in ms. */
struct times {
	unsigned *ms, n;
};

static struct times to_error, to_attach, to_old_peer, to_traffic;

static void note(struct times *t, unsigned long long since)
{
	t->ms = reallocarray(t->ms, t->n + 1, sizeof(*t->ms));
	assert_non_null(t->ms);
	t->ms[t->n++] = (unsigned)(node_ms() - since);
}

static int by_value(const void *a, const void *b)
{
	const unsigned *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void say(const char *what, struct times *t)
{
	qsort(t->ms, t->n, sizeof(*t->ms), by_value);
	printf("%s: p50 %u ms, p99 %u ms, max %u ms of %u\n", what,
	       t->ms[t->n / 2], t->ms[t->n * 99 / 100], t->ms[t->n - 1], t->n);
	free(t->ms);
	*t = (struct times){ 0 };
}

/* Half of them send from the node that dies, half to it. */
static void open_movers(struct mover *m, unsigned n, unsigned seed)
{
	for (unsigned i = 0; i < n; i++)
		mover_must(mover_open(&m[i], node[i & 1].dir,
				      node[1 - (i & 1)].dir, 200000, i & 2,
				      seed * MOVERS + i));
	for (unsigned i = 0; i < n; i++)
		mover_must(mover_wait(&m[i]));
}

static void move(struct mover *m, unsigned n, uint64_t messages)
{
	for (unsigned i = 0; i < n; i++)
		mover_must(mover_move(&m[i], messages));
}

static void until_all_failed(struct mover *m, unsigned long long since)
{
	unsigned left = (1u << MOVERS) - 1;

	while (left) {
		for (unsigned i = 0; i < MOVERS; i++) {
			if (!(left >> i & 1) || mover_step(&m[i]) >= 0)
				continue;
			left &= ~(1u << i);
			note(&to_error, since);
			/* A sentence, not a number. */
			assert_true(strlen(mpib_strerror()) > 20);
		}
		if (node_ms() - since > HANG_MS)
			fail_msg("calls hang after the proxy was killed");
	}
}

static void until_attached(unsigned long long since)
{
	struct mpib_attach_opts opts = { .size = sizeof(opts),
					 .run_dir = node[0].dir };
	struct mpib_client *c;

	while (mpib_attach(&opts, &c) < 0) {
		if (node_ms() - since > HANG_MS)
			fail_msg("attach: %s", mpib_strerror());
	}
	note(&to_attach, since);
	mpib_detach(c);
}

/* With the peer that outlived it, by a connection each way. */
static void until_traffic_with_old_peer(unsigned long long since)
{
	struct mover m[2];

	open_movers(m, 2, kills + 2000);
	move(m, 2, 1);
	note(&to_old_peer, since);
	for (unsigned i = 0; i < 2; i++)
		mover_close(&m[i]);
}

TEST(a_killed_proxy_fails_calls_and_comes_back)
{
	struct mover m[MOVERS], alone;
	uint64_t wrong = 0;

	node_start(&node[0], 3, "--log-level", "error", "--resume-grace", "0",
		   NULL);
	node_start(&node[1], 4, "--log-level", "error", "--resume-grace", "0",
		   NULL);
	mover_must(
		mover_begin(&alone, node[1].dir, node[1].dir, 50000, true, 3));

	srand(815);
	for (unsigned k = 0; k < kills; k++) {
		unsigned long long since;

		open_movers(m, MOVERS, k);
		move(m, MOVERS, (unsigned)rand() % 8);
		for (unsigned i = 0; i < MOVERS; i++)
			mover_step(&m[i]);
		since = node_ms();
		node_kill(&node[0]);
		until_all_failed(m, since);
		move(&alone, 1, 5);
		since = node_ms();
		node_again(&node[0]);
		until_attached(since);
		until_traffic_with_old_peer(since);
		for (unsigned i = 0; i < MOVERS; i++) {
			wrong += m[i].wrong;
			mover_close(&m[i]);
		}
		open_movers(m, MOVERS, k + 1000);
		move(m, MOVERS, 1);
		note(&to_traffic, since);
		for (unsigned i = 0; i < MOVERS; i++)
			mover_close(&m[i]);
	}
	assert_int_equal(wrong + alone.wrong, 0);
	mover_close(&alone);
	node_stop(&node[0]);
	node_stop(&node[1]);
	printf("%u proxies killed: 0 hangs, 0 wrong\n", kills);
	say("calls failed after", &to_error);
	say("attached again after", &to_attach);
	say("traffic with the old peer again after", &to_old_peer);
	say("traffic on 8 connections again after", &to_traffic);
}

unsigned *test_times = &kills;
