/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread of a shard sleeps until a client wakes it by the client's
 * doorbell. A client that empties its own doorbell must not suppress the
 * wake-up of another client.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/shard.h"
#include "test.h"

#define HANG_NS 60000000000ull
#define ROUNDS 200
#define CLIENTS 512

struct guest {
	struct engine_client *client;
	int bell;
};

static struct mpib_engine *engine;
static struct mpib_tenant *tenant;
static struct mpib_submit *submit;
static struct mpib_reply *reply;
static struct guest guest[CLIENTS];
static unsigned guests;
static _Atomic bool thieving;
static _Atomic int endless = -1; /* the shard's epoll descriptor */
/* How often the shard has begun to sleep, and how often an event has woken
 * it. */
static _Atomic unsigned began, woken;

/* Let the shard sleep without a timeout, so that a lost wake-up is detected. */
WRAPS(int, epoll_wait, int epfd, struct epoll_event *ev, int n, int ms)
{
	int rc;

	if (epfd != atomic_load(&endless))
		return __real_epoll_wait(epfd, ev, n, ms);
	atomic_fetch_add(&began, 1);
	rc = __real_epoll_wait(epfd, ev, n, -1);
	atomic_fetch_add(&woken, 1);
	return rc;
}

static void *zeroed(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	return p;
}

static int setup(void **state)
{
	struct mpib_engine_config cfg;
	char why[256];

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
	atomic_store(&endless, engine->shard[0].epfd);
	submit = zeroed(sizeof(*submit));
	reply = zeroed(sizeof(*reply));
	return mpib_tenant_get(engine, 0, 0, &tenant);
}

static int teardown(void **state)
{
	atomic_store(&endless, -1);
	mpib_tenant_put(tenant);
	mpib_engine_close(engine);
	while (guests > 0)
		close(guest[--guests].bell);
	munmap(submit, sizeof(*submit));
	munmap(reply, sizeof(*reply));
	return 0;
}

static struct guest *come(void)
{
	struct guest *g = &guest[guests++];

	g->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_true(g->bell >= 0);
	assert_int_equal(engine_client_open(tenant, guests, submit, reply,
					    g->bell, &g->client),
			 0);
	return g;
}

static void until_asleep(void)
{
	const struct mpib_status_shard *s = &engine->status->shard[0];
	uint64_t since = mpib_now_ns();

	while (!atomic_load(&s->sleeping) ||
	       atomic_load(&began) == atomic_load(&woken)) {
		assert_true(mpib_now_ns() - since < HANG_NS);
		usleep(50);
	}
}

static void until_woken(unsigned before)
{
	uint64_t since = mpib_now_ns();

	while (atomic_load(&woken) == before) {
		assert_true(mpib_now_ns() - since < HANG_NS);
		usleep(50);
	}
}

static void expect_awake_by(int bell)
{
	unsigned before;

	until_asleep();
	before = atomic_load(&woken);
	assert_int_equal(eventfd_write(bell, 1), 0);
	until_woken(before);
}

static void *thief(void *arg)
{
	const struct guest *g = arg;
	eventfd_t count;

	while (atomic_load(&thieving))
		eventfd_read(g->bell, &count);
	return NULL;
}

fixture_test(emptying_a_doorbell_does_not_suppress_anothers_wake_up)
{
	struct guest *bad = come(), *good = come();
	pthread_t thread;

	atomic_store(&thieving, true);
	assert_int_equal(pthread_create(&thread, NULL, thief, bad), 0);
	for (unsigned i = 0; i < ROUNDS; i++)
		expect_awake_by(good->bell);
	atomic_store(&thieving, false);
	pthread_join(thread, NULL);
}

fixture_test(a_full_doorbell_does_not_block_a_shard)
{
	struct guest *bad = come(), *good = come();

	assert_int_equal(fcntl(bad->bell, F_SETFL, 0), 0);
	until_asleep();
	assert_int_equal(eventfd_write(bad->bell, UINT64_MAX - 1), 0);
	for (unsigned i = 0; i < ROUNDS; i++)
		expect_awake_by(good->bell);
}
