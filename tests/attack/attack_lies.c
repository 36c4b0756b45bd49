/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An attacker registers memory with descriptions that do not match the memory's
 * descriptor. The proxy must refuse each descriptor, and must not get a signal
 * such as SIGBUS. LIES is the number of descriptors, 5000 by default.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"
#include "victim.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x10
#endif

#define BYTES 65536

static struct node node[2];

static int memfd(int seals)
{
	int fd = memfd_create("lie", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	static const char zero[BYTES];

	if (fd < 0 || write(fd, zero, BYTES) != BYTES ||
	    (seals && fcntl(fd, F_ADD_SEALS, seals)))
		_exit(10);
	return fd;
}

static int read_only(int fd)
{
	char path[64];
	int again;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDONLY | O_CLOEXEC);
	close(fd);
	return again;
}

static int in_a_tmpfs(void)
{
	int fd = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd >= 0 && ftruncate(fd, BYTES))
		_exit(10);
	return fd;
}

static int half_of_a_pipe(void)
{
	int fd[2];

	if (pipe2(fd, O_CLOEXEC))
		_exit(10);
	close(fd[1]);
	return fd[0];
}

/* Make the `n`-th descriptor, and a description that does not match it. Return
 * -1 if this machine does not support descriptors of that kind. */
static int lie(unsigned n, uint64_t *offset, uint64_t *size)
{
	*offset = 0;
	*size = BYTES;
	switch (n % 10) {
	case 0:
		return memfd(0);
	case 1: /* short */
		*size = BYTES + 1;
		return memfd(F_SEAL_SHRINK);
	case 2:
		*offset = UINT64_MAX - 4095;
		return memfd(F_SEAL_SHRINK);
	case 3:
		return read_only(memfd(F_SEAL_SHRINK));
	case 4:
		return memfd(F_SEAL_SHRINK | F_SEAL_WRITE);
	case 5:
		return memfd(F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE);
	case 6:
		return in_a_tmpfs();
	case 7:
		return half_of_a_pipe();
	case 8:
		return open("/dev/zero", O_RDWR | O_CLOEXEC);
	default:
		return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
}

static int tell_lies(void *arg)
{
	const unsigned *tries = arg;
	int sock = tenant_hello(node[0].dir);
	unsigned told = 0;

	if (sock < 0)
		return 2;
	for (unsigned n = 0; told < *tries; n++) {
		uint64_t offset, size;
		int fd = lie(n, &offset, &size), rc;

		if (fd < 0)
			continue;
		rc = tenant_reg_fd(sock, fd, offset, size);
		close(fd);
		/* Each registration counts towards the quota of messages per
		 * second. */
		if (rc == -EDQUOT) {
			usleep(10000);
			continue;
		}
		if (rc != -EPERM && rc != -EINVAL && rc != -EFAULT &&
		    rc != -EACCES) {
			printf("lie %u: %d\n", n % 10, rc);
			fflush(stdout);
			return 3;
		}
		told++;
	}
	return 0;
}

TEST(wrong_descriptions_of_memory_are_refused)
{
	unsigned tries = getenv("LIES") ? (unsigned)atoi(getenv("LIES")) : 5000;
	struct victim *v;

	attack_needs_root();
	v = victim_between(node, NULL);
	assert_int_equal(tenant_run(ATTACKER, tell_lies, &tries), 0);
	victim_goes_on(v, 64);
	victim_leave(v, node);
}
