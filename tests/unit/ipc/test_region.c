/* SPDX-License-Identifier: Apache-2.0 */
/* What mpib_reg() returns. */
#include <setjmp.h>
#include <string.h>
#include <sys/mman.h>

#include "attached.h"

/* The caller that forgot mpib_dereg() is not the one that registers later. */
static void
a_region_whose_memory_was_freed_is_found_by_no_later_caller(void **state)
{
	struct mpib_region *forgotten, *region, *again;
	struct mpib_request *r;
	struct mpib_conn *conn;
	char *mem, *plain;

	attach();
	conn = connected();
	fake_conn_open(f, 0);
	mem = mpib_mem_alloc(c, 8192);
	assert_non_null(mem);
	assert_int_equal(mpib_reg(c, mem, 8192, &forgotten), 0);
	mpib_mem_free(c, mem);

	plain = mmap(mem, 8192, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	assert_ptr_equal(plain, mem);
	assert_int_equal(mpib_reg(c, plain, 8192, &region), 0);
	assert_ptr_not_equal(region, forgotten);
	assert_int_equal(mpib_reg(c, plain, 8192, &again), 0);
	assert_ptr_equal(again, region);
	assert_int_equal(mpib_isend(conn, plain, 700, 3, region, &r), 0);
	assert_non_null(r);

	assert_int_equal(mpib_dereg(forgotten), 0);
	assert_int_equal(mpib_dereg(again), 0);
	assert_int_equal(mpib_dereg(region), 0);
	mpib_close(conn);
	munmap(plain, 8192);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test_setup_teardown(
		a_region_whose_memory_was_freed_is_found_by_no_later_caller,
		start, stop),
	{ 0 },
};
