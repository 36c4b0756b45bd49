/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test the control socket of a real proxy with different versions and with
 * malformed messages. After each test, the usage is zero and a well-behaved
 * client is served.
 */
#include <errno.h>
#include <fcntl.h>
#include <mpib/client.h>
#include <mpib/control.h>
#include <mpib/segment.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "buffer.h"
#include "talk.h"
#include "test.h"

TALK_TEST(the_refusal_of_another_version_names_both_versions)
{
	static const unsigned other[] = { MPIB_ABI_VERSION - 1,
					  MPIB_ABI_VERSION + 1, 77 };
	struct mpib_message m;
	const struct mpib_ctl_error *e = (const void *)m.bytes;

	for (unsigned i = 0; i < 3; i++) {
		int sock = talk_dial();
		char theirs[32], ours[32];

		snprintf(theirs, sizeof(theirs), "version %u", other[i]);
		snprintf(ours, sizeof(ours), "version %u ", MPIB_ABI_VERSION);
		talk_hello(sock, other[i]);
		assert_true(talk_hear(sock, &m) == sizeof(*e));
		assert_int_equal(m.h.status, -EPROTO);
		assert_non_null(strstr(e->why, theirs));
		assert_non_null(strstr(e->why, ours));
		assert_int_equal(talk_hear(sock, &m), 0);
		close(sock);
	}
}

TALK_TEST(a_hello_of_another_size_is_refused_with_a_reason)
{
	struct {
		struct mpib_ctl_hello hello;
		char more[100];
	} big = { .hello = {
			  .h = { .type = MPIB_CTL_HELLO, .len = sizeof(big) },
			  .version = MPIB_ABI_VERSION + 1 } };
	struct mpib_ctl_header bare = { .type = MPIB_CTL_HELLO,
					.len = sizeof(bare) };
	int sock = talk_dial();

	talk_tell(sock, &big, sizeof(big));
	assert_int_equal(talk_hear_status(sock, MPIB_CTL_HELLO, 0), -EPROTO);
	close(sock);
	sock = talk_dial();
	talk_tell(sock, &bare, sizeof(bare));
	assert_int_equal(talk_hear_status(sock, MPIB_CTL_HELLO, 0), -EPROTO);
	close(sock);
}

TALK_TEST(the_welcome_has_sealed_segments_and_a_pidfd)
{
	struct mpib_message m;
	const struct mpib_ctl_welcome *w = (const void *)m.bytes;
	struct pollfd alive = { .events = POLLIN };
	int sock = talk_dial();

	talk_hello(sock, MPIB_ABI_VERSION);
	assert_true(talk_hear(sock, &m) == sizeof(*w));
	assert_int_equal(w->h.status, 0);
	assert_int_equal(w->devices, 1);
	assert_int_equal(m.fds, MPIB_CTL_FDS_MAX);
	for (unsigned i = 0; i < 3; i++) {
		int seals = fcntl(m.fd[i], F_GET_SEALS);

		assert_true(seals & F_SEAL_SHRINK);
		assert_true(seals & F_SEAL_SEAL);
	}
	/* The submission segment is the only one that a client can write to. */
	assert_ptr_equal(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, m.fd[0], 0),
			 MAP_FAILED);
	assert_ptr_equal(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, m.fd[2], 0),
			 MAP_FAILED);
	/* The pidfd refers to the proxy's process, which is alive. */
	alive.fd = m.fd[MPIB_WELCOME_PIDFD];
	assert_int_equal(poll(&alive, 1, 0), 0);
	mpib_message_close_fds(&m);
	close(sock);
}

static int doorbell_of(int sock)
{
	struct mpib_message m;
	int bell;

	talk_hello(sock, MPIB_ABI_VERSION);
	assert_true(talk_hear(sock, &m) > 0);
	assert_int_equal(m.fds, MPIB_CTL_FDS_MAX);
	bell = dup(m.fd[3]);
	mpib_message_close_fds(&m);
	assert_true(bell >= 0);
	return bell;
}

/* A client must not be able to empty another client's doorbell or to change its
 * mode, because this would suppress the other client's wake-up. */
TALK_TEST(each_client_has_its_own_doorbell)
{
	int a = talk_dial(), b = talk_dial();
	int bell_a = doorbell_of(a), bell_b = doorbell_of(b);

	assert_int_equal(fcntl(bell_a, F_SETFL, 0), 0);
	assert_true(fcntl(bell_b, F_GETFL) & O_NONBLOCK);
	close(bell_a);
	close(bell_b);
	close(a);
	close(b);
}

TALK_TEST(a_hello_may_name_an_existing_device)
{
	struct mpib_ctl_hello hello = {
		.h = { .type = MPIB_CTL_HELLO, .len = sizeof(hello) },
		.version = MPIB_ABI_VERSION,
		.device = 1,
	};
	int sock = talk_dial();

	talk_tell(sock, &hello, sizeof(hello));
	assert_int_equal(talk_hear_status(sock, MPIB_CTL_HELLO, 0), -ENODEV);
	close(sock);
}

TALK_TEST(a_client_may_query_existing_devices)
{
	struct mpib_ctl_id ask = { .h = { .type = MPIB_CTL_DEVICE,
					  .len = sizeof(ask) } };
	static const uint32_t none[] = { 1, 16, UINT32_MAX };
	struct mpib_message m;
	const struct mpib_ctl_device *d = (const void *)m.bytes;
	int sock = talk_attach();

	talk_tell(sock, &ask, sizeof(ask));
	assert_true(talk_hear(sock, &m) == sizeof(*d));
	assert_int_equal(d->info.rails, 2);
	assert_string_equal(d->info.rail[0].name, talk_node.sout);
	for (unsigned i = 0; i < 3; i++) {
		ask.id = none[i];
		talk_tell(sock, &ask, sizeof(ask));
		assert_int_equal(talk_hear_status(sock, MPIB_CTL_DEVICE, 0),
				 -ENODEV);
	}
	close(sock);
}

TALK_TEST(a_second_hello_only_returns_an_error)
{
	int sock = talk_attach();

	talk_hello(sock, MPIB_ABI_VERSION);
	assert_int_equal(talk_hear_status(sock, MPIB_CTL_HELLO, 5), -EALREADY);
	close(sock);
}

TALK_TEST(a_message_before_hello_closes_the_connection)
{
	struct mpib_ctl_listen h = {
		.h = { .type = MPIB_CTL_LISTEN, .len = sizeof(h) },
	};
	struct mpib_message m;
	int sock = talk_dial();

	talk_tell(sock, &h, sizeof(h));
	assert_int_equal(talk_hear(sock, &m), 0);
	close(sock);
}

TALK_TEST(a_malformed_message_ends_the_client)
{
	static const char junk[2000];
	struct mpib_ctl_header lies = { .type = MPIB_CTL_LISTEN, .len = 500 };
	struct mpib_message m;
	int sock;

	for (unsigned i = 0; i < 3; i++) {
		sock = talk_attach();
		if (i == 0)
			talk_tell(sock, junk, 3);
		else if (i == 1)
			talk_tell(sock, junk, sizeof(junk));
		else
			talk_tell(sock, &lies, sizeof(lies));
		assert_int_equal(talk_hear(sock, &m), 0);
		close(sock);
	}
}

TALK_TEST(unknown_and_malformed_requests_are_refused)
{
	struct mpib_ctl_id id = { .h = { .len = sizeof(id), .id = 9 } };
	static const struct {
		uint32_t type;
		int status;
	} cases[] = {
		{ 0, -ENOSYS },
		{ MPIB_CTL_LOST, -ENOSYS },
		{ UINT32_MAX, -ENOSYS },
		/* a valid length, but a pool of size 0 */
		{ MPIB_CTL_POOL, -EINVAL },
		{ MPIB_CTL_REG_FD, -EBADMSG },
		{ MPIB_CTL_DEREG, -ENOENT },
		{ MPIB_CTL_LISTEN, 0 }, /* valid with this length */
		{ MPIB_CTL_RESUME, -EBADMSG },
		{ MPIB_CTL_CLOSE_LISTEN, -ENOENT },
		{ MPIB_CTL_CONNECT, -EBADMSG },
		{ MPIB_CTL_ACCEPT, -ENOENT }, /* valid with this length */
		{ MPIB_CTL_CLOSE, -ENOENT },
	};
	int sock = talk_attach();

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		id.h.type = cases[i].type;
		talk_tell(sock, &id, sizeof(id));
		assert_int_equal(talk_hear_status(sock, cases[i].type, 9),
				 cases[i].status);
	}
	close(sock);
}

TALK_TEST(indices_out_of_range_are_refused)
{
	struct mpib_ctl_connect c = { .h = { .type = MPIB_CTL_CONNECT,
					     .len = sizeof(c) } };
	struct mpib_ctl_id id = { .h = { .len = sizeof(id) } };
	int sock = talk_attach();

	for (unsigned i = 0; i < 3; i++) {
		c.conn = id.id = i == 0	  ? MPIB_INDEXES_MAX
				 : i == 1 ? UINT32_MAX
					  : 1u << 31;
		talk_tell(sock, &c, sizeof(c));
		assert_int_equal(talk_hear_status(sock, MPIB_CTL_CONNECT, 0),
				 -EINVAL);
		id.h.type = MPIB_CTL_CLOSE;
		talk_tell(sock, &id, sizeof(id));
		assert_int_equal(talk_hear_status(sock, MPIB_CTL_CLOSE, 0),
				 -ENOENT);
		id.h.type = MPIB_CTL_DEREG;
		talk_tell(sock, &id, sizeof(id));
		assert_int_equal(talk_hear_status(sock, MPIB_CTL_DEREG, 0),
				 -ENOENT);
		id.h.type = MPIB_CTL_DEVICE;
		talk_tell(sock, &id, sizeof(id));
		assert_int_equal(talk_hear_status(sock, MPIB_CTL_DEVICE, 0),
				 -ENODEV);
	}
	close(sock);
}

TALK_TEST(unexpected_descriptors_are_closed)
{
	struct mpib_ctl_listen h = {
		.h = { .type = MPIB_CTL_LISTEN, .len = sizeof(h) },
	};
	int sock = talk_attach(), fd = buffer_make("unasked");

	for (unsigned i = 0; i < 100; i++) {
		talk_tell_fd(sock, &h, fd);
		assert_int_equal(talk_hear_status(sock, MPIB_CTL_LISTEN, 0),
				 -EBADMSG);
	}
	buffer_until_held(&talk_node, "unasked", 0);
	close(fd);
	close(sock);
}

TALK_TEST(a_client_that_reads_no_answers_is_dropped)
{
	struct mpib_ctl_header h = { .type = 99, .len = sizeof(h) };
	int sock = talk_attach(), sent = 0;

	while (sent < 1000000 && send(sock, &h, sizeof(h), MSG_NOSIGNAL) > 0)
		sent++;
	/* The test has read nothing so far, so the proxy hung up by itself. */
	assert_true(sent < 1000000);
	close(sock);
}

struct test_group test_group = { talk_start, talk_stop };
