/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a user leaves in the way of an upgrade: memory that no new process could
 * map, connects that nobody accepts, very much of all. The operator's upgrade
 * succeeds all the same, and a victim's traffic goes on over it. MUCH is how much of
 * each a process takes, by default 64: with 1024 the new proxy needs a second of a
 * core to read it all, and has four on the clock.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mover.h"
#include "test.h"
#include "victim.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x10
#endif

#define BYTES (1u << 20)
#define WHOLE (512u << 20) /* of a file with many small regions */
#define PROCESSES 8

static struct node node[2];
static struct victim *victim;
static int ready[2]; /* a pipe: the attacker has done its deed */
static int upgraded[2]; /* the other way */

static int setup(void **state)
{
	victim = victim_between(node, NULL);
	return pipe(ready) || pipe(upgraded);
}

/* BYTES of a memfd that may be registered. NULL: there are none. */
static void *make_memory(int *fd)
{
	void *addr;

	*fd = memfd_create("memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*fd < 0 || ftruncate(*fd, BYTES) ||
	    fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK))
		return NULL;
	addr = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	return addr == MAP_FAILED ? NULL : memset(addr, 1, BYTES);
}

static int seal_afterwards(void *arg)
{
	struct mpib_client *c = tenant_attach(&node[0]);
	struct mpib_region *r;
	int fd;
	void *addr = make_memory(&fd);

	(void)arg;
	if (!c || !addr)
		return 2;
	if (mpib_reg_fd(c, addr, BYTES, 0, fd, MPIB_REG_MEMFD, &r) < 0)
		return 4;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0)
		return 5; /* the library has sealed its seals */
	return tenant_stay(ready[1]);
}

/* By a process that registers without the library. */
static int seal_unhindered(void *arg)
{
	int sock = tenant_hello(node[0].dir), fd;

	(void)arg;
	if (sock < 0 || !make_memory(&fd) ||
	    tenant_reg_fd(sock, fd, 0, BYTES) != 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE))
		return 2;
	return tenant_stay(ready[1]);
}

/* Memory that it paid for, and then takes back. Says whether it is hung up on. */
static int punch(void *arg)
{
	struct mpib_client *c = tenant_attach(&node[0]);
	struct mpib_listener *l;
	struct mpib_region *r;
	struct mpib_handle h;
	int rc = 0, fd;
	void *addr = make_memory(&fd);
	char byte;

	(void)arg;
	if (!c || !addr)
		return 2;
	if (mpib_reg_fd(c, addr, BYTES, 0, fd, MPIB_REG_MEMFD, &r) < 0)
		return 4;
	if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096,
		      BYTES - 8192))
		return 5;
	if (write(ready[1], "x", 1) != 1 || read(upgraded[0], &byte, 1) != 1)
		return 6;
	for (unsigned i = 0; i < 500 && rc == 0; i++) {
		rc = mpib_listen(c, &h, &l);
		if (rc == 0)
			mpib_close_listen(l);
		usleep(10000);
	}
	return rc == -EPIPE ? 0 : 7;
}

/* Connects to a listener that never accepts, of its own node and another. */
static int connect_to_nobody(void *arg)
{
	struct mpib_client *c = tenant_attach(&node[0]);

	(void)arg;
	for (unsigned i = 0; i < 2; i++) {
		struct mpib_client *to = tenant_attach(&node[i]);
		struct mpib_listener *l;
		struct mpib_handle h;
		struct mpib_conn *conn;

		if (!c || !to || mpib_listen(to, &h, &l) < 0 ||
		    mpib_connect(c, &h, -1, &conn) < 0)
			return 2;
		for (unsigned n = 0; n < 300 && mpib_ready(conn) == 0; n++)
			usleep(1000);
		/* And one to a node that does not answer at all. */
		h.port = 9;
		if (mpib_connect(c, &h, -1, &conn) < 0)
			return 3;
	}
	return tenant_stay(ready[1]);
}

/* As much as there is in the time of all that the next process has to be given. */
static int take_much(void *arg)
{
	struct mpib_client *c = tenant_attach(&node[0]);
	int fd = memfd_create("much", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	unsigned had[3] = { 0 };
	unsigned much = getenv("MUCH") ? (unsigned)atoi(getenv("MUCH")) : 64;
	struct mpib_listener *l, *other;
	struct mpib_handle h;
	char *addr;

	(void)arg;
	if (much == 0)
		return 9;
	if (!c || mpib_listen(c, &h, &l) < 0 || ftruncate(fd, BYTES) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK))
		return 2;
	addr = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (addr == MAP_FAILED)
		return 3;
	memset(addr, 1, BYTES);
	for (unsigned i = 0; i < much; i++) {
		struct mpib_conn *tx, *rx;
		struct mpib_region *r;

		had[0] += mpib_listen(c, &h, &other) >= 0;
		had[1] += i % 2 == 0 && mpib_connect(c, &h, -1, &tx) >= 0 &&
			  mpib_accept(other, &rx) >= 0;
		had[2] += mpib_reg_fd(c, addr, 4096, i % 256 * 4096, fd,
				      MPIB_REG_MEMFD, &r) >= 0;
	}
	printf("it has %u listeners, %u connections, %u regions\n", had[0],
	       had[1], had[2]);
	fflush(stdout);
	return tenant_stay(ready[1]);
}

/* Small regions at the beginning of a large file that has all its pages, as many as
 * a user may have. */
static int register_a_little_of_much(void *arg)
{
	struct mpib_client *c = tenant_attach(&node[0]);
	int fd = *(const int *)arg;
	char *addr =
		mmap(NULL, WHOLE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct mpib_region *r;
	unsigned n = 0;

	if (!c || addr == MAP_FAILED)
		return 2;
	while (n < 512 && mpib_reg_fd(c, addr + n * 8192, 4096, n * 8192, fd,
				      MPIB_REG_MEMFD, &r) == 0)
		n++;
	printf("it has %u regions\n", n);
	fflush(stdout);
	return tenant_stay(ready[1]);
}

static void attack_with(int (*fn)(void *), void *arg, unsigned processes)
{
	pid_t pid[PROCESSES];
	char byte;

	for (unsigned i = 0; i < processes; i++)
		pid[i] = tenant_begin(ATTACKER, fn, arg);
	for (unsigned i = 0; i < processes; i++)
		assert_int_equal(read(ready[0], &byte, 1), 1);
	victim_goes_on_over_upgrades(victim, node, 4);
	for (unsigned i = 0; i < processes; i++)
		child_kill(pid[i]);
}

static void attack(int (*fn)(void *), unsigned processes)
{
	attack_with(fn, NULL, processes);
}

static void memory_that_is_sealed_afterwards_stops_no_upgrade(void **state)
{
	attack_needs_root();
	attack(seal_afterwards, 1);
	attack(seal_unhindered, 1);
}

static void memory_that_is_taken_back_ends_its_client_alone(void **state)
{
	char byte = 'x';
	pid_t pid;

	attack_needs_root();
	pid = attacker_begin(punch, NULL, ready[0]);
	victim_goes_on_over_upgrades(victim, node, 2);
	assert_int_equal(write(upgraded[1], &byte, 1), 1);
	assert_int_equal(child_end(pid), 0);
	victim_goes_on(victim, 64);
}

static void connects_that_nobody_accepts_stop_no_upgrade(void **state)
{
	attack_needs_root();
	attack(connect_to_nobody, 1);
}

static void much_that_is_handed_over_stops_no_upgrade(void **state)
{
	attack_needs_root();
	attack(take_much, PROCESSES);
}

static void a_file_of_much_memory_stops_no_upgrade(void **state)
{
	int fd = memfd_create("whole", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *addr;

	attack_needs_root();
	assert_int_equal(ftruncate(fd, WHOLE), 0);
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
	addr = mmap(NULL, WHOLE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(addr != MAP_FAILED);
	memset(addr, 1, WHOLE);
	attack_with(register_a_little_of_much, &fd, PROCESSES);
	munmap(addr, WHOLE);
	close(fd);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(memory_that_is_sealed_afterwards_stops_no_upgrade),
	cmocka_unit_test(memory_that_is_taken_back_ends_its_client_alone),
	cmocka_unit_test(connects_that_nobody_accepts_stop_no_upgrade),
	cmocka_unit_test(much_that_is_handed_over_stops_no_upgrade),
	cmocka_unit_test(a_file_of_much_memory_stops_no_upgrade),
	{ 0 },
};
struct test_group test_group = { setup, victim_teardown };
