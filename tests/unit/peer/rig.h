/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brokers of several nodes in one process over fake engines, on addresses
 * 127.23.0.n. Each has its own loop, and the test makes the turns. Only
 * rig_advance() changes the time.
 */
#ifndef MPIB_RIG_H
#define MPIB_RIG_H

#include "agent/agent.h"
#include "fake_engine.h"
#include "peer/broker.h"

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
	struct mpib_broker *broker; /* NULL while it is down */
	struct client client[CLIENTS];
	unsigned clients;
};

/* Tests set the members before rig_up(). traffic_class may change later. */
struct rig {
	struct node node[NODES];
	unsigned seed; /* draws the order of turns */
	bool private_lanes;
	bool v6; /* all nodes are on ::1, each with its own port */
	unsigned silence_s; /* 0 means random */
	unsigned grace_s; /* 0 means no resumption */
	int traffic_class; /* class of later connections; 0 means none */
	struct mpib_cluster_key key;
	struct mpib_islands islands[NODES];
	const struct mpib_networks *networks[NODES]; /* NULL: any network */
	uint32_t sout[NODES]; /* host order */
	uint16_t port[NODES]; /* 0 means any */
	const char *agent_dir; /* NULL means no agent */
	bool adaptive; /* mode of the proxies */
};

/* cmocka fixture. *state is a rig without a running node. Teardown stops all
 * nodes and asserts that no rule was broken and no object is left. */
int rig_setup(void **state);
int rig_teardown(void **state);
#define rig_test(f) TEST_OF(f, rig_setup, rig_teardown)

/* Start a broker on 127.23.0.(n + 1); port 0 means any port. */
void rig_up(struct rig *rig, unsigned n);
/* Do what a kill of the proxy does: its sockets close, and its connections and
 * lanes are gone. */
void rig_kill(struct rig *rig, unsigned n);

/* Break the node's links. Data that was sent or received but not processed is
 * lost. */
void rig_cut(struct rig *rig, unsigned n);

struct client *rig_client(struct rig *rig, unsigned n, uid_t uid,
			  unsigned shard);
/* Start nodes 0 and 1, each with a client of the same user: a on shard 0 of
 * node 0, and b on b_shard of node 1. */
void rig_both_up(struct rig *rig, struct client **a, struct client **b,
		 unsigned b_shard);
uint32_t rig_state(const struct client *c, uint32_t index);
int rig_error(const struct client *c, uint32_t index);

/* Make one turn of a randomly drawn node. */
void rig_step(struct rig *rig);
/* Make turns until nothing changes any more. */
void rig_settle(struct rig *rig);
void rig_advance(struct rig *rig, uint64_t ns);
/* Let time pass in steps, and settle after each. */
void rig_pass(struct rig *rig, uint64_t ns);

/* Send a client's request to its broker, which must accept it. */
uint32_t rig_listen(struct client *c, struct mpib_handle *handle);
void rig_call(struct client *c, uint32_t index, int traffic_class,
	      const struct mpib_handle *handle);
/* Do the same, and return the broker's answer. */
int rig_try_call(struct client *c, uint32_t index, int traffic_class,
		 const struct mpib_handle *handle);
void rig_accept(struct client *c, uint32_t id, uint32_t index);
/* Listen, connect and accept at these indices, until both ends are READY. */
void rig_connect(struct rig *rig, struct client *from, uint32_t from_index,
		 struct client *to, uint32_t to_index);
/* Call rig_both_up() and make connection 0 between the clients. */
void rig_both_connected(struct rig *rig, struct client **a, struct client **b);

#endif
