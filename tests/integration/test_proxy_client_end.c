/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients of a real proxy that die or leave, with children or without.
 */
#include <mpib/client.h>
#include <mpib/control.h>
#include <mpib/segment.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "talk.h"
#include "test.h"

static pid_t child_that(void (*act)(int ready))
{
	int ready[2];
	pid_t pid;
	char byte;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ready[0]);
		act(ready[1]);
		_exit(0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static void attach_and_hold(int ready)
{
	struct mpib_attach_opts opts = { .size = sizeof(opts),
					 .run_dir = talk_node.dir };
	struct mpib_client *c;
	struct mpib_listener *l;
	struct mpib_conn *tx, *rx;
	_Alignas(8) char handle[128];

	if (mpib_attach(&opts, &c) || !mpib_mem_alloc(c, 1 << 20) ||
	    mpib_listen(c, (struct mpib_handle *)(void *)handle, &l) ||
	    mpib_accept(l, &rx) ||
	    mpib_connect(c, (struct mpib_handle *)(void *)handle, -1, &tx))
		_exit(1);
	while (mpib_ready(tx) == 0 || mpib_ready(rx) == 0)
		usleep(100);
	if (mpib_ready(tx) != 1 || mpib_ready(rx) != 1 ||
	    write(ready, "x", 1) != 1)
		_exit(2);
	for (;;)
		pause();
}

static void a_killed_client_leaves_nothing(void **state)
{
	pid_t pid = child_that(attach_and_hold);

	assert_int_equal(node_usage(&talk_node, "attached"), 1);
	assert_true(node_usage(&talk_node, "regions") >= 1);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	node_until_usage(&talk_node, "attached", 0);
}

static pid_t *orphan;

static void attach_fork_and_hold(int ready)
{
	struct mpib_attach_opts opts = { .size = sizeof(opts),
					 .run_dir = talk_node.dir };
	struct mpib_client *c;
	pid_t pid;

	if (mpib_attach(&opts, &c))
		_exit(1);
	pid = fork();
	if (pid == 0) {
		alarm(60);
		for (;;) /* with the socket */
			pause();
	}
	*orphan = pid;
	if (write(ready, "x", 1) != 1)
		_exit(2);
	for (;;)
		pause();
}

static void a_client_is_dead_although_its_child_holds_the_socket(void **state)
{
	pid_t pid;

	orphan = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid = child_that(attach_fork_and_hold);
	assert_int_equal(node_usage(&talk_node, "attached"), 1);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(kill(*orphan, 0), 0);
	node_until_usage(&talk_node, "attached", 0);
	kill(*orphan, SIGKILL);
	munmap(orphan, 4096);
}

static void
a_detached_client_is_gone_although_its_child_has_the_socket(void **state)
{
	struct mpib_attach_opts opts = { .size = sizeof(opts),
					 .run_dir = talk_node.dir };
	struct mpib_client *c;
	pid_t pid;

	assert_int_equal(mpib_attach(&opts, &c), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	mpib_detach(c);
	node_until_usage(&talk_node, "attached", 0);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void many_come_and_go(void **state)
{
	struct mpib_attach_opts opts = { .size = sizeof(opts),
					 .run_dir = talk_node.dir };

	for (unsigned i = 0; i < 100; i++) {
		struct mpib_client *c;

		assert_int_equal(mpib_attach(&opts, &c), 0);
		if (i % 2)
			assert_non_null(mpib_mem_alloc(c, 65536));
		mpib_detach(c);
	}
}

const struct CMUnitTest test_list[] = {
	TALK_TEST(a_killed_client_leaves_nothing),
	TALK_TEST(a_client_is_dead_although_its_child_holds_the_socket),
	TALK_TEST(a_detached_client_is_gone_although_its_child_has_the_socket),
	TALK_TEST(many_come_and_go),
	{ 0 },
};
struct test_group test_group = { talk_start, talk_stop };
