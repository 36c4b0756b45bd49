/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An attacker without the cluster key, between two nodes of the cluster. The
 * attacker relays messages, changes them, or relays them to another node.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "peer/internal.h"
#include "rig.h"
#include "test.h"

#define CALLER 0x7f170001u
#define CALLED 0x7f170002u
#define MIDDLE 0x7f170003u

typedef void change_fn(struct mpib_peer_msg *m);

/* One direction of the relay. */
struct way {
	int from, to;
	uint8_t in[64 * 1024];
	size_t len;
	unsigned relayed; /* number of relayed messages */
};

struct middle {
	int listener;
	uint16_t port;
	uint32_t as; /* address from which the attacker dials */
	uint32_t to; /* address that the attacker dials */
	uint16_t to_port;
	enum mpib_peer_type changes;
	change_fn *change;
	/* from the caller to the called node, and back */
	struct way way[2];
};

static struct sockaddr_in address(uint32_t ip, uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons(port),
				     .sin_addr = { htonl(ip) } };
}

static int socket_at(uint32_t ip)
{
	struct sockaddr_in sa = address(ip, 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	return fd;
}

static void middle_open(struct middle *m, uint32_t at)
{
	struct sockaddr_in sa;
	socklen_t len = sizeof(sa);

	*m = (struct middle){ .listener = socket_at(at) };
	assert_int_equal(listen(m->listener, 16), 0);
	assert_int_equal(getsockname(m->listener, (struct sockaddr *)&sa, &len),
			 0);
	m->port = ntohs(sa.sin_port);
	for (unsigned i = 0; i < 2; i++)
		m->way[i].from = m->way[i].to = -1;
}

static void middle_hang_up(struct middle *m)
{
	for (unsigned i = 0; i < 2; i++) {
		if (m->way[i].from >= 0)
			close(m->way[i].from);
		m->way[i] = (struct way){ .from = -1, .to = -1 };
	}
}

static void middle_close(struct middle *m)
{
	middle_hang_up(m);
	close(m->listener);
}

static void middle_answer(struct middle *m)
{
	struct sockaddr_in sa = address(m->to, m->to_port);
	int caller = accept4(m->listener, NULL, NULL, SOCK_CLOEXEC), called;

	assert_true(caller >= 0);
	middle_hang_up(m);
	called = socket_at(m->as);
	assert_int_equal(connect(called, (struct sockaddr *)&sa, sizeof(sa)),
			 0);
	m->way[0].from = m->way[1].to = caller;
	m->way[1].from = m->way[0].to = called;
}

/* Put a plain-text message into a new frame and relay it. `body` is the message
 * without its length word. If the message has the type `changes`, change the
 * message first. */
static void pass_changed(struct middle *m, struct way *w, const uint8_t *body,
			 size_t len)
{
	uint8_t frame[MPIB_PEER_FRAME_MAX];
	struct mpib_peer_msg msg;
	size_t n;

	assert_int_equal(mpib_peer_decode(body, len, &msg), 0);
	if (m->change && msg.type == m->changes)
		m->change(&msg);
	n = mpib_peer_encode(&msg, frame);
	send(w->to, frame, n, MSG_NOSIGNAL);
}

/* Relay the messages that have arrived. HELLO, WELCOME and READY are plain
 * text. Later messages are sealed, and are relayed unchanged. Return false if
 * the sender has closed the connection. */
static bool middle_pass(struct middle *m, struct way *w)
{
	unsigned plain = w == &m->way[0] ? 2 : 1;
	ssize_t n = recv(w->from, w->in + w->len, sizeof(w->in) - w->len,
			 MSG_DONTWAIT);
	uint32_t len;
	size_t at = 0;

	if (n == 0 || (n < 0 && errno != EAGAIN))
		return false;
	w->len += n > 0 ? (size_t)n : 0;
	while (w->len - at >= 4) {
		memcpy(&len, w->in + at, sizeof(len));
		if (w->len - at < 4 + len)
			break;
		if (w->relayed < plain)
			pass_changed(m, w, w->in + at + 4, len);
		else
			send(w->to, w->in + at, 4 + len, MSG_NOSIGNAL);
		w->relayed++;
		at += 4 + len;
	}
	memmove(w->in, w->in + at, w->len - at);
	w->len -= at;
	return true;
}

static void middle_turn(struct rig *rig, struct middle *m)
{
	struct pollfd at = { .fd = m->listener, .events = POLLIN };

	rig_settle(rig);
	if (poll(&at, 1, 0) == 1)
		middle_answer(m);
	if (m->way[0].from >= 0 &&
	    (!middle_pass(m, &m->way[0]) || !middle_pass(m, &m->way[1])))
		middle_hang_up(m);
}

/* Make turns for two seconds, which is enough for ten dials. */
static void middle_turns(struct rig *rig, struct middle *m)
{
	for (unsigned i = 0; i < 200; i++) {
		rig_advance(rig, 10 * MPIB_MSEC);
		middle_turn(rig, m);
	}
}

static bool has_peer(const struct rig *rig, unsigned n)
{
	const struct mpib_peer *p;

	TAILQ_FOREACH(p, &rig->node[n].broker->peers, entry)
	{
		if (p->state == MPIB_PEER_UP)
			return true;
	}
	return false;
}

/* Put the attacker at the address of node 1, so that it gets all messages for
 * node 1, and let node 0 connect to that address. */
static void stand_between(struct rig *rig, struct middle *m)
{
	struct client *a, *b;
	struct mpib_handle handle;

	rig->key = (struct mpib_cluster_key){ true, "cluster" };
	rig_both_up(rig, &a, &b, 0);
	middle_open(m, CALLED);
	m->as = CALLER;
	m->to = CALLED;
	m->to_port = mpib_broker_port(rig->node[1].broker);
	rig->node[1].broker->self.port = m->port;
	rig_listen(b, &handle);
	rig_call(a, 0, 0, &handle);
}

rig_test(an_attacker_who_only_relays_does_no_harm)
{
	struct middle m;

	stand_between(rig, &m);
	middle_turns(rig, &m);
	assert_true(has_peer(rig, 0));
	assert_true(has_peer(rig, 1));
	middle_close(&m);
}

static void lower(struct mpib_peer_msg *m)
{
	m->version_min--;
}

static void higher(struct mpib_peer_msg *m)
{
	m->version++;
}

static void restarted(struct mpib_peer_msg *m)
{
	m->node.boot++;
}

static void elsewhere(struct mpib_peer_msg *m)
{
	m->node.sout ^= 1;
}

static void challenged(struct mpib_peer_msg *m)
{
	m->challenge[3] ^= 1;
}

static void proved(struct mpib_peer_msg *m)
{
	m->proof[5] ^= 1;
}

/* If the attacker changes any field of the three messages, the link must
 * fail. */
TEST(a_change_of_any_field_of_the_greeting_is_detected)
{
	static const struct {
		enum mpib_peer_type type;
		change_fn *change;
	} changes[] = {
		{ MPIB_PEER_HELLO, lower },
		{ MPIB_PEER_HELLO, higher },
		{ MPIB_PEER_HELLO, restarted },
		{ MPIB_PEER_HELLO, elsewhere },
		{ MPIB_PEER_HELLO, challenged },
		{ MPIB_PEER_WELCOME, restarted },
		{ MPIB_PEER_WELCOME, elsewhere },
		{ MPIB_PEER_WELCOME, challenged },
		{ MPIB_PEER_WELCOME, proved },
		{ MPIB_PEER_READY, proved },
	};

	for (unsigned i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		struct rig *rig;
		struct middle m;

		rig_setup(state);
		rig = *state;
		stand_between(rig, &m);
		m.changes = changes[i].type;
		m.change = changes[i].change;
		middle_turns(rig, &m);
		if (has_peer(rig, 1))
			fail_msg("change %u of %s passed", i,
				 mpib_peer_type_name(changes[i].type));
		middle_close(&m);
		rig_teardown(state);
	}
}

/* To both ends, the attacker claims to be a node. This is the port of that
 * node. */
static uint16_t middle_port;

static void claim_middle(struct mpib_peer_msg *m)
{
	m->node.addr = mpib_address_of_ip(htonl(MIDDLE));
	m->node.port = middle_port;
}

/* A client of node 0 has a handle with the attacker's address. The attacker
 * relays the messages of node 0 to node `whom`. If this worked, each end would
 * take the attacker for a proxy that knows the key. */
static void expect_no_peer(struct rig *rig, unsigned whom)
{
	struct client *a, *b;
	struct mpib_handle handle;
	struct middle m;

	rig->key = (struct mpib_cluster_key){ true, "cluster" };
	rig_both_up(rig, &a, &b, 0);
	middle_open(&m, MIDDLE);
	m.as = MIDDLE;
	m.to = CALLER + whom;
	m.to_port = mpib_broker_port(rig->node[whom].broker);
	m.changes = MPIB_PEER_WELCOME;
	m.change = claim_middle;
	middle_port = m.port;
	rig_listen(b, &handle);
	handle.addr = htonl(MIDDLE);
	handle.port = m.port;
	rig_call(a, 0, 0, &handle);
	middle_turns(rig, &m);
	assert_false(has_peer(rig, 0));
	assert_false(has_peer(rig, 1));
	middle_close(&m);
}

rig_test(an_attacker_cannot_pose_as_a_proxy_to_the_called_node)
{
	expect_no_peer(rig, 1);
}

rig_test(an_attacker_cannot_pose_as_a_proxy_to_the_caller)
{
	expect_no_peer(rig, 0);
}
