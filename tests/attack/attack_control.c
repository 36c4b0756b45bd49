/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A user opens many connections to the control socket and sends nothing on
 * them. The user also opens many connections to the stats socket. On these the
 * user sends no command, or does not read the answers.
 */
#include <errno.h>
#include <mpib/client.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "test.h"
#include "victim.h"

#define READERS 1000
/* many connections, so that the answer to "conns" is long */
#define LONG 400
#define HELD 120
#define CROWD 1000 /* attaches; most are refused */
#define COMERS 400

static struct node node[2], other;
static struct victim *victim;

static int setup(void **state)
{
	static const char *const args[] = { "--limit-clients", "64", NULL };

	victim = victim_between(node, args);
	return 0;
}

/* Connect repeatedly and keep each connection. Replace connections that the
 * proxy has closed. */
static int stay_silent(void *arg)
{
	static int fd[200];

	(void)arg;
	tenant_many_descriptors();
	for (unsigned i = 0;; i = (i + 1) % 200) {
		char byte;

		if (fd[i] > 0 &&
		    recv(fd[i], &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0 &&
		    errno == EAGAIN) {
			usleep(100);
			continue;
		}
		if (fd[i] > 0)
			close(fd[i]);
		fd[i] = tenant_dial(node[0].dir, MPIB_CONTROL_SOCK,
				    SOCK_SEQPACKET);
	}
	return 0;
}

#define CASE(name) TEST_OF(name, setup, victim_teardown)

CASE(silent_connections_do_not_block_other_users)
{
	pid_t pid[2];

	attack_needs_root();
	for (unsigned i = 0; i < 2; i++)
		pid[i] = tenant_begin(ATTACKER, stay_silent, NULL);
	usleep(200000);
	for (unsigned i = 0; i < 10; i++)
		victim_goes_on(victim, 64);
	for (unsigned i = 0; i < 2; i++)
		child_kill(pid[i]);
}

static int hold_readers(void *arg)
{
	(void)arg;
	tenant_many_descriptors();
	for (unsigned i = 0; i < READERS + 10; i++) {
		if (tenant_dial(node[0].dir, MPIB_STATS_SOCK, SOCK_STREAM) < 0)
			return 1;
	}
	pause();
	return 0;
}

static int read_stats(void *arg)
{
	int fd = tenant_dial(node[0].dir, MPIB_STATS_SOCK, SOCK_STREAM);
	char line[256] = "";

	(void)arg;
	if (fd < 0 || recv(fd, line, sizeof(line) - 1, 0) <= 0)
		return 1;
	return strstr(line, "\"mpib\"") ? 0 : 2;
}

CASE(idle_readers_do_not_block_other_readers)
{
	const char *const argv[] = { "mpibctl", "-s", node[0].dir, "rails",
				     NULL };
	struct run run;
	pid_t pid;

	attack_needs_root();
	pid = tenant_begin(ATTACKER, hold_readers, NULL);
	usleep(300000);
	run_wait(&run, argv);
	assert_int_equal(run.status, 0);
	assert_int_equal(tenant_run(VICTIM, read_stats, NULL), 0);
	victim_goes_on(victim, 64);
	child_kill(pid);
}

/* Open many connections, so that the list of connections is long. Request this
 * list on many sockets without reading the answers. Replace sockets that the
 * proxy closes. */
static int hold_answers(void *arg)
{
	struct mpib_client *c = tenant_attach(&node[0]);
	struct mpib_listener *l;
	struct mpib_handle h;
	int fd[HELD] = { 0 };

	tenant_many_descriptors();
	if (!c || mpib_listen(c, &h, &l) < 0)
		return 1;
	for (unsigned i = 0; i < LONG; i++) {
		struct mpib_conn *tx, *rx;

		if (mpib_connect(c, &h, -1, &tx) < 0 || mpib_accept(l, &rx) < 0)
			return 2;
	}
	for (unsigned i = 0;; i = (i + 1) % HELD) {
		char byte;

		if (fd[i] > 0 &&
		    (recv(fd[i], &byte, 1, MSG_DONTWAIT | MSG_PEEK) > 0 ||
		     errno == EAGAIN)) {
			usleep(100);
			continue;
		}
		if (fd[i] > 0)
			close(fd[i]);
		fd[i] = tenant_dial(node[0].dir, MPIB_STATS_SOCK, SOCK_STREAM);
		(void)!write(fd[i], "conns\n", 6);
		if (i == HELD - 1)
			atomic_store((_Atomic bool *)arg, true);
	}
	return 0;
}

/* Read so slowly that the proxy must keep the whole answer in memory for a
 * while. Return 0 if the answer is complete. */
static int read_conns_late(void *arg)
{
	int fd = tenant_dial(node[0].dir, MPIB_STATS_SOCK, SOCK_STREAM);
	static char buf[65536];
	unsigned lines = 0;
	ssize_t n;

	(void)arg;
	if (fd < 0 || write(fd, "conns\n", 6) != 6)
		return 1;
	usleep(300000);
	while (lines < 2 && (n = read(fd, buf, sizeof(buf))) > 0) {
		for (ssize_t i = 0; i < n; i++)
			lines += buf[i] == '\n';
	}
	return lines == 2 ? 0 : 2;
}

CASE(unread_answers_do_not_delay_other_answers)
{
	const char *const argv[] = { "mpibctl", "-s",	 node[0].dir,
				     "-j",	"conns", NULL };
	_Atomic bool *holds = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid;

	attack_needs_root();
	pid = tenant_begin(ATTACKER, hold_answers, holds);
	while (!atomic_load(holds))
		victim_goes_on(victim, 16);
	usleep(300000);
	for (unsigned i = 0; i < 3; i++) {
		struct run run;

		assert_int_equal(tenant_run(VICTIM, read_conns_late, NULL), 0);
		run_wait(&run, argv);
		assert_int_equal(run.status, 0);
	}
	child_kill(pid);
	munmap(holds, 4096);
}

/* Attach clients until the proxy refuses one. Keep the clients attached, and
 * try to attach more clients. */
static int attach_without_end(void *arg)
{
	_Atomic bool *holds = arg;
	unsigned had = 0;

	tenant_many_descriptors();
	for (unsigned i = 0;; i++) {
		had += tenant_hello(other.dir) >= 0;
		if (i == CROWD) {
			printf("the user has %u clients\n", had);
			fflush(stdout);
			atomic_store(holds, true);
		}
		if (i >= CROWD)
			usleep(1000);
	}
	return 0;
}

/* Attach repeatedly. Return how many attaches were refused. */
static int attach_again_and_again(void *arg)
{
	static struct mpib_hist took;
	struct mpib_hist_counts n = { 0 };
	int refused = 0;

	(void)arg;
	for (unsigned i = 0; i < COMERS; i++) {
		uint64_t from = mpib_now_ns();
		int sock = tenant_hello(other.dir);

		mpib_hist_record(&took, mpib_now_ns() - from);
		refused += sock < 0;
		close(sock);
		usleep(2000);
	}
	mpib_hist_read(&took, &n);
	printf("another user's attaches take p50 %.1f, p99 %.1f, max %.1f "
	       "ms\n",
	       (double)mpib_hist_quantile(&n, 0.5) / 1e6,
	       (double)mpib_hist_quantile(&n, 0.99) / 1e6,
	       (double)mpib_hist_quantile(&n, 1) / 1e6);
	fflush(stdout);
	return refused;
}

CASE(many_clients_of_a_user_do_not_block_other_users)
{
	_Atomic bool *holds = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid;

	attack_needs_root();
	/* no options: use the default limits */
	attack_start(&other, 3, NULL);
	pid = tenant_begin(ATTACKER, attach_without_end, holds);
	while (!atomic_load(holds))
		victim_goes_on(victim, 16);
	assert_int_equal(tenant_run(VICTIM, attach_again_and_again, NULL), 0);
	victim_goes_on(victim, 64);
	child_kill(pid);
	node_stop(&other);
	munmap(holds, 4096);
}

/* Start a new victim for each attack, so that the victim's p99 belongs to this
 * attack only. */
