/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peer links over the second address: the brokers of two nodes that have two
 * addresses each.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "peer/internal.h"
#include "rig.h"
#include "test.h"

static int two_setup(void **state)
{
	int rc = rig_setup(state);
	struct rig *rig = *state;

	rig->second = true;
	return rc;
}

static struct mpib_peer *peer_of(const struct client *c)
{
	return TAILQ_FIRST(&c->node->broker->peers);
}

/* By which of its addresses c's peer has its link: 1, 2, or 0, there is none. */
static unsigned by(const struct client *c)
{
	const struct mpib_peer *p = peer_of(c);

	if (!p->link || p->state != MPIB_PEER_UP)
		return 0;
	if (mpib_address_same(&p->link->addr, &p->node.addr))
		return 1;
	assert_true(mpib_address_same(&p->link->addr, &p->second));
	return 2;
}

static void assert_went_on(const struct client *a, const struct client *b)
{
	assert_int_equal(rig_state(a, 0), MPIB_CONN_READY);
	assert_int_equal(rig_state(b, 0), MPIB_CONN_READY);
	assert_int_equal(fake_lanes(&a->node->engine), 1);
	assert_int_equal(fake_lanes(&b->node->engine), 1);
}

static void a_link_that_breaks_is_made_by_the_other_address(void **state)
{
	struct rig *rig = *state;
	struct client *a, *b;

	rig_both_connected(rig, &a, &b);
	for (unsigned i = 0; i < 20; i++) {
		assert_int_equal(by(a), i % 2 + 1);
		assert_int_equal(by(b), i % 2 + 1);
		rig_cut(rig, i / 2 & 1);
		rig_pass(rig, MPIB_SEC);
		assert_went_on(a, b);
		rig_connect(rig, i & 4 ? a : b, i + 1, i & 4 ? b : a, i + 1);
	}
	assert_int_equal(a->node->broker->peer_count, 1);
	assert_int_equal(b->node->broker->peer_count, 1);
}

/* Turns of one node alone, while time goes by for both. */
static void alone(struct rig *rig, unsigned n, unsigned seconds)
{
	for (unsigned s = 0; s < seconds; s++) {
		while (mpib_loop_turn(&rig->node[n].loop, 0) > 0)
			;
		rig_advance(rig, MPIB_SEC);
	}
}

/* For the time of a third of 60 s, and not of all. */
static void a_silent_link_is_given_up_and_its_lanes_are_not(void **state)
{
	struct rig *rig = *state;
	struct client *a, *b;

	rig_both_connected(rig, &a, &b);
	alone(rig, 0, 19);
	assert_int_equal(by(a), 1);
	alone(rig, 0, 3);
	assert_int_equal(by(a), 0);
	assert_int_equal(peer_of(a)->state, MPIB_PEER_CALLING);
	assert_int_equal(rig_state(a, 0), MPIB_CONN_READY);
	rig_pass(rig, 10 * MPIB_SEC);
	assert_int_not_equal(by(a), 0);
	assert_int_equal(by(b), by(a));
	assert_went_on(a, b);
}

static void silent_for_all_its_time_it_loses_its_lanes(void **state)
{
	struct rig *rig = *state;
	struct client *a, *b;

	rig_both_connected(rig, &a, &b);
	alone(rig, 0, 58);
	assert_int_equal(rig_state(a, 0), MPIB_CONN_READY);
	alone(rig, 0, 4);
	assert_int_equal(rig_state(a, 0), MPIB_CONN_FAILED);
	rig_pass(rig, 10 * MPIB_SEC);
	rig_connect(rig, a, 1, b, 1);
}

/* Nobody comes in there, at either node. */
static void shut(struct rig *rig, unsigned door)
{
	for (unsigned n = 0; n < 2; n++) {
		struct mpib_door *d = &rig->node[n].broker->door[door];

		mpib_acceptor_close(&d->acceptor);
		close(d->fd);
		d->fd = -1;
	}
}

static void a_refusal_there_says_nothing_of_the_peer(void **state)
{
	struct rig *rig = *state;
	struct client *a, *b;

	rig_both_connected(rig, &a, &b);
	shut(rig, 1);
	rig_cut(rig, 0);
	rig_pass(rig, MPIB_SEC);
	assert_int_equal(by(a), 1);
	assert_went_on(a, b);
}

static void a_proxy_that_is_gone_is_not_waited_for(void **state)
{
	struct rig *rig = *state;
	struct client *a, *b;

	rig_both_connected(rig, &a, &b);
	rig_kill(rig, 1);
	rig_pass(rig, MPIB_SEC);
	assert_int_equal(rig_state(a, 0), MPIB_CONN_FAILED);
}

/* Knock at an address of node 0, from one. */
static int dial(struct rig *rig, uint32_t from, uint32_t at)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	struct sockaddr_in self = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	to.sin_addr.s_addr = htonl(at);
	to.sin_port = htons(mpib_broker_port(rig->node[0].broker));
	self.sin_addr.s_addr = htonl(from);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&self, sizeof(self)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

/* What a caller says it is, from an address; the type of the answer, 0: none. */
static unsigned greeted(struct rig *rig, uint32_t from, uint32_t says)
{
	struct mpib_peer_msg m = { .type = MPIB_PEER_HELLO,
				   .magic = MPIB_PEER_MAGIC,
				   .version_min = MPIB_PEER_VERSION_MIN,
				   .version = MPIB_PEER_VERSION,
				   .node = { .boot = 1 } };
	uint8_t buf[MPIB_PEER_FRAME_MAX];
	int fd = dial(rig, from, 0x7f180001u);
	ssize_t n;

	m.node.addr = mpib_address_of_ip(htonl(says));
	m.node.port =
		rig->node[1].broker ? mpib_broker_port(rig->node[1].broker) : 1;
	n = (ssize_t)mpib_peer_encode(&m, buf);
	assert_int_equal(send(fd, buf, (size_t)n, MSG_NOSIGNAL), n);
	for (unsigned i = 0; (n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT)) < 0;
	     i++) {
		assert_true(i < 5000);
		mpib_loop_turn(&rig->node[0].loop, 1);
	}
	close(fd);
	return n > 4 ? buf[4] : 0;
}

static void a_caller_speaks_for_the_address_that_named_its_own(void **state)
{
	struct rig *rig = *state;
	struct client *a, *b;

	rig_both_connected(rig, &a, &b);
	assert_int_equal(greeted(rig, 0x7f180002u, 0x7f170002u),
			 MPIB_PEER_WELCOME);
	assert_int_equal(greeted(rig, 0x7f180003u, 0x7f170002u),
			 MPIB_PEER_REFUSED);
	assert_int_equal(greeted(rig, 0x7f180002u, 0x7f170003u),
			 MPIB_PEER_REFUSED);
	assert_int_equal(greeted(rig, 0x7f180003u, 0x7f170003u),
			 MPIB_PEER_REFUSED);
}

static void one_in_no_network_of_peers_is_not_called(void **state)
{
	struct mpib_networks firsts = { 0 };
	struct rig *rig = *state;
	struct client *a, *b;
	char why[200];

	assert_int_equal(
		mpib_networks_parse(&firsts, "127.23.0.0/16", why, sizeof(why)),
		0);
	rig->networks[0] = rig->networks[1] = &firsts;
	rig_both_connected(rig, &a, &b);
	for (unsigned i = 0; i < 4; i++) {
		rig_cut(rig, i & 1);
		rig_pass(rig, MPIB_SEC);
		assert_int_equal(by(a), 1);
		assert_went_on(a, b);
	}
	assert_int_equal(greeted(rig, 0x7f180002u, 0x7f170002u),
			 MPIB_PEER_REFUSED);
}

/* More than a door takes at once, for time stands still, and more than it
 * keeps of those that prove nothing. */
static void a_flood_at_one_leaves_the_other_to_peers(void **state)
{
	struct rig *rig = *state;
	struct client *a, *b;
	int fd[520], polite;
	char byte;

	rig_both_connected(rig, &a, &b);
	polite = dial(rig, 0x7f180002u, 0x7f180001u);
	rig_settle(rig);
	for (uint32_t i = 0; i < 520; i++)
		fd[i] = dial(rig, 0x7f170101u + (i / 50 << 8), 0x7f170001u);
	rig_settle(rig);
	assert_true(a->node->broker->door[0].acceptor.pause.armed);
	assert_int_equal(a->node->broker->door[0].callers, 256);
	assert_int_equal(recv(polite, &byte, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN); /* nobody hung up on it */
	assert_int_equal(greeted(rig, 0x7f180002u, 0x7f170002u),
			 MPIB_PEER_WELCOME);
	close(polite);
	for (unsigned i = 0; i < 520; i++)
		close(fd[i]);
	rig_pass(rig, MPIB_SEC);
}

/* Their first addresses are of no use from the beginning. */
static void begin_by_second(struct rig *rig, struct client **a,
			    struct client **b)
{
	struct mpib_handle handle;
	uint32_t id;

	if (!rig->node[0].broker)
		rig_up(rig, 0);
	rig_up(rig, 1);
	*a = rig_client(rig, 0, 1000, 0);
	*b = rig_client(rig, 1, 1000, 0);
	shut(rig, 0);
	id = rig_listen(*b, &handle);
	mpib_broker_accept((*b)->node->broker, &(*b)->client, id, 0);
	rig_call(*a, 0, 0, &handle);
	rig_pass(rig, 2 * MPIB_SEC);
}

static void one_never_reached_is_called_at_both(void **state)
{
	struct rig *rig = *state;
	struct client *a, *b;

	rig->key = (struct mpib_cluster_key){ true, "cluster" };
	begin_by_second(rig, &a, &b);
	assert_int_equal(by(a), 2);
	assert_int_equal(by(b), 2);
	assert_went_on(a, b);
}

/* A handle that anybody made, and that lacks the second, does not have others wait
 * at the first. */
static void a_call_under_way_hears_of_the_second(void **state)
{
	struct mpib_handle handle, lacking;
	struct rig *rig = *state;
	struct client *a, *b;

	rig->key = (struct mpib_cluster_key){ true, "cluster" };
	rig_up(rig, 0);
	rig_up(rig, 1);
	a = rig_client(rig, 0, 1000, 0);
	b = rig_client(rig, 1, 1000, 0);
	rig_listen(b, &handle);
	lacking = handle;
	memset(lacking.second, 0, sizeof(lacking.second));
	rig_call(a, 0, 0, &lacking);
	alone(rig, 0, 1);
	assert_int_equal(peer_of(a)->state, MPIB_PEER_CALLING);
	rig_call(a, 1, 0, &handle);
	alone(rig, 0, 4);
	assert_true(peer_of(a)->by_second);
}

/* It could be anybody. */
static void without_a_key_one_never_reached_is_called_at_its_first(void **state)
{
	struct rig *rig = *state;
	struct client *a, *b;

	begin_by_second(rig, &a, &b);
	assert_int_equal(by(a), 0);
	assert_true(IN6_IS_ADDR_UNSPECIFIED(&peer_of(a)->second));
	assert_int_equal(b->node->broker->refused_count, 0);
	assert_int_equal(greeted(rig, 0x7f180002u, 0x7f170002u),
			 MPIB_PEER_REFUSED);
}

static unsigned warnings;

static void count(enum mpib_log_level level, const char *line)
{
	(void)line;
	warnings += level == MPIB_LOG_WARN;
}

/* One of the caller's, one of the called. */
static void what_is_wrong_there_is_told_once(void **state)
{
	const struct mpib_cluster_key other = { true, "other" };
	struct rig *rig = *state;
	struct client *a, *b;

	mpib_log_set_level(MPIB_LOG_WARN);
	mpib_log_set_sink(count);
	rig->key = (struct mpib_cluster_key){ true, "cluster" };
	rig_up(rig, 0);
	rig->key = other;
	begin_by_second(rig, &a, &b);
	mpib_log_set_sink(NULL);
	assert_int_equal(rig_state(a, 0), MPIB_CONN_PENDING);
	assert_in_range(warnings, 1, 2);
}

#define TWO(f) cmocka_unit_test_setup_teardown(f, two_setup, rig_teardown)

const struct CMUnitTest test_list[] = {
	TWO(a_link_that_breaks_is_made_by_the_other_address),
	TWO(a_silent_link_is_given_up_and_its_lanes_are_not),
	TWO(silent_for_all_its_time_it_loses_its_lanes),
	TWO(a_refusal_there_says_nothing_of_the_peer),
	TWO(a_proxy_that_is_gone_is_not_waited_for),
	TWO(a_caller_speaks_for_the_address_that_named_its_own),
	TWO(one_in_no_network_of_peers_is_not_called),
	TWO(a_flood_at_one_leaves_the_other_to_peers),
	TWO(one_never_reached_is_called_at_both),
	TWO(what_is_wrong_there_is_told_once),
	TWO(a_call_under_way_hears_of_the_second),
	TWO(without_a_key_one_never_reached_is_called_at_its_first),
	{ 0 },
};
