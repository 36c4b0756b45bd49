/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared memory between a proxy and its clients: a memfd whose size can never
 * change again, so that no access to a mapping of it can fault. One side
 * creates and seals; the other side believes the seals, not the peer.
 */
#ifndef MPIB_BASE_MEMSEG_H
#define MPIB_BASE_MEMSEG_H

#include <stdbool.h>
#include <stddef.h>

struct mpib_memseg {
	void *addr;
	size_t size; /* of the mapping, whole pages */
	int fd; /* creator's, to be passed on; -1 for an attached one */
	int own; /* creator's of a read-only one, which stays; else -1 */
};

/*
 * Create a zeroed segment of size bytes, rounded up to pages, mapped for
 * reading and writing. With read_only fd is open for reading only, and nobody
 * but the creator's user (or root) can open it again for more. Any thread.
 * -EINVAL for size 0, else -errno.
 */
int mpib_memseg_create(struct mpib_memseg *seg, const char *name, size_t size,
		       bool read_only);

/*
 * The same, writable for all, of 2 MiB pages when size is a multiple of that
 * and the machine has enough of them set aside (vm.nr_hugepages); else of
 * ordinary ones, and the kernel is asked to join them (shmem_enabled).
 */
int mpib_memseg_create_huge(struct mpib_memseg *seg, const char *name,
			    size_t size);

/*
 * Map again, for writing, what this user's process once created: fd is its own,
 * or its fd where that is -1. fd becomes the segment's, also on failure.
 * -EPROTO as below.
 */
int mpib_memseg_adopt(struct mpib_memseg *seg, int fd, size_t size,
		      bool read_only);

/*
 * Map a segment another process made; fd stays the caller's and may be closed
 * at once. -EPROTO when it is not a sealed memfd of at least size bytes (size
 * 0: of any size, all of it is mapped). Not inherited by a child. Any thread.
 */
int mpib_memseg_attach(struct mpib_memseg *seg, int fd, size_t size,
		       bool writable);

/* Unmap, and close fd if there is one. Nothing for a zeroed *seg. */
void mpib_memseg_fini(struct mpib_memseg *seg);

#endif
