/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memseg.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/memfd.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HUGE_BYTES (2u << 20)
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static size_t page_round(size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (size + page - 1) & ~(page - 1);
}

/* Open a second descriptor of the same memory that cannot be mapped for
 * writing. Mode 0600 keeps other users from reopening it for writing through
 * /proc. */
static int memseg_reader_of(int fd)
{
	char path[32];
	int reader;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	reader = open(path, O_RDONLY | O_CLOEXEC);
	return reader < 0 ? -errno : reader;
}

/* Map fd. On success the segment owns fd. On failure fd is closed. */
static int memseg_hold(struct mpib_memseg *seg, int fd, size_t size,
		       bool read_only)
{
	void *addr;
	int rc, reader;

	addr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (addr == MAP_FAILED) {
		rc = -errno;
		goto close_fd;
	}
	/* Core dumps must not contain users' data. */
	madvise(addr, size, MADV_DONTDUMP);
	reader = read_only ? memseg_reader_of(fd) : -1;
	if (read_only && reader < 0) {
		rc = reader;
		goto unmap;
	}
	/* Set *seg last, so that after an error *seg still describes the
	 * caller's old segment. */
	*seg = (struct mpib_memseg){ .addr = addr,
				     .size = size,
				     .fd = read_only ? reader : fd };
	if (read_only)
		close(fd);
	return 0;

unmap:
	munmap(addr, size);
close_fd:
	close(fd);
	return rc;
}

/* Seal against hole punching: while a hole is punched, every thread that
 * touches the page waits in the kernel for as long as the user chooses. The
 * ordinary seals that forbid holes would also forbid clients to write. This
 * flag needs CAP_LINUX_IMMUTABLE and Linux 6.1. If the process lacks the
 * capability or the kernel is older, the segment is used without this flag. */
static int memseg_close_to_holes(int fd)
{
	int flags;

	if (ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0)
		return -errno;
	flags |= FS_IMMUTABLE_FL;
	return ioctl(fd, FS_IOC_SETFLAGS, &flags) < 0 ? -errno : 0;
}

/* Make the system call by number: C libraries up to 2.26 have no
 * memfd_create(). */
static int memseg_file(const char *name, unsigned flags)
{
	int fd = (int)syscall(SYS_memfd_create, name,
			      MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);

	return fd < 0 ? -errno : fd;
}

int mpib_memseg_holes(void)
{
	int fd = memseg_file("mpib-holes", 0), rc;

	if (fd < 0)
		return fd;
	rc = memseg_close_to_holes(fd);
	close(fd);
	return rc;
}

/* `size` must be a multiple of the page size that `flags` request. */
static int memseg_create(struct mpib_memseg *seg, const char *name, size_t size,
			 unsigned flags, bool read_only)
{
	struct rlimit files;
	int fd, rc;

	/* Check the limit first: above it, ftruncate() would end a process that
	 * does not ignore SIGXFSZ. */
	if (getrlimit(RLIMIT_FSIZE, &files) == 0 && size > files.rlim_cur)
		return -EFBIG;
	fd = memseg_file(name, flags);
	if (fd < 0)
		return fd;
	if (ftruncate(fd, (off_t)size) < 0 ||
	    fcntl(fd, F_ADD_SEALS, SEALS) < 0 ||
	    (read_only && fchmod(fd, 0600) < 0)) {
		rc = -errno;
		close(fd);
		return rc;
	}
	(void)memseg_close_to_holes(fd);
	return memseg_hold(seg, fd, size, read_only);
}

int mpib_memseg_create(struct mpib_memseg *seg, const char *name, size_t size,
		       bool read_only)
{
	size = page_round(size);
	if (size == 0 || size > INT64_MAX)
		return -EINVAL;
	return memseg_create(seg, name, size, 0, read_only);
}

int mpib_memseg_create_huge(struct mpib_memseg *seg, const char *name,
			    size_t size)
{
	int rc;

	/* mmap() claims all pages from the machine's huge pages
	 * (vm.nr_hugepages), so no later access fails for lack of a page. */
	if (size && size % HUGE_BYTES == 0 && size <= INT64_MAX &&
	    memseg_create(seg, name, size, MFD_HUGETLB | MFD_HUGE_2MB, false) ==
		    0)
		return 0;
	rc = mpib_memseg_create(seg, name, size, false);
	/* If the kernel has no transparent huge pages, this fails, but the
	 * segment is usable. */
	if (rc == 0)
		(void)madvise(seg->addr, seg->size, MADV_HUGEPAGE);
	return rc;
}

int mpib_fstat(int fd, struct stat *st)
{
	/* On 64-bit machines the kernel and the C library use the same struct
	 * stat. */
	_Static_assert(sizeof(long) == 8, "a 64-bit machine");
	return syscall(SYS_fstat, fd, st) < 0 ? -errno : 0;
}

static int memseg_check(int fd, size_t size, size_t *whole)
{
	struct stat st;
	int seals, rc;

	/* Only memfds and other shared-memory files have seals; for other files
	 * fcntl() fails with EINVAL. */
	seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0)
		return errno == EINVAL ? -EPROTO : -errno;
	if ((seals & SEALS) != SEALS)
		return -EPROTO;
	rc = mpib_fstat(fd, &st);
	if (rc < 0)
		return rc;
	if (!S_ISREG(st.st_mode) || st.st_size <= 0 ||
	    (uint64_t)st.st_size < size)
		return -EPROTO;
	*whole = (size_t)st.st_size;
	return 0;
}

int mpib_memseg_attach(struct mpib_memseg *seg, int fd, size_t size,
		       bool writable)
{
	int prot = PROT_READ | (writable ? PROT_WRITE : 0);
	size_t whole = 0;
	void *addr;
	int rc = memseg_check(fd, size, &whole);

	if (rc < 0)
		return rc;
	size = size ? page_round(size) : whole;
	addr = mmap(NULL, size, prot, MAP_SHARED, fd, 0);
	if (addr == MAP_FAILED)
		return -errno;
	/* A forked child must not inherit the mapping: its writes would corrupt
	 * its parent's rings. */
	if (madvise(addr, size, MADV_DONTFORK) < 0) {
		rc = -errno;
		munmap(addr, size);
		return rc;
	}
	*seg = (struct mpib_memseg){ .addr = addr, .size = size, .fd = -1 };
	return 0;
}

void mpib_memseg_fini(struct mpib_memseg *seg)
{
	if (!seg->addr)
		return;
	munmap(seg->addr, seg->size);
	if (seg->fd >= 0)
		close(seg->fd);
	*seg = (struct mpib_memseg){ .fd = -1 };
}
