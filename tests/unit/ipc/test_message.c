/* SPDX-License-Identifier: Apache-2.0 */
#include "ipc/message.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test.h"

struct pair {
	int a, b;
};

static int open_pair(void **state)
{
	static struct pair p;
	int fd[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd) < 0)
		return -1;
	p = (struct pair){ fd[0], fd[1] };
	*state = &p;
	return 0;
}

static int close_pair(void **state)
{
	struct pair *p = *state;

	close(p->a);
	close(p->b);
	return 0;
}

/* The number the next descriptor gets: equal before and after, none leaked. */
static int next_fd(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

static void send_raw(int sock, const void *data, size_t len, const int *fd,
		     unsigned fds)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * 16)];
	struct iovec iov = { .iov_len = len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *c;

	memcpy(&iov.iov_base, &data, sizeof(data));
	memset(control, 0, sizeof(control));
	if (fds) {
		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * fds);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * fds);
		memcpy(CMSG_DATA(c), fd, sizeof(int) * fds);
	}
	assert_int_equal(sendmsg(sock, &msg, MSG_NOSIGNAL), len);
}

static void a_message_arrives_as_it_was_sent(void **state)
{
	struct mpib_ctl_id ask = {
		.h = { .type = MPIB_CTL_DEREG, .id = 9, .len = sizeof(ask) },
		.id = 77,
	};
	struct pair *p = *state;
	struct mpib_message m;

	assert_int_equal(mpib_message_recv(p->b, &m), -EAGAIN);
	assert_int_equal(mpib_message_send(p->a, &ask.h, NULL, 0), 0);
	assert_int_equal(mpib_message_send(p->a, &ask.h, NULL, 0), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(mpib_message_recv(p->b, &m), 1);
		assert_int_equal(m.len, sizeof(ask));
		assert_int_equal(m.fds, 0);
		assert_memory_equal(m.bytes, &ask, sizeof(ask));
	}
	assert_int_equal(mpib_message_recv(p->b, &m), -EAGAIN);
}

static void four_descriptors_arrive_in_order_and_close_on_exec(void **state)
{
	struct mpib_ctl_header h = { .type = MPIB_CTL_HELLO, .len = sizeof(h) };
	struct pair *p = *state;
	int before = next_fd(), fd[4][2], sent[4];
	struct mpib_message m;

	for (int i = 0; i < 4; i++) {
		assert_int_equal(pipe(fd[i]), 0);
		sent[i] = fd[i][1];
	}
	assert_int_equal(mpib_message_send(p->a, &h, sent, 4), 0);
	assert_int_equal(mpib_message_recv(p->b, &m), 1);
	assert_int_equal(m.fds, 4);
	for (int i = 0; i < 4; i++) {
		char c = (char)('a' + i), got = 0;

		assert_int_equal(fcntl(m.fd[i], F_GETFD), FD_CLOEXEC);
		assert_int_equal(write(m.fd[i], &c, 1), 1);
		assert_int_equal(read(fd[i][0], &got, 1), 1);
		assert_int_equal(got, c);
		close(fd[i][0]);
		close(fd[i][1]);
	}
	mpib_message_close_fds(&m);
	assert_int_equal(m.fds, 0);
	assert_int_equal(next_fd(), before);
}

static void too_many_descriptors_are_refused_and_none_is_kept(void **state)
{
	struct mpib_ctl_header h = { .type = MPIB_CTL_HELLO, .len = sizeof(h) };
	int fd[16] = { 0 }, before = next_fd();
	struct pair *p = *state;
	struct mpib_message m;

	send_raw(p->a, &h, sizeof(h), fd, MPIB_CTL_FDS_MAX + 1);
	send_raw(p->a, &h, sizeof(h), fd, 16);
	assert_int_equal(mpib_message_recv(p->b, &m), -EPROTO);
	assert_int_equal(mpib_message_recv(p->b, &m), -EPROTO);
	assert_int_equal(next_fd(), before);
	/* The next one is whole again. */
	send_raw(p->a, &h, sizeof(h), NULL, 0);
	assert_int_equal(mpib_message_recv(p->b, &m), 1);
}

/* From now on the process may have `more` further descriptors. Whoever started
 * the test may have left it some beyond the next free one. */
static struct rlimit leave_room_for(int more)
{
	int taken[8], end = next_fd();
	struct rlimit was, now;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	now = was;
	for (int i = 0; i < more; i++) {
		taken[i] = dup(STDERR_FILENO);
		end = taken[i] + 1;
	}
	for (int i = 0; i < more; i++)
		close(taken[i]);
	now.rlim_cur = (rlim_t)end;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
	return was;
}

static void
descriptors_without_room_are_told_from_a_broken_message(void **state)
{
	struct mpib_ctl_header h = { .type = MPIB_CTL_POOL, .len = sizeof(h) };
	int fd[4] = { 0 }, before = next_fd();
	struct pair *p = *state;
	struct mpib_message m;

	for (int room = 0; room < 5; room++) {
		struct rlimit was;

		h.id = 100u + (unsigned)room;
		send_raw(p->a, &h, sizeof(h), fd, 4);
		was = leave_room_for(room);
		assert_int_equal(mpib_message_recv(p->b, &m),
				 room < 4 ? -EMFILE : 1);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
		/* Who asked, and what, is known all the same. */
		assert_int_equal(m.h.id, h.id);
		assert_int_equal(m.h.type, MPIB_CTL_POOL);
		assert_int_equal(m.fds, room < 4 ? 0 : 4);
		mpib_message_close_fds(&m);
		assert_int_equal(next_fd(), before);
	}
}

static void a_message_of_a_wrong_length_is_refused(void **state)
{
	char bytes[MPIB_CTL_MAX + 8] = { 0 };
	struct mpib_ctl_header *h = (void *)bytes;
	int fd = 0, before = next_fd();
	struct pair *p = *state;
	struct mpib_message m;

	h->len = sizeof(bytes);
	send_raw(p->a, bytes, sizeof(bytes), &fd, 1); /* too long */
	h->len = 24;
	send_raw(p->a, bytes, 16, &fd, 1); /* shorter than it says */
	h->len = 8;
	send_raw(p->a, bytes, 8, &fd, 1); /* less than a header */
	for (int i = 0; i < 3; i++) {
		assert_int_equal(mpib_message_recv(p->b, &m), -EPROTO);
		assert_int_equal(m.fds, 0);
	}
	assert_int_equal(next_fd(), before);
	h->len = MPIB_CTL_MAX;
	send_raw(p->a, bytes, MPIB_CTL_MAX, NULL, 0);
	assert_int_equal(mpib_message_recv(p->b, &m), 1);
}

static void a_hang_up_is_seen_by_both_directions(void **state)
{
	struct mpib_ctl_header h = { .type = MPIB_CTL_HELLO, .len = sizeof(h) };
	struct pair *p = *state;
	struct mpib_message m;

	assert_int_equal(mpib_message_send(p->a, &h, NULL, 0), 0);
	assert_int_equal(shutdown(p->a, SHUT_RDWR), 0);
	assert_int_equal(mpib_message_recv(p->b, &m), 1);
	assert_int_equal(mpib_message_recv(p->b, &m), 0);
	assert_int_equal(mpib_message_send(p->b, &h, NULL, 0), -EPIPE);
}

static void sending_never_blocks(void **state)
{
	struct mpib_ctl_connect c = { .h = { .len = sizeof(c) } };
	struct pair *p = *state;
	int rc = 0;

	for (int i = 0; i < 1000000 && rc == 0; i++)
		rc = mpib_message_send(p->a, &c.h, NULL, 0);
	assert_int_equal(rc, -EAGAIN);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test_setup_teardown(a_message_arrives_as_it_was_sent,
					open_pair, close_pair),
	cmocka_unit_test_setup_teardown(
		four_descriptors_arrive_in_order_and_close_on_exec, open_pair,
		close_pair),
	cmocka_unit_test_setup_teardown(
		too_many_descriptors_are_refused_and_none_is_kept, open_pair,
		close_pair),
	cmocka_unit_test_setup_teardown(
		descriptors_without_room_are_told_from_a_broken_message,
		open_pair, close_pair),
	cmocka_unit_test_setup_teardown(a_message_of_a_wrong_length_is_refused,
					open_pair, close_pair),
	cmocka_unit_test_setup_teardown(a_hang_up_is_seen_by_both_directions,
					open_pair, close_pair),
	cmocka_unit_test_setup_teardown(sending_never_blocks, open_pair,
					close_pair),
	{ 0 },
};
