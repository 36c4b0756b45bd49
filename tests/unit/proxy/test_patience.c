/* SPDX-License-Identifier: Apache-2.0 */
/* A client that does not say HELLO is dropped in time, and how many may be silent;
 * and sums that do not fit. Time is set by hand. */
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/client.h"
#include "peer/internal.h"
#include "rundir.h"
#include "scratch.h"
#include "sums.h"
#include "test.h"

static struct mpib_loop loop;
static struct mpib_broker broker;
static struct mpib_config cfg;
static struct mpib_rundir rundir;
static char why[MPIB_WHY_MAX];

static int open_all(void **state)
{
	if (scratch_make(state) || mpib_loop_init(&loop) ||
	    mpib_rundir_open(&rundir, scratch, "", why))
		return -1;
	mpib_config_init(&cfg);
	mpib_loop_advance(&loop, 0);
	return 0;
}

static int close_all(void **state)
{
	mpib_rundir_close(&rundir, NULL);
	mpib_loop_fini(&loop);
	return scratch_remove(state);
}

static void turn_all(void)
{
	while (mpib_loop_turn(&loop, 0) > 0)
		;
}

static int dial(const char *name, int type)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", scratch_path(name));
	assert_int_equal(connect(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
	return fd;
}

#define CASE(name) TEST_OF(name, open_all, close_all)

CASE(a_client_without_hello_is_dropped_after_5_s)
{
	static struct proxy_clients all;
	int fd = mpib_rundir_listen(&rundir, "c", SOCK_SEQPACKET, why);
	int client;
	char byte;

	assert_int_equal(
		proxy_clients_init(&all, &loop, NULL, &broker, &cfg, fd), 0);
	client = dial("c", SOCK_SEQPACKET);
	turn_all();
	assert_int_equal(all.usage.clients, 1);
	mpib_loop_advance(&loop, 5 * MPIB_SEC - 1);
	turn_all();
	assert_int_equal(all.usage.clients, 1);
	assert_int_equal(recv(client, &byte, 1, 0), -1);
	mpib_loop_advance(&loop, 1);
	turn_all();
	assert_int_equal(all.usage.clients, 0);
	assert_int_equal(recv(client, &byte, 1, 0), 0);

	close(client);
	mpib_acceptor_close(&all.acceptor);
	close(fd);
}

static void expect_wrong(const struct proxy_clients *all, const char *what)
{
	struct sum wrong;

	assert_false(sums_of_clients(all, &wrong));
	assert_string_equal(wrong.what, what);
}

CASE(sums_that_do_not_fit_are_found)
{
	int fd = mpib_rundir_listen(&rundir, "c", SOCK_SEQPACKET, why);
	static struct proxy_clients all;
	struct sum wrong;
	struct proxy_client *s;
	int client;

	assert_int_equal(
		proxy_clients_init(&all, &loop, NULL, &broker, &cfg, fd), 0);
	client = dial("c", SOCK_SEQPACKET);
	turn_all();
	assert_true(sums_of_clients(&all, &wrong));
	s = TAILQ_FIRST(&all.list);
	s->registered++;
	expect_wrong(&all, "bytes of regions");
	s->registered--;
	s->region_fds++;
	expect_wrong(&all, "descriptors");
	s->region_fds--;
	all.usage.mapped++;
	expect_wrong(&all, "bytes mapped");
	all.usage.mapped--;
	s->user->clients--;
	expect_wrong(&all, "clients of users");
	s->user->clients++;
	close(client);
	turn_all();
	assert_true(sums_of_clients(&all, &wrong));
	mpib_acceptor_close(&all.acceptor);
	close(fd);
}

CASE(sessions_without_hello_have_a_limit)
{
	static struct proxy_clients all;
	int fd = mpib_rundir_listen(&rundir, "c", SOCK_SEQPACKET, why);
	int client[5];

	cfg.max_clients = 16;
	assert_int_equal(
		proxy_clients_init(&all, &loop, NULL, &broker, &cfg, fd), 0);
	for (unsigned i = 0; i < 5; i++)
		client[i] = dial("c", SOCK_SEQPACKET);
	turn_all();
	/* A quarter of the places, as of those of clients. */
	assert_int_equal(all.usage.clients, 4);
	assert_true(all.refused == 1);
	for (unsigned i = 0; i < 5; i++)
		close(client[i]);
	turn_all();
	assert_int_equal(all.usage.clients, 0);

	mpib_acceptor_close(&all.acceptor);
	close(fd);
}
