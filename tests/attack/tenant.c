/* SPDX-License-Identifier: Apache-2.0 */
#include "tenant.h"

#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <mpib/client.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "ipc/message.h"
#include "test.h"

void attack_needs_root(void)
{
	if (geteuid() == 0)
		return;
	skip_as("needs root, to act as two users");
}

void attack_start(struct node *node, unsigned n, const char *const *args)
{
	const char *all[16] = { "--run-group", "nogroup", "--client-own-memory",
				"all" };

	for (unsigned i = 0; args && args[i]; i++) {
		assert_true(i + 5 < sizeof(all) / sizeof(all[0]));
		all[i + 4] = args[i];
	}
	node_start_with(node, n, all);
}

static uint64_t thread_us(pid_t pid, const char *tid)
{
	char ns[128];

	mpib_read_line(ns, sizeof(ns), "/proc/%d/task/%s/schedstat", pid, tid);
	return strtoull(ns, NULL, 10) / 1000;
}

uint64_t control_us(pid_t pid)
{
	char tid[16];
	uint64_t us;

	snprintf(tid, sizeof(tid), "%d", pid);
	us = thread_us(pid, tid);
	assert_true(us > 0);
	return us;
}

uint64_t shards_us(pid_t pid)
{
	const struct dirent *e;
	char path[64], name[32];
	uint64_t us = 0;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	tasks = opendir(path);
	assert_non_null(tasks);
	while ((e = readdir(tasks))) {
		mpib_read_line(name, sizeof(name), "%s/%s/comm", path,
			       e->d_name);
		if (!strncmp(name, "mpib-shard", 10))
			us += thread_us(pid, e->d_name);
	}
	closedir(tasks);
	return us;
}

void tenant_many_descriptors(void)
{
	struct rlimit r;

	getrlimit(RLIMIT_NOFILE, &r);
	r.rlim_cur = r.rlim_max;
	setrlimit(RLIMIT_NOFILE, &r);
}

int tenant_stay(int pipe)
{
	if (write(pipe, "x", 1) != 1)
		return 1;
	pause();
	return 0;
}

#define ATTACKERS 64

/* Pids of the attackers that were started last. 0 means none. */
static pid_t attacker[ATTACKERS];
static unsigned attackers;

void attackers_end(void)
{
	for (unsigned i = 0; i < ATTACKERS; i++) {
		if (attacker[i] && waitpid(attacker[i], NULL, WNOHANG) == 0)
			child_kill(attacker[i]);
		attacker[i] = 0;
	}
}

pid_t tenant_begin(uid_t uid, int (*fn)(void *arg), void *arg)
{
	pid_t parent = getpid(), pid = fork();

	assert_true(pid >= 0);
	if (pid > 0 && uid != VICTIM)
		attacker[attackers++ % ATTACKERS] = pid;
	if (pid > 0)
		return pid;
	if (setgroups(0, NULL) ||
	    setresgid(TENANT_GROUP, TENANT_GROUP, TENANT_GROUP) ||
	    setresuid(uid, uid, uid))
		_exit(100);
	/* The change of the uid has reset these two settings. A process must be
	 * dumpable to write its own uid_map. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_DUMPABLE, 1);
	if (getppid() != parent)
		_exit(100);
	_exit(fn(arg));
}

pid_t attacker_begin(int (*fn)(void *arg), void *arg, int ready)
{
	pid_t pid = tenant_begin(ATTACKER, fn, arg);

	attacker_told(pid, ready);
	return pid;
}

/* Return the attacker's exit status or signal, or -1 while it runs. */
static int attacker_ended(pid_t pid)
{
	siginfo_t info = { 0 };

	assert_int_equal(
		waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT),
		0);
	return info.si_pid == pid ? info.si_status : -1;
}

char attacker_told(pid_t pid, int ready)
{
	struct pollfd told = { .fd = ready, .events = POLLIN };
	bool ended = false;
	char byte = 0;

	/* The attacker may write and then end between poll() and the check, so
	 * poll once more after its end. */
	while (poll(&told, 1, 100) == 0) {
		if (ended)
			attacker_check(pid);
		ended = attacker_ended(pid) >= 0;
	}
	assert_int_equal(read(ready, &byte, 1), 1);
	return byte;
}

void attacker_check(pid_t pid)
{
	int status = attacker_ended(pid);

	if (status >= 0)
		fail_msg("the attacker has ended with %d", status);
}

int tenant_run(uid_t uid, int (*fn)(void *arg), void *arg)
{
	return child_end(tenant_begin(uid, fn, arg));
}

int tenant_dial(const char *dir, const char *name, int type)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0), rc;

	if (fd < 0)
		return -errno;
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%.90s/%.15s", dir, name);
	if (connect(fd, (struct sockaddr *)&sun, sizeof(sun)) == 0)
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

int tenant_answer(int sock)
{
	struct mpib_message m;
	char byte;

	if (recv(sock, &byte, 1, MSG_PEEK) <= 0 ||
	    mpib_message_recv(sock, &m) <= 0)
		return 1;
	mpib_message_close_fds(&m);
	return m.h.status;
}

int tenant_hello(const char *dir)
{
	struct mpib_ctl_hello hello = {
		.h = { .type = MPIB_CTL_HELLO, .id = 1, .len = sizeof(hello) },
		.version = MPIB_ABI_VERSION,
		.name = "attacker",
	};
	int sock = tenant_dial(dir, MPIB_CONTROL_SOCK, SOCK_SEQPACKET);

	if (sock >= 0 && mpib_message_send(sock, &hello.h, NULL, 0) == 0 &&
	    tenant_answer(sock) == 0)
		return sock;
	if (sock >= 0)
		close(sock);
	return -1;
}

int tenant_hello_again(const char *dir)
{
	int sock = tenant_hello(dir);

	for (unsigned i = 0; sock < 0 && i < 3000; i++) {
		poll(NULL, 0, 10);
		sock = tenant_hello(dir);
	}
	return sock;
}

int tenant_reg_fd(int sock, int fd, uint64_t offset, uint64_t size)
{
	struct mpib_ctl_reg_fd ask = {
		.h = { .type = MPIB_CTL_REG_FD, .id = 7, .len = sizeof(ask) },
		.offset = offset,
		.size = size,
		.flags = MPIB_REG_MEMFD,
	};

	if (mpib_message_send(sock, &ask.h, &fd, 1) < 0)
		return 1;
	return tenant_answer(sock);
}

struct mpib_client *tenant_attach(const struct node *n)
{
	struct mpib_attach_opts opts = { .size = sizeof(opts),
					 .run_dir = n->dir };
	struct mpib_client *c;

	return mpib_attach(&opts, &c) < 0 ? NULL : c;
}
