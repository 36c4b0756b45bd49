/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/mailbox.h: order, wake-ups, and several senders at once.
 */
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/mailbox.h"
#include "test.h"

#define SENDERS 4
#define EACH 20000

struct note {
	struct mpib_msg msg;
	unsigned sender, number;
};

static struct mpib_mailbox box;
static unsigned next_of[SENDERS], got;

static int setup(void **state)
{
	got = 0;
	for (unsigned i = 0; i < SENDERS; i++)
		next_of[i] = 0;
	return mpib_mailbox_init(&box);
}

static int teardown(void **state)
{
	mpib_mailbox_fini(&box);
	return 0;
}

static void take(struct mpib_msg *msg)
{
	struct note *n = container_of(msg, struct note, msg);

	assert_int_equal(n->number, next_of[n->sender]);
	next_of[n->sender]++;
	got++;
	free(n);
}

static void send_one(unsigned sender, unsigned number)
{
	struct note *n = malloc(sizeof(*n));

	n->sender = sender;
	n->number = number;
	mpib_mailbox_send(&box, &n->msg, take);
}

static bool readable(void)
{
	struct pollfd p = { .fd = box.bell.fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static void messages_run_in_the_order_sent(void **state)
{
	assert_int_equal(mpib_mailbox_run(&box), 0);
	for (unsigned i = 0; i < 5; i++)
		send_one(0, i);
	assert_int_equal(mpib_mailbox_run(&box), 5);
	assert_int_equal(mpib_mailbox_run(&box), 0);
}

static void the_fd_is_readable_while_a_message_waits(void **state)
{
	assert_false(readable());
	send_one(0, 0);
	assert_true(readable());
	mpib_mailbox_run(&box);
	assert_false(readable());
	send_one(0, 1);
	assert_true(readable());
	mpib_mailbox_run(&box);
}

/* What happens in a sender before its write reaches the kernel. */
static void (*meanwhile)(void);

ssize_t __real_write(int fd, const void *buf, size_t n);
ssize_t __wrap_write(int fd, const void *buf, size_t n);

ssize_t __wrap_write(int fd, const void *buf, size_t n)
{
	void (*fn)(void) = meanwhile;

	meanwhile = NULL;
	if (fn)
		fn();
	return __real_write(fd, buf, n);
}

static void run(void)
{
	mpib_mailbox_run(&box);
}

static void an_owner_that_was_faster_than_the_wake_up_sleeps_again(void **state)
{
	meanwhile = run;
	send_one(0, 0);
	assert_int_equal(got, 1);
	/* Woken for nothing, once. */
	assert_true(readable());
	assert_int_equal(mpib_mailbox_run(&box), 0);
	assert_false(readable());
}

static void run_and_send(void)
{
	run();
	send_one(1, 0);
}

static void a_late_wake_up_is_for_what_came_meanwhile_too(void **state)
{
	meanwhile = run_and_send;
	send_one(0, 0);
	assert_true(readable());
	assert_int_equal(mpib_mailbox_run(&box), 1);
	assert_false(readable());
	send_one(0, 1);
	assert_true(readable());
	run();
}

static void *sender(void *arg)
{
	unsigned me = *(unsigned *)arg;

	for (unsigned i = 0; i < EACH; i++)
		send_one(me, i);
	return NULL;
}

static void nothing_of_several_senders_is_lost(void **state)
{
	struct pollfd p = { .fd = box.bell.fd, .events = POLLIN };
	pthread_t thread[SENDERS];
	unsigned me[SENDERS];

	for (unsigned i = 0; i < SENDERS; i++) {
		me[i] = i;
		assert_int_equal(
			pthread_create(&thread[i], NULL, sender, &me[i]), 0);
	}
	/* Only ever woken by the fd: a lost wake-up would hang here. */
	while (got < SENDERS * EACH) {
		assert_int_equal(poll(&p, 1, 30000), 1);
		mpib_mailbox_run(&box);
	}
	for (unsigned i = 0; i < SENDERS; i++)
		pthread_join(thread[i], NULL);
}

const struct CMUnitTest test_list[] = {
	fixture_test(messages_run_in_the_order_sent),
	fixture_test(the_fd_is_readable_while_a_message_waits),
	fixture_test(an_owner_that_was_faster_than_the_wake_up_sleeps_again),
	fixture_test(a_late_wake_up_is_for_what_came_meanwhile_too),
	fixture_test(nothing_of_several_senders_is_lost),
	{ 0 },
};
