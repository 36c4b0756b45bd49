/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attackers watch their sockets with very many epoll descriptors. When the
 * proxy writes to such a socket, or reads from it, the kernel wakes all waiters
 * at the other end. With a million epoll watches, the proxy's system call takes
 * 130 ms for this.
 */
#include <mpib/control.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ipc/message.h"
#include "test.h"
#include "victim.h"

/* number of duplicates of the socket; every epoll descriptor watches all of
 * them */
#define COPIES 400
#define EPOLLS 500
#define ATTACK_MS 4000

static struct node node[2];
static struct victim *victim;
/* the attacker writes to this pipe when it has begun to send requests */
static int ready[2];

static int setup(void **state)
{
	victim = victim_between(node, NULL);
	return pipe(ready);
}

static bool watch_often(int sock)
{
	int copy[COPIES];

	tenant_many_descriptors();
	for (unsigned i = 0; i < COPIES; i++)
		copy[i] = dup(sock);
	for (unsigned i = 0; i < EPOLLS; i++) {
		int ep = epoll_create1(EPOLL_CLOEXEC);

		for (unsigned k = 0; k < COPIES; k++) {
			struct epoll_event e = { .events = EPOLLIN };

			if (epoll_ctl(ep, EPOLL_CTL_ADD, copy[k], &e) < 0)
				return false;
		}
	}
	return true;
}

/* Send unknown requests endlessly. */
static int ask_for_nothing(void *arg)
{
	const struct mpib_ctl_header h = { .type = MPIB_CTL_DEVICE + 1000,
					   .id = 3,
					   .len = sizeof(h) };
	(void)arg;
	for (;;) {
		int sock = tenant_hello(node[0].dir);

		if (sock < 0 || !watch_often(sock) ||
		    write(ready[1], "x", 1) != 1)
			return 1;
		while (mpib_message_send(sock, &h, NULL, 0) == 0 &&
		       tenant_answer(sock) < 0)
			;
		pause();
	}
}

static int ask_statistics(void *arg)
{
	static const char line[] = "upgrading\n";
	static char text[65536];
	(void)arg;
	for (;;) {
		int sock =
			tenant_dial(node[0].dir, MPIB_STATS_SOCK, SOCK_STREAM);

		if (sock < 0 || !watch_often(sock) ||
		    write(ready[1], "x", 1) != 1)
			return 1;
		while (send(sock, line, sizeof(line) - 1, MSG_NOSIGNAL) > 0 &&
		       recv(sock, text, sizeof(text), 0) > 0)
			;
		pause();
	}
}

static void comes_to_nothing(int (*fn)(void *arg))
{
	uint64_t us;
	pid_t pid;

	attack_needs_root();
	pid = attacker_begin(fn, NULL, ready[0]);
	us = control_us(node[0].pid);
	usleep(ATTACK_MS * 1000);
	us = control_us(node[0].pid) - us;
	print_message("the control thread used %llu ms of CPU time in %u ms\n",
		      (unsigned long long)us / 1000, ATTACK_MS);
	victim_goes_on(victim, 64);
	child_kill(pid);
	assert_in_range(us, 0, ATTACK_MS * 1000 / 4);
}

TEST(answers_do_not_wake_many_epoll_waiters)
{
	comes_to_nothing(ask_for_nothing);
}

TEST(statistics_do_not_wake_many_epoll_waiters)
{
	comes_to_nothing(ask_statistics);
}

struct test_group test_group = { setup, victim_teardown };
