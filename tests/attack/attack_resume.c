/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many clients try at the same time to resume connections that they never had.
 * In one test, the clients end before the proxy answers. Meanwhile the victim's
 * proxies are killed and restarted, so the victim resumes its own connections.
 */
#include <errno.h>
#include <fcntl.h>
#include <mpib/control.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "ipc/message.h"
#include "raw_client.h"
#include "test.h"
#include "victim.h"

#define ROUNDS 20
#define CLIENTS 4

static struct node node[2];
static struct victim *victim;
static int ready[2]; /* tells the test that the attacker has begun */

static int setup(void **state)
{
	(void)state;
	victim = victim_between(node, NULL);
	return pipe(ready);
}

static uint64_t random64(void)
{
	uint64_t v;

	return getrandom(&v, sizeof(v), 0) == sizeof(v) ? v : 1;
}

/* Resume the attacker's own connections with wrong values of `number` and
 * `base`. */
static int lie_about_its_own(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct raw_client x;
		struct mpib_ctl_connect resume = {
			.h = { .type = MPIB_CTL_RESUME, .len = sizeof(resume) },
			.conn = 2,
			.number = i % 2 ? 2 : UINT64_MAX,
			.base = i % 3 ? UINT64_MAX - i : 1ull << 31,
			.handle.magic = MPIB_HANDLE_MAGIC,
		};
		const struct mpib_reply_end *end;

		if (!raw_attach(&x, tenant_dial(node[0].dir, MPIB_CONTROL_SOCK,
						SOCK_SEQPACKET)) ||
		    !raw_pair(&x, 0, 1))
			return 1;
		end = &x.reply->end[0];
		resume.key = end->key;
		resume.handle.port = end->port;
		memcpy(resume.handle.addr6, end->addr,
		       sizeof(resume.handle.addr6));
		/* The connection still exists, so the proxy refuses. */
		if (send(x.sock, &resume, sizeof(resume), MSG_NOSIGNAL) < 0 ||
		    tenant_answer(x.sock) != -EEXIST)
			return 2;
		/* The sending end is closed, so the receiving end has no
		 * peer. */
		resume.conn = 3;
		if (!raw_close(&x, 1))
			return 3;
		if (send(x.sock, &resume, sizeof(resume), MSG_NOSIGNAL) < 0 ||
		    tenant_answer(x.sock) != -EEXIST)
			return 4;
		raw_detach(&x);
	}
	return 0;
}

TEST(a_client_that_resumes_with_a_wrong_state_harms_only_itself)
{
	attack_needs_root();
	assert_int_equal(tenant_run(ATTACKER, lie_about_its_own, NULL), 0);
	victim_goes_on(victim, 64);
}

/* Send all messages of `ask`, then read the answers. Return whether all
 * requests succeeded. */
static bool ask_at_once(int sock, const struct mpib_ctl_header *const *ask,
			unsigned n)
{
	bool good = true;

	for (unsigned i = 0; i < n; i++) {
		if (send(sock, ask[i], ask[i]->len, MSG_NOSIGNAL) < 0)
			return false;
	}
	while (n-- > 0)
		good &= tenant_answer(sock) == 0;
	return good;
}

/* Close a receiving end and resume it immediately, before the peer can
 * acknowledge the close. */
static int ask_again_for_the_closed(void *arg)
{
	struct raw_client from, to;
	struct mpib_ctl_connect connect = {
		.h = { .type = MPIB_CTL_CONNECT, .len = sizeof(connect) },
		.traffic_class = -1,
		.number = 2,
		.peer_number = 1,
	};
	struct mpib_ctl_connect resume = {
		.h = { .type = MPIB_CTL_RESUME, .len = sizeof(resume) },
		.conn = 2,
		.number = 2,
		.handle.magic = MPIB_HANDLE_MAGIC,
	};
	struct mpib_ctl_id close = {
		.h = { .type = MPIB_CTL_CLOSE, .len = sizeof(close) },
		.id = 2,
	};
	const struct mpib_ctl_header *const ask[] = { &resume.h, &close.h,
						      &resume.h };

	(void)arg;
	if (!raw_attach(&from, tenant_dial(node[0].dir, MPIB_CONTROL_SOCK,
					   SOCK_SEQPACKET)) ||
	    !raw_attach(&to, tenant_dial(node[1].dir, MPIB_CONTROL_SOCK,
					 SOCK_SEQPACKET)) ||
	    !raw_pair(&from, 0, 1) || !raw_pair(&to, 0, 1))
		return 1;
	connect.handle = to.handle;
	resume.handle.port = from.reply->end[0].port;
	memcpy(resume.handle.addr6, from.reply->end[0].addr,
	       sizeof(resume.handle.addr6));
	for (unsigned i = 0; i < ROUNDS; i++) {
		connect.conn = 2 + i;
		connect.key = resume.key = random64();
		if (send(from.sock, &connect, sizeof(connect), MSG_NOSIGNAL) <
			    0 ||
		    tenant_answer(from.sock) != 0)
			return 2;
		if (!ask_at_once(to.sock, ask, 3) || !raw_close(&to, 2))
			return 3;
	}
	return 0;
}

TEST(resuming_a_closed_connection_breaks_no_peer_link)
{
	attack_needs_root();
	assert_int_equal(tenant_run(ATTACKER, ask_again_for_the_closed, NULL),
			 0);
	victim_goes_on(victim, 64);
}

/* Choose a random address, which may or may not belong to a proxy. */
static void some_address(uint8_t addr[16], uint16_t *port)
{
	memset(addr, 0, 16);
	addr[10] = addr[11] = 0xff;
	addr[12] = 127;
	addr[13] = (uint8_t)random64();
	addr[15] = (uint8_t)random64();
	*port = (uint16_t)random64();
}

/* Send RESUME number `i`, whose contents are plausible but wrong. */
static void ask_wrongly(int sock, unsigned i)
{
	struct mpib_ctl_connect resume = {
		.h = { .type = MPIB_CTL_RESUME, .len = sizeof(resume) },
		.conn = i % (MPIB_INDEXES_MAX + 8),
		.key = i % 7 ? random64() : i % 2,
		.number = i % 5 ? random64() : i % 3,
		.base = random64(),
		.handle.magic = MPIB_HANDLE_MAGIC,
	};
	struct mpib_ctl_connect connect = {
		.h = { .type = MPIB_CTL_CONNECT, .len = sizeof(connect) },
		.conn = resume.conn,
		.traffic_class = -1,
		.key = resume.key,
		.number = resume.number,
		.peer_number = random64(),
		.handle = { .magic = MPIB_HANDLE_MAGIC,
			    .shard = (uint16_t)(i % 3),
			    .nonce = random64() },
	};
	struct mpib_ctl_listen listen = {
		.h = { .type = MPIB_CTL_LISTEN, .len = sizeof(listen) },
		.nonce = i % 4 ? random64() : UINT64_MAX,
	};
	struct mpib_ctl_id close = {
		.h = { .type = MPIB_CTL_CLOSE, .len = sizeof(close) },
		.id = (uint32_t)random64() % MPIB_INDEXES_MAX,
	};
	struct mpib_ctl_header *which[] = { &resume.h, &connect.h, &listen.h,
					    &resume.h, &close.h };

	some_address(resume.handle.addr6, &resume.handle.port);
	some_address(connect.handle.addr6, &connect.handle.port);
	(void)send(sock, which[i % 5], which[i % 5]->len, MSG_NOSIGNAL);
}

/* Read the answers that have already arrived. */
static void drain(int sock)
{
	static char answer[MPIB_CTL_MAX];

	while (recv(sock, answer, sizeof(answer), MSG_DONTWAIT) > 0)
		;
}

static int ask_without_end(void *arg)
{
	const unsigned *dies_after = arg;
	bool begun = false;

	for (;;) {
		int sock = tenant_hello(node[0].dir);

		if (sock < 0) { /* the proxy is down or closed the socket */
			poll(NULL, 0, 20);
			continue;
		}
		for (unsigned i = 0; i < *dies_after; i++) {
			struct pollfd p = { .fd = sock, .events = POLLOUT };

			if (poll(&p, 1, 100) < 0 || p.revents & POLLHUP)
				break;
			ask_wrongly(sock, i);
			drain(sock);
		}
		close(sock);
		if (!begun && write(ready[1], "x", 1) != 1)
			return 1;
		begun = true;
	}
}

/* Kill the victim's proxies one by one while the attackers run. */
static void the_victim_resumes_beside(unsigned dies_after)
{
	pid_t pid[CLIENTS];

	attack_needs_root();
	for (unsigned i = 0; i < CLIENTS; i++)
		pid[i] = attacker_begin(ask_without_end, &dies_after, ready[0]);
	victim_goes_on(victim, 64);
	atomic_store(&victim->killed, true);
	for (unsigned i = 0; i < 4; i++) {
		node_kill(&node[i % 2]);
		node_again(&node[i % 2]);
		victim_goes_on(victim, 64);
	}
	atomic_store(&victim->killed, false);
	for (unsigned i = 0; i < CLIENTS; i++)
		child_kill(pid[i]);
}

TEST(strangers_cannot_resume_connections)
{
	the_victim_resumes_beside(3000);
}

TEST(dying_clients_do_not_delay_resumes_of_other_clients)
{
	the_victim_resumes_beside(50);
}

/* Try to create or replace the files of a proxy that is down, such as its
 * socket and its lock. */
static int take_the_place(void *arg)
{
	static const char *const name[] = { MPIB_CONTROL_SOCK, "clients",
					    "lock", "starting", "state" };
	const struct node *of = arg;
	char path[120], to[140];
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/" MPIB_CONTROL_SOCK,
		 of->dir);
	if (bind(sock, (const struct sockaddr *)&sun, sizeof(sun)) == 0 ||
	    rename(of->dir, "/tmp/mpib-taken") == 0)
		return 1;
	for (unsigned i = 0; i < sizeof(name) / sizeof(*name); i++) {
		snprintf(path, sizeof(path), "%s/%s", of->dir, name[i]);
		snprintf(to, sizeof(to), "%s.taken", path);
		if (unlink(path) == 0 || rename(path, to) == 0 ||
		    symlink("/tmp", path) == 0 ||
		    open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) >= 0)
			return 2;
	}
	return 0;
}

TEST(no_user_can_replace_a_proxy_that_is_down)
{
	attack_needs_root();
	victim_goes_on(victim, 64);
	atomic_store(&victim->killed, true);
	node_kill(&node[0]);
	assert_int_equal(tenant_run(ATTACKER, take_the_place, &node[0]), 0);
	node_again(&node[0]);
	victim_goes_on(victim, 64);
	atomic_store(&victim->killed, false);
}

struct test_group test_group = { setup, victim_teardown };
