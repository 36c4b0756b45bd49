/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks on files, directories and sockets of the proxy and the agent that
 * other users can access. Attackers lock files, create files before the proxy
 * creates them, and connect endlessly to the agent's socket. The proxy and the
 * agent must be able to start and serve nevertheless.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mpib/agent.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"
#include "victim.h"

#define CALLS 400
#define TRIES 20
#define ANSWERS 5

static struct node node[2], other;
static struct victim *victim;
static char agent_dir[100], squatted[100], said[100];
/* the attacker writes to this pipe when the attack has begun */
static int ready[2];

static int setup(void **state)
{
	victim = victim_between(node, NULL);
	if (!victim)
		return 0;
	snprintf(agent_dir, sizeof(agent_dir), "%s/agent", node[0].base);
	snprintf(squatted, sizeof(squatted), "%s/squatted", node[0].base);
	snprintf(said, sizeof(said), "%s/said", node[0].base);
	return pipe(ready);
}

static int teardown(void **state)
{
	if (victim) {
		unlink(said);
		rmdir(agent_dir);
	}
	victim_leave(victim, node);
	return 0;
}

/* Start a program of the build. It runs until child_kill(). */
static pid_t begin_agent(const char *dir)
{
	int err = open(said, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
	pid_t pid = fork();

	assert_true(pid >= 0 && err >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(err, STDERR_FILENO);
		execl(MPIB_AGENT_PATH, MPIB_AGENT_PATH, "--dir", dir, "--user",
		      "nobody", "adaptive", NULL);
		_exit(127);
	}
	close(err);
	return pid;
}

/* Send the agent a REGISTER, as a proxy does. Return 1 if the agent answers, or
 * 0 if it does not answer yet. */
static int agent_answers(const char *dir)
{
	struct mpib_agent_request ask = { .type = MPIB_AGENT_REGISTER,
					  .conn_id = 7,
					  .sout_dst_ip = 1 };
	int fd = tenant_dial(dir, MPIB_AGENT_SOCK,
			     SOCK_SEQPACKET | SOCK_NONBLOCK);
	struct mpib_agent_response r = { .status = -1 };
	struct timeval patience = { .tv_sec = 20 };
	ssize_t n;

	if (fd < 0)
		return 0;
	fcntl(fd, F_SETFL, 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	(void)!send(fd, &ask, sizeof(ask), MSG_NOSIGNAL);
	n = recv(fd, &r, sizeof(r), 0);
	close(fd);
	return n == sizeof(r) && r.status == 0;
}

static bool agent_comes(const char *dir, pid_t pid)
{
	unsigned long long until = node_ms() + 60000;
	int status;

	while (node_ms() < until) {
		if (agent_answers(dir))
			return true;
		if (waitpid(pid, &status, WNOHANG) == pid)
			return false;
		usleep(10000);
	}
	return false;
}

static void lock_one(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	/* The lock is held until the process ends. */
	while (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0 &&
	       errno == EWOULDBLOCK)
		usleep(1000);
}

/* Lock every file of the directory that this user can open, each in a separate
 * process. */
static int lock_all(void *arg)
{
	const char *path = arg;
	int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = dir < 0 ? NULL : fdopendir(dup(dir));
	const struct dirent *e;

	while (list && (e = readdir(list))) {
		if (!strcmp(e->d_name, "..") || fork() > 0)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		lock_one(dir, e->d_name);
		pause();
	}
	return tenant_stay(ready[1]);
}

TEST(locks_of_other_users_do_not_stop_a_proxy_from_starting)
{
	static const char *const args[] = { "--run-group", "nogroup", NULL };
	pid_t pid;

	attack_needs_root();
	/* The proxy's user is in the group that may attach, as with the
	 * installed package. */
	node_start_as_nobody(&other, 3, "65534", args);
	pid = attacker_begin(lock_all, other.dir, ready[0]);
	node_kill(&other);
	/* long enough for a waiting attacker process to get the lock */
	usleep(300000);
	node_again(&other);
	child_kill(pid);
	node_wipe(&other);
}

/* Stop the agent with SIGTERM, as an operator would, so that the agent removes
 * its files. */
static void end_agent(pid_t pid)
{
	int status;

	assert_int_equal(kill(pid, SIGTERM), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
}

TEST(locks_of_other_users_do_not_stop_an_agent_from_starting)
{
	pid_t agent, pid;
	bool came;

	attack_needs_root();
	agent = begin_agent(agent_dir);
	assert_true(agent_comes(agent_dir, agent));
	pid = attacker_begin(lock_all, agent_dir, ready[0]);
	child_kill(agent);
	usleep(300000);
	agent = begin_agent(agent_dir);
	came = agent_comes(agent_dir, agent);
	child_kill(pid);
	if (came)
		end_agent(agent);
	assert_true(came);
}

/* Replace the agent's new socket with a symbolic link before the agent sets the
 * socket's mode. */
static int squat(void *arg)
{
	char sock[120];

	snprintf(sock, sizeof(sock), "%s/" MPIB_AGENT_SOCK, squatted);
	if (mkdir(squatted, 0755) || write(ready[1], "x", 1) != 1)
		return 1;
	for (;;) {
		struct stat st;

		if (lstat(sock, &st) == 0 && S_ISSOCK(st.st_mode) &&
		    unlink(sock) == 0)
			(void)!symlink(arg, sock);
	}
	return 0;
}

TEST(an_agent_refuses_a_directory_of_another_user)
{
	char precious[100], gone[120];
	struct stat st;
	pid_t pid;
	int fd, status;

	attack_needs_root();
	snprintf(precious, sizeof(precious), "%s/precious", node[0].base);
	snprintf(gone, sizeof(gone), "rm -r %s", squatted);
	fd = open(precious, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(chmod(node[0].base, 0777), 0);
	pid = attacker_begin(squat, precious, ready[0]);
	assert_int_equal(chmod(node[0].base, 0755), 0);
	for (unsigned i = 0; i < TRIES; i++) {
		pid_t agent = begin_agent(squatted);
		unsigned long long until = node_ms() + 20000;

		/* The agent must refuse the directory, and must not change the
		 * mode of the file to which the link points. */
		while (waitpid(agent, &status, WNOHANG) == 0) {
			assert_int_equal(fstat(fd, &st), 0);
			assert_int_equal(st.st_mode & 0777, 0644);
			assert_true(node_ms() < until);
			usleep(10000);
		}
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 0);
		assert_int_equal(fstat(fd, &st), 0);
		assert_int_equal(st.st_mode & 0777, 0644);
	}
	child_kill(pid);
	close(fd);
	unlink(precious);
	assert_int_equal(system(gone), 0);
}

/* Keep the queue of connections to the agent full. */
static int call_agent(void *arg)
{
	static int fd[CALLS];

	(void)arg;
	tenant_many_descriptors();
	for (unsigned i = 0;; i++) {
		int *mine = &fd[i % CALLS];

		if (*mine > 0)
			close(*mine);
		*mine = tenant_dial(agent_dir, MPIB_AGENT_SOCK,
				    SOCK_SEQPACKET | SOCK_NONBLOCK);
		if (i == CALLS && write(ready[1], "x", 1) != 1)
			return 1;
	}
	return 0;
}

TEST(connects_by_other_users_do_not_keep_proxies_from_the_agent)
{
	unsigned answered = 0, calls = 0;
	pid_t agent, pid[2];

	attack_needs_root();
	agent = begin_agent(agent_dir);
	assert_true(agent_comes(agent_dir, agent));
	for (unsigned i = 0; i < 2; i++)
		pid[i] = attacker_begin(call_agent, NULL, ready[0]);
	/* A proxy tries to connect once per second until the agent answers. */
	for (; answered < ANSWERS; calls++) {
		answered += agent_answers(agent_dir) > 0;
		usleep(10000);
	}
	victim_goes_on(victim, 64);
	for (unsigned i = 0; i < 2; i++)
		child_kill(pid[i]);
	end_agent(agent);
	print_message("the agent answered %u of %u connections\n", answered,
		      calls);
}

/* Try to change or replace the agent's files. The attacker is in the group of
 * the proxies' user, like every client. */
static int take_agents_place(void *arg)
{
	char path[2][140], mine[140];

	(void)arg;
	snprintf(mine, sizeof(mine), "/tmp/mpib-mine.%d", getpid());
	for (unsigned i = 0; i < 2; i++) {
		snprintf(path[i], sizeof(path[i]), "%s/%s", agent_dir,
			 i ? MPIB_AGENT_SOCK : MPIB_AGENT_HINTS);
		if (unlink(path[i]) == 0 || chmod(path[i], 0666) == 0 ||
		    truncate(path[i], 0) == 0 || rename(path[i], mine) == 0 ||
		    symlink("/dev/zero", path[i]) == 0)
			return 1;
	}
	if (open(path[0], O_RDWR | O_CLOEXEC) >= 0)
		return 2;
	return agent_answers(agent_dir) ? 3 : 0;
}

static int call_as_proxy(void *arg)
{
	(void)arg;
	return agent_answers(agent_dir) ? 0 : 1;
}

TEST(other_users_cannot_open_an_agents_files)
{
	pid_t agent;

	attack_needs_root();
	agent = begin_agent(agent_dir);
	assert_true(agent_comes(agent_dir, agent));
	assert_int_equal(tenant_run(ATTACKER, take_agents_place, NULL), 0);
	/* The agent accepts connections of the user that its proxies run as. */
	assert_int_equal(tenant_run(65534, call_as_proxy, NULL), 0);
	victim_goes_on(victim, 64);
	end_agent(agent);
}

struct test_group test_group = { setup, teardown };
