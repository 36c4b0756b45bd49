/* SPDX-License-Identifier: Apache-2.0 */
/* base/closer.h: calls of close() that block, because their TCP sockets linger
 * until the other end closes. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/closer.h"
#include "base/users.h"
#include "test.h"

/* the uid of the first user; the next users have the next uids */
#define ONE 61001
#define OTHER 61002
#define MANY 16
#define MOST_OF_ALL 512
#define ALL 1024
#define SOCKETS 500

/* Return a socket whose close blocks until the other end, *to, is closed. */
static int lingering(int *to)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	const struct linger forever = { .l_onoff = 1, .l_linger = 3600 };
	const int little = 4096;
	int l = socket(AF_INET, SOCK_STREAM, 0);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(in);
	static char bytes[65536];

	setsockopt(l, SOL_SOCKET, SO_RCVBUF, &little, sizeof(little));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &little, sizeof(little));
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(l, (struct sockaddr *)&in, sizeof(in)), 0);
	assert_int_equal(listen(l, 1), 0);
	assert_int_equal(getsockname(l, (struct sockaddr *)&in, &len), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	*to = accept(l, NULL, NULL);
	assert_true(*to >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &forever,
				    sizeof(forever)),
			 0);
	while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	close(l);
	return fd;
}

/* While this is set, the closing threads wait before they close a socket. */
static _Atomic bool held;

WRAPS(int, dup3, int from, int to, int flags)
{
	while (held)
		usleep(1000);
	return __real_dup3(from, to, flags);
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void until_closed(int fd)
{
	for (unsigned i = 0; is_open(fd); i++) {
		assert_true(i < 10000);
		usleep(1000);
	}
}

static void until_may(uid_t user, int rc)
{
	for (unsigned i = 0; mpib_may_receive(user) != rc; i++) {
		assert_true(i < 10000);
		usleep(1000);
	}
}

TEST(closes_that_block_do_not_delay_the_caller)
{
	int to[MANY], fd, sock[SOCKETS], pair[2];

	for (unsigned i = 0; i < MANY; i++) {
		assert_int_equal(mpib_may_receive(ONE), 0);
		mpib_close_received(ONE, lingering(&to[i]));
	}
	until_may(ONE, -EPIPE);
	assert_int_equal(mpib_may_receive(OTHER), 0);
	for (unsigned i = 0; i < 2; i++) {
		fd = dup(STDERR_FILENO);
		mpib_close_received(i ? ONE : OTHER, fd);
		until_closed(fd);
	}
	for (unsigned i = 0; i < SOCKETS; i++) {
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
		assert_int_equal(send(pair[1], "x", 1, 0), 1);
		close(pair[1]);
		sock[i] = pair[0];
		mpib_close_of(ONE, sock[i]);
	}
	for (unsigned i = 0; i < SOCKETS; i++)
		until_closed(sock[i]);
	for (unsigned i = 0; i < MANY; i++)
		close(to[i]);
	until_may(ONE, 0);
}

static unsigned threads(void)
{
	unsigned n = 0;
	DIR *d = opendir("/proc/self/task");

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

/* Start closes of more and more users, until the number of threads has reached
 * the limit for all users together. */
TEST(the_threads_of_all_users_are_limited)
{
	const unsigned more = ALL + 8;
	int to[ALL + 8], last = -1, fd;
	struct rlimit files;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	files.rlim_cur = files.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
	for (unsigned i = 0; i < MOST_OF_ALL; i++)
		mpib_close_received(ONE + i, lingering(&to[i]));
	until_may(ONE, -EPIPE);
	assert_int_equal(mpib_may_receive(ONE + MOST_OF_ALL), 0);
	for (unsigned i = MOST_OF_ALL; i < more; i++) {
		last = lingering(&to[i]);
		mpib_close_received(ONE + i, last);
	}
	/* the closing threads, and the test's own thread */
	assert_in_range(threads(), ALL, ALL + 2);
	assert_true(is_open(last));
	fd = dup(STDERR_FILENO);
	mpib_close_of(OTHER, fd);
	until_closed(fd);
	for (unsigned i = 0; i < more; i++)
		close(to[i]);
	until_closed(last);
	for (unsigned i = 0; i < more; i++)
		until_may(ONE + i, 0);
}
