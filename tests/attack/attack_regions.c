/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client with the maximum number of connections deregisters regions that are
 * in use. Each deregistration ends one of the client's own connections. This
 * must not make other users wait.
 */
#include <mpib/control.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "raw_client.h"
#include "test.h"
#include "victim.h"

#define CLIENTS 4u
#define PAIRS (MPIB_CONNS_MAX / 2)
#define PACE_US 300 /* pause, to stay within quota.messages */
#ifndef DEREG_US /* sanitizer builds set a higher limit */
#define DEREG_US 100 /* maximum CPU time of the shard per region, in us */
#endif

static struct node node[2];
static struct victim *victim;
static int ready[2], go[2];

static int setup(void **state)
{
	victim = victim_between(node, NULL);
	return pipe(ready) || pipe(go);
}

/* Post a receive on each connection. Each receive has its own region. */
static bool use_regions(struct raw_client *x, uint32_t *mr)
{
	struct mpib_desc d = {
		.op = MPIB_OP_RECV, .n = 1, .gen = 1, .len = 1, .total = 1
	};
	void *mem;

	if (!raw_attach(x, tenant_dial(node[0].dir, MPIB_CONTROL_SOCK,
				       SOCK_SEQPACKET)))
		return false;
	for (uint32_t i = 0; i < PAIRS; i++) {
		if (!raw_pool(x, 4096, &mr[i], &mem) ||
		    !raw_pair(x, 2 * i, 2 * i + 1))
			return false;
		d.mr = mr[i];
		raw_push(x, 2 * i, &d);
		usleep(PACE_US);
	}
	return true;
}

static bool dereg_all(struct raw_client *x, const uint32_t *mr)
{
	struct mpib_ctl_id ask = {
		.h = { .type = MPIB_CTL_DEREG, .len = sizeof(ask) },
	};
	char answer[MPIB_CTL_MAX];

	for (uint32_t i = 0; i < PAIRS; i++) {
		ask.id = mr[i];
		if (send(x->sock, &ask, sizeof(ask), 0) < 0)
			return false;
	}
	for (uint32_t i = 0; i < PAIRS; i++) {
		if (recv(x->sock, answer, sizeof(answer), 0) <= 0)
			return false;
	}
	return true;
}

static int dereg_while_used(void *arg)
{
	static struct raw_client client[CLIENTS];
	static uint32_t mr[CLIENTS][PAIRS];
	char byte;

	for (unsigned i = 0; i < CLIENTS; i++) {
		if (!use_regions(&client[i], mr[i]))
			return 1;
	}
	if (write(ready[1], "x", 1) != 1 || read(go[0], &byte, 1) != 1)
		return 1;
	for (unsigned i = 0; i < CLIENTS; i++) {
		if (!dereg_all(&client[i], mr[i]))
			return 1;
	}
	return tenant_stay(ready[1]);
}

/* Wait until the attacker writes to the pipe `done`. Return the longest time in
 * ms in which the victim moved no message. */
static unsigned long long longest_stand(pid_t attacker, int done)
{
	unsigned long long longest = 0, since = node_ms();
	uint64_t seen = atomic_load(&victim->messages);
	struct pollfd told = { .fd = done, .events = POLLIN };

	do {
		uint64_t now = atomic_load(&victim->messages);

		attacker_check(attacker);
		if (now != seen)
			since = node_ms();
		seen = now;
		if (node_ms() - since > longest)
			longest = node_ms() - since;
	} while (poll(&told, 1, 1) == 0);
	return longest;
}

TEST(deregistering_a_region_in_use_does_not_delay_other_users)
{
	unsigned long long stood;
	uint64_t us;
	pid_t pid;

	attack_needs_root();
	pid = attacker_begin(dereg_while_used, NULL, ready[0]);
	us = shards_us(node[0].pid);
	assert_int_equal(write(go[1], "x", 1), 1);
	stood = longest_stand(pid, ready[0]);
	us = shards_us(node[0].pid) - us;
	print_message(
		"the shard used %llu us of CPU time for %u regions; the victim "
		"got no message for %llu ms at most\n",
		(unsigned long long)us, CLIENTS * PAIRS, stood);
	victim_goes_on(victim, 64);
	child_kill(pid);
	assert_in_range(us, 0, CLIENTS * PAIRS * DEREG_US);
}

struct test_group test_group = { setup, victim_teardown };
