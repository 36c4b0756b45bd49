/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of memory that a client passes to a real proxy: wrong descriptions of
 * memory, registration and removal, and limits.
 */
#include <errno.h>
#include <fcntl.h>
#include <mpib/client.h>
#include <mpib/control.h>
#include <sys/mman.h>
#include <unistd.h>

#include "talk.h"
#include "test.h"

static int reg_fd(int sock, int fd, uint64_t offset, uint64_t size,
		  uint32_t flags)
{
	struct mpib_ctl_reg_fd r = {
		.h = { .type = MPIB_CTL_REG_FD, .id = 3, .len = sizeof(r) },
		.offset = offset,
		.size = size,
		.flags = flags
	};

	talk_tell_fd(sock, &r, fd);
	return talk_hear_status(sock, MPIB_CTL_REG_FD, 3);
}

TALK_TEST(wrongly_described_memory_is_refused)
{
	static const char zeros[65536];
	int sock = talk_attach(), open_fd, sealed, pipefd[2], null;

	open_fd = memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	sealed = memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(open_fd, 65536), 0);
	assert_int_equal(ftruncate(sealed, 65536), 0);
	assert_int_equal(pwrite(sealed, zeros, sizeof(zeros), 0), 65536);
	assert_int_equal(fcntl(sealed, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_int_equal(pipe(pipefd), 0);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);

	assert_int_equal(reg_fd(sock, open_fd, 0, 4096, MPIB_REG_MEMFD),
			 -EPERM);
	assert_int_equal(reg_fd(sock, pipefd[0], 0, 4096, MPIB_REG_MEMFD),
			 -EPERM);
	assert_int_equal(reg_fd(sock, null, 0, 4096, MPIB_REG_MEMFD), -EPERM);
	assert_int_equal(reg_fd(sock, sealed, 0, 65537, MPIB_REG_MEMFD),
			 -EPERM);
	assert_int_equal(reg_fd(sock, sealed, 65536, 1, MPIB_REG_MEMFD),
			 -EPERM);
	assert_int_equal(reg_fd(sock, sealed, UINT64_MAX, 2, MPIB_REG_MEMFD),
			 -EPERM);
	assert_int_equal(reg_fd(sock, sealed, 0, 0, MPIB_REG_MEMFD), -EINVAL);
	assert_int_equal(reg_fd(sock, sealed, 0, UINT64_MAX, MPIB_REG_MEMFD),
			 -EINVAL);
	assert_int_equal(reg_fd(sock, sealed, 0, 4096, 0), -EINVAL);
	assert_int_equal(reg_fd(sock, open_fd, 0, 4096, MPIB_REG_DMABUF),
			 -EPERM);
	assert_int_equal(reg_fd(sock, null, 0, 4096, MPIB_REG_DMABUF), -EPERM);
	assert_int_equal(reg_fd(sock, sealed, 100, 5000, MPIB_REG_MEMFD), 0);
	assert_int_equal(node_usage(&talk_node, "registered_bytes"), 5000);
	close(open_fd);
	close(sealed);
	close(pipefd[0]);
	close(pipefd[1]);
	close(null);
	close(sock);
}

static int pool(int sock, uint64_t size, uint32_t *mr)
{
	struct mpib_ctl_pool p = {
		.h = { .type = MPIB_CTL_POOL, .id = 4, .len = sizeof(p) },
		.size = size
	};
	struct mpib_message m;
	const struct mpib_ctl_region *r = (const void *)m.bytes;

	talk_tell(sock, &p, sizeof(p));
	assert_true(talk_hear(sock, &m) >= sizeof(m.h));
	if (m.h.status == 0) {
		assert_int_equal(m.len, sizeof(*r));
		assert_int_equal(m.fds, 1);
		*mr = r->mr;
	}
	mpib_message_close_fds(&m);
	return m.h.status;
}

static int dereg(int sock, uint32_t mr)
{
	struct mpib_ctl_id id = {
		.h = { .type = MPIB_CTL_DEREG, .id = 6, .len = sizeof(id) },
		.id = mr
	};

	talk_tell(sock, &id, sizeof(id));
	return talk_hear_status(sock, MPIB_CTL_DEREG, 6);
}

TALK_TEST(pools_are_counted_when_made_and_removed)
{
	uint32_t mr = 0, other = 0;
	int sock = talk_attach();

	assert_int_equal(pool(sock, 5000, &mr), 0);
	assert_int_equal(node_usage(&talk_node, "registered_bytes"), 8192);
	assert_int_equal(pool(sock, 1, &other), 0);
	assert_int_not_equal(mr, other);
	assert_int_equal(node_usage(&talk_node, "regions"), 2);
	assert_int_equal(dereg(sock, mr), 0);
	assert_int_equal(dereg(sock, mr), -ENOENT);
	assert_int_equal(node_usage(&talk_node, "regions"), 1);
	close(sock);
}

TALK_TEST(a_client_cannot_use_the_region_of_another)
{
	uint32_t mr = 0;
	int a = talk_attach(), b = talk_attach();

	assert_int_equal(pool(a, 4096, &mr), 0);
	assert_int_equal(dereg(b, mr), -ENOENT);
	assert_int_equal(dereg(a, mr), 0);
	close(a);
	close(b);
}

TALK_TEST(registered_memory_is_limited)
{
	uint32_t mr = 0;
	int sock = talk_attach();

	assert_int_equal(pool(sock, 1ull << 50, &mr), -EDQUOT);
	assert_int_equal(pool(sock, UINT64_MAX, &mr), -EINVAL);
	assert_int_equal(pool(sock, 60 << 20, &mr), 0);
	assert_int_equal(pool(sock, 5 << 20, &mr), -EDQUOT);
	assert_int_equal(dereg(sock, mr), 0);
	assert_int_equal(pool(sock, 5 << 20, &mr), 0);
	close(sock);
}

struct test_group test_group = { talk_start, talk_stop };
