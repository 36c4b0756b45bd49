/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/web/caller.h: find the user who made a connection. Some connections
 * have no user. */
#include "web/access.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test.h"

#define OTHER 61003

static struct sockaddr_in here;
static int listener, diag;

static int setup(void **state)
{
	socklen_t len = sizeof(here);

	here = (struct sockaddr_in){ .sin_family = AF_INET };
	here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&here, len), 0);
	assert_int_equal(listen(listener, 8), 0);
	getsockname(listener, (struct sockaddr *)&here, &len);
	diag = mpib_caller_open(&here);
	if (diag < 0) {
		print_message("SKIPPED: this kernel has no sock_diag: %d\n",
			      diag);
		exit(77);
	}
	return 0;
}

static int dial(struct sockaddr_in *from)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(*from);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&here, sizeof(here)),
			 0);
	getsockname(fd, (struct sockaddr *)from, &len);
	return fd;
}

TEST(a_connection_belongs_to_the_user_who_made_it)
{
	struct sockaddr_in from;
	uid_t uid = 1, want = geteuid();
	int fd;

	fd = dial(&from);
	assert_int_equal(mpib_caller_uid(diag, &from, &here, &uid), 0);
	assert_int_equal(uid, want);
	close(fd);
	if (want != 0) {
		print_message("SKIPPED: needs root, to act as two users\n");
		return;
	}
	assert_int_equal(seteuid(OTHER), 0);
	fd = dial(&from);
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(mpib_caller_uid(diag, &from, &here, &uid), 0);
	assert_int_equal(uid, OTHER);
	close(fd);
}

/* For a socket that its process has closed, the kernel reports uid 0. */
TEST(a_closed_connection_has_no_user)
{
	struct sockaddr_in from;
	uid_t uid = 1;

	close(dial(&from));
	assert_int_equal(mpib_caller_uid(diag, &from, &here, &uid), -ENOENT);
	assert_int_equal(uid, 1);
}

TEST(a_socket_that_is_not_connected_has_no_user)
{
	struct sockaddr_in from = here;
	uid_t uid = 1;

	from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
	from.sin_port = htons(9);
	assert_int_equal(mpib_caller_uid(diag, &from, &here, &uid), -ENOENT);
	/* A process that listens at the caller's port is not the caller. */
	assert_int_equal(mpib_caller_uid(diag, &here, &from, &uid), -ENOTCONN);
	assert_int_equal(uid, 1);
}

struct test_group test_group = { .setup = setup };
