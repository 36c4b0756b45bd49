/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks that punch holes into shared memory. While a process punches a hole
 * into a file, a thread that touches the page waits in the kernel. If the
 * process punches endlessly, the thread waits again and again. If the page has
 * many mappings, each wait is long. If the punching process gets little CPU
 * time, there is no limit on the wait.
 */
#include <errno.h>
#include <fcntl.h>
#include <mpib/control.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ipc/message.h"
#include "test.h"
#include "victim.h"

#define PAGE 4096
/* Number of mappings of a page. With 2000 mappings, the kernel takes 0.3 ms to
 * punch a hole. */
#define MAPS 2000
#define HOLES_MS 3000

static struct node node[2];
static struct victim *victim;

static int setup(void **state)
{
	static const char *const args[] = { "--client-own-memory", "self",
					    NULL };

	victim = victim_between(node, args);
	return 0;
}

/* Send a request. Receive the answer and its descriptors. */
static bool ask(int sock, const struct mpib_ctl_header *h,
		struct mpib_message *m)
{
	char byte;

	return mpib_message_send(sock, h, NULL, 0) == 0 &&
	       recv(sock, &byte, 1, MSG_PEEK) > 0 &&
	       mpib_message_recv(sock, m) > 0 && m->h.status == 0;
}

/* Get the segment that the proxy reads in each turn, and a pool that its rails
 * access. */
static bool segments(int *submit, int *pool)
{
	const struct mpib_ctl_hello hello = {
		.h = { .type = MPIB_CTL_HELLO, .id = 1, .len = sizeof(hello) },
		.version = MPIB_ABI_VERSION,
		.name = "attacker",
	};
	const struct mpib_ctl_pool more = {
		.h = { .type = MPIB_CTL_POOL, .id = 2, .len = sizeof(more) },
		.size = 1 << 20,
	};
	int sock = tenant_dial(node[0].dir, MPIB_CONTROL_SOCK, SOCK_SEQPACKET);
	struct mpib_message m;

	if (sock < 0 || !ask(sock, &hello.h, &m) || m.fds < 2)
		return false;
	*submit = m.fd[1];
	if (!ask(sock, &more.h, &m) || m.fds < 1)
		return false;
	*pool = m.fd[0];
	return true;
}

static bool map_often(int fd)
{
	for (unsigned i = 0; i < MAPS; i++) {
		/* Map pages that are not adjacent in the file, because the
		 * kernel would merge mappings of adjacent pages. */
		char *map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED,
				 fd, i % 2 * 2 * PAGE);

		if (map == MAP_FAILED)
			return false;
		*(volatile char *)map;
	}
	return true;
}

/* Move this process to a processor that is kept busy by four processes of
 * higher priority. */
static void hardly_run(void)
{
	const struct sched_param none = { 0 };
	pid_t self = getpid();
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	for (unsigned i = 0; i < 4; i++) {
		if (fork() > 0)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (getppid() == self)
			;
		_exit(0);
	}
	sched_setscheduler(0, SCHED_IDLE, &none);
}

/* Punch holes endlessly. Return 0 if the file allows no holes. */
static int punch(int fd)
{
	unsigned long long until = node_ms() + HOLES_MS;
	unsigned holes = 0;
	char *map;

	if (!map_often(fd))
		return 3;
	hardly_run();
	while (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
			 PAGE) == 0 &&
	       node_ms() < until)
		holes++;
	map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return 4;
	holes += madvise(map, PAGE, MADV_REMOVE) == 0;
	fprintf(stderr, "%u holes\n", holes);
	return holes ? 1 : 0;
}

static int punch_rings(void *arg)
{
	int submit, pool;

	(void)arg;
	return segments(&submit, &pool) ? punch(submit) : 2;
}

static int punch_pool(void *arg)
{
	int submit, pool;

	(void)arg;
	return segments(&submit, &pool) ? punch(pool) : 2;
}

static void *punch_on(void *arg)
{
	const int *fd = arg;

	hardly_run();
	for (;;)
		fallocate(*fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
			  PAGE);
	return NULL;
}

/* Register memory in which the proxy cannot prevent holes. Return 0 if the
 * proxy refuses the memory. */
static int register_and_punch(void *arg)
{
	int fd = memfd_create("own", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int sock = tenant_hello(node[0].dir), rc = 0;
	unsigned long long until;
	pthread_t thread;
	char *map;

	(void)arg;
	if (sock < 0 || ftruncate(fd, 4 * PAGE) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) || !map_often(fd))
		return 5;
	map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED ||
	    pthread_create(&thread, NULL, punch_on, &fd) != 0)
		return 6;
	until = node_ms() + HOLES_MS;
	while (rc != -EPERM && node_ms() < until) {
		*(volatile char *)map = 1;
		rc = tenant_reg_fd(sock, fd, 0, PAGE);
	}
	return rc != -EPERM;
}

/* Run the attacker, and print the longest time in which the victim made no
 * progress. */
static void comes_to_nothing(int (*fn)(void *arg))
{
	unsigned long long moved, longest = 0;
	uint64_t messages = 0;
	int status;
	pid_t pid;

	attack_needs_root();
	pid = tenant_begin(ATTACKER, fn, NULL);
	moved = node_ms();
	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (messages != atomic_load(&victim->messages))
			moved = node_ms();
		else if (node_ms() - moved > longest)
			longest = node_ms() - moved;
		messages = atomic_load(&victim->messages);
		usleep(1000);
	}
	print_message("the victim stalled for at most %llu ms\n", longest);
	victim_goes_on(victim, 64);
	assert_int_equal(status, 0);
}

TEST(users_cannot_punch_holes_into_rings)
{
	comes_to_nothing(punch_rings);
}

TEST(users_cannot_punch_holes_into_pools)
{
	comes_to_nothing(punch_pool);
}

TEST(memory_whose_holes_cannot_be_prevented_is_refused)
{
	comes_to_nothing(register_and_punch);
}

struct test_group test_group = { setup, victim_teardown };
