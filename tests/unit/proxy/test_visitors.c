/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/web/access.h: which callers get a connection to a listener that is open
 * to all networks. */
#include "web/access.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test.h"

#define SHARE (MPIB_VISITORS_MAX / 4)

static struct sockaddr_in here;
static int listener;
static struct mpib_loop loop;
static struct mpib_visitors all;

static int setup(void **state)
{
	socklen_t len = sizeof(here);

	here = (struct sockaddr_in){ .sin_family = AF_INET };
	listener = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&here, len), 0);
	assert_int_equal(listen(listener, 64), 0);
	getsockname(listener, (struct sockaddr *)&here, &len);
	assert_int_equal(mpib_loop_init(&loop), 0);
	mpib_visitors_open(&all, &loop, &here);
	return 0;
}

static int teardown(void **state)
{
	mpib_visitors_close(&all);
	mpib_loop_fini(&loop);
	close(listener);
	return 0;
}

/* Connect, and count the connection as one from the address `as`, if not NULL.
 * Both ends stay open until the process ends. */
static struct mpib_visitor *visit(const char *as)
{
	struct sockaddr_in to = here, from = { .sin_family = AF_INET };
	socklen_t len = sizeof(from);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	fd = accept(listener, (struct sockaddr *)&from, &len);
	assert_true(fd >= 0);
	if (as)
		assert_int_equal(inet_pton(AF_INET, as, &from.sin_addr), 1);
	return mpib_visitors_admit(&all, &from, false)
		       ? mpib_visitor_new(&all, fd)
		       : NULL;
}

static void fill(const char *as)
{
	for (unsigned i = 0; i < SHARE; i++)
		assert_non_null(visit(as));
	assert_null(visit(as));
}

static void free_all(void)
{
	while (!TAILQ_EMPTY(&all.list))
		mpib_visitor_free(TAILQ_FIRST(&all.list));
}

TEST(each_remote_address_gets_at_most_its_share_of_connections)
{
	fill("198.51.100.1");
	fill("198.51.100.2");
	free_all();
}

/* Connections from other machines must leave room for connections of local
 * users, even if the listener is bound to no address. */
TEST(remote_callers_leave_room_for_connections_of_local_users)
{
	if (all.diag < 0)
		skip_as("this kernel has no sock_diag");
	fill("198.51.100.1");
	fill("127.0.0.9"); /* a local address at which no user has a socket */
	assert_null(visit("127.0.0.8"));
	fill(NULL);
	free_all();
}

static unsigned handshakes(const char *as, unsigned most)
{
	struct sockaddr_in from = { .sin_family = AF_INET };
	unsigned in = 0;

	assert_int_equal(inet_pton(AF_INET, as, &from.sin_addr), 1);
	while (in < most && mpib_visitors_admit(&all, &from, true))
		in++;
	return in;
}

TEST(the_rate_of_handshakes_is_limited)
{
	const struct sockaddr_in from = { .sin_family = AF_INET };

	/* from here on, only this call advances the time */
	mpib_loop_advance(&loop, MPIB_SEC);
	assert_int_equal(handshakes("198.51.100.1", 1000), 8);
	assert_int_equal(handshakes("198.51.100.2", 1000), 8);
	assert_int_equal(handshakes("198.51.100.3", 1000), 8);
	assert_int_equal(handshakes("198.51.100.4", 1000), 8);
	assert_int_equal(handshakes("198.51.100.5", 1000), 0);
	mpib_loop_advance(&loop, MPIB_SEC / 20);
	assert_int_equal(handshakes("198.51.100.6", 1000), 1);
	assert_true(mpib_visitors_admit(&all, &from, false));
}

/* Callers that connect endlessly and never complete a TLS handshake must not
 * block other callers. */
TEST(each_caller_gets_only_a_share_of_the_handshakes)
{
	unsigned admitted = 0;

	mpib_loop_advance(&loop, MPIB_SEC);
	for (unsigned ms = 0; ms < 10000; ms += 10) {
		admitted += handshakes("198.51.100.1", 1000);
		/* Local callers without a user are also counted by address. */
		admitted += handshakes("127.0.0.1", 1000);
		admitted += handshakes("127.0.0.9", 1000);
		if (ms % 1000 == 0)
			assert_int_equal(handshakes("198.51.100.2", 1), 1);
		mpib_loop_advance(&loop, 10 * MPIB_MSEC);
	}
	assert_in_range(admitted, 100, 2 * (8 + 5 * 10));
}

struct test_group test_group = { setup, teardown };
