/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stopped [N]: processes that are stopped rather than dead, and a client whose
 * forked child outlives it. N clients and N proxies are stopped under traffic;
 * others do not notice, nothing grows, and what was stopped goes on.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mover.h"
#include "node.h"
#include "test.h"

#define HANG_MS 60000
#define ROOM 300000

static unsigned stops = 3;
static struct node node[2];

static void start(const char *flag, const char *value)
{
	node_start(&node[0], 7, "--log-level", "error", flag, value, NULL);
	node_start(&node[1], 8, "--log-level", "error", flag, value, NULL);
}

static int stop(void **state)
{
	node_stop(&node[0]);
	node_stop(&node[1]);
	return 0;
}

static void open_mover(struct mover *m, unsigned from, bool direct)
{
	mover_must(mover_begin(m, node[from].dir, node[1 - from].dir, ROOM,
			       direct, from + 5));
}

/* A client that writes a byte for each message that was right. */
static pid_t bear_mover(int *told, bool direct)
{
	int pipefd[2];
	struct mover m;
	pid_t pid;

	assert_int_equal(pipe2(pipefd, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid > 0) {
		close(pipefd[1]);
		*told = pipefd[0];
		return pid;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (mover_begin(&m, node[0].dir, node[1].dir, ROOM, direct, 99) < 0)
		_exit(1);
	for (uint64_t n = 0;;) {
		if (mover_step(&m) < 0 || m.wrong)
			_exit(2);
		if (m.messages > n && write(pipefd[1], "", 1) != 1)
			_exit(3);
		n = m.messages;
	}
}

static void hear(int told, unsigned messages)
{
	char byte;

	while (messages--)
		assert_int_equal(read(told, &byte, 1), 1);
}

static void forget_what_was_said(int told)
{
	char bytes[4096];

	fcntl(told, F_SETFL, O_NONBLOCK);
	while (read(told, bytes, sizeof(bytes)) > 0)
		;
	fcntl(told, F_SETFL, 0);
}

static long long rss_kb(pid_t pid)
{
	char path[64], line[256];
	long long kb = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		sscanf(line, "VmRSS: %lld", &kb);
	fclose(f);
	return kb;
}

static json_int_t held(const struct node *n)
{
	return node_usage(n, "registered_bytes") +
	       node_usage(n, "mapped_bytes");
}

static void a_stopped_client_hurts_nobody_and_goes_on(void **state)
{
	long long grown = 0;
	struct mover witness;

	start("--peer-silence", "600");
	open_mover(&witness, 0, true);
	for (unsigned i = 0; i < stops; i++) {
		json_int_t bytes;
		long long kb;
		int told;
		pid_t pid = bear_mover(&told, i & 1);

		hear(told, 3);
		child_freeze(pid);
		forget_what_was_said(told);
		mover_must(mover_move(&witness, 20));
		bytes = held(&node[0]);
		kb = rss_kb(node[0].pid);
		mover_must(mover_move(&witness, 100));
		assert_int_equal(held(&node[0]), bytes);
		kb = rss_kb(node[0].pid) - kb;
		grown = kb > grown ? kb : grown;
		/* What its quota let it have was counted; the rest is ours. */
		assert_true(kb < 16384);

		kill(pid, SIGCONT);
		hear(told, 5);
		child_kill(pid);
		close(told);
		node_until_usage(&node[0], "attached", 1);
	}
	printf("%u clients stopped: all went on, 0 wrong, %llu messages beside "
	       "them, the proxy grew by at most %lld KiB\n",
	       stops, (unsigned long long)witness.messages, grown);
	mover_close(&witness);
}

/* Calls wait or fail, none hangs, and afterwards all is as before. */
static void
a_proxy_stopped_for_less_than_its_peers_patience_goes_on(void **state)
{
	struct mover m, other;

	start("--peer-silence", "600");
	open_mover(&m, 0, false);
	open_mover(&other, 1, true);
	for (unsigned i = 0; i < stops; i++) {
		struct node *stopped = &node[i & 1];

		mover_must(mover_move(&m, 3));
		mover_must(mover_move(&other, 3));
		child_freeze(stopped->pid);
		for (unsigned n = 0; n < 1000; n++) {
			if (mover_step(&m) < 0 || mover_step(&other) < 0)
				fail_msg("%s", mpib_strerror());
		}
		kill(stopped->pid, SIGCONT);
		mover_must(mover_move(&m, 5));
		mover_must(mover_move(&other, 5));
	}
	printf("%u proxies stopped and let go: 0 errors, 0 wrong\n", stops);
	mover_close(&m);
	mover_close(&other);
}

static void control_calls_to_a_stopped_proxy_end_by_client_answer(void **state)
{
	struct mpib_attach_opts opts = { .size = sizeof(opts) };
	unsigned long long since;
	struct mpib_listener *l;
	struct mpib_client *c;
	struct mpib_handle h;

	start("--client-answer", "3");
	opts.run_dir = node[0].dir;
	assert_int_equal(mpib_attach(&opts, &c), 0);
	child_freeze(node[0].pid);
	since = node_ms();
	assert_int_equal(mpib_listen(c, &h, &l), -ETIMEDOUT);
	assert_non_null(strstr(mpib_strerror(), "client.answer"));
	assert_true(node_ms() - since >= 2900);
	kill(node[0].pid, SIGCONT);
	since = node_ms();
	while (mpib_listen(c, &h, &l) < 0) {
		if (node_ms() - since > HANG_MS)
			fail_msg("%s", mpib_strerror());
	}
	mpib_detach(c);
	printf("a stopped proxy: -ETIMEDOUT after client.answer, and served "
	       "again\n");
}

static void
a_proxy_stopped_for_longer_is_an_error_that_names_the_peer(void **state)
{
	unsigned long long since;
	struct mover m;
	int rc = 0;

	start("--peer-silence", "5");
	open_mover(&m, 0, false);
	mover_must(mover_move(&m, 3));
	child_freeze(node[1].pid);
	since = node_ms();
	while ((rc = mover_step(&m)) >= 0 && node_ms() - since < HANG_MS)
		usleep(100);
	assert_true(rc < 0);
	assert_non_null(strstr(mpib_strerror(), "peer"));
	printf("a proxy stopped for good: \"%s\"\n", mpib_strerror());
	kill(node[1].pid, SIGCONT);
	mover_close(&m);
	/* The clients of both ends can begin anew. */
	node_until_usage(&node[1], "attached", 0);
	open_mover(&m, 0, false);
	mover_must(mover_move(&m, 5));
	mover_close(&m);
}

/* The child of a client: it has copies of all descriptors, until told. */
static void outlive(struct mover *m, int until, int tell)
{
	char byte = 0;

	if (mover_step(m) != -EOWNERDEAD)
		byte = 1;
	if (mpib_mem_alloc(m->from, 4096))
		byte |= 2;
	if (write(tell, &byte, 1) != 1)
		_exit(1);
	while (read(until, &byte, 1) > 0)
		;
	_exit(0);
}

static void a_child_keeps_nothing_of_its_dead_parent(void **state)
{
	unsigned long long since;
	int until[2], tell[2];
	char byte = 9;
	pid_t pid;

	start("--peer-silence", "600");
	assert_int_equal(pipe2(until, O_CLOEXEC), 0);
	assert_int_equal(pipe2(tell, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct mover m;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(until[1]);
		close(tell[0]);
		if (mover_begin(&m, node[0].dir, node[1].dir, ROOM, false, 3) <
			    0 ||
		    mover_move(&m, 3) < 0)
			_exit(1);
		if (fork() == 0)
			outlive(&m, until[0], tell[1]);
		for (;;)
			mover_step(&m);
	}
	close(until[0]);
	close(tell[1]);
	assert_int_equal(read(tell[0], &byte, 1), 1);
	assert_int_equal(byte, 0);
	since = node_ms();
	child_kill(pid);
	node_until_usage(&node[0], "attached", 0);
	node_until_usage(&node[1], "attached", 0);
	since = node_ms() - since;
	assert_int_equal(node_usage(&node[0], "registered_bytes"), 0);
	assert_int_equal(node_usage(&node[0], "mapped_bytes"), 0);
	/* The child has lived all the while: nothing but its end closes this. */
	fcntl(tell[0], F_SETFL, O_NONBLOCK);
	assert_int_equal(read(tell[0], &byte, 1), -1);
	assert_int_equal(errno, EAGAIN);
	fcntl(tell[0], F_SETFL, 0);
	close(until[1]);
	assert_int_equal(read(tell[0], &byte, 1), 0);
	close(tell[0]);
	printf("a client dead while its child holds its sockets: given up after "
	       "%llu ms\n",
	       since);
}

#define STOPPED(fn) cmocka_unit_test_teardown(fn, stop)

const struct CMUnitTest test_list[] = {
	STOPPED(a_stopped_client_hurts_nobody_and_goes_on),
	STOPPED(a_proxy_stopped_for_less_than_its_peers_patience_goes_on),
	STOPPED(control_calls_to_a_stopped_proxy_end_by_client_answer),
	STOPPED(a_proxy_stopped_for_longer_is_an_error_that_names_the_peer),
	STOPPED(a_child_keeps_nothing_of_its_dead_parent),
	{ 0 },
};
unsigned *test_times = &stops;
