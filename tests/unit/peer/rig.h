/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brokers of several nodes in one process over fake engines, on addresses
 * 127.23.0.n. Each broker has its own loop, whose turns the test makes. Only
 * rig_advance() changes the time.
 */
#ifndef MPIB_RIG_H
#define MPIB_RIG_H

#include "agent/agent.h"
#include "fake_engine.h"
#include "peer/broker.h"
#include "peer/protocol.h"

#define NODES 3
#define CLIENTS 12

struct client {
	struct node *node;
	struct peer_client client;
	struct engine_client engine_client;
	bool attached, gone;
};

struct node {
	struct mpib_loop loop;
	struct mpib_engine engine;
	struct mpib_agent_link *agent; /* NULL without rig->agent_dir */
	struct mpib_broker *broker; /* NULL while the node is down */
	struct client client[CLIENTS];
	unsigned clients;
};

/* A test sets the members before rig_up(). Only `traffic_class` may change
 * later. */
struct rig {
	struct node node[NODES];
	unsigned seed; /* seed of the order of turns */
	bool private_lanes;
	bool v6; /* all nodes are on ::1, each with its own port */
	unsigned silence_s; /* peer.silence; 0: default */
	unsigned grace_s; /* resume.grace; 0: connections are not resumed */
	int traffic_class; /* class that rig_connect() requests; 0: none */
	struct mpib_cluster_key key;
	struct mpib_islands islands[NODES];
	const struct mpib_networks *networks[NODES]; /* NULL: any network */
	uint32_t sout[NODES]; /* host order */
	uint16_t port[NODES]; /* 0: any port */
	const char *agent_dir; /* NULL: no agent */
	/* the proxies can split messages without an agent's hints */
	bool adaptive;
};

/* Setup and teardown for cmocka. The setup sets *state to a rig without a
 * running node. The teardown stops all nodes and checks that the fake engines
 * saw no violation and no object is left. */
int rig_setup(void **state);
int rig_teardown(void **state);
/* RIG_TEST_OF() is TEST_OF() for a test with the argument `rig`. */
#define RIG_TEST_OF(f, before, after)                                          \
	static void f##_in(struct rig *rig);                                   \
	TEST_OF(f, before, after)                                              \
	{                                                                      \
		f##_in(*state);                                                \
	}                                                                      \
	static void f##_in(struct rig *rig)
#define rig_test(f) RIG_TEST_OF(f, rig_setup, rig_teardown)

/* Start node number `n`, with the address 127.23.0.(n + 1). */
void rig_up(struct rig *rig, unsigned n);
/* End the node as if its proxy was killed: the sockets close, and the
 * connections and lanes are gone. */
void rig_kill(struct rig *rig, unsigned n);

/* Break the node's links. Data that was sent or received but not processed is
 * lost. */
void rig_cut(struct rig *rig, unsigned n);

struct client *rig_client(struct rig *rig, unsigned n, uid_t uid,
			  unsigned shard);
/* Start nodes 0 and 1, each with a client of the same user: *a on shard 0 of
 * node 0, and *b on shard `b_shard` of node 1. */
void rig_both_up(struct rig *rig, struct client **a, struct client **b,
		 unsigned b_shard);
uint32_t rig_state(const struct client *c, uint32_t index);
int rig_error(const struct client *c, uint32_t index);
const char *rig_why(const struct client *c, uint32_t index);
/* Check that connection `index` of each client is READY. */
void rig_assert_ready(const struct client *a, const struct client *b,
		      uint32_t index);

/* Make one turn of a randomly drawn node. */
void rig_step(struct rig *rig);
/* Make turns until there is nothing left to do. */
void rig_settle(struct rig *rig);
void rig_advance(struct rig *rig, uint64_t ns);
/* Let time pass in steps, and call rig_settle() after each step. */
void rig_pass(struct rig *rig, uint64_t ns);

/* Send a client's request to its broker, which must accept it. */
uint32_t rig_listen(struct client *c, struct mpib_handle *handle);
void rig_call(struct client *c, uint32_t index, int traffic_class,
	      const struct mpib_handle *handle);
/* Send a connect to the client's broker. Return the broker's answer. */
int rig_try_call(struct client *c, uint32_t index, int traffic_class,
		 const struct mpib_handle *handle);
void rig_accept(struct client *c, uint32_t id, uint32_t index);
/* A stranger is a caller that is not a node. rig_stranger() returns a TCP
 * connection to the broker of node 0, from an address that no node has.
 * rig_hello() returns a stranger's HELLO. */
int rig_stranger(const struct rig *rig);
struct mpib_peer_msg rig_hello(uint16_t port);
void rig_say(int fd, const struct mpib_peer_msg *m);
/* Listen, connect and accept at these indices. Both ends must become READY. */
void rig_connect(struct rig *rig, struct client *from, uint32_t from_index,
		 struct client *to, uint32_t to_index);
/* Call rig_both_up(), and connect index 0 of *a to index 0 of *b. */
void rig_both_connected(struct rig *rig, struct client **a, struct client **b);

#endif
