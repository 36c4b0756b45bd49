/* SPDX-License-Identifier: Apache-2.0 */
/* Those who say nothing or take nothing are dropped in time: a client without
 * its HELLO, and a reader of the stats socket. Time is set by hand. */
#include <errno.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/client.h"
#include "peer/internal.h"
#include "rundir.h"
#include "scratch.h"
#include "stats/stats.h"
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

static void a_client_without_hello_is_dropped_after_5_s(void **state)
{
	struct proxy_clients all;
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
	proxy_clients_stop(&all);
	proxy_clients_fini(&all);
	close(fd);
}

static void expect_wrong(const struct proxy_clients *all, const char *what)
{
	struct mpib_sum wrong;

	assert_false(proxy_clients_sums(all, &wrong));
	assert_string_equal(wrong.what, what);
}

static void sums_that_do_not_fit_are_found(void **state)
{
	int fd = mpib_rundir_listen(&rundir, "c", SOCK_SEQPACKET, why);
	struct proxy_clients all;
	struct mpib_sum wrong;
	struct proxy_client *s;
	int client;

	assert_int_equal(
		proxy_clients_init(&all, &loop, NULL, &broker, &cfg, fd), 0);
	client = dial("c", SOCK_SEQPACKET);
	turn_all();
	assert_true(proxy_clients_sums(&all, &wrong));
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
	s->user->silent--;
	expect_wrong(&all, "silent clients");
	s->user->silent++;
	close(client);
	turn_all();
	assert_true(proxy_clients_sums(&all, &wrong));
	proxy_clients_stop(&all);
	proxy_clients_fini(&all);
	close(fd);
}

static void sessions_without_hello_have_a_limit(void **state)
{
	struct proxy_clients all;
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

	proxy_clients_stop(&all);
	proxy_clients_fini(&all);
	close(fd);
}

static struct mpib_gather gather;

static struct mpib_stats *open_stats(struct proxy_clients *clients, int fd)
{
	struct mpib_view view = { .cfg = &cfg,
				  .clients = clients,
				  .run_dir = scratch };
	struct mpib_stats *stats;

	mpib_gather_init(&gather, &loop, NULL, &view);
	assert_int_equal(mpib_stats_open(&gather, fd, -1, &view, NULL, &stats),
			 0);
	return stats;
}

/* Ask until the proxy cannot say any more; how often. */
static unsigned flood(int reader)
{
	static const char ask[] = "config\n";
	unsigned asked = 0;

	while (send(reader, ask, sizeof(ask) - 1, MSG_NOSIGNAL) > 0) {
		asked++;
		turn_all();
	}
	return asked;
}

/* Whether what is in the socket ends with a hang-up; reads it all. */
static bool drain(int fd)
{
	char buf[65536];
	ssize_t n;

	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		turn_all();
	/* Hung up while questions of ours were unread is a reset. */
	return n == 0 || errno == ECONNRESET;
}

static void a_reader_that_takes_nothing_is_dropped_after_5_s(void **state)
{
	struct proxy_clients clients = { 0 };
	int fd = mpib_rundir_listen(&rundir, "s", SOCK_STREAM, why);
	struct mpib_stats *stats = open_stats(&clients, fd);
	int slow = dial("s", SOCK_STREAM), fast = dial("s", SOCK_STREAM);

	turn_all();
	assert_true(flood(slow) > 0);
	mpib_loop_advance(&loop, 5 * MPIB_SEC);
	turn_all();
	assert_true(drain(slow));
	assert_int_equal(send(fast, "help\n", 5, 0), 5);
	turn_all();
	assert_false(drain(fast));

	close(slow);
	close(fast);
	mpib_stats_close(stats);
	close(fd);
}

static void a_reader_that_takes_all_late_is_answered(void **state)
{
	struct proxy_clients clients = { 0 };
	int fd = mpib_rundir_listen(&rundir, "s", SOCK_STREAM, why);
	struct mpib_stats *stats = open_stats(&clients, fd);
	int slow = dial("s", SOCK_STREAM);

	turn_all();
	flood(slow);
	mpib_loop_advance(&loop, 4 * MPIB_SEC);
	turn_all();
	assert_false(drain(slow));
	mpib_loop_advance(&loop, 60 * MPIB_SEC);
	turn_all();
	assert_int_equal(send(slow, "help\n", 5, 0), 5);
	turn_all();
	assert_false(drain(slow));

	close(slow);
	mpib_stats_close(stats);
	close(fd);
}

#define PATIENCE_TEST(f) cmocka_unit_test_setup_teardown(f, open_all, close_all)

const struct CMUnitTest test_list[] = {
	PATIENCE_TEST(a_client_without_hello_is_dropped_after_5_s),
	PATIENCE_TEST(sums_that_do_not_fit_are_found),
	PATIENCE_TEST(sessions_without_hello_have_a_limit),
	PATIENCE_TEST(a_reader_that_takes_nothing_is_dropped_after_5_s),
	PATIENCE_TEST(a_reader_that_takes_all_late_is_answered),
	{ 0 },
};
