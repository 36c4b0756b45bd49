/* SPDX-License-Identifier: Apache-2.0 */
/* Closes that last, of TCP sockets that linger until their other end is closed, where
 * they were received. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/closer.h"
#include "base/unread.h"
#include "test.h"

#define ONE 61001 /* users */
#define OTHER 61002
#define MANY 16
#define MOST 128
#define MOST_OF_ALL 512
#define ALL 1024
#define SOCKETS 500
#define SOCKETS_IN 8

/* A socket whose last close ends when the other end, *to, does. */
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

/* Threads that close begin with it, and wait in it. */
static _Atomic bool held;

int __real_dup3(int from, int to, int flags);
int __wrap_dup3(int from, int to, int flags);
int __wrap_dup3(int from, int to, int flags)
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

static void closes_that_last_keep_nobody_waiting(void **state)
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

/* Empty, or with a message that is. */
static int hung_up_on(int type, bool told)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, type, 0, pair), 0);
	if (told)
		assert_int_equal(send(pair[1], "", 0, 0), 0);
	mpib_close_of(ONE, pair[0]);
	close(pair[1]);
	return pair[0];
}

static void a_socket_without_anything_unread_is_closed_at_once(void **state)
{
	held = true;
	assert_false(is_open(hung_up_on(SOCK_STREAM, false)));
	assert_false(is_open(hung_up_on(SOCK_SEQPACKET, false)));
	for (unsigned i = 0; i < 2; i++) {
		int fd = hung_up_on(SOCK_SEQPACKET, true);

		assert_true(is_open(fd));
		held = false;
		until_closed(fd);
		held = true;
	}
	held = false;
}

static void until_not_full(void)
{
	uid_t user;

	for (unsigned i = 0; mpib_closers_full(&user); i++) {
		assert_true(i < 10000);
		usleep(1000);
	}
}

/* An eighth of all descriptors. */
static void sockets_that_do_not_close_are_told_of(void **state)
{
	struct rlimit whole, few;
	uid_t user = 0;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &whole), 0);
	few = whole;
	few.rlim_cur = 256;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	held = true;
	for (unsigned i = 0; i < MANY + 256 / 8 - 1; i++)
		hung_up_on(SOCK_SEQPACKET, true);
	until_not_full(); /* threads have MANY of them */
	hung_up_on(SOCK_SEQPACKET, true);
	assert_true(mpib_closers_full(&user));
	assert_int_equal(user, ONE);
	held = false;
	until_not_full();
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &whole), 0);
}

static void send_descriptors(int sock, const int *fd, unsigned n)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {
		0
	};
	char byte = 'x';
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = CMSG_SPACE(n * sizeof(int)) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(c), fd, n * sizeof(int));
	assert_int_equal(sendmsg(sock, &msg, 0), 1);
}

/* The same in a socket that another has, and of one itself. */
static void nothing_unread_makes_a_close_last(void **state)
{
	int out[2], in[2], to[SOCKETS_IN], fd;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, out), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, in), 0);
	for (unsigned i = 0; i < SOCKETS_IN; i++) {
		fd = lingering(&to[i]);
		send_descriptors(i % 2 ? in[0] : out[0], &fd, 1);
		close(fd);
	}
	send_descriptors(out[0], in, 2);
	close(in[0]);
	close(in[1]);
	mpib_close_of(ONE, out[1]);
	until_closed(out[1]);
	fd = lingering(&to[0]);
	mpib_close_of(ONE, fd);
	until_closed(fd);
	close(out[0]);
}

/* Nothing that asks again and again is kept waiting for long. */
static void nothing_is_taken_beside_very_many(void **state)
{
	int to[MOST], fd[MOST], rc;
	uint64_t from;

	for (unsigned i = 0; i < MOST; i++)
		fd[i] = lingering(&to[i]);
	from = mpib_now_ns();
	for (unsigned i = 0; i < MOST; i++)
		mpib_close_received(ONE, fd[i]);
	while ((rc = mpib_may_receive(ONE)) == -EAGAIN)
		usleep(1000);
	assert_int_equal(rc, -EPIPE);
	assert_in_range(mpib_now_ns() - from, 0, 800000000);
	for (unsigned i = 0; i < MOST; i++)
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

/* Of a user of his own each, and then of one. */
static void threads_of_all_users_have_a_bound(void **state)
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
	assert_in_range(threads(), ALL, ALL + 2); /* and the test's own */
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

/* In a child: 0, or which step failed. */
static int close_without_a_thread(void)
{
	struct rlimit tasks;
	int to, fd = lingering(&to);
	struct stat st;

	alarm(20);
	if (geteuid() == 0 && setresuid(ONE, ONE, ONE) < 0)
		return 1;
	if (getrlimit(RLIMIT_NPROC, &tasks) < 0)
		return 2;
	tasks.rlim_cur = 0;
	if (setrlimit(RLIMIT_NPROC, &tasks) < 0)
		return 3;
	mpib_close_received(ONE, fd);
	/* Once a close begins the log has its number. */
	if (fstat(fd, &st) < 0 || !S_ISSOCK(st.st_mode))
		return 4;
	tasks.rlim_cur = tasks.rlim_max;
	if (setrlimit(RLIMIT_NPROC, &tasks) < 0)
		return 5;
	close(to);
	until_may(OTHER, 0);
	until_closed(fd);
	return 0;
}

static void without_a_thread_it_waits(void **state)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(close_without_a_thread());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void memory_goes_with_its_file(void **state)
{
	const size_t page = 4096, len = 40u << 20; /* more than a part */
	int fd = memfd_create("memory", MFD_CLOEXEC);
	unsigned char there;
	char *map;

	assert_int_equal(ftruncate(fd, (off_t)len), 0);
	map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(map != MAP_FAILED);
	map[0] = map[len - 1] = 1;
	mpib_unmap_of(ONE, map, len, fd);
	until_closed(fd);
	assert_int_equal(mincore(map, page, &there), -1);
	assert_int_equal(mincore(map + len - page, page, &there), -1);
}

static void descriptors_that_come_with_bytes_are_closed(void **state)
{
	int pair[2], end[2], sent[2];
	char got[4];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(pipe(end), 0);
	sent[0] = sent[1] = end[1];
	send_descriptors(pair[0], sent, 2);
	close(end[1]);
	assert_int_equal(mpib_recv_of(ONE, pair[1], got, sizeof(got), 0), 1);
	assert_int_equal(got[0], 'x');
	/* The pipe ends when both are closed. */
	assert_int_equal(read(end[0], got, 1), 0);
	assert_int_equal(mpib_recv_of(ONE, pair[1], got, sizeof(got), 0), -1);
	close(pair[0]);
	assert_int_equal(mpib_recv_of(ONE, pair[1], got, sizeof(got), 0), 0);
	close(pair[1]);
	close(end[0]);
}

const struct CMUnitTest test_list[] = {
	/* It forks: before there are threads. */
	cmocka_unit_test(without_a_thread_it_waits),
	cmocka_unit_test(closes_that_last_keep_nobody_waiting),
	cmocka_unit_test(a_socket_without_anything_unread_is_closed_at_once),
	cmocka_unit_test(sockets_that_do_not_close_are_told_of),
	cmocka_unit_test(nothing_unread_makes_a_close_last),
	cmocka_unit_test(nothing_is_taken_beside_very_many),
	cmocka_unit_test(threads_of_all_users_have_a_bound),
	cmocka_unit_test(memory_goes_with_its_file),
	cmocka_unit_test(descriptors_that_come_with_bytes_are_closed),
	{ 0 },
};
