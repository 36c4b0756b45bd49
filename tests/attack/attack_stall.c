/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors on which a call waits for as long as their owner likes: memory whose
 * lock a write holds that does not end, files whose close is answered by a process
 * of the user's. The proxy goes on, and is upgraded, while it all lasts.
 */
#include <errno.h>
#include <fcntl.h>
#include <mpib/control.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ipc/message.h"
#include "stall.h"
#include "test.h"
#include "victim.h"

#define BYTES 65536

static struct node node[2];
static struct victim *victim;
static int ready[2]; /* a pipe: the attacker has done its deed */

static int setup(void **state)
{
	victim = victim_between(node, NULL);
	return pipe(ready);
}

/* For attackers: that file, or tell the test that there is none. */
static int stalled_file(void)
{
	int fd = stall_open();

	if (fd < 0)
		_exit(write(ready[1], "s", 1) == 1 ? 0 : 1);
	return fd;
}

/* Memory that may be registered. */
static int memory(void)
{
	static const char bytes[BYTES];
	int fd = memfd_create("memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || write(fd, bytes, BYTES) != BYTES ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) || lseek(fd, 0, SEEK_SET))
		_exit(10);
	return fd;
}

/* Ask for a registration, without waiting for the answer. */
static int offer(int sock, int fd, uint32_t flags)
{
	const struct mpib_ctl_reg_fd ask = {
		.h = { .type = MPIB_CTL_REG_FD, .id = 7, .len = sizeof(ask) },
		.size = BYTES,
		.flags = flags,
	};

	return mpib_message_send(sock, &ask.h, &fd, 1);
}

static int register_what_is_written(void *arg)
{
	int stalled = stalled_file(), fd = memory();
	int sock = tenant_hello(node[0].dir);

	(void)arg;
	if (sock < 0 || !stall_write(stalled, fd) ||
	    offer(sock, fd, MPIB_REG_MEMFD) < 0)
		return 2;
	return tenant_stay(ready[1]);
}

static int write_to_what_is_registered(void *arg)
{
	int stalled = stalled_file(), fd = memory();
	int sock = tenant_hello(node[0].dir);

	(void)arg;
	if (sock < 0 || tenant_reg_fd(sock, fd, 0, BYTES) != 0 ||
	    !stall_write(stalled, fd))
		return 2;
	return tenant_stay(ready[1]);
}

/* Start the attacker; when it has done its deed. */
static pid_t attack_begin(int (*fn)(void *), void *arg)
{
	char byte = 0;
	pid_t pid;

	attack_needs_root();
	pid = tenant_begin(ATTACKER, fn, arg);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	if (byte != 's')
		return pid;
	assert_int_equal(tenant_end(pid), 0);
	skip_as("no user may mount FUSE in a namespace here");
	return -1;
}

static void memory_that_is_written_to_is_registered(void **state)
{
	pid_t pid = attack_begin(register_what_is_written, NULL);

	victim_goes_on(victim, 64);
	child_kill(pid);
}

static void memory_that_is_written_to_is_handed_over(void **state)
{
	pid_t pid = attack_begin(write_to_what_is_registered, NULL);

	victim_goes_on_over_upgrades(victim, node, 2);
	child_kill(pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_that_is_written_to_is_registered),
		cmocka_unit_test(memory_that_is_written_to_is_handed_over),
	};

	return cmocka_run_group_tests(tests, setup, victim_teardown);
}
