/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 1,000 clients connect to the stats socket but never read. Messages move as
 * fast as before, the proxy's memory stays bounded, and the proxy refuses one
 * more reader with a reason.
 */
#include <errno.h>
#include <mpib/control.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "ends.h"
#include "test.h"

#define SIZE 4096
#define MESSAGES 500
/* GROWTH_MAX_KIB is the 16 MiB of answers that reader.c buffers at most, and
 * room for the allocator. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define READERS 250u /* with a sanitizer, the test takes ten times as long */
/* most of this memory is the sanitizer's */
#define GROWTH_MAX_KIB (1024 * 1024)
#define IDLE_MAX_KIB GROWTH_MAX_KIB
#else
#define READERS 1000u
#define GROWTH_MAX_KIB (24 * 1024)
#define IDLE_MAX_KIB (4 * 1024)
#endif

static struct node node;
static int reader[READERS];
static struct ends ends;

static int setup(void **state)
{
	struct rlimit limit;
	char readers[16];

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	if (limit.rlim_max < READERS + 200) {
		printf("skipped: only %lu descriptors are allowed\n",
		       (unsigned long)limit.rlim_max);
		exit(77);
	}
	limit.rlim_cur = limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	/* A user may use a quarter of limit.readers. */
	snprintf(readers, sizeof(readers), "%u", 4 * READERS);
	node_start(&node, 7, "--limit-readers", readers, NULL);
	ends_open(&ends, &node, &node, SIZE);
	return 0;
}

static int teardown(void **state)
{
	ends_detach(&ends);
	node_stop(&node);
	return 0;
}

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The times are printed but not asserted, since the machine may be busy. */
static void move_many(const char *when)
{
	static double us[MESSAGES];

	for (unsigned i = 0; i < MESSAGES; i++) {
		double start = now_us();

		ends_move(&ends, SIZE, 0);
		us[i] = now_us() - start;
	}
	qsort(us, MESSAGES, sizeof(us[0]), by_size);
	printf("%s: p50 %.1f us, p99 %.1f us\n", when, us[MESSAGES / 2],
	       us[MESSAGES * 99 / 100]);
}

static long rss_kib(void)
{
	char path[64], line[128];
	long kib = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", node.pid);
	f = fopen(path, "r");
	assert_non_null(f);
	while (kib == 0 && fgets(line, sizeof(line), f))
		sscanf(line, "VmRSS: %ld", &kib);
	fclose(f);
	return kib;
}

/* Read the first line from the socket, and append a zero byte. */
static void first_line(int fd, char *buf, size_t len)
{
	ssize_t n = recv(fd, buf, len - 1, 0);

	assert_true(n > 0);
	buf[n] = '\0';
}

TEST(a_thousand_idle_readers_use_little_memory)
{
	long before;

	move_many("no reader");
	before = rss_kib();
	for (unsigned i = 0; i < READERS; i++)
		reader[i] = node_dial(&node, MPIB_STATS_SOCK, SOCK_STREAM);
	move_many("all readers");
	printf("the proxy grew by %ld KiB\n", rss_kib() - before);
	assert_true(rss_kib() - before < IDLE_MAX_KIB);
}

TEST(one_reader_too_many_is_refused_with_a_reason)
{
	char line[256];
	int fd = node_dial(&node, MPIB_STATS_SOCK, SOCK_STREAM);

	first_line(fd, line, sizeof(line));
	assert_non_null(strstr(line, "too many readers"));
	assert_non_null(strstr(line, "raise limit.readers"));
	assert_int_equal(recv(fd, line, sizeof(line), 0), 0);
	close(fd);
}

/* Send as many commands as the proxy accepts, without reading. */
static void ask_all(void)
{
	static const char ask[] = "config\n";
	char many[64 * (sizeof(ask) - 1)];

	for (unsigned i = 0; i < 64; i++)
		memcpy(many + i * (sizeof(ask) - 1), ask, sizeof(ask) - 1);
	for (unsigned i = 0; i < READERS; i++) {
		ssize_t n = send(reader[i], many, sizeof(many),
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		assert_true(n == (ssize_t)sizeof(many) || errno == EPIPE ||
			    errno == ECONNRESET);
	}
}

static bool hung_up(int fd)
{
	char buf[65536];
	ssize_t n;

	while ((n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0)
		;
	return n == 0 || errno == ECONNRESET;
}

TEST(readers_that_never_read_are_dropped)
{
	long before = rss_kib();
	unsigned gone = 0;

	ask_all();
	move_many("all readers that asked");
	printf("the proxy grew by %ld KiB\n", rss_kib() - before);
	assert_true(rss_kib() - before < GROWTH_MAX_KIB);
	/* Wait until the proxy has dropped readers and accepts new ones. The
	 * proxy drops a reader that has read nothing for 5 s. On a busy
	 * machine, it takes longer. */
	while (gone == 0) {
		int fd = node_dial(&node, MPIB_STATS_SOCK, SOCK_STREAM);
		char line[256];

		first_line(fd, line, sizeof(line));
		close(fd);
		gone = strstr(line, "\"mpib\"") != NULL;
		if (!gone)
			usleep(100000);
	}
	gone = 0;
	for (unsigned i = 0; i < READERS; i++)
		gone += hung_up(reader[i]);
	printf("%u of %u were dropped\n", gone, READERS);
	assert_true(gone > 0);
	move_many("afterwards");
}

struct test_group test_group = { setup, teardown };
