/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quotas: one user takes of everything until it is refused, far beyond each
 * quota, while another user attaches, connects and moves messages. Prints for
 * each quota what the limit is, what was asked for, what was had, how often it
 * was refused with EDQUOT, and what the other user moved meanwhile.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memfd_region.h"
#include "mover.h"
#include "node.h"
#include "test.h"

#define NOBODY 65534
#define TRIES 200

static struct node node;
static int ask_other, told;
static unsigned messages_of_other;

/* What a greedy user asked for and got; other: it failed in another way. */
struct greed {
	unsigned had, refused, other;
};

static void note(struct greed *g, int rc)
{
	if (rc == 0)
		g->had++;
	else if (rc == -EDQUOT)
		g->refused++;
	else
		g->other++;
}

static int attach(struct mpib_client **c)
{
	struct mpib_attach_opts opts = { .size = sizeof(opts),
					 .run_dir = node.dir,
					 .timeout_ms = 60000 };

	return mpib_attach(&opts, c);
}

static struct mpib_client *attached(void)
{
	struct mpib_client *c;

	if (attach(&c) < 0)
		fail_msg("%s", mpib_strerror());
	return c;
}

/* Opens, moves and closes, as somebody new would. */
static void come_and_go(void)
{
	struct mover m;

	if (mover_begin(&m, node.dir, node.dir, 65536, true, 6) < 0)
		_exit(1);
	if (mover_move(&m, 3) < 0)
		_exit(2);
	mover_close(&m);
}

/* The other user: a byte for each right message, and a B for whenever it was
 * asked to come anew and could. */
static void be_other(int asked, int tell)
{
	struct pollfd p = { .fd = asked, .events = POLLIN };
	uint64_t said = 0;
	struct mover m;
	char byte;

	if (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY))
		_exit(100);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (mover_begin(&m, node.dir, node.dir, 65536, true, 5) < 0)
		_exit(1);
	for (;;) {
		if (mover_step(&m) < 0 || m.wrong)
			_exit(2);
		if (m.messages > said && write(tell, "m", 1) != 1)
			_exit(3);
		said = m.messages;
		if (poll(&p, 1, 0) > 0 && read(asked, &byte, 1) == 1) {
			come_and_go();
			if (write(tell, "B", 1) != 1)
				_exit(3);
		}
	}
}

static pid_t bear_other(void)
{
	int ask[2], tell[2];
	pid_t pid;

	assert_int_equal(pipe2(ask, O_CLOEXEC), 0);
	assert_int_equal(pipe2(tell, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		be_other(ask[0], tell[1]);
	close(ask[0]);
	close(tell[1]);
	ask_other = ask[1];
	told = tell[0];
	return pid;
}

static void hear(void)
{
	char byte;

	do {
		if (read(told, &byte, 1) != 1)
			fail_msg("the other user was hurt");
		messages_of_other++;
	} while (byte != 'B');
}

/* While all there is is taken. */
static void let_other_come(void)
{
	assert_int_equal(write(ask_other, "", 1), 1);
	hear();
}

static struct greed clients(void)
{
	struct mpib_client *c[TRIES];
	struct greed g = { 0 };

	for (unsigned i = 0; i < TRIES; i++)
		note(&g, attach(&c[g.had]));
	let_other_come();
	for (unsigned i = 0; i < g.had; i++)
		mpib_detach(c[i]);
	return g;
}

static struct greed connections(void)
{
	struct mpib_client *c = attached();
	struct mpib_listener *l;
	struct greed g = { 0 };
	struct mpib_handle h;
	struct mpib_conn *conn;

	assert_int_equal(mpib_listen(c, &h, &l), 0);
	for (unsigned i = 0; i < TRIES; i++)
		note(&g, mpib_accept(l, &conn));
	let_other_come();
	mpib_detach(c);
	return g;
}

static struct greed listeners(void)
{
	struct mpib_client *c = attached();
	struct mpib_listener *l;
	struct greed g = { 0 };
	struct mpib_handle h;

	for (unsigned i = 0; i < TRIES; i++)
		note(&g, mpib_listen(c, &h, &l));
	let_other_come();
	mpib_detach(c);
	return g;
}

static struct greed regions(void)
{
	struct mpib_client *c = attached();
	struct greed g = { 0 };

	for (unsigned i = 0; i < TRIES; i++)
		note(&g, memfd_region(c, 4096));
	let_other_come();
	mpib_detach(c);
	return g;
}

static struct greed memory(void)
{
	struct mpib_client *c = attached();
	struct greed g = { 0 };

	for (unsigned i = 0; i < TRIES; i++)
		note(&g, memfd_region(c, 1 << 20));
	let_other_come();
	mpib_detach(c);
	return g;
}

static struct greed pool(void)
{
	struct mpib_client *c = attached();
	struct greed g = { 0 };

	for (unsigned i = 0; i < TRIES; i++)
		note(&g, mpib_mem_alloc(c, 1 << 20) ? 0 : -errno);
	let_other_come();
	mpib_detach(c);
	return g;
}

/* A listener asked for as fast as it goes; the proxy hangs up in the end. */
static struct greed messages(void)
{
	struct mpib_client *c = attached();
	struct mpib_listener *l;
	struct greed g = { 0 };
	struct mpib_handle h;

	for (unsigned i = 0; i < 100 * TRIES && g.other == 0; i++) {
		int rc = mpib_listen(c, &h, &l);

		if (rc == 0)
			mpib_close_listen(l);
		note(&g, rc);
	}
	let_other_come();
	mpib_detach(c);
	return g;
}

static const struct {
	const char *name, *flag, *value;
	unsigned limit; /* of what was had; 0: per second, or not by number */
	struct greed (*ask)(void);
} quota[] = {
	{ "clients", "--quota-clients", "8", 8, clients },
	{ "connections", "--quota-connections", "16", 16, connections },
	{ "requests", "--quota-requests", "512", 16, connections },
	{ "listeners", "--quota-listeners", "8", 8, listeners },
	{ "regions", "--quota-regions", "16", 16, regions },
	{ "memory", "--quota-memory", "16M", 16, memory },
	{ "pool", "--quota-pool", "16M", 16, pool },
	{ "fds", "--quota-fds", "40", 8, clients },
	{ "messages", "--quota-messages", "200", 0, messages },
};

static void whoever_takes_all_is_refused_and_others_are_not_hurt(void **state)
{
	if (geteuid() != 0)
		skip_as("another user needs root");
	printf("quota            limit  asked   had  EDQUOT  other user\n");
	for (unsigned i = 0; i < sizeof(quota) / sizeof(quota[0]); i++) {
		struct greed g;
		pid_t pid;

		node_start(&node, 9, "--run-group", "nogroup", "--log-level",
			   "error", quota[i].flag, quota[i].value, NULL);
		pid = bear_other();
		let_other_come();
		messages_of_other = 0;
		g = quota[i].ask();
		printf("%-12s %9s %6u %5u %7u  attached anew, %u messages "
		       "right, 0 errors\n",
		       quota[i].name, quota[i].value,
		       g.had + g.refused + g.other, g.had, g.refused,
		       messages_of_other);
		assert_true(g.refused > 0);
		if (quota[i].limit) {
			assert_int_equal(g.had, quota[i].limit);
			assert_int_equal(g.other, 0);
		}
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		close(told);
		close(ask_other);
		node_until_usage(&node, "attached", 0);
		node_stop(&node);
	}
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(whoever_takes_all_is_refused_and_others_are_not_hurt),
	{ 0 },
};
