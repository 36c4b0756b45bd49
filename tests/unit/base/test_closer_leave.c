/* SPDX-License-Identifier: Apache-2.0 */
/* A process that leaves, of whose closes thousands do not end, as users may have it. */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/closer.h"
#include "test.h"

#define ONE 61001 /* a user */
#define LEFT 16000
#define MOST_MS 200 /* of the CPU; looking for each through all took 600 */

/* No close ends. */
int __wrap_dup3(int from, int to, int flags);
int __wrap_dup3(int from, int to, int flags)
{
	(void)from;
	(void)to;
	(void)flags;
	for (;;)
		pause();
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static uint64_t cpu_ms(void)
{
	struct timespec ts;

	assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts), 0);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* In a child: 0, or which step failed. */
static int leave_very_many(void)
{
	int pair[2], other = dup(STDERR_FILENO), keep = dup(STDERR_FILENO);
	int first = -1;
	uint64_t took;

	alarm(60);
	for (unsigned i = 0; i < LEFT; i++) {
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0 ||
		    write(pair[0], "x", 1) != 1)
			return 1;
		close(pair[0]);
		mpib_close_of(ONE, pair[1]);
		first = i == 0 ? pair[1] : first;
	}
	took = cpu_ms();
	if (!mpib_closers_leave(keep))
		return 2;
	took = cpu_ms() - took;
	if (is_open(other) || !is_open(keep))
		return 3;
	if (!is_open(first) || !is_open(pair[1]))
		return 4;
	return took < MOST_MS ? 0 : 5;
}

static void all_but_what_users_sent_is_closed_soon(void **state)
{
	struct rlimit files;
	pid_t pid;
	int status;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	files.rlim_cur = files.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
	if (files.rlim_max < LEFT + 100)
		skip_as("too few descriptors are allowed");
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(leave_very_many());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(all_but_what_users_sent_is_closed_soon),
	{ 0 },
};
