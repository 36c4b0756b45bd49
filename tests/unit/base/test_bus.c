/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bus.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

#define PAGE 4096u
#define HUGE (2u << 20)

struct shared {
	int fd;
	char *p;
};

static struct shared two_pages(unsigned flags, size_t page)
{
	struct shared m = { .fd = memfd_create("bus", MFD_CLOEXEC | flags) };

	assert_true(m.fd >= 0);
	/* cmocka has handlers of its own in each test. */
	assert_int_equal(mpib_bus_catch(), 0);
	assert_int_equal(ftruncate(m.fd, (off_t)(2 * page)), 0);
	m.p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, m.fd, 0);
	return m;
}

static void drop(struct shared *m, size_t page)
{
	munmap(m->p, 2 * page);
	close(m->fd);
}

static void copy(char *to, const char *from, size_t len)
{
	mpib_bus_begin(to, from, len);
	memcpy(to, from, len);
	mpib_bus_end();
}

static void pages_that_were_taken_away_read_as_zeroes(void **state)
{
	struct shared m = two_pages(0, PAGE);
	char got[200];

	memset(m.p, 'x', 2 * PAGE);
	assert_int_equal(ftruncate(m.fd, PAGE), 0);
	copy(got, m.p + PAGE - 100, sizeof(got));
	for (int i = 0; i < 200; i++)
		assert_int_equal(got[i], i < 100 ? 'x' : 0);
	drop(&m, PAGE);
}

static void what_is_written_there_stays_here(void **state)
{
	struct shared m = two_pages(0, PAGE);
	char some[200];

	assert_int_equal(ftruncate(m.fd, PAGE), 0);
	memset(some, 'y', sizeof(some));
	copy(m.p + PAGE - 100, some, sizeof(some));
	assert_memory_equal(m.p + PAGE - 100, some, sizeof(some));
	/* The page that was not taken is still the file's. */
	assert_int_equal(pread(m.fd, some, 100, PAGE - 100), 100);
	assert_memory_equal(m.p + PAGE - 100, some, 100);
	assert_int_equal(lseek(m.fd, 0, SEEK_END), PAGE);
	drop(&m, PAGE);
}

static int end_of_a_child(void (*act)(const struct shared *m))
{
	struct shared m = two_pages(0, PAGE);
	int status = 0;
	pid_t pid;

	assert_int_equal(ftruncate(m.fd, 0), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		act(&m);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	drop(&m, PAGE);
	return status;
}

static void touch(const struct shared *m)
{
	*(volatile char *)m->p = 1;
}

static void touch_after_a_copy(const struct shared *m)
{
	char from[8] = "1234567", to[8];

	copy(to, from, sizeof(to));
	touch(m);
}

static void copy_and_touch_beside(const struct shared *m)
{
	mpib_bus_begin(m->p, m->p + PAGE + 8, 8);
	*(volatile char *)(m->p + PAGE) = 1;
	mpib_bus_end();
}

static void any_other_access_still_ends_the_process(void **state)
{
	void (*const acts[])(const struct shared *) = { touch,
							touch_after_a_copy,
							copy_and_touch_beside };

	for (int i = 0; i < 3; i++) {
		int status = end_of_a_child(acts[i]);

		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), SIGBUS);
	}
}

static void a_huge_page_is_replaced_whole(void **state)
{
	struct shared m = two_pages(MFD_HUGETLB, HUGE);
	char some[200], got[200];
	void *rest = MAP_FAILED;

	if (m.p == MAP_FAILED || madvise(m.p, HUGE * 2, MADV_POPULATE_WRITE))
		skip_as("no two pages in vm.nr_hugepages");
	memset(m.p, 'x', HUGE * 2);
	memset(some, 'y', sizeof(some));
	assert_int_equal(fallocate(m.fd,
				   FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				   HUGE, HUGE),
			 0);
	/* All that there are: the hole finds none. */
	do {
		rest = mmap(NULL, HUGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB |
				    MAP_POPULATE,
			    -1, 0);
	} while (rest != MAP_FAILED);
	copy(m.p + 2 * HUGE - sizeof(some), some, sizeof(some));
	copy(got, m.p + 2 * HUGE - sizeof(got), sizeof(got));
	assert_memory_equal(got, some, sizeof(some));
	assert_int_equal(m.p[HUGE - 1], 'x');
	assert_int_equal(m.p[HUGE], 0);
	drop(&m, HUGE);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(pages_that_were_taken_away_read_as_zeroes),
	cmocka_unit_test(what_is_written_there_stays_here),
	cmocka_unit_test(any_other_access_still_ends_the_process),
	cmocka_unit_test(a_huge_page_is_replaced_whole),
	{ 0 },
};
