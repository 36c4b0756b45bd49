/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attackers connect to the TCP port of a software rail. The attackers send
 * nothing, or greetings with guessed QP numbers. No attacker may connect or
 * disconnect a QP. The proxy must not keep the attackers' connections, and real
 * peers must still be able to connect their lanes.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test.h"
#include "verbs/soft/wire/soft_wire.h"
#include "victim.h"

#define PEER_PORT 24790
#define HELD 400
#define GREETED 900
/* An idle proxy of three nodes has fewer than a hundred descriptors. */
#define FDS_BOUND 900
#define TCP_LISTEN_STATE 0xa

static struct node node[3];
static uint32_t rail_addr;
static uint16_t rail_port;

/* Find the port on which the node's SOUT listens. The peer link listens on
 * another port of the same address. */
static void find_rail(const struct node *n)
{
	unsigned addr, port, state;
	struct in_addr in;
	char line[256];
	FILE *f = fopen("/proc/net/tcp", "r");

	assert_non_null(f);
	inet_pton(AF_INET, n->sout + strlen("soft:"), &in);
	rail_addr = in.s_addr;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, " %*d: %x:%x %*x:%*x %x", &addr, &port,
			   &state) == 3 &&
		    addr == rail_addr && state == TCP_LISTEN_STATE &&
		    port != PEER_PORT)
			rail_port = (uint16_t)port;
	}
	fclose(f);
}

static int dial_rail(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons(rail_port),
				  .sin_addr.s_addr = rail_addr };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct linger gone = { .l_onoff = 1 };

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &gone, sizeof(gone));
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) &&
	    errno != EINPROGRESS) {
		close(fd);
		return 0;
	}
	return fd;
}

static int hold_the_port(void *arg)
{
	static int fd[HELD];

	(void)arg;
	for (unsigned i = 0;; i = (i + 1) % HELD) {
		char byte;

		if (fd[i] > 0 && recv(fd[i], &byte, 1, MSG_PEEK) < 0 &&
		    errno == EAGAIN) {
			usleep(500);
			continue;
		}
		if (fd[i] > 0)
			close(fd[i]);
		fd[i] = dial_rail();
	}
	return 0;
}

/* Connect thousands of times per second without keeping a connection. Pause now
 * and then, so that the attacker leaves enough CPU time for other processes.
 * This test does not measure an attack on CPU time. */
static int call_and_go(void *arg)
{
	static int fd[HELD];

	(void)arg;
	for (unsigned i = 0;; i = (i + 1) % HELD) {
		if (fd[i] > 0)
			close(fd[i]);
		fd[i] = dial_rail();
		if (i % 16 == 0)
			usleep(200);
	}
	return 0;
}

/* Send a greeting in the name of a node's rail, as any user of this machine
 * can. Try the QP numbers in order, since they are few and consecutive. Draw
 * the packet number. */
static void greet(int fd, unsigned i)
{
	struct soft_hello h = { .status = SOFT_HELLO_ASK,
				.qpn = 2 + i % 64,
				.dest_qpn = 2 + i / 64 % 64,
				.sq_psn = SOFT_PSN_UNKNOWN,
				.rq_psn = (uint32_t)random() & 0xffffff,
				.life = 1 + i % 128,
				.gid = { [10] = 0xff, [11] = 0xff },
				.dest_gid = { [10] = 0xff, [11] = 0xff } };
	uint8_t buf[SOFT_HELLO_LEN];
	struct in_addr from;

	inet_pton(AF_INET, node[0].sout + strlen("soft:"), &from);
	memcpy(&h.gid[12], &from, 4);
	memcpy(&h.dest_gid[12], &rail_addr, 4);
	soft_hello_encode(buf, &h);
	send(fd, buf, sizeof(buf), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static int dial_from_a_peer(void)
{
	struct sockaddr_in from = { .sin_family = AF_INET },
			   to = { .sin_family = AF_INET,
				  .sin_port = htons(rail_port),
				  .sin_addr.s_addr = rail_addr };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct linger gone = { .l_onoff = 1 };

	inet_pton(AF_INET, node[0].sout + strlen("soft:"), &from.sin_addr);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &gone, sizeof(gone));
	if (bind(fd, (struct sockaddr *)&from, sizeof(from)) ||
	    connect(fd, (struct sockaddr *)&to, sizeof(to))) {
		close(fd);
		return 0;
	}
	return fd;
}

/* Keep each connection open after its greeting, no matter what the answer
 * is. */
static int greet_and_hold(void *arg)
{
	static int fd[GREETED];

	(void)arg;
	for (unsigned i = 0;; i++) {
		unsigned at = i % GREETED;

		if (fd[at] > 0)
			close(fd[at]);
		fd[at] = dial_from_a_peer();
		if (fd[at] > 0)
			greet(fd[at], i);
	}
	return 0;
}

TEST(guessed_greetings_connect_no_qp_and_are_not_kept)
{
	struct victim *v;
	unsigned most = 0;
	pid_t pid[3];

	attack_needs_root();
	for (unsigned i = 0; i < 3; i++)
		attack_start(&node[i], 1 + i, NULL);
	v = victim_start(&node[0], &node[1]);
	find_rail(&node[1]);
	assert_true(rail_port > 0);
	for (unsigned i = 0; i < 3; i++)
		pid[i] = tenant_begin(ATTACKER, greet_and_hold, NULL);
	for (unsigned i = 0; i < 20; i++) {
		unsigned fds;

		victim_goes_on(v, 16);
		fds = proc_entries(node[1].pid, "fd");
		most = fds > most ? fds : most;
		usleep(50000);
	}
	printf("the proxy had at most %u descriptors with %d held greetings\n",
	       most, 3 * GREETED);
	assert_in_range(most, 1, FDS_BOUND);
	victim_newcomer(&node[2], &node[1], 16);
	for (unsigned i = 0; i < 3; i++)
		child_kill(pid[i]);
	victim_end(v);
	for (unsigned i = 0; i < 3; i++)
		node_stop(&node[i]);
}

/* Attack the third node. Meanwhile a victim uses the proxy's shard, and a new
 * node must be able to connect to the proxy. */
static void flooded(int (*attack)(void *arg))
{
	struct victim *before;
	pid_t pid[3];

	attack_needs_root();
	for (unsigned i = 0; i < 3; i++)
		attack_start(&node[i], 1 + i, NULL);
	before = victim_start(&node[0], &node[2]);
	find_rail(&node[2]); /* the node with the lower address connects */
	assert_true(rail_port > 0);
	for (unsigned i = 0; i < 3; i++)
		pid[i] = tenant_begin(ATTACKER, attack, NULL);
	usleep(500000);
	victim_goes_on(before, 512);
	victim_newcomer(&node[1], &node[2], 64);
	victim_goes_on(before, 64);
	for (unsigned i = 0; i < 3; i++)
		child_kill(pid[i]);
	victim_end(before);
	for (unsigned i = 0; i < 3; i++)
		node_stop(&node[i]);
}

TEST(silent_connections_do_not_block_a_rail)
{
	flooded(hold_the_port);
}

TEST(endless_connections_do_not_block_a_rail)
{
	flooded(call_and_go);
}
