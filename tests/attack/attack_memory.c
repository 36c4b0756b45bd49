/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory: pages that a client would have the proxy pay for, and the proxy's own,
 * which has the data of all users and the cluster's key.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "ipc/message.h"
#include "mover.h"
#include "victim.h"

#define NOBODY 65534
#define SPARSE (200u << 20)

static struct node node[2];

/* The number behind a word of a file in /proc/PID. */
static long number_of(pid_t pid, const char *file, const char *word)
{
	char path[64], line[256];
	long n = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (!strncmp(line, word, strlen(word)))
			sscanf(line + strlen(word), "%ld", &n);
	}
	fclose(f);
	assert_true(n >= 0);
	return n;
}

/* Shared pages of a process. */
static long shared_kib(pid_t pid)
{
	return number_of(pid, "status", "RssShmem:");
}

static int say_hello(int sock)
{
	struct mpib_ctl_hello hello = {
		.h = { .type = MPIB_CTL_HELLO, .id = 1, .len = sizeof(hello) },
		.version = MPIB_ABI_VERSION,
		.name = "attacker",
	};
	struct mpib_message m;
	char byte;

	if (mpib_message_send(sock, &hello.h, NULL, 0) < 0 ||
	    recv(sock, &byte, 1, MSG_PEEK) <= 0 ||
	    mpib_message_recv(sock, &m) <= 0)
		return -1;
	mpib_message_close_fds(&m);
	return m.h.status;
}

/* Memfds without a page, registered without the library, which would allocate
 * them here: 0 if each is refused. */
static int register_holes(void *arg)
{
	int sock = tenant_dial(node[0].dir, MPIB_CONTROL_SOCK, SOCK_SEQPACKET);

	(void)arg;
	if (sock < 0 || say_hello(sock) != 0)
		return 2;
	for (unsigned i = 0; i < 2; i++) {
		int fd = memfd_create("holes", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		struct mpib_ctl_reg_fd ask = {
			.h = { .type = MPIB_CTL_REG_FD,
			       .id = 7,
			       .len = sizeof(ask) },
			.size = SPARSE,
			.flags = MPIB_REG_MEMFD,
		};
		struct mpib_message m;
		char byte;

		if (ftruncate(fd, SPARSE) ||
		    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) ||
		    mpib_message_send(sock, &ask.h, &fd, 1) < 0 ||
		    recv(sock, &byte, 1, MSG_PEEK) <= 0 ||
		    mpib_message_recv(sock, &m) <= 0)
			return 3;
		mpib_message_close_fds(&m);
		if (m.h.status != -EFAULT)
			return 4;
	}
	return 0;
}

static void holes_are_not_filled_by_the_proxy(void **state)
{
	struct victim *v;
	long before;

	(void)state;
	attack_needs_root();
	for (unsigned i = 0; i < 2; i++)
		attack_start(&node[i], 1 + i, NULL);
	v = victim_start(&node[0], &node[1]);
	before = shared_kib(node[0].pid);
	assert_int_equal(tenant_run(ATTACKER, register_holes, NULL), 0);
	victim_goes_on(v, 64);
	assert_true(shared_kib(node[0].pid) - before < (64L << 10));
	victim_compare(v);
	victim_end(v);
	for (unsigned i = 0; i < 2; i++)
		node_stop(&node[i]);
}

/* What the library registers has its pages, and is taken. */
static int register_by_library(void *arg)
{
	struct mpib_client *c = tenant_attach(&node[0]);
	int fd = memfd_create("whole", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct mpib_region *r;
	static char other[4096];

	(void)arg;
	if (!c || ftruncate(fd, 8 << 20) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK))
		return 2;
	return mpib_reg_fd(c, other, 4 << 20, 4096, fd, MPIB_REG_MEMFD, &r) < 0;
}

/* As much as a user may have, and not as much as there is. */
static int take_pools(void *arg)
{
	struct mpib_client *c = tenant_attach(&node[0]);
	uint64_t had = 0;

	(void)arg;
	while (c && mpib_mem_alloc(c, 8 << 20))
		had += 8 << 20;
	return had > 0 && had <= 64 << 20 ? 0 : 1;
}

static void a_users_memory_is_bounded(void **state)
{
	static const char *const args[] = { "--quota-memory", "64M", NULL };
	struct victim *v;

	(void)state;
	attack_needs_root();
	for (unsigned i = 0; i < 2; i++)
		attack_start(&node[i], 1 + i, args);
	v = victim_start(&node[0], &node[1]);
	assert_int_equal(tenant_run(ATTACKER, register_by_library, NULL), 0);
	assert_int_equal(tenant_run(ATTACKER, take_pools, NULL), 0);
	victim_goes_on(v, 64);
	victim_compare(v);
	victim_end(v);
	for (unsigned i = 0; i < 2; i++)
		node_stop(&node[i]);
}

/* Another program of the proxy's own user, as an agent is. */
static int read_the_proxys_memory(void *arg)
{
	const struct node *n = arg;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", n->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 && (errno == EACCES || errno == EPERM) ? 0 : 1;
}

static void nobody_reads_the_proxys_memory(void **state)
{
	const struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };
	struct node n;

	(void)state;
	attack_needs_root();
	setrlimit(RLIMIT_CORE, &all); /* as on a machine that collects cores */
	node_start(&n, 5, "--run-user", "nobody", NULL);
	assert_int_equal(number_of(n.pid, "limits", "Max core file size"), 0);
#ifdef MPIB_TRACED
	print_message("a sanitizer's build may be traced\n");
	(void)read_the_proxys_memory;
#else
	assert_int_equal(tenant_run(NOBODY, read_the_proxys_memory, &n), 0);
#endif
	node_wipe(&n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(holes_are_not_filled_by_the_proxy),
		cmocka_unit_test(a_users_memory_is_bounded),
		cmocka_unit_test(nobody_reads_the_proxys_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
