/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memseg.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* Linux 5.1 */
#endif

#define HUGE_BYTES (2u << 20)
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static size_t page_round(size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (size + page - 1) & ~(page - 1);
}

/* size is a whole number of the pages that flags ask for. */
static int create(struct mpib_memseg *seg, const char *name, size_t size,
		  unsigned flags, int seals)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
	void *addr;
	int rc;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)size) < 0) {
		rc = -errno;
		goto close_fd;
	}
	addr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (addr == MAP_FAILED) {
		rc = -errno;
		goto close_fd;
	}
	/* After our own mapping, which FUTURE_WRITE leaves writable. */
	if (fcntl(fd, F_ADD_SEALS, seals) < 0) {
		rc = -errno;
		goto unmap;
	}
	*seg = (struct mpib_memseg){ .addr = addr, .size = size, .fd = fd };
	return 0;

unmap:
	munmap(addr, size);
close_fd:
	close(fd);
	return rc;
}

int mpib_memseg_create(struct mpib_memseg *seg, const char *name, size_t size,
		       bool read_only)
{
	size = page_round(size);
	if (size == 0 || size > INT64_MAX)
		return -EINVAL;
	return create(seg, name, size, 0,
		      SEALS | (read_only ? F_SEAL_FUTURE_WRITE : 0));
}

int mpib_memseg_create_huge(struct mpib_memseg *seg, const char *name,
			    size_t size)
{
	int rc;

	/* mmap() takes the pages out of those set aside, so that no access
	 * fails later for want of one. */
	if (size && size % HUGE_BYTES == 0 && size <= INT64_MAX &&
	    create(seg, name, size, MFD_HUGETLB | MFD_HUGE_2MB, SEALS) == 0)
		return 0;
	rc = mpib_memseg_create(seg, name, size, false);
	/* Where the kernel knows no such pages, or gives none, all is well. */
	if (rc == 0)
		(void)madvise(seg->addr, seg->size, MADV_HUGEPAGE);
	return rc;
}

int mpib_memseg_attach(struct mpib_memseg *seg, int fd, size_t size,
		       bool writable)
{
	int prot = PROT_READ | (writable ? PROT_WRITE : 0);
	struct stat st;
	void *addr;
	int seals;

	/* Only memfds and their like know seals; all else answers EINVAL. */
	seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0)
		return errno == EINVAL ? -EPROTO : -errno;
	if ((seals & SEALS) != SEALS)
		return -EPROTO;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size <= 0 ||
	    (uint64_t)st.st_size < size)
		return -EPROTO;

	size = size ? page_round(size) : (size_t)st.st_size;
	addr = mmap(NULL, size, prot, MAP_SHARED, fd, 0);
	if (addr == MAP_FAILED)
		return -errno;
	/* A child that wrote into the parent's rings would garble them. */
	if (madvise(addr, size, MADV_DONTFORK) < 0) {
		int rc = -errno;

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
