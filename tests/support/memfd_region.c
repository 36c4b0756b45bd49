/* SPDX-License-Identifier: Apache-2.0 */
/* Registering a memfd, for tests. */
#include "memfd_region.h"

#include <fcntl.h>
#include <mpib/control.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test.h"

int memfd_region(struct mpib_client *c, size_t size)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct mpib_region *r;
	void *addr;
	int rc;

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	addr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(addr, MAP_FAILED);
	rc = mpib_reg_fd(c, addr, size, 0, fd, MPIB_REG_MEMFD, &r);
	close(fd);
	return rc;
}
