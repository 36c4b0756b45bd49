/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer/broker.h between nodes with the same cluster key, without a key, and
 * with different keys.
 */
#include "rig.h"

#include <arpa/inet.h>
#include <string.h>
#include <unistd.h>

#include "base/event.h"
#include "peer/internal.h"
#include "test.h"

static const struct mpib_cluster_key cluster = { true, "cluster" };
static const struct mpib_cluster_key other = { true, "other" };
static const struct mpib_cluster_key none;

/* Keep the entry of a refused peer, which the statistics show. */
static void keep_refusal(void *arg, const struct mpib_broker_told *t)
{
	const struct mpib_broker_told **last = arg;
	static struct mpib_broker_told kept;

	if (t->state != MPIB_TOLD_REFUSED)
		return;
	assert_null(*last);
	kept = *t;
	*last = &kept;
}

/* Connect from a node with the key `from` to a node with the key `to`. The text
 * of the failure must contain `why`. */
static void expect_refused(struct rig *rig, const struct mpib_cluster_key *from,
			   const struct mpib_cluster_key *to, const char *why)
{
	const struct mpib_broker_told *told = NULL;
	struct mpib_handle handle;
	struct client *a, *b;

	rig->key = *from;
	rig_up(rig, 0);
	rig->key = *to;
	rig_up(rig, 1);
	a = rig_client(rig, 0, 1000, 0);
	b = rig_client(rig, 1, 1000, 0);
	rig_listen(b, &handle);
	rig_call(a, 0, -1, &handle);
	rig_pass(rig, 11 * MPIB_SEC);
	assert_int_equal(rig_state(a, 0), MPIB_CONN_FAILED);
	assert_in(rig_why(a, 0), why);
	assert_int_equal(fake_lanes(&rig->node[1].engine), 0);
	mpib_broker_each_told(a->node->broker, keep_refusal, &told);
	assert_non_null(told);
	assert_non_null(strstr(told->why, why));
	assert_true(told->refusals > 1);
}

/* A changed key does not affect a link that is up. Reconnecting then fails, and
 * both ends report the reason. */
rig_test(a_key_changed_at_one_end_ends_lanes_when_their_link_breaks)
{
	struct client *a, *b;

	rig->key = cluster;
	rig_both_connected(rig, &a, &b);
	rig->node[1].broker->key = other;
	rig_pass(rig, 30 * MPIB_SEC);
	rig_connect(rig, b, 1, a, 1);
	rig_cut(rig, 0);
	rig_pass(rig, 50 * MPIB_SEC);
	assert_int_equal(rig_state(a, 0), MPIB_CONN_READY);
	rig_pass(rig, 15 * MPIB_SEC);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(rig_state(a, i), MPIB_CONN_FAILED);
		assert_int_equal(rig_state(b, i), MPIB_CONN_FAILED);
	}
	assert_in(rig_why(a, 0), "does not know the cluster's key");
	assert_in(rig_why(b, 0), "does not know the cluster's key");
}

/* Return the number of events about refused links after number `since`. */
static unsigned refusals_after(uint64_t since)
{
	static struct mpib_event e[MPIB_EVENTS];
	uint64_t last;
	unsigned refusals = 0,
		 n = mpib_events_after(since, e, MPIB_EVENTS, &last);

	for (unsigned i = 0; i < n; i++)
		refusals += !strcmp(e[i].kind, "peer_refused");
	return refusals;
}

/* While a client wants to connect, its broker dials ten times a second. Each
 * node that refuses or is refused tells its operator once. With different keys
 * the caller hangs up first. */
TEST(a_node_with_another_key_is_refused_and_the_refusal_is_told_once)
{
	static const struct {
		const struct mpib_cluster_key *from, *to;
		const char *why;
		unsigned told;
	} row[] = {
		{ &none, &cluster,
		  "127.23.0.2 has a key and 127.23.0.1 has none (set "
		  "peer.key_file on 127.23.0.1)",
		  2 },
		{ &cluster, &none,
		  "127.23.0.1 has a key and 127.23.0.2 has none (set "
		  "peer.key_file on 127.23.0.2)",
		  2 },
		{ &other, &cluster, "does not know the cluster's key", 1 },
	};

	uint64_t before;

	for (unsigned i = 0; i < 3; i++) {
		rig_setup(state);
		mpib_events_after(0, NULL, 0, &before);
		expect_refused(*state, row[i].from, row[i].to, row[i].why);
		assert_int_equal(refusals_after(before), row[i].told);
		rig_teardown(state);
	}
}

rig_test(a_changed_reason_is_told_again)
{
	struct mpib_broker *b;
	uint64_t before;

	rig_up(rig, 0);
	b = rig->node[0].broker;
	mpib_events_after(0, NULL, 0, &before);
	for (unsigned i = 0; i < 9; i++)
		mpib_refusal_note(b, &in6addr_loopback, 0,
				  i < 6 ? "one reason" : "another reason");
	assert_int_equal(refusals_after(before), 2);
	/* A host cannot fill the journal by reasons that alternate. */
	for (unsigned i = 0; i < 4 * PEER_REFUSALS; i++)
		mpib_refusal_note(b, &in6addr_loopback, 0,
				  i % 2 ? "one reason" : "another reason");
	assert_in_range(refusals_after(before), 2, PEER_REFUSALS);
}

/* The caller has a key, so it uses its second address. The called node has no
 * key, so it does not know that address. */
rig_test(a_caller_at_its_second_address_is_the_same_node)
{
	const struct in6_addr first = mpib_address_of_ip(htonl(0x7f170008u));
	const struct mpib_broker_told *told = NULL;
	struct mpib_peer_msg hello = rig_hello(1);
	struct mpib_broker *b;
	int fd;

	rig_up(rig, 0);
	b = rig->node[0].broker;
	mpib_refusal_note(b, &first, 0, "it has another key");
	hello.node.second = hello.node.addr;
	hello.node.addr = first;
	mpib_auth_challenge(&cluster, hello.challenge);
	fd = rig_stranger(rig);
	rig_say(fd, &hello);
	while (mpib_broker_refused(b) < 2)
		mpib_loop_turn(&rig->node[0].loop, 1);
	mpib_broker_each_told(b, keep_refusal, &told);
	assert_non_null(told);
	assert_int_equal(told->refusals, 2);
	assert_string_equal(told->peer, "127.23.0.8");
	assert_non_null(strstr(told->why, "127.23.0.1 has none"));
	close(fd);
}
