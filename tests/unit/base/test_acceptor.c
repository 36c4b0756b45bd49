/* SPDX-License-Identifier: Apache-2.0 */
/* base/acceptor.h: who calls is taken, waits without a turn being made for it, or
 * is turned away. Time is set by hand. */
#include "base/acceptor.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "test.h"

static struct mpib_loop loop;
static struct mpib_acceptor acceptor;
static struct sockaddr_un at = { .sun_family = AF_UNIX };
static unsigned taken, turned_away;

static void take(void *arg, int fd)
{
	assert_ptr_equal(arg, &taken);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	close(fd);
	taken++;
}

static bool turn_away(void *arg)
{
	turned_away++;
	return true;
}

static int begin(void **state)
{
	socklen_t len = sizeof(at.sun_family);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

	/* The kernel chooses a name, which no file has. */
	assert_int_equal(bind(fd, (struct sockaddr *)&at, len), 0);
	assert_int_equal(listen(fd, 16), 0);
	len = sizeof(at);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	assert_int_equal(mpib_loop_init(&loop), 0);
	mpib_loop_advance(&loop, MPIB_SEC);
	acceptor = (struct mpib_acceptor){ .loop = &loop,
					   .fd = fd,
					   .who = "somebody",
					   .fn = take,
					   .arg = &taken };
	taken = turned_away = 0;
	assert_int_equal(mpib_acceptor_open(&acceptor), 0);
	return 0;
}

static int end(void **state)
{
	mpib_acceptor_close(&acceptor);
	close(acceptor.fd);
	mpib_loop_fini(&loop);
	at = (struct sockaddr_un){ .sun_family = AF_UNIX };
	return 0;
}

static void call(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	assert_int_equal(
		connect(fd, (struct sockaddr *)&at, sizeof(at.sun_family) + 6),
		0);
	close(fd); /* who has hung up is taken all the same */
}

static int turn(void)
{
	return mpib_loop_turn(&loop, 0);
}

static struct rlimit whole;

/* As many descriptors as there are now. */
static void leave_none(void)
{
	struct rlimit limit;
	int next = dup(0);

	assert_true(next >= 0);
	close(next);
	getrlimit(RLIMIT_NOFILE, &whole);
	limit = whole;
	limit.rlim_cur = (rlim_t)next;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void leave_all(void)
{
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &whole), 0);
}

static void each_turn_takes_as_many_as_it_may(void **state)
{
	call();
	call();
	call();
	turn();
	assert_int_equal(taken, 1);
	acceptor.at_once = 8;
	turn();
	assert_int_equal(taken, 3);
	assert_int_equal(turn(), 0);
}

static void who_finds_no_descriptor_waits_and_costs_nothing(void **state)
{
	call();
	leave_none();
	assert_int_equal(turn(), 1);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(turn(), 0);
	leave_all();
	assert_int_equal(turn(), 0);
	assert_int_equal(taken, 0);
	mpib_loop_advance(&loop, MPIB_SEC);
	while (turn() > 0)
		;
	assert_int_equal(taken, 1);
}

static void or_is_turned_away(void **state)
{
	acceptor.full = turn_away;
	call();
	leave_none();
	turn();
	turn();
	leave_all();
	assert_int_equal(turned_away, 2);
	turn();
	assert_int_equal(taken, 1);
}

static void a_flood_is_taken_at_a_pace(void **state)
{
	acceptor.a_second = 16; /* two at once */
	for (unsigned i = 0; i < 8; i++)
		call();
	while (turn() > 0)
		;
	assert_int_equal(taken, 3);
	for (unsigned i = 4; i <= 8; i++) {
		mpib_loop_advance(&loop, MPIB_SEC / 16);
		while (turn() > 0)
			;
		assert_int_equal(taken, i);
	}
	/* Who rested has two at once again, and no more. */
	mpib_loop_advance(&loop, 3600 * MPIB_SEC);
	for (unsigned i = 0; i < 8; i++)
		call();
	while (turn() > 0)
		;
	assert_int_equal(taken, 11);
}

static void one_that_is_not_open_may_be_closed(void **state)
{
	struct mpib_acceptor none = { .loop = &loop };

	mpib_acceptor_close(&none);
	assert_false(none.pause.armed);
}

#define EACH(name) cmocka_unit_test_setup_teardown(name, begin, end)

const struct CMUnitTest test_list[] = {
	EACH(each_turn_takes_as_many_as_it_may),
	EACH(who_finds_no_descriptor_waits_and_costs_nothing),
	EACH(or_is_turned_away),
	EACH(a_flood_is_taken_at_a_pace),
	EACH(one_that_is_not_open_may_be_closed),
	{ 0 },
};
