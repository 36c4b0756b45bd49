/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks by a user that the proxies accept as their agent. The agent sends
 * arbitrary answers and unrequested messages. The agent overwrites and
 * truncates the hint file that the proxies read, and replaces the file with
 * other files.
 */
#include <errno.h>
#include <fcntl.h>
#include <mpib/agent.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "draw.h"
#include "stall.h"
#include "test.h"
#include "victim.h"

/* a user that exists on every system and owns nothing important */
#define AGENT "games"
#define HEARD 8 /* connections that the agent accepts */

static struct node node[2];
static struct victim *victim;
static int ready[2]; /* the agent writes to this pipe after its attack */
/* the test writes to this pipe when the proxies are stopped */
static int frozen[2];
static char dir[] = "/tmp/mpib-agent.XXXXXX";
static _Atomic unsigned *heard;

static int setup(void **state)
{
	const char *const args[] = { "--agent-dir", dir,      "--agent-user",
				     AGENT,	    "--mode", "advanced",
				     NULL };
	const struct passwd *pw = getpwnam(AGENT);

	if (geteuid() != 0 || !pw)
		return 0;
	heard = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(heard != MAP_FAILED);
	assert_non_null(mkdtemp(dir));
	assert_int_equal(chmod(dir, 0755), 0);
	assert_int_equal(chown(dir, pw->pw_uid, pw->pw_gid), 0);
	victim = victim_between(node, args);
	return pipe(ready) || pipe(frozen);
}

static int teardown(void **state)
{
	static const char *const names[] = { MPIB_AGENT_SOCK,
					     MPIB_AGENT_HINTS };

	if (!victim)
		return 0;
	victim_leave(victim, node);
	for (unsigned i = 0; i < 2; i++) {
		char path[64];

		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		remove(path);
	}
	rmdir(dir);
	munmap(heard, 4096);
	return 0;
}

/* Create a file with valid hints. Return its descriptor. */
static int make_hints(void)
{
	const struct mpib_hint_header h = {
		.magic = MPIB_HINT_MAGIC,
		.max_entries = MPIB_HINT_MAX_ENTRIES,
		.version = MPIB_HINT_VERSION,
	};
	int fd;

	unlink(MPIB_AGENT_HINTS);
	fd = open(MPIB_AGENT_HINTS, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC,
		  0644);
	if (fd < 0 || pwrite(fd, &h, sizeof(h), 0) != sizeof(h) ||
	    ftruncate(fd, sizeof(struct mpib_hint_shm)))
		return -1;
	return fd;
}

static int make_socket(void)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX,
				   .sun_path = MPIB_AGENT_SOCK };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	unlink(MPIB_AGENT_SOCK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&sun, sizeof(sun)) ||
	    listen(fd, 16))
		return -1;
	return fd;
}

/* Send an answer with a random slot or a random error, or send random bytes. */
static void say(int to, uint64_t *rng)
{
	struct mpib_agent_request ask;
	struct mpib_agent_response answer = {
		.status = draw(rng, 4) ? 0 : -(int)draw(rng, 200),
		.hint_slot = (uint32_t)draw(rng, 300),
	};
	uint64_t word[sizeof(struct mpib_agent_summary) / 4];

	if (recv(to, &ask, sizeof(ask), MSG_DONTWAIT) > 0)
		(void)!send(to, &answer, sizeof(answer),
			    MSG_NOSIGNAL | MSG_DONTWAIT);
	for (unsigned i = 0; i < sizeof(word) / sizeof(*word); i++)
		word[i] = draw(rng, UINT64_MAX);
	if (draw(rng, 8) == 0)
		(void)!send(to, word, sizeof(struct mpib_agent_summary),
			    MSG_NOSIGNAL | MSG_DONTWAIT);
	if (draw(rng, 200) == 0)
		(void)!send(to, word, draw(rng, sizeof(word)) + 1,
			    MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Write random bytes over a hint. Now and then change the file's size, truncate
 * the file to zero bytes, or extend it to its full size with holes. */
static void spoil_hints(int fd, uint64_t *rng)
{
	uint64_t entry[2] = { draw(rng, UINT64_MAX), draw(rng, UINT64_MAX) };
	off_t at = (off_t)(draw(rng, 300) * 16);

	(void)!pwrite(fd, entry, draw(rng, 17), at);
	if (draw(rng, 16) == 0)
		(void)!ftruncate(fd, (off_t)draw(rng, 8192));
	if (draw(rng, 16) == 0)
		(void)!ftruncate(fd, 0);
	if (draw(rng, 16) == 0)
		(void)!ftruncate(fd, sizeof(struct mpib_hint_shm));
}

/* Replace the hint file. A process that opens the hint file later gets the new
 * file. */
static void replace_hints(uint64_t *rng)
{
	unlink(MPIB_AGENT_HINTS);
	switch (draw(rng, 4)) {
	case 0:
		(void)!mkfifo(MPIB_AGENT_HINTS, 0644);
		break;
	case 1:
		(void)!symlink("/dev/zero", MPIB_AGENT_HINTS);
		break;
	case 2:
		(void)!mkdir(MPIB_AGENT_HINTS, 0755);
		usleep(300000);
		rmdir(MPIB_AGENT_HINTS);
		break;
	default:
		break;
	}
	usleep(300000);
}

static int be_bad(void *arg)
{
	uint64_t rng = 16;
	int sock;

	(void)arg;
	umask(0);
	if (chdir(dir) || (sock = make_socket()) < 0)
		return 1;
	for (;;) {
		struct pollfd p = { .fd = sock, .events = POLLIN };
		int hints = make_hints(), fd;

		if (hints < 0)
			return 2;
		if (poll(&p, 1, 3000) > 0) {
			fd = accept(sock, NULL, NULL);
			atomic_fetch_add(heard, 1);
			for (unsigned i = 0; i < 300; i++) {
				say(fd, &rng);
				spoil_hints(hints, &rng);
				usleep(1000);
			}
			close(fd);
		}
		close(hints);
		if (draw(&rng, 2))
			replace_hints(&rng);
	}
	return 0;
}

static pid_t agent_begin(int (*fn)(void *arg))
{
	attack_needs_root();
	if (!victim) {
		print_message("SKIPPED: there is no user " AGENT "\n");
		skip();
	}
	return tenant_begin(getpwnam(AGENT)->pw_uid, fn, NULL);
}

TEST(a_hostile_agent_affects_no_job)
{
	pid_t pid;
	int status;

	pid = agent_begin(be_bad);
	while (atomic_load(heard) < HEARD) {
		assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
		victim_goes_on(victim, 16);
	}
	victim_goes_on(victim, 64);
	child_kill(pid);
	print_message("proxies connected to the agent %u times\n", *heard);
}

/* Send both proxies unrequested messages, each with descriptors of lingering
 * sockets. */
static int send_sockets(void *arg)
{
	struct mpib_agent_response answer = { 0 };
	int sock, to[2], fd[4];
	char byte;

	(void)arg;
	umask(0);
	if (chdir(dir) || (sock = make_socket()) < 0 || make_hints() < 0)
		return 1;
	for (unsigned i = 0; i < 2; i++)
		to[i] = accept(sock, NULL, NULL);
	for (unsigned i = 0; i < 4; i++)
		fd[i] = stall_socket();
	if (write(ready[1], "x", 1) != 1 || read(frozen[0], &byte, 1) != 1)
		return 2;
	for (unsigned i = 0; i < 4; i++) {
		if (stall_send(to[i / 2], &answer, sizeof(answer), &fd[i], 1) <
		    0)
			return 3;
		close(fd[i]);
	}
	return tenant_stay(ready[1]);
}

TEST(lingering_sockets_from_an_agent_are_closed)
{
	char byte = 'x';
	pid_t pid;

	pid = agent_begin(send_sockets);
	attacker_told(pid, ready[0]);
	for (unsigned i = 0; i < 2; i++)
		child_freeze(node[i].pid);
	assert_int_equal(write(frozen[1], &byte, 1), 1);
	attacker_told(pid, ready[0]);
	for (unsigned i = 0; i < 2; i++)
		kill(node[i].pid, SIGCONT);
	victim_goes_on(victim, 64);
	child_kill(pid);
}

struct test_group test_group = { setup, teardown };
