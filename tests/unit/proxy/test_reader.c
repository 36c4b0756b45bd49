/* SPDX-License-Identifier: Apache-2.0 */
/* stats/stats.h over an engine played here: answers that readers do not take. */
#include "stats/stats.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "config/config.h"
#include "test.h"

#define BIG (17u << 20) /* more than all readers' answers may take together */
#define MANY 6

static struct mpib_loop loop;
static struct mpib_gather gather;
static struct mpib_config cfg;
static struct mpib_stats *stats;
static int listener;
static struct sockaddr_un at;
static socklen_t at_len;
static unsigned answer; /* bytes */
/* The engine's answer, where it is the test's to give. */
static bool waits;
static mpib_snapshot_fn *snapshot_fn;
static void *snapshot_arg;

void __wrap_mpib_view_conns_part(const struct mpib_view *v, uint64_t client,
				 struct mpib_view_part *part);
int __wrap_mpib_engine_snapshot(struct mpib_engine *engine,
				mpib_snapshot_fn *fn, void *arg);

void __wrap_mpib_view_conns_part(const struct mpib_view *v, uint64_t client,
				 struct mpib_view_part *part)
{
	static char blanks[1 << 20];

	memset(blanks, ' ', sizeof(blanks));
	for (unsigned i = 0; i < answer / sizeof(blanks); i++)
		fwrite(blanks, sizeof(blanks), 1, part->out);
	fputs("0", part->out);
}

int __wrap_mpib_engine_snapshot(struct mpib_engine *engine,
				mpib_snapshot_fn *fn, void *arg)
{
	snapshot_fn = fn;
	snapshot_arg = arg;
	if (!waits)
		fn(arg, calloc(1, sizeof(struct mpib_snapshot)));
	return 0;
}

static int setup(void **state)
{
	static struct mpib_view view;

	mpib_config_init(&cfg);
	view.cfg = &cfg;
	answer = BIG;
	waits = false;
	at = (struct sockaddr_un){ .sun_family = AF_UNIX };
	at_len = sizeof(sa_family_t); /* the kernel names it */
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&at, at_len), 0);
	at_len = sizeof(at);
	getsockname(listener, (struct sockaddr *)&at, &at_len);
	assert_int_equal(listen(listener, 8), 0);
	assert_int_equal(mpib_loop_init(&loop), 0);
	mpib_gather_init(&gather, &loop, NULL, &view);
	assert_int_equal(
		mpib_stats_open(&(struct mpib_stats_sockets){ { listener, -1 },
							      &gather },
				&view, NULL, &stats),
		0);
	return 0;
}

static int teardown(void **state)
{
	mpib_stats_close(stats);
	mpib_gather_stop(&gather);
	mpib_loop_fini(&loop);
	close(listener);
	return 0;
}

/* A reader who has asked, and has read nothing yet. */
static int ask(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&at, at_len), 0);
	assert_int_equal(send(fd, "conns\n", 6, MSG_NOSIGNAL), 6);
	for (unsigned i = 0; i < 16; i++)
		mpib_loop_turn(&loop, 0);
	return fd;
}

/* The bytes of greeting and answer, or those before the proxy hung up. */
static size_t read_all(int fd)
{
	static char buf[1 << 16];
	unsigned lines = 0;
	size_t all = 0;

	while (lines < 2) {
		ssize_t n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);

		if (n == 0)
			break;
		if (n > 0) {
			all += (size_t)n;
			lines += buf[n - 1] == '\n';
			lines += all == (size_t)n && buf[n - 1] != '\n';
		}
		mpib_loop_turn(&loop, 0);
	}
	close(fd);
	return all;
}

fixture_test(an_answer_of_any_size_is_had_by_who_reads)
{
	assert_true(read_all(ask()) > BIG);
	/* Nothing is left of it. */
	assert_true(read_all(ask()) > BIG);
}

fixture_test(a_second_one_beside_it_is_too_much)
{
	int slow = ask(), fd = ask();

	assert_true(read_all(fd) < BIG);
	assert_true(read_all(slow) > BIG);
}

/* The engine gives its snapshot; returns how many have their answer now, which the
 * second of two lines is. */
static unsigned answered_after_another(const int *fd)
{
	char buf[1 << 12];
	unsigned n = 0;

	snapshot_fn(snapshot_arg, calloc(1, sizeof(struct mpib_snapshot)));
	for (unsigned i = 0; i < 64; i++)
		mpib_loop_turn(&loop, 0);
	for (unsigned i = 0; i < MANY; i++) {
		ssize_t got = recv(fd[i], buf, sizeof(buf) - 1,
				   MSG_DONTWAIT | MSG_PEEK);

		buf[got > 0 ? got : 0] = '\0';
		n += strstr(buf, "\"ok\"") != NULL;
	}
	return n;
}

/* The first had one begun before the others asked. */
fixture_test(a_user_has_four_answers_from_a_snapshot)
{
	int fd[MANY];

	answer = 0;
	waits = true;
	mpib_loop_advance(&loop,
			  MPIB_SEC); /* time stands still, so nobody rests */
	for (unsigned i = 0; i < MANY; i++)
		fd[i] = ask();
	assert_int_equal(answered_after_another(fd), 1);
	assert_int_equal(answered_after_another(fd), 5);
	assert_int_equal(answered_after_another(fd), 6);
	for (unsigned i = 0; i < MANY; i++)
		close(fd[i]);
}

/* Those who have their answer ask again before the next snapshot: who was put off
 * comes first all the same. */
fixture_test(who_is_put_off_comes_before_who_asks_again)
{
	bool had[3 * MANY] = { false };
	unsigned n = 0;
	int fd[3 * MANY];

	answer = 0;
	waits = true;
	mpib_loop_advance(&loop,
			  MPIB_SEC); /* time stands still, so nobody rests */
	for (unsigned i = 0; i < 3 * MANY; i++)
		fd[i] = ask();
	for (unsigned turn = 0; turn < 8; turn++) {
		snapshot_fn(snapshot_arg,
			    calloc(1, sizeof(struct mpib_snapshot)));
		for (unsigned i = 0; i < 64; i++)
			mpib_loop_turn(&loop, 0);
		for (unsigned i = 0; i < 3 * MANY; i++) {
			char buf[1 << 12];

			if (recv(fd[i], buf, sizeof(buf), MSG_DONTWAIT) <= 0 ||
			    !memmem(buf, sizeof(buf), "\"ok\"", 4))
				continue;
			n += !had[i];
			had[i] = true;
			assert_int_equal(send(fd[i], "conns\n", 6, 0), 6);
		}
		for (unsigned i = 0; i < 64; i++)
			mpib_loop_turn(&loop, 0);
	}
	assert_int_equal(n, 3 * MANY);
	for (unsigned i = 0; i < 3 * MANY; i++)
		close(fd[i]);
}
