/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proxy allocates the pages of regions in steps (client/client.h). The
 * tests check which clients must wait for a step. They also check regions for
 * which no pages are left and regions whose client has left. The test program
 * calls the turns of the proxy's control thread and counts the steps.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mpib/segment.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/client.h"
#include "inner_proxy.h"
#include "test.h"

#ifndef MFD_HUGETLB
#define MFD_HUGETLB 4u
#endif
#define HUGE (2l << 20)
#define LARGE ((size_t)32 << 20) /* size of a region that needs many steps */

static struct mpib_usage before;
static unsigned fds_before;
static int socks[8];

/* A test changes these variables while the filler's threads read them. */
static atomic_bool huge_pages; /* fstat() reports huge pages for every file */
static atomic_bool stalled; /* the filler waits */
static atomic_int error;
static atomic_uint pass;

WRAPS(int, fstat, int fd, struct stat *st)
{
	int rc = __real_fstat(fd, st);

	if (huge_pages)
		st->st_blksize = 2 << 20;
	return rc;
}

WRAPS(int, madvise, void *addr, size_t len, int advice)
{
	bool populates =
		advice == MADV_POPULATE_WRITE || advice == MADV_POPULATE_READ;

	while (populates && stalled)
		usleep(100);
	if (populates && error && pass-- == 0) {
		pass = 0;
		errno = error;
		return -1;
	}
	return __real_madvise(addr, len, advice);
}

static int filled_start(void **state)
{
	char memory[32];

	if (inner_init(state))
		return -1;
	snprintf(memory, sizeof(memory), "%zu", 4 * LARGE);
	inner_set("quota", "memory", memory);
	return inner_start();
}

static unsigned open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static int attach(void)
{
	unsigned n;

	for (n = 0; socks[n]; n++)
		;
	assert_true(n < sizeof(socks) / sizeof(socks[0]));
	socks[n] = inner_attach();
	return socks[n];
}

static void leave(int sock)
{
	for (unsigned i = 0; i < sizeof(socks) / sizeof(socks[0]); i++) {
		if (socks[i] == sock)
			socks[i] = 0;
	}
	close(sock);
}

static struct proxy_client *newest(void)
{
	return TAILQ_LAST(&inner.clients.list, proxy_client_list);
}

/* Allocate the pages of a memfd. A client must allocate the pages before it
 * registers the memfd. */
static void fill_memfd(int fd, uint64_t size)
{
	static const char some[65536];

	for (uint64_t at = 0; at < size; at += sizeof(some))
		assert_true(pwrite(fd, some,
				   size - at < sizeof(some) ? size - at
							    : sizeof(some),
				   (off_t)at) > 0);
}

static void reg(int sock, unsigned flags, uint64_t size, bool filled_first)
{
	struct mpib_ctl_reg_fd ask = {
		.h = { .type = MPIB_CTL_REG_FD, .len = sizeof(ask) },
		.size = size,
		.flags = MPIB_REG_MEMFD,
	};
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	if (filled_first)
		fill_memfd(fd, size);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_int_equal(mpib_message_send(sock, &ask.h, &fd, 1), 0);
	close(fd);
}

static void ask_reg(int sock, unsigned flags, uint64_t size)
{
	/* write(2) does not support huge pages. */
	reg(sock, flags, size, !flags);
}

static void ask_reg_holes(int sock, uint64_t size)
{
	reg(sock, 0, size, false);
}

static void ask_pool(int sock, uint64_t size)
{
	struct mpib_ctl_pool ask = {
		.h = { .type = MPIB_CTL_POOL, .len = sizeof(ask) },
		.size = size,
	};

	inner_tell(sock, &ask.h);
}

static void ask_device(int sock)
{
	struct mpib_ctl_id ask = {
		.h = { .type = MPIB_CTL_DEVICE, .len = sizeof(ask) },
	};

	inner_tell(sock, &ask.h);
}

/* Let madvise() allocate pages in the next `calls` calls, and then fail once
 * with the error `with`. If `with` is 0, no call fails. */
static void fail_after(unsigned calls, int with)
{
	pass = calls;
	error = with;
}

static int filled_look(void **state)
{
	before = inner.clients.usage;
	fds_before = open_fds();
	return 0;
}

static int filled_nothing_is_left(void **state)
{
	fail_after(0, 0);
	for (unsigned i = 0; i < sizeof(socks) / sizeof(socks[0]); i++) {
		if (socks[i])
			leave(socks[i]);
	}
	while (memcmp(&before, &inner.clients.usage, sizeof(before)) != 0)
		inner_turn();
	/* Threads close the sockets. */
	for (unsigned i = 0; i < 5000 && open_fds() != fds_before; i++)
		usleep(1000);
	assert_int_equal(open_fds(), fds_before);
	assert_true(TAILQ_EMPTY(&inner.clients.filling));
	assert_int_equal(inner.clients.pieces, 0);
	return 0;
}

#define FILL_TEST(f) TEST_OF(f, filled_look, filled_nothing_is_left)

static const struct proxy_client_region *filling(const struct proxy_client *s)
{
	return TAILQ_FIRST(&s->filling);
}

static void until_it_fills(const struct proxy_client *s)
{
	while (!filling(s) || !filling(s)->filled)
		inner_turn();
}

FILL_TEST(other_clients_are_answered_between_two_steps)
{
	int a = attach();
	const struct proxy_client *s = newest();
	int b = attach();
	struct mpib_message m;

	ask_reg(a, 0, LARGE);
	until_it_fills(s);
	for (unsigned i = 0; i < 8; i++) {
		size_t had = filling(s)->filled;

		ask_device(b);
		inner_turn();
		assert_int_equal(mpib_message_recv(b, &m), 1);
		assert_true(filling(s)->filled <= had + MPIB_FILL_PIECE);
	}
	assert_int_equal(inner_hear_status(a), 0);
}

static size_t filled_of(const struct proxy_client *s)
{
	const struct proxy_client_region *r;
	size_t sum = 0;

	TAILQ_FOREACH(r, &s->filling, fill_link)
	sum += r->filled;
	return sum;
}

FILL_TEST(many_regions_of_a_client_do_not_delay_another_client)
{
	int a = attach(), b;
	const struct proxy_client *s = newest(), *other;
	size_t had;

	b = attach();
	other = newest();
	for (unsigned i = 0; i < 4; i++)
		ask_reg(a, 0, LARGE / 2);
	until_it_fills(s);
	ask_pool(b, 5000);
	while (!filling(other))
		inner_turn();
	/* Client b's region first waits for the end of the current step, which
	 * allocates a piece of each region of client a. The next step allocates
	 * a piece of b's region and at most two pieces of a's regions. */
	had = filled_of(s);
	while (filling(other))
		inner_turn();
	assert_true(filled_of(s) <= had + 6 * MPIB_FILL_PIECE);
	assert_int_equal(other->region_count, 1);
	assert_int_equal(inner_hear_status(b), 0);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(inner_hear_status(a), 0);
}

FILL_TEST(small_regions_share_a_step)
{
	const unsigned n = 9;
	int a = attach();
	const struct proxy_client *s = newest();

	stalled = true;
	for (unsigned i = 0; i < n; i++)
		ask_pool(a, 4096);
	while (s->region_count < n)
		inner_turn();
	assert_int_equal(inner.clients.pieces, 1);
	stalled = false;
	while (inner.clients.pieces == 1)
		inner_turn();
	assert_int_equal(inner.clients.pieces, n - 1);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(inner_hear_status(a), 0);
}

FILL_TEST(the_regions_of_a_client_are_removed_when_it_leaves)
{
	int a = attach();
	const struct proxy_client *s = newest();

	stalled = true;
	ask_reg(a, 0, LARGE);
	ask_pool(a, LARGE);
	while (s->region_count < 2)
		inner_turn();
	assert_int_equal(inner.clients.usage.registered, 2 * LARGE);
	leave(a);
	/* The region whose pages the current step allocates is removed only
	 * after the step. */
	while (inner.clients.usage.regions > 1)
		inner_turn();
	assert_int_equal(inner.clients.pieces, 1);
	stalled = false;
	while (inner.clients.usage.regions)
		inner_turn();
	assert_int_equal(inner.clients.usage.registered, 0);
	assert_int_equal(inner.clients.pieces, 0);
}

FILL_TEST(a_lack_of_pages_is_reported)
{
	size_t had, of;
	int a = attach();
	const struct proxy_client *s = newest();
	struct mpib_message m;
	const struct mpib_ctl_error *e = (const void *)&m;

	fail_after(2, EFAULT);
	ask_reg(a, 0, LARGE);
	inner_hear(a, &m);
	fail_after(0, 0);
	assert_int_equal(m.h.status, -ENOMEM);
	assert_int_equal(
		sscanf(e->why, "there are pages for %zu of %zu", &had, &of), 2);
	assert_in_range(had, MPIB_FILL_PIECE + 1, 2 * MPIB_FILL_PIECE);
	assert_int_equal(of, LARGE);
	assert_non_null(strstr(e->why, "register less"));
	assert_int_equal(s->region_count, 0);
	assert_int_equal(s->registered, 0);
	ask_pool(a, 4096);
	assert_int_equal(inner_hear_status(a), 0);
}

/* The proxy does not allocate the missing pages of a client's memfd. This also
 * holds for a memfd of huge pages. */
FILL_TEST(a_memfd_with_holes_is_refused)
{
	struct mpib_message m;
	const struct mpib_ctl_error *e = (const void *)&m;
	int a = attach();

	for (unsigned i = 0; i < 2; i++) {
		huge_pages = i;
		ask_reg_holes(a, LARGE);
		inner_hear(a, &m);
		huge_pages = false;
		assert_int_equal(m.h.status, -EFAULT);
		assert_non_null(strstr(e->why, "no pages yet at byte 0"));
	}
}

static bool huge_pages_are_used_up(void)
{
	int fd = memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB);
	bool used_up;
	void *map;

	if (fd < 0 || ftruncate(fd, HUGE) < 0) {
		close(fd);
		return false;
	}
	map = mmap(NULL, HUGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	used_up = map == MAP_FAILED && errno == ENOMEM;
	if (map != MAP_FAILED)
		munmap(map, HUGE);
	close(fd);
	return used_up;
}

FILL_TEST(a_lack_of_huge_pages_is_reported)
{
	struct mpib_message m;
	const struct mpib_ctl_error *e = (const void *)&m;
	int a;

	if (!huge_pages_are_used_up())
		skip();
	a = attach();
	ask_reg(a, MFD_HUGETLB, HUGE);
	inner_hear(a, &m);
	/* Another process may have freed huge pages. In that case the
	 * registration succeeds, and there is nothing to test. */
	if (m.h.status == 0)
		skip();
	assert_int_equal(m.h.status, -ENOMEM);
	assert_non_null(strstr(e->why, "pages for 0 of 2097152 bytes: "));
	assert_non_null(strstr(e->why, "vm.nr_hugepages"));
}

FILL_TEST(without_madvise_the_devices_allocate_the_pages)
{
	int a = attach();
	const struct proxy_client *s = newest();

	fail_after(0, EINVAL);
	ask_reg(a, 0, LARGE);
	assert_int_equal(inner_hear_status(a), 0);
	fail_after(0, 0);
	assert_false(LIST_FIRST(&s->regions)->attr.present);
	ask_pool(a, 4096);
	assert_int_equal(inner_hear_status(a), 0);
	assert_true(LIST_FIRST(&s->regions)->attr.present);
}

struct test_group test_group = { filled_start, inner_stop };
