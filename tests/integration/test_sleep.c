/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shard's own thread, asleep: what a client may do to the doorbell, which all
 * clients of the shard have, does not stop it.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "engine/shard.h"

#define HANG_NS 60000000000ull

static struct mpib_engine *engine;
static int bell;
/* What the shard has been woken by is taken before it comes to look. */
static _Atomic bool thief;
static _Atomic unsigned thefts;

int __real_epoll_wait(int epfd, struct epoll_event *ev, int n, int ms);
int __wrap_epoll_wait(int epfd, struct epoll_event *ev, int n, int ms);

int __wrap_epoll_wait(int epfd, struct epoll_event *ev, int n, int ms)
{
	int rc = __real_epoll_wait(epfd, ev, n, ms);

	if (rc > 0 && atomic_load(&thief) && mpib_eventfd_take(bell))
		atomic_fetch_add(&thefts, 1);
	return rc;
}

static int setup(void **state)
{
	struct mpib_engine_config cfg;
	char why[256];

	(void)state;
	mpib_engine_config_init(&cfg);
	cfg.rails = 2;
	for (unsigned r = 0; r < 2; r++) {
		cfg.rail[r].provider = MPIB_PROVIDER_SOFT;
		cfg.rail[r].port = 1;
		snprintf(cfg.rail[r].name, sizeof(cfg.rail[r].name),
			 "127.%d.%d.%u", 1 + getpid() % 250,
			 getpid() / 250 % 250, r + 1);
	}
	if (mpib_engine_open(&cfg, NULL, NULL, &engine, why, sizeof(why)) < 0) {
		print_error("%s\n", why);
		return -1;
	}
	bell = mpib_engine_doorbell_fd(engine, 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	atomic_store(&thief, false);
	mpib_engine_close(engine);
	return 0;
}

static void until_asleep(const struct mpib_status_shard *s)
{
	uint64_t since = mpib_now_ns();

	while (!atomic_load(&s->sleeping)) {
		assert_true(mpib_now_ns() - since < HANG_NS);
		usleep(100);
	}
}

static void a_stolen_doorbell_that_blocks_stops_no_shard(void **state)
{
	const struct mpib_status_shard *s = &engine->status->shard[0];
	uint64_t since = mpib_now_ns(), beat;

	(void)state;
	assert_int_equal(fcntl(bell, F_SETFL, 0), 0);
	atomic_store(&thief, true);
	while (atomic_load(&thefts) < 3) {
		assert_true(mpib_now_ns() - since < HANG_NS);
		until_asleep(s);
		eventfd_write(bell, 1);
		usleep(100);
	}
	atomic_store(&thief, false);
	beat = atomic_load(&s->heartbeat);
	while (atomic_load(&s->heartbeat) < beat + 10) {
		assert_true(mpib_now_ns() - since < HANG_NS);
		usleep(100);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_stolen_doorbell_that_blocks_stops_no_shard, setup,
			teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
