/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Upgrades to a process that gets no more than so many threads, one more each time
 * until it has all: the upgrade is refused, and the proxy that runs goes on.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "moving.h"
#include "test.h"

#define MOST 64 /* threads of a proxy */

static struct node node[2];
static struct moving moving;
static char path[] = "/tmp/mpib-threads-XXXXXX";

static int start(void **state)
{
	static const char *const args[] = { "--failover-grace", MOVING_GRACE_MS,
					    NULL };
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	setenv("LD_PRELOAD", MPIB_FAILING_PATH, 1);
	setenv("FAIL_THREADS", path, 1);
	moving_start(&moving, node, 3, args);
	unsetenv("LD_PRELOAD");
	return 0;
}

static int stop(void **state)
{
	unlink(path);
	moving_end(&moving, node);
	return 0;
}

/* So many threads are made, and no more. */
static void leave_threads(unsigned n)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	fprintf(f, "%u\n", n + 1);
	fclose(f);
}

static void a_process_without_threads_takes_nothing_over(void **state)
{
	struct run run = { .status = 1 };
	unsigned n = 0;

	for (; run.status; n++) {
		assert_true(n < MOST);
		leave_threads(n);
		moving_upgrade_begin(&run, &node[0], NULL);
		moving_until(&moving, &run, 1);
		moving_by(&moving, 2);
		if (run.status && !strstr(run.err, "temporarily unavailable"))
			fail_msg("%u threads: %s", n, run.err);
	}
	printf("refused with less than %u threads\n", n - 1);
	assert_true(n > 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_process_without_threads_takes_nothing_over),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
