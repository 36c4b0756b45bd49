/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections to the port of a software rail that say nothing: whoever dials it
 * for a lane gets through all the same.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "victim.h"

#define PEER_PORT 24790
#define HELD 400
#define TCP_LISTEN_STATE 0xa

static struct node node[3];
static uint32_t rail_addr;
static uint16_t rail_port;

/* The port, beside that of the peer link, on which the node's SOUT listens. */
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

static void silence_on_a_rails_port_keeps_nobody_away(void **state)
{
	struct victim *before, *newcomer;
	pid_t pid[3];

	(void)state;
	attack_needs_root();
	for (unsigned i = 0; i < 3; i++)
		attack_start(&node[i], 1 + i, NULL);
	before = victim_start(&node[0], &node[1]);
	find_rail(&node[2]); /* the lower address dials */
	assert_true(rail_port > 0);
	for (unsigned i = 0; i < 3; i++)
		pid[i] = tenant_begin(ATTACKER, hold_the_port, NULL);
	usleep(500000);
	victim_goes_on(before, 64);
	newcomer = victim_start(&node[0], &node[2]);
	victim_goes_on(newcomer, 64);
	victim_end(newcomer);
	victim_goes_on(before, 64);
	victim_end(before);
	for (unsigned i = 0; i < 3; i++)
		child_kill(pid[i]);
	for (unsigned i = 0; i < 3; i++)
		node_stop(&node[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(silence_on_a_rails_port_keeps_nobody_away),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
