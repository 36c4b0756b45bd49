/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users send descriptors on which the proxy's system calls can block for an
 * unlimited time. One example is memory that stays locked, because a write to
 * it never ends. Another example is a file whose close waits for a process of
 * the user. The proxy must continue to serve other users.
 */
#include <errno.h>
#include <fcntl.h>
#include <mpib/control.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "holds.h"
#include "ipc/message.h"
#include "stall.h"
#include "test.h"
#include "victim.h"

#define BYTES 65536
#define MUCH ((off_t)2 << 30)
/* number of a user's pending closes at which the proxy stops serving the
 * user */
#define LAST 16
#define GOES 2000

static struct node node[2];
static struct victim *victim;
static int ready[2]; /* tells the test that the attack has begun */
static int frozen[2]; /* tells the attacker that the proxy is stopped */

static int setup(void **state)
{
	victim = victim_between(node, NULL);
	return pipe(ready) || pipe(frozen);
}

/* Call this only in an attacker process. Open the blocking file. If this
 * machine does not allow such a file, tell the test. */
static int stalled_file(bool closes)
{
	int fd = stall_open(closes);

	if (fd < 0)
		_exit(write(ready[1], "s", 1) == 1 ? 0 : 1);
	return fd;
}

/* Make memory that the proxy would accept for registration. */
static int memory(void)
{
	static const char bytes[BYTES];
	int fd = memfd_create("memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || write(fd, bytes, BYTES) != BYTES ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) || lseek(fd, 0, SEEK_SET))
		_exit(10);
	return fd;
}

/* Request a registration without waiting for the answer. */
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
	int stalled = stalled_file(false), fd = memory();
	int sock = tenant_hello_again(node[0].dir);

	(void)arg;
	if (sock < 0 || !stall_write(stalled, fd) ||
	    offer(sock, fd, MPIB_REG_MEMFD) < 0)
		return 2;
	return tenant_stay(ready[1]);
}

static int write_to_what_is_registered(void *arg)
{
	int stalled = stalled_file(false), fd = memory();
	int sock = tenant_hello_again(node[0].dir);

	(void)arg;
	if (sock < 0 || tenant_reg_fd(sock, fd, 0, BYTES) != 0 ||
	    !stall_write(stalled, fd))
		return 2;
	return tenant_stay(ready[1]);
}

static int offer_a_file(void *arg)
{
	const uint32_t *flags = arg;
	int stalled = stalled_file(false),
	    sock = tenant_hello_again(node[0].dir);

	if (sock < 0 || offer(sock, stalled, *flags) < 0)
		return 2;
	return tenant_stay(ready[1]);
}

/* Send descriptors of blocking files endlessly, so that the proxy always has
 * files to close. */
static int offer_files_without_end(void *arg)
{
	struct mpib_ctl_header h = { .type = MPIB_CTL_DEVICE,
				     .len = sizeof(h) };
	int fd[4], sock = -1;

	(void)arg;
	fd[0] = fd[1] = fd[2] = fd[3] = stalled_file(true);
	for (bool told = false;; told = true) {
		if (sock < 0)
			sock = tenant_hello(node[0].dir);
		if (!told && write(ready[1], "x", 1) != 1)
			return 2;
		if (sock >= 0 && (mpib_message_send(sock, &h, fd, 4) < 0 ||
				  tenant_answer(sock) == 1)) {
			close(sock);
			sock = -1;
		}
	}
}

/* Pass descriptors of sockets in every way that the proxy does not expect: as
 * the memory of a registration; more than a message may have; in messages that
 * the proxy never reads; to the stats socket, which accepts no descriptors;
 * with an out-of-band byte. */
static int send_sockets(void *arg)
{
	struct mpib_ctl_header h = { .type = MPIB_CTL_DEVICE,
				     .len = sizeof(h) };
	int stats = tenant_dial(node[0].dir, MPIB_STATS_SOCK, SOCK_STREAM);
	int one = tenant_hello_again(node[0].dir),
	    two = tenant_hello_again(node[0].dir);
	int urgent = tenant_dial(node[0].dir, MPIB_STATS_SOCK, SOCK_STREAM);
	int fd[10];
	char byte;

	(void)arg;
	for (unsigned i = 0; i < 10; i++)
		fd[i] = stall_socket();
	if (write(ready[1], "x", 1) != 1 || read(frozen[0], &byte, 1) != 1)
		return 3;
	if (stall_send(stats, &h, sizeof(h), fd, 1) < 0 ||
	    stall_send(one, &h, sizeof(h), fd + 1, 6) < 0 ||
	    stall_send(one, &h, sizeof(h), fd + 7, 1) < 0 ||
	    offer(two, fd[8], MPIB_REG_MEMFD) < 0 ||
	    stall_send_urgent(urgent, fd[9]) < 0)
		return 2;
	for (unsigned i = 0; i < 10; i++)
		close(fd[i]);
	close(stats);
	close(one);
	return tenant_stay(ready[1]);
}

/* Connect and disconnect repeatedly. Each time, leave descriptors whose close
 * takes the proxy a long time. */
static int come_and_go(void *arg)
{
	struct mpib_ctl_header h = { .type = MPIB_CTL_DEVICE,
				     .len = sizeof(h) };
	int to[2] = { tenant_hello_again(node[0].dir),
		      tenant_hello_again(node[0].dir) };
	int fd[LAST], sock;
	char byte;

	(void)arg;
	for (unsigned i = 0; i < LAST; i++)
		fd[i] = stall_socket();
	if (write(ready[1], "x", 1) != 1 || read(frozen[0], &byte, 1) != 1 ||
	    stall_send(to[0], &h, sizeof(h), fd, LAST / 2) < 0 ||
	    stall_send(to[1], &h, sizeof(h), fd + LAST / 2, LAST / 2) < 0)
		return 2;
	for (unsigned i = 0; i < LAST; i++)
		close(fd[i]);
	if (write(ready[1], "x", 1) != 1 || read(frozen[0], &byte, 1) != 1)
		return 3;
	for (unsigned i = 0; i < GOES; i++) {
		sock = tenant_dial(node[0].dir, MPIB_CONTROL_SOCK,
				   SOCK_SEQPACKET);
		if (sock < 0)
			return 4;
		close(sock);
	}
	tenant_hello(node[0].dir); /* attach as the user's third client */
	return tenant_stay(ready[1]);
}

/* Register a lot of memory and close its descriptor, so that only the proxy
 * owns the memory after this process has ended. */
static int register_much(void *arg)
{
	int sock = tenant_hello_again(node[0].dir);
	int fd = memfd_create("much", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	char *map;

	(void)arg;
	if (sock < 0 || ftruncate(fd, MUCH) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK))
		return 2;
	map = mmap(NULL, MUCH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return 3;
	for (off_t page = 0; page < MUCH; page += 4096)
		map[page] = 1;
	munmap(map, MUCH);
	if (tenant_reg_fd(sock, fd, 0, MUCH) != 0)
		return 4;
	close(fd);
	return tenant_stay(ready[1]);
}

/* Start the attacker. Return after the attacker has begun the attack. */
static pid_t attack_begin(int (*fn)(void *), void *arg)
{
	pid_t pid;

	attack_needs_root();
	pid = tenant_begin(ATTACKER, fn, arg);
	if (attacker_told(pid, ready[0]) != 's')
		return pid;
	assert_int_equal(child_end(pid), 0);
	skip_as("users of this machine may not mount FUSE in a namespace");
	return -1;
}

static void goes_on_beside(pid_t pid)
{
	victim_goes_on(victim, 64);
	child_kill(pid);
}

TEST(registering_memory_with_a_blocked_write_delays_no_other_user)
{
	goes_on_beside(attack_begin(register_what_is_written, NULL));
}

TEST(a_blocked_write_to_registered_memory_delays_no_other_user)
{
	goes_on_beside(attack_begin(write_to_what_is_registered, NULL));
}

TEST(files_whose_close_blocks_delay_no_other_user)
{
	static uint32_t flags[] = { MPIB_REG_MEMFD, MPIB_REG_DMABUF };

	for (unsigned i = 0; i < 2; i++)
		goes_on_beside(attack_begin(offer_a_file, &flags[i]));
}

TEST(endlessly_sent_files_delay_no_other_user)
{
	goes_on_beside(attack_begin(offer_files_without_end, NULL));
}

/* Let the attacker send its descriptors and close them while the proxy is
 * stopped, so that only the proxy holds them afterwards. */
static pid_t attack_asleep(int (*fn)(void *))
{
	pid_t pid = attack_begin(fn, NULL);
	char byte = 'x';

	child_freeze(node[0].pid);
	assert_int_equal(write(frozen[1], &byte, 1), 1);
	attacker_told(pid, ready[0]);
	kill(node[0].pid, SIGCONT);
	return pid;
}

/* Each connection uses a descriptor of the proxy, which has a limited number of
 * descriptors. */
TEST(reconnecting_clients_do_not_use_up_descriptors)
{
	unsigned before = holds(node[0].pid);
	pid_t pid = attack_asleep(come_and_go);
	char byte = 'x';

	victim_goes_on(victim, 64);
	assert_int_equal(write(frozen[1], &byte, 1), 1);
	attacker_told(pid, ready[0]);
	victim_goes_on(victim, 64);
	until_holds_at_most(node[0].pid, before + 100);
	child_kill(pid);
}

TEST(lingering_sockets_are_closed)
{
	goes_on_beside(attack_asleep(send_sockets));
}

/* Freeing the memory takes at least 100 ms of CPU time per GiB. */
TEST(the_control_thread_does_not_free_large_memory)
{
	pid_t pid = attack_begin(register_much, NULL);
	uint64_t us = control_us(node[0].pid);

	child_kill(pid);
	victim_goes_on(victim, 256);
	us = control_us(node[0].pid) - us;
	print_message("the control thread used %llu us of CPU time\n",
		      (unsigned long long)us);
	assert_in_range(us, 0, 60000);
}

struct test_group test_group = { setup, victim_teardown };
