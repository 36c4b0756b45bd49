/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crashes: a process whose requests crashed the proxy twice within a minute is
 * refused. Other processes are served. If a signal from outside kills the
 * proxy, that does not count as a crash by any client. Clients of the previous
 * proxy are served before new clients.
 */
#include <errno.h>
#include <fcntl.h>
#include <mpib/client.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ipc/message.h"
#include "node.h"
#include "test.h"

static struct node node;

static int attach(struct mpib_client **c, unsigned timeout_ms)
{
	struct mpib_attach_opts opts = { .size = sizeof(opts),
					 .run_dir = node.dir,
					 .timeout_ms = timeout_ms };

	return mpib_attach(&opts, c);
}

/* Start a process that attaches and stays. */
static pid_t rank_start(void)
{
	struct mpib_client *c;
	int told[2];
	pid_t pid;
	char byte;

	assert_int_equal(pipe2(told, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (attach(&c, 60000) < 0 || write(told[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(told[1]);
	assert_int_equal(read(told[0], &byte, 1), 1);
	close(told[0]);
	return pid;
}

/* Read the answer to the process's HELLO. Returns its status. */
static int rank_hello(int sock, char *why, size_t len)
{
	struct mpib_ctl_hello hello = {
		.h = { .type = MPIB_CTL_HELLO, .id = 1, .len = sizeof(hello) },
		.version = MPIB_ABI_VERSION,
	};
	const struct mpib_ctl_error *e;
	struct pollfd p = { .fd = sock, .events = POLLIN };
	struct mpib_message m;

	assert_int_equal(mpib_message_send(sock, &hello.h, NULL, 0), 0);
	assert_int_equal(poll(&p, 1, 60000), 1);
	assert_int_equal(mpib_message_recv(sock, &m), 1);
	mpib_message_close_fds(&m);
	e = (const void *)m.bytes;
	snprintf(why, len, "%s", m.h.status < 0 ? e->why : "");
	return m.h.status;
}

static int hello(char *why, size_t len)
{
	int sock = node_dial(&node, MPIB_CONTROL_SOCK, SOCK_SEQPACKET);
	int rc = rank_hello(sock, why, len);

	close(sock);
	return rc;
}

/* Send a request that crashes the proxy, as the client of `sock`. */
static void crash(int sock)
{
	struct mpib_ctl_header bad = { .type = 0xdead, .len = sizeof(bad) };
	int status;

	assert_int_equal(mpib_message_send(sock, &bad, NULL, 0), 0);
	status = child_end(node.pid);
	/* With a sanitizer, the exit status is 1. */
	if (status != 128 + SIGSEGV && status != 1)
		fail_msg("the proxy ended with %d", status);
	node_again(&node);
}

TEST(a_process_that_crashes_the_proxy_twice_is_refused)
{
	char why[240];
	pid_t other;

	setenv("LD_PRELOAD", MPIB_CRASHING_PATH, 1);
	node_start(&node, 7, "--log-level", "error", NULL);
	other = rank_start();
	/* A kill from outside is not counted as a crash. */
	for (unsigned i = 0; i < 3; i++) {
		int sock = node_dial(&node, MPIB_CONTROL_SOCK, SOCK_SEQPACKET);

		assert_int_equal(rank_hello(sock, why, sizeof(why)), 0);
		assert_int_equal(kill(node.pid, i ? SIGSEGV : SIGKILL), 0);
		child_end(node.pid);
		node_again(&node);
		close(sock);
	}
	for (unsigned i = 0; i < 2; i++) {
		int sock = node_dial(&node, MPIB_CONTROL_SOCK, SOCK_SEQPACKET);

		assert_int_equal(rank_hello(sock, why, sizeof(why)), 0);
		crash(sock);
		close(sock);
	}
	assert_int_equal(hello(why, sizeof(why)), -EPERM);
	assert_in(why, "crashed twice");
	/* The other process has attached again. */
	node_until_usage(&node, "attached", 1);
	child_kill(other);
	node_stop(&node);
	unsetenv("LD_PRELOAD");
}

TEST(clients_of_the_previous_proxy_are_served_before_new_clients)
{
	struct mpib_client *c;
	char why[240];
	pid_t rank;

	node_start(&node, 8, "--log-level", "error", "--resume-grace", "600",
		   NULL);
	rank = rank_start();
	child_freeze(rank);
	node_kill(&node);
	node_again(&node);
	assert_int_equal(hello(why, sizeof(why)), -EINPROGRESS);
	assert_in(why, "1 clients of the last mpib-proxy come first");
	kill(rank, SIGCONT);
	/* mpib_attach() waits by itself. */
	assert_int_equal(attach(&c, 0), 0);
	node_until_usage(&node, "attached", 2);
	mpib_detach(c);
	/* The proxy does not wait for a dead client or for a client that has
	 * left. */
	child_kill(rank);
	node_kill(&node);
	node_again(&node);
	assert_int_equal(hello(why, sizeof(why)), 0);
	node_stop(&node);
}
