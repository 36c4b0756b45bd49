/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks on memory. Clients try to use memory that the kernel accounts to the
 * proxy. Clients also try to read the proxy's memory, which holds the data of
 * all users and the cluster's key.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ipc/message.h"
#include "mover.h"
#include "test.h"
#include "victim.h"

#define ATTACKED 1000 /* messages that the victim moves during a short attack */
#define NOBODY 65534
#define SPARSE (200u << 20)
/* Maximum growth of a proxy in MiB, not counting the user's memory. The proxy
 * grows because of the tables of the user's regions and the victim's window.
 * With a sanitizer, the growth is higher, because a sanitizer keeps freed
 * memory. */
#ifdef MPIB_TRACED
#define BESIDE_MIB 1024
#else
#define BESIDE_MIB 16
#endif

#define CONNECTION (32u << 10) /* maximum memory of each end, in bytes */

static struct node node[2];

/* Return the number that follows `word` in the file /proc/PID/`file`. */
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

/* Return the KiB of shared pages of a process. */
static long shared_kib(pid_t pid)
{
	return number_of(pid, "status", "RssShmem:");
}

/* Register two memfds without pages. Do not use the library, which would
 * allocate the pages. The proxy has no write permission for the second memfd,
 * so mincore(2) does not show the proxy which pages are missing. Return 0 if
 * the proxy refuses both memfds, either because of the holes or because the
 * size exceeds the quota. */
static int register_holes(void *arg)
{
	int sock = tenant_hello(node[0].dir);

	(void)arg;
	if (sock < 0)
		return 2;
	for (unsigned i = 0; i < 2; i++) {
		int fd = memfd_create("holes", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		int rc;

		if (ftruncate(fd, SPARSE) || (i && fchmod(fd, 0600)) ||
		    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK))
			return 3;
		rc = tenant_reg_fd(sock, fd, 0, SPARSE);
		if (rc != -EFAULT && rc != -EDQUOT && rc != -EACCES)
			return 4;
	}
	return 0;
}

TEST(holes_are_not_filled_by_the_proxy)
{
	static const char *const args[] = { "--run-group", "nogroup",
					    "--client-own-memory", "all",
					    NULL };
	struct victim *v;
	long before;

	attack_needs_root();
	for (unsigned i = 0; i < 2; i++)
		node_start_as_nobody(&node[i], 1 + i, "65534", args);
	v = victim_start(&node[0], &node[1]);
	before = shared_kib(node[0].pid);
	assert_int_equal(tenant_run(ATTACKER, register_holes, NULL), 0);
	victim_goes_on(v, 64);
	assert_true(shared_kib(node[0].pid) - before < (64L << 10));
	victim_end(v);
	for (unsigned i = 0; i < 2; i++)
		/* the user "nobody" cannot remove the directory */
		node_wipe(&node[i]);
}

/* Register a memfd with the library, which allocates the memfd's pages. The
 * proxy must accept the memory. */
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

/* Allocate pools until the quota is used up. */
static int take_pools(void *arg)
{
	struct mpib_client *c = tenant_attach(&node[0]);
	uint64_t had = 0;

	const uint64_t *least = arg;

	while (c && mpib_mem_alloc(c, 8 << 20))
		had += 8 << 20;
	return had >= *least && had <= 64 << 20 ? 0 : 1;
}

/* Allocate pools until the proxy refuses one, and keep them. If the first pool
 * is refused, retry, because the proxy may still be releasing the user's
 * earlier pools. */
static int hold_pools(void *arg)
{
	struct mpib_client *c = tenant_attach(&node[0]);
	_Atomic uint64_t *had = arg;
	uint64_t n = 0;
	char *pool;

	while (c && ((pool = mpib_mem_alloc(c, 4 << 20)) || n == 0)) {
		if (!pool)
			continue;
		memset(pool, 1, 4 << 20);
		n += 4 << 20;
	}
	atomic_store(had, n);
	pause();
	return 0;
}

/* Return the growth of the proxy in KiB while the attacker holds all pools that
 * the proxy granted. */
static long grown_kib(struct victim *v, long before)
{
	_Atomic uint64_t *had = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid = tenant_begin(ATTACKER, hold_pools, had);
	long grown;

	while (!atomic_load(had))
		victim_goes_on(v, 16);
	grown = number_of(node[0].pid, "status", "VmRSS:") - before;
	printf("a user with %u MB makes the proxy grow by %ld KiB\n",
	       (unsigned)(*had >> 20), grown);
	child_kill(pid);
	munmap(had, 4096);
	return grown;
}

TEST(memory_that_a_user_can_use_is_bounded)
{
	static const char *const args[] = { "--quota-memory", "64M", NULL };
	uint64_t least = 8 << 20;
	struct victim *v;
	long had; /* KiB */

	attack_needs_root();
	for (unsigned i = 0; i < 2; i++)
		attack_start(&node[i], 1 + i, args);
	v = victim_start(&node[0], &node[1]);
	had = number_of(node[0].pid, "status", "VmRSS:");
	assert_int_equal(tenant_run(ATTACKER, register_by_library, NULL), 0);
	/* From the second round on, the proxy may still be releasing the pools
	 * of the previous round, so the attacker may get no pool. */
	for (; atomic_load(&v->messages) < ATTACKED; least = 0)
		assert_int_equal(tenant_run(ATTACKER, take_pools, &least), 0);
	assert_true(grown_kib(v, had) < (64 + BESIDE_MIB) << 10);
	victim_goes_on(v, 64);
	victim_end(v);
	for (unsigned i = 0; i < 2; i++)
		node_stop(&node[i]);
}

#ifndef MPIB_TRACED /* a sanitizer needs too much memory */
/* Write text to a file of a cgroup. Return whether the kernel accepted the
 * text. */
static bool tell(const char *cgroup, const char *file, const char *text)
{
	char path[300];
	bool ok;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", cgroup, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	ok = fd >= 0 && write(fd, text, strlen(text)) > 0;
	if (fd >= 0)
		close(fd);
	return ok;
}

/* Move this process to a new memory cgroup with a limit of `bytes`, and write
 * the cgroup's path to `cgroup`. Return false on failure. */
static bool enter_cgroup(char *cgroup, size_t len, const char *bytes)
{
	static const char *const kind[][2] = {
		{ "/sys/fs/cgroup/memory", "memory.limit_in_bytes" },
		{ "/sys/fs/cgroup", "memory.max" },
	};

	for (unsigned i = 0; i < 2; i++) {
		snprintf(cgroup, len, "%s/mpib-attack-%d", kind[i][0],
			 getpid());
		if (mkdir(cgroup, 0755))
			continue;
		if (tell(cgroup, kind[i][1], bytes) &&
		    tell(cgroup, "cgroup.procs", "0"))
			return true;
		rmdir(cgroup);
	}
	return false;
}

/* Move this process back to the root cgroup. */
static void leave_cgroup(const char *cgroup)
{
	char root[300];

	snprintf(root, sizeof(root), "%s", cgroup);
	*strrchr(root, '/') = '\0';
	assert_true(tell(root, "cgroup.procs", "0"));
}

/* Make connections from the client to itself until the proxy refuses one.
 * Return the number of ends. */
static unsigned connections_of(struct mpib_client *c)
{
	struct mpib_listener *l;
	struct mpib_handle h;
	unsigned n = 0;

	if (mpib_listen(c, &h, &l) < 0)
		return 0;
	for (;;) {
		struct mpib_conn *tx, *rx;
		int rc;

		if (mpib_accept(l, &rx) < 0)
			return n;
		if (mpib_connect(c, &h, -1, &tx) < 0)
			return n + 1;
		while ((rc = mpib_ready(tx)) == 0)
			usleep(100);
		if (rc < 0)
			return n + 1;
		n += 2;
	}
}

/* Open connections with one client after the other until the proxy refuses
 * them. */
static int hold_connections(void *arg)
{
	_Atomic uint64_t *had = arg;
	struct mpib_client *c;
	uint64_t n = 0;
	unsigned more;

	while ((c = tenant_attach(&node[0])) && (more = connections_of(c)) > 1)
		n += more;
	atomic_store(had, n);
	pause();
	return 0;
}

/* Start a proxy in a cgroup of 300 MB. Two users allocate and keep as much as
 * the proxy grants. */
static void hold_in_a_cgroup(int (*hold)(void *arg), uint64_t *sum)
{
	_Atomic uint64_t *had = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char cgroup[128];
	struct victim *v;
	pid_t pid[2];

	if (!enter_cgroup(cgroup, sizeof(cgroup), "314572800"))
		skip_as("no memory cgroup can be made");
	attack_start(&node[0], 1, NULL);
	leave_cgroup(cgroup);
	attack_start(&node[1], 2, NULL);
	v = victim_start(&node[0], &node[1]);
	assert_int_equal(tenant_run(ATTACKER, register_holes, NULL), 0);
	for (unsigned i = 0; i < 2; i++)
		pid[i] = tenant_begin(ATTACKER + 2 * i, hold, &had[i]);
	for (unsigned i = 0; i < 2; i++)
		while (!atomic_load(&had[i]))
			victim_goes_on(v, 16);
	victim_goes_on(v, 64);
	*sum = had[0] + had[1];
	printf("the proxy uses %ld KiB of 300 MB\n",
	       number_of(node[0].pid, "status", "VmRSS:"));
	for (unsigned i = 0; i < 2; i++)
		child_kill(pid[i]);
	victim_end(v);
	for (unsigned i = 0; i < 2; i++)
		node_stop(&node[i]);
	rmdir(cgroup);
	munmap(had, 4096);
}

TEST(users_cannot_use_up_the_memory_of_the_proxys_cgroup)
{
	uint64_t pools, ends;

	attack_needs_root();
	hold_in_a_cgroup(hold_pools, &pools);
	printf("two users hold pools of %u MB\n", (unsigned)(pools >> 20));
	assert_true(pools <= 150u << 20);
	hold_in_a_cgroup(hold_connections, &ends);
	printf("two users hold %u ends of connections\n", (unsigned)ends);
	assert_true(ends * CONNECTION <= 150u << 20);
}

#endif

/* Act as another program of the proxy's user, such as an agent, and try to read
 * the proxy's memory. */
static int read_the_proxys_memory(void *arg)
{
	const struct node *n = arg;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", n->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 && (errno == EACCES || errno == EPERM) ? 0 : 1;
}

TEST(no_user_can_read_the_proxys_memory)
{
	const struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };
	static const char *const none[] = { NULL };
	struct node n;

	attack_needs_root();
	/* allow core dumps, which the proxy must disable */
	setrlimit(RLIMIT_CORE, &all);
	node_start_as_nobody(&n, 5, "65534", none);
	assert_int_equal(number_of(n.pid, "limits", "Max core file size"), 0);
#ifdef MPIB_TRACED
	print_message("not tested: a sanitizer build may be traced\n");
	(void)read_the_proxys_memory;
#else
	assert_int_equal(tenant_run(NOBODY, read_the_proxys_memory, &n), 0);
#endif
	node_wipe(&n);
}
