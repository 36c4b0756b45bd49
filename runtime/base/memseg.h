/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory between the proxy and its clients: a sealed memfd, whose size
 * can never change, so that no access to a mapping of it faults. One process
 * creates and seals it. The other process checks the seals and need not trust
 * the creator. */
#ifndef MPIB_BASE_MEMSEG_H
#define MPIB_BASE_MEMSEG_H

#include <stdbool.h>
#include <stddef.h>

struct mpib_memseg {
	void *addr;
	size_t size; /* bytes mapped, whole pages */
	/* descriptor to send to the other process; -1 after
	 * mpib_memseg_attach() */
	int fd;
};

/*
 * Create a zeroed segment of `size` bytes, rounded up to pages, and map it for
 * reading and writing. With `read_only`, seg->fd is open for reading only, and
 * no other user except root can reopen it for writing. Any thread. Return 0,
 * -EINVAL for size 0, or -errno.
 */
int mpib_memseg_create(struct mpib_memseg *seg, const char *name, size_t size,
		       bool read_only);

/* Return 0 if other processes cannot punch holes into a segment created by this
 * process. Otherwise return -errno: other processes can block this one. The
 * reason is that this process lacks CAP_LINUX_IMMUTABLE (EPERM), or if the
 * kernel is older than Linux 6.1. */
int mpib_memseg_holes(void);

/* Like mpib_memseg_create() with `read_only` false. Uses 2 MiB pages if `size`
 * is a multiple of 2 MiB and the machine has enough of them reserved
 * (vm.nr_hugepages); otherwise ordinary pages, which the kernel is asked to
 * merge (shmem_enabled). */
int mpib_memseg_create_huge(struct mpib_memseg *seg, const char *name,
			    size_t size);

/* Map a segment that another process created. The caller still owns fd and may
 * close it at once. -EPROTO: `fd` is not a sealed memfd of at least `size`
 * bytes. If `size` is 0, any size is accepted and mapped. A forked child does
 * not inherit the mapping. Any thread. */
int mpib_memseg_attach(struct mpib_memseg *seg, int fd, size_t size,
		       bool writable);

/* Unmap the segment and close its descriptors. No effect on a zeroed *seg. */
void mpib_memseg_fini(struct mpib_memseg *seg);

/* fstat() for code in client processes. It uses the system call's number,
 * because the library function would require glibc 2.33. Return 0 or -errno. */
struct stat;
int mpib_fstat(int fd, struct stat *st);

#endif
