/* SPDX-License-Identifier: Apache-2.0 */
/*
 * failures [POINTS]: a proxy whose n-th allocation or system call fails, for
 * POINTS values of n spread over all there are in attach, connect, transfer
 * and close; 0: for every one. It refuses to start in one line, or serves: no
 * crash, no hang, every failure told in words; and the next client is served.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "mover.h"
#include "node.h"
#include "test.h"
#include "trial.h"

static struct node good;
static struct trial trial;
static char count[80];
static unsigned points = 30;

static void fail_one(const void *at)
{
	setenv("LD_PRELOAD", MPIB_FAILING_PATH, 1);
	setenv("MPIB_FAIL_AT", at, 1);
	setenv("MPIB_FAIL_COUNT", count, 1);
}

/* Attach, connect, transfer, close, one way. 0 or the first failure. */
static int go(unsigned long n, const char *from, const char *to, bool direct)
{
	struct mover m;
	int rc = mover_begin(&m, from, to, 100000, direct, n);

	if (rc == 0)
		rc = mover_move(&m, 4);
	if (rc == -ETIME)
		fail_msg("point %lu: %s", n, mover_why(rc));
	if (rc < 0 && strlen(mpib_strerror()) < 15)
		fail_msg("point %lu: error %d says only \"%s\"", n, rc,
			 mpib_strerror());
	assert_int_equal(m.wrong, 0);
	mover_close(&m);
	return rc;
}

static int all_ways(unsigned long n)
{
	int rc = go(n, trial.dir, good.dir, false);

	if (rc == 0)
		rc = go(n, good.dir, trial.dir, true);
	if (rc == 0)
		rc = go(n, trial.dir, trial.dir, true);
	return rc;
}

/* How it went at point n: 0 refused to start, 1 something failed, 2 nothing
 * did. */
static unsigned try(unsigned long n)
{
	const char *none[] = { NULL };
	char at[32], what[48];
	int rc = 0;

	snprintf(at, sizeof(at), "%lu", n);
	snprintf(what, sizeof(what), "point %lu", n);
	trial_start(&trial, none, fail_one, at);
	if (trial.ready) {
		rc = all_ways(n);
		/* Once more, for whatever does not happen twice. */
		if (rc < 0 && all_ways(n) < 0)
			fail_msg("point %lu: no client is served any more: %s",
				 n, mpib_strerror());
	}
	trial_end(&trial, what);
	node_until_usage(&good, "attached", 0);
	return !trial.ready ? 0 : rc < 0 ? 1 : 2;
}

static unsigned long calls_of_a_run(void)
{
	unsigned long n;
	FILE *f;

	assert_int_equal(try(0), 2);
	f = fopen(count, "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lu", &n), 1);
	fclose(f);
	return n;
}

TEST(every_failure_is_told_and_survived)
{
	unsigned tally[3] = { 0 };
	unsigned long total, step, n;

	trial_init(&trial);
	snprintf(count, sizeof(count), "%s/count", trial.base);
	node_start(&good, 7, "--log-level", "error", NULL);
	total = calls_of_a_run();
	assert_true(total > 100);
	step = points ? total / points + 1 : 1;
	/* Another offset each time, so that all are met some day. */
	for (n = 1 + (unsigned long)getpid() % step; n <= total; n += step)
		tally[try(n)]++;
	node_stop(&good);
	unlink(count);
	trial_fini(&trial);
	printf("%u of %lu points: %u refused to start, %u told a client, %u "
	       "did no harm; 0 crashes, 0 hangs\n",
	       tally[0] + tally[1] + tally[2], total, tally[0], tally[1],
	       tally[2]);
}

unsigned *test_times = &points;
