/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy/handover/channel.h: who waits no longer knows whether it came; and that
 * the old proxy, proxy/handover/source.c, gives up by that.
 */
#include "handover/channel.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../../proxy/handover/source.c" // NOLINT(bugprone-suspicious-include)
#include "test.h"

#define ROUNDS 2000

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t bytes);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t bytes);

static int pair[2];
static atomic_int go;
static bool no_memory;

void *__wrap_malloc(size_t n)
{
	return no_memory ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
	return no_memory ? NULL : __real_calloc(n, bytes);
}

static void what_came_before_is_had(void **state)
{
	struct mpib_serial p;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(mpib_channel_send(pair[1], MPIB_CHANNEL_TAKEN, NULL),
			 0);
	assert_int_equal(mpib_channel_last(pair[0], MPIB_CHANNEL_TAKEN, &p), 0);
	mpib_serial_fini(&p);
	assert_int_equal(mpib_channel_send(pair[1], MPIB_CHANNEL_TAKEN, NULL),
			 -EPIPE);
	close(pair[0]);
	close(pair[1]);
}

/* Who could not hear it would kill the process that serves. */
static void it_takes_no_memory_to_hear_who_serves(void **state)
{
	struct mpib_serial p;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(mpib_channel_send(pair[1], MPIB_CHANNEL_TAKEN, NULL),
			 0);
	no_memory = true;
	assert_int_equal(mpib_channel_recv(pair[0], MPIB_CHANNEL_TAKEN, &p), 0);
	no_memory = false;
	mpib_serial_fini(&p);
	close(pair[0]);
	close(pair[1]);
}

static void *sender(void *arg)
{
	int *rc = arg;

	while (!atomic_load(&go))
		;
	*rc = mpib_channel_send(pair[1], MPIB_CHANNEL_TAKEN, NULL);
	return NULL;
}

/* Both ends agree on it, whoever is first. */
static void it_is_sent_and_had_or_neither(void **state)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct mpib_serial p;
		pthread_t thread;
		int sent, had;

		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
		atomic_store(&go, 0);
		assert_int_equal(pthread_create(&thread, NULL, sender, &sent),
				 0);
		atomic_store(&go, 1);
		for (unsigned k = i % 200; k > 0; k--)
			atomic_load(&go);
		had = mpib_channel_last(pair[0], MPIB_CHANNEL_TAKEN, &p);
		pthread_join(thread, NULL);
		assert_int_equal(sent == 0, had == 0);
		assert_true(had == 0 || had == -ETIMEDOUT);
		mpib_serial_fini(&p);
		close(pair[0]);
		close(pair[1]);
	}
}

/* It is killed next: what it says in between would end both. */
static void who_is_given_up_cannot_say_that_it_has_taken_over(void **state)
{
	struct mpib_upgrade u = { 0 };
	struct mpib_serial p;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	u.sock = pair[0];
	assert_int_equal(mpib_channel_patience(u.sock, 1), 0);
	assert_int_equal(await_taken(&u, &p), -ETIMEDOUT);
	assert_int_equal(mpib_channel_send(pair[1], MPIB_CHANNEL_TAKEN, NULL),
			 -EPIPE);
	close(pair[0]);
	close(pair[1]);
}

/* Another node gives us up after so many seconds without a word. */
static void nobody_stands_still_for_longer_than_peers_bear(void **state)
{
	for (unsigned s = 1; s < 100; s++)
		assert_true(mpib_source_limit_ms(s) < 1000 * s);
	assert_int_equal(mpib_source_limit_ms(5), 4000);
	assert_int_equal(mpib_source_limit_ms(3600), 4000);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(what_came_before_is_had),
	cmocka_unit_test(it_takes_no_memory_to_hear_who_serves),
	cmocka_unit_test(it_is_sent_and_had_or_neither),
	cmocka_unit_test(who_is_given_up_cannot_say_that_it_has_taken_over),
	cmocka_unit_test(nobody_stands_still_for_longer_than_peers_bear),
	{ 0 },
};
