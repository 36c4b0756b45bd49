/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client/client.h: which client waits while the pages of regions are allocated,
 * and what happens to regions without pages or whose client ends. Steps are
 * counted, not timed.
 *
 * test_fill MIB: the size of a large region, 32 by default; prints the longest
 * wait for one of its steps.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "filled.h"
#include "test.h"

#ifndef MFD_HUGETLB
#define MFD_HUGETLB 4u
#endif
#define HUGE (2l << 20)

static const struct proxy_client_region *filling(const struct proxy_client *s)
{
	return TAILQ_FIRST(&s->filling);
}

static void until_it_fills(const struct proxy_client *s)
{
	while (!filling(s) || !filling(s)->filled)
		turn();
}

static void others_are_answered_between_the_steps(void **state)
{
	int a = attach();
	const struct proxy_client *s = newest();
	int b = attach();
	struct mpib_message m;

	ask_reg(a, 0, 0, large);
	until_it_fills(s);
	for (unsigned i = 0; i < 8; i++) {
		size_t had = filling(s)->filled;

		ask_why(b);
		turn();
		assert_int_equal(mpib_message_recv(b, &m), 1);
		assert_true(filling(s)->filled <= had + MPIB_FILL_STEP);
	}
	assert_int_equal(hear_status(a), 0);
}

static size_t filled_of(const struct proxy_client *s)
{
	const struct proxy_client_region *r;
	size_t sum = 0;

	TAILQ_FOREACH(r, &s->filling, fill_link)
	sum += r->filled;
	return sum;
}

static void many_regions_of_a_client_do_not_delay_a_small_one(void **state)
{
	int a = attach(), b;
	const struct proxy_client *s = newest(), *other;
	size_t had;

	b = attach();
	other = newest();
	for (unsigned i = 0; i < 4; i++)
		ask_reg(a, 0, 0, large / 2);
	until_it_fills(s);
	ask_pool(b, 5000);
	while (!filling(other))
		turn();
	/* After the step that is under way, and its own. */
	had = filled_of(s);
	while (filling(other))
		turn();
	assert_true(filled_of(s) <= had + MPIB_FILL_STEP);
	assert_int_equal(other->region_count, 1);
	assert_int_equal(hear_status(b), 0);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(hear_status(a), 0);
}

static void a_client_that_goes_takes_its_regions_with_it(void **state)
{
	int a = attach();
	const struct proxy_client *s = newest();

	ask_reg(a, 0, 0, large);
	ask_pool(a, large);
	until_it_fills(s);
	assert_int_equal(filled.clients.usage.registered, 2 * large);
	leave(a);
	/* Not before the step that is under way. */
	turn();
	assert_in_range(filled.clients.usage.regions, 0, 1);
	while (filled.clients.usage.regions)
		turn();
	assert_int_equal(filled.clients.usage.registered, 0);
	assert_null(filled.clients.stepping);
}

static void pages_not_to_be_had_are_told(void **state)
{
	size_t had, of;
	int a = attach();
	const struct proxy_client *s = newest();
	struct mpib_message m;
	const struct mpib_ctl_error *e = (const void *)&m;

	filled_fail(2, EFAULT, 0);
	ask_reg(a, 0, 0, large);
	hear(a, &m);
	assert_int_equal(m.h.status, -ENOMEM);
	assert_int_equal(
		sscanf(e->why, "there are pages for %zu of %zu", &had, &of), 2);
	assert_in_range(had, MPIB_FILL_STEP + 1, 2 * MPIB_FILL_STEP);
	assert_int_equal(of, large);
	assert_non_null(strstr(e->why, "register less"));
	assert_int_equal(s->region_count, 0);
	assert_int_equal(s->registered, 0);
	ask_pool(a, 4096);
	assert_int_equal(hear_status(a), 0);
}

/* The proxy makes none for it, whatever size they could be of. */
static void holes_of_ordinary_memory_are_refused(void **state)
{
	struct mpib_message m;
	const struct mpib_ctl_error *e = (const void *)&m;
	int a = attach();

	for (unsigned i = 0; i < 2; i++) {
		filled_by_huge_pages = i;
		ask_reg_holes(a, large);
		hear(a, &m);
		filled_by_huge_pages = false;
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

static void huge_pages_not_to_be_had_are_told(void **state)
{
	struct mpib_message m;
	const struct mpib_ctl_error *e = (const void *)&m;
	int a;

	if (!huge_pages_are_used_up())
		skip();
	a = attach();
	ask_reg(a, MFD_HUGETLB, 0, HUGE);
	hear(a, &m);
	/* Somebody may have given some back. */
	if (m.h.status == 0)
		skip();
	assert_int_equal(m.h.status, -ENOMEM);
	assert_non_null(strstr(e->why, "pages for 0 of 2097152 bytes: "));
	assert_non_null(strstr(e->why, "vm.nr_hugepages"));
}

static void a_kernel_that_makes_no_pages_leaves_it_to_the_rails(void **state)
{
	int a = attach();
	const struct proxy_client *s = newest();

	filled_fail(0, EINVAL, EINVAL);
	ask_reg(a, 0, 0, large);
	assert_int_equal(hear_status(a), 0);
	filled_fail(0, 0, 0);
	assert_false(LIST_FIRST(&s->regions)->attr.present);
	ask_pool(a, 4096);
	assert_int_equal(hear_status(a), 0);
	assert_true(LIST_FIRST(&s->regions)->attr.present);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		FILL_TEST(others_are_answered_between_the_steps),
		FILL_TEST(many_regions_of_a_client_do_not_delay_a_small_one),
		FILL_TEST(a_client_that_goes_takes_its_regions_with_it),
		FILL_TEST(pages_not_to_be_had_are_told),
		FILL_TEST(holes_of_ordinary_memory_are_refused),
		FILL_TEST(huge_pages_not_to_be_had_are_told),
		FILL_TEST(a_kernel_that_makes_no_pages_leaves_it_to_the_rails),
	};

	if (argc > 1)
		large = strtoul(argv[1], NULL, 10) << 20;
	return cmocka_run_group_tests(tests, filled_start, filled_stop);
}
