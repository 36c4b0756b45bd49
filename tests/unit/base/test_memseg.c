/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memseg.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static void what_one_side_writes_the_other_reads(void **state)
{
	struct mpib_memseg a, b;

	(void)state;
	assert_int_equal(mpib_memseg_create(&a, "seg", 5000, false), 0);
	assert_int_equal(a.size, 8192);
	assert_int_equal(mpib_memseg_attach(&b, a.fd, 5000, true), 0);
	strcpy(a.addr, "there");
	assert_string_equal(b.addr, "there");
	strcpy(b.addr, "back");
	assert_string_equal(a.addr, "back");
	mpib_memseg_fini(&b);
	mpib_memseg_fini(&a);
	mpib_memseg_fini(&a);
}

static void the_size_is_sealed(void **state)
{
	struct mpib_memseg a;

	(void)state;
	assert_int_equal(mpib_memseg_create(&a, "seg", 4096, false), 0);
	assert_int_equal(ftruncate(a.fd, 0), -1);
	assert_int_equal(ftruncate(a.fd, 8192), -1);
	assert_int_equal(fcntl(a.fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	assert_int_equal(fcntl(a.fd, F_GETFD), FD_CLOEXEC);
	mpib_memseg_fini(&a);
}

static void a_read_only_segment_cannot_be_mapped_for_writing(void **state)
{
	struct mpib_memseg a, b;

	(void)state;
	assert_int_equal(mpib_memseg_create(&a, "seg", 4096, true), 0);
	assert_int_equal(mpib_memseg_attach(&b, a.fd, 4096, true), -EPERM);
	assert_int_equal(mpib_memseg_attach(&b, a.fd, 4096, false), 0);
	assert_int_equal(mprotect(b.addr, b.size, PROT_READ | PROT_WRITE), -1);
	strcpy(a.addr, "owner writes on");
	assert_string_equal(b.addr, "owner writes on");
	mpib_memseg_fini(&b);
	mpib_memseg_fini(&a);
}

static void attaching_refuses_what_is_not_sealed(void **state)
{
	struct mpib_memseg seg;
	int fd[2];
	int mem = memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	(void)state;
	assert_true(mem >= 0);
	assert_int_equal(ftruncate(mem, 4096), 0);
	assert_int_equal(mpib_memseg_attach(&seg, mem, 4096, true), -EPROTO);
	assert_int_equal(fcntl(mem, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_int_equal(mpib_memseg_attach(&seg, mem, 4096, true), -EPROTO);
	close(mem);

	assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
	assert_int_equal(mpib_memseg_attach(&seg, fd[0], 0, false), -EPROTO);
	close(fd[0]);
	assert_int_equal(mpib_memseg_attach(&seg, fd[0], 0, false), -EBADF);
	close(fd[1]);
}

static void attaching_refuses_what_is_too_small(void **state)
{
	struct mpib_memseg a, b;

	(void)state;
	assert_int_equal(mpib_memseg_create(&a, "seg", 4096, false), 0);
	assert_int_equal(mpib_memseg_attach(&b, a.fd, 4097, true), -EPROTO);
	assert_int_equal(mpib_memseg_attach(&b, a.fd, SIZE_MAX, true), -EPROTO);
	assert_int_equal(mpib_memseg_attach(&b, a.fd, 0, true), 0);
	assert_int_equal(b.size, 4096);
	mpib_memseg_fini(&b);
	mpib_memseg_fini(&a);
	assert_int_equal(mpib_memseg_create(&a, "seg", 0, false), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_one_side_writes_the_other_reads),
		cmocka_unit_test(the_size_is_sealed),
		cmocka_unit_test(
			a_read_only_segment_cannot_be_mapped_for_writing),
		cmocka_unit_test(attaching_refuses_what_is_not_sealed),
		cmocka_unit_test(attaching_refuses_what_is_too_small),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
