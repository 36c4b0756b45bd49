/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer of a user's own making, which speaks the protocol. Its lanes are in the way
 * of an upgrade: it hangs up once it has stopped its rails, or opens others without
 * end. The operator of the node upgrades it by force.
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <mpib/client.h>
#include <mpib/wire.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "peer/protocol.h"
#include "test.h"
#include "victim.h"

#define PEER_PORT 24790
#define OWN_PORT 2000

static struct node node[2];
static struct victim *victim;
static int ready[2]; /* a pipe: the attacker has a lane */

struct evil {
	struct mpib_handle handle; /* of a listener of its own */
	int link, door;
	size_t got;
	uint32_t lanes, theirs; /* opened; the proxy's id of the first */
	unsigned fenced; /* rails of it */
	bool pressed; /* the upgrade waits for the rails */
	uint8_t in[65536];
};

static uint32_t own_address(void)
{
	return htonl(ntohl(node_address(node[0].sout)) + 77);
}

static struct sockaddr_in at(uint32_t addr, uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons(port),
				     .sin_addr = { addr } };
}

static int say(const struct evil *e, const struct mpib_peer_msg *m)
{
	uint8_t frame[MPIB_PEER_FRAME_MAX];
	size_t n = mpib_peer_encode(m, frame);

	return send(e->link, frame, n, MSG_NOSIGNAL) == (ssize_t)n ? 0 : -1;
}

static int open_lane(struct evil *e)
{
	uint32_t n = ++e->lanes;
	struct mpib_peer_msg m = {
		.type = MPIB_PEER_LANE_OPEN,
		.from = n,
		.listen_id = e->handle.listen_id,
		.nonce = e->handle.nonce,
		.key = { .uid = ATTACKER,
			 .traffic_class = (uint8_t)n,
			 .from_shard = (uint16_t)(n / 256 % 64) },
		.lane_info = { .imm_version = MPIB_IMM_V2,
			       .mode = MPIB_MODE_ADAPTIVE,
			       .rails = 2,
			       .failover = 1 },
	};
	struct in6_addr own = mpib_address_of_ip(own_address());

	for (unsigned r = 0; r < 2; r++) {
		memcpy(m.lane_info.rail[r].gid, &own, sizeof(own));
		m.lane_info.rail[r].mtu = IBV_MTU_1024;
		m.lane_info.rail[r].max_msg_sz = 1 << 30;
		m.lane_info.rail[r].link_layer = IBV_LINK_LAYER_ETHERNET;
		m.lane_info.rail[r].qps = 1;
	}
	return say(e, &m);
}

static int hear(struct evil *e, const struct mpib_peer_msg *m)
{
	struct mpib_peer_msg answer = { .type = MPIB_PEER_LANE_RAIL,
					.to = e->theirs };

	if (m->type == MPIB_PEER_WELCOME) {
		answer.type = MPIB_PEER_READY;
		return say(e, &answer) || open_lane(e) ? -1 : 0;
	}
	if (m->type == MPIB_PEER_LANE_ACCEPT && !e->theirs) {
		e->theirs = m->from;
		return write(ready[1], "x", 1) == 1 ? 0 : -1;
	}
	if (m->type != MPIB_PEER_LANE_RAIL || m->rail.type != MPIB_RAIL_FENCE)
		return 0;
	e->pressed = true;
	answer.rail.type = MPIB_RAIL_FENCED;
	answer.rail.rail = m->rail.rail;
	answer.rail.epoch = m->rail.epoch;
	e->fenced++;
	return e->door < 0 ? 0 : say(e, &answer);
}

static int take(struct evil *e, int flags)
{
	ssize_t n =
		recv(e->link, e->in + e->got, sizeof(e->in) - e->got, flags);
	struct mpib_peer_msg m;
	size_t from = 0;

	e->got += n > 0 ? (size_t)n : 0;
	while (e->got - from >= 4) {
		size_t len = mpib_frame_len(e->in + from);

		if (e->got - from - 4 < len)
			break;
		if (mpib_peer_decode(e->in + from + 4, len, &m) == 0 &&
		    hear(e, &m) < 0)
			return -1;
		from += 4 + len;
	}
	e->got -= from;
	memmove(e->in, e->in + from, e->got);
	return 0;
}

static struct evil *call(const struct mpib_handle *handle, bool door)
{
	struct evil *e = calloc(1, sizeof(*e));
	struct sockaddr_in own = at(own_address(), 0), there = own;
	struct sockaddr_in to = at(node_address(node[0].sout), PEER_PORT);
	struct mpib_peer_msg m = {
		.type = MPIB_PEER_HELLO,
		.magic = MPIB_PEER_MAGIC,
		.version_min = MPIB_PEER_VERSION,
		.version = MPIB_PEER_VERSION,
		.node = { .addr = mpib_address_of_ip(own_address()),
			  .port = OWN_PORT,
			  .boot = 1 },
	};

	if (!e)
		return NULL;
	e->handle = *handle;
	there.sin_port = htons(OWN_PORT);
	e->door = door ? socket(AF_INET, SOCK_STREAM, 0) : -1;
	e->link = socket(AF_INET, SOCK_STREAM, 0);
	if ((door && (bind(e->door, (struct sockaddr *)&there, sizeof(there)) ||
		      listen(e->door, 8))) ||
	    bind(e->link, (struct sockaddr *)&own, sizeof(own)) ||
	    connect(e->link, (struct sockaddr *)&to, sizeof(to)) ||
	    say(e, &m)) {
		free(e);
		return NULL;
	}
	return e;
}

/* The proxy calls it, then, and gets no answer. */
static int hang_up(void *arg)
{
	struct mpib_client *c = tenant_attach(&node[0]);
	struct mpib_listener *l;
	struct mpib_handle h;
	struct evil *e;

	(void)arg;
	if (!c || mpib_listen(c, &h, &l) < 0 || !(e = call(&h, true)))
		return 2;
	while (e->fenced < 2) {
		if (take(e, 0) < 0)
			return 3;
	}
	shutdown(e->link, SHUT_WR);
	pause();
	return 0;
}

/* It stops none of their rails. */
static int open_lanes(void *arg)
{
	struct mpib_client *c = tenant_attach(&node[0]);
	struct mpib_listener *l;
	struct mpib_handle h;
	struct evil *e;

	(void)arg;
	if (!c || mpib_listen(c, &h, &l) < 0 || !(e = call(&h, false)))
		return 2;
	while (!e->pressed) {
		if (take(e, 0) < 0)
			return 3;
	}
	while (open_lane(e) == 0 && take(e, MSG_DONTWAIT) == 0)
		usleep(50);
	pause();
	return 0;
}

static void upgraded_by_force_beside(int (*deed)(void *))
{
	struct run run;
	pid_t pid;

	attack_needs_root();
	victim = victim_between(node, NULL);
	assert_int_equal(pipe(ready), 0);
	pid = attacker_begin(deed, NULL, ready[0]);
	victim_sees_upgrade(victim, node[0].dir, "force", &run);
	assert_string_equal(run.err, "");
	assert_int_equal(run.status, 0);
	victim_goes_on(victim, 1000);
	child_kill(pid);
}

static int end(void **state)
{
	if (!victim)
		return 0;
	victim_leave(victim, node);
	close(ready[0]);
	close(ready[1]);
	victim = NULL;
	return 0;
}

static void a_peer_that_hangs_up_stops_no_forced_one(void **state)
{
	upgraded_by_force_beside(hang_up);
}

static void a_peer_that_opens_lanes_stops_no_forced_one(void **state)
{
	upgraded_by_force_beside(open_lanes);
}

#define LANES(test) cmocka_unit_test_teardown(test, end)

const struct CMUnitTest test_list[] = {
	LANES(a_peer_that_hangs_up_stops_no_forced_one),
	LANES(a_peer_that_opens_lanes_stops_no_forced_one),
	{ 0 },
};
