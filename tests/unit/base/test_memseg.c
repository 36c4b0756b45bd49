/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memseg.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

TEST(the_size_of_a_segment_is_sealed)
{
	struct mpib_memseg a;

	assert_int_equal(mpib_memseg_create(&a, "seg", 4096, false), 0);
	assert_int_equal(ftruncate(a.fd, 0), -1);
	assert_int_equal(ftruncate(a.fd, 8192), -1);
	assert_int_equal(fcntl(a.fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	assert_int_equal(fcntl(a.fd, F_GETFD), FD_CLOEXEC);
	mpib_memseg_fini(&a);
}

/* If a process punched a hole into a page, a thread that touches this page
 * could block. */
TEST(holes_cannot_be_punched)
{
	struct mpib_memseg a;
	int flags = 0;

	assert_int_equal(mpib_memseg_create(&a, "seg", 4096, false), 0);
	if (geteuid() != 0 || ioctl(a.fd, FS_IOC_GETFLAGS, &flags) < 0) {
		print_message("takes CAP_LINUX_IMMUTABLE and Linux 6.1\n");
		mpib_memseg_fini(&a);
		skip();
	}
	assert_int_equal(fallocate(a.fd,
				   FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				   0, 4096),
			 -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(madvise(a.addr, 4096, MADV_REMOVE), -1);
	assert_int_equal(errno, EPERM);
	mpib_memseg_fini(&a);
}

/* Test with the capabilities of this process, and in a child that drops
 * them. */
TEST(mpib_memseg_holes_reports_whether_holes_can_be_punched)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct none[2] = { 0 };
	struct mpib_memseg a;
	int flags = 0, status, rc = mpib_memseg_holes();
	pid_t pid;

	assert_int_equal(mpib_memseg_create(&a, "seg", 4096, false), 0);
	if (ioctl(a.fd, FS_IOC_GETFLAGS, &flags) < 0)
		assert_int_equal(rc, -errno);
	else
		assert_int_equal(rc, flags & FS_IMMUTABLE_FL ? 0 : -EPERM);
	mpib_memseg_fini(&a);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(syscall(SYS_capset, &h, none) < 0 ? 99
							: -mpib_memseg_holes());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), rc == 0 ? EPERM : -rc);
}

TEST(a_read_only_segment_cannot_be_mapped_for_writing)
{
	struct mpib_memseg a, b;

	assert_int_equal(mpib_memseg_create(&a, "seg", 4096, true), 0);
	assert_int_equal(mpib_memseg_attach(&b, a.fd, 4096, true), -EACCES);
	assert_int_equal(mpib_memseg_attach(&b, a.fd, 4096, false), 0);
	assert_int_equal(mprotect(b.addr, b.size, PROT_READ | PROT_WRITE), -1);
	strcpy(a.addr, "owner writes on");
	assert_string_equal(b.addr, "owner writes on");
	mpib_memseg_fini(&b);
	mpib_memseg_fini(&a);
}

/* A segment has an open descriptor, which must be closed if the segment is
 * refused. */
TEST(a_refused_segment_leaves_nothing_to_release)
{
	struct mpib_memseg a = { .fd = -1 };
	struct rlimit most, least;
	int next = dup(0);

	assert_true(next > 0);
	close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &most), 0);
	least = most;
	least.rlim_cur = (rlim_t)next + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &least), 0);
	assert_int_equal(mpib_memseg_create(&a, "seg", 4096, true), -EMFILE);
	assert_null(a.addr);
	assert_int_equal(a.size, 0);
	assert_int_equal(a.fd, -1);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &most), 0);
}

TEST(only_the_creator_can_open_a_read_only_segment_for_writing)
{
	struct mpib_memseg a;
	struct stat st;

	assert_int_equal(mpib_memseg_create(&a, "seg", 4096, true), 0);
	assert_int_equal(fcntl(a.fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	assert_int_equal(fcntl(a.fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fstat(a.fd, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(write(a.fd, "x", 1), -1);
	strcpy(a.addr, "its creator writes on");
	mpib_memseg_fini(&a);
}

TEST(attaching_refuses_a_memfd_that_is_not_sealed)
{
	struct mpib_memseg seg;
	int fd[2];
	int mem = memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING);

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

TEST(attaching_refuses_a_memfd_that_is_too_small)
{
	struct mpib_memseg a, b;

	assert_int_equal(mpib_memseg_create(&a, "seg", 4096, false), 0);
	assert_int_equal(mpib_memseg_attach(&b, a.fd, 4097, true), -EPROTO);
	assert_int_equal(mpib_memseg_attach(&b, a.fd, SIZE_MAX, true), -EPROTO);
	assert_int_equal(mpib_memseg_attach(&b, a.fd, 0, true), 0);
	assert_int_equal(b.size, 4096);
	mpib_memseg_fini(&b);
	mpib_memseg_fini(&a);
	assert_int_equal(mpib_memseg_create(&a, "seg", 0, false), -EINVAL);
}

TEST(exceeding_the_file_size_limit_is_an_error_and_not_a_signal)
{
	struct rlimit was, less;
	struct mpib_memseg a;
	int rc;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	less = was;
	less.rlim_cur = 4096;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
	rc = mpib_memseg_create(&a, "seg", 8192, false);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
	assert_int_equal(rc, -EFBIG);
}
