/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets of the simulated kernel. Unix sockets carry descriptors and deliver
 * immediately. TCP sockets connect nodes. TCP data arrives after a latency.
 * While the path between two nodes is cut, the data waits. A reset discards the
 * data.
 */
#ifndef SIM_SOCK_H
#define SIM_SOCK_H

#include <netinet/in.h>
#include <sys/un.h>

#include "sim_file.h"
#include "sim_world.h"

#define SIM_NODES 8
#define SIM_NETS 2 /* each node has one address in each network */
#define SIM_CHUNK_FDS 256

/* The data of one send call. */
struct sim_chunk {
	TAILQ_ENTRY(sim_chunk) link;
	uint8_t *bytes;
	size_t len, at; /* bytes before `at` were read already */
	int *held; /* descriptors */
	unsigned helds;
	uint64_t sent;
	bool last; /* this chunk is a FIN and has no bytes */
};
TAILQ_HEAD(sim_chunks, sim_chunk);

/* One direction of a connection. */
struct sim_flow {
	struct sim_sock *writer, *reader; /* NULL after the socket was closed */
	struct sim_chunks flight, arrived;
	/* bytes in flight, plus arrived bytes that were not read yet */
	size_t bytes;
	bool ended; /* the writer cannot send any more */
	bool eof; /* the reader reads EOF after the arrived bytes */
	bool inet;
	/* this flow's entry in the table of all TCP flows, or NULL */
	struct sim_flow **place;
	struct sockaddr_in from, to;
	struct sim_event event;
};

enum sim_sock_state {
	SIM_SOCK_NEW,
	SIM_SOCK_LISTENS,
	SIM_SOCK_DIALS,
	SIM_SOCK_OPEN,
};

struct sim_sock {
	struct sim_file file;
	int domain, type;
	enum sim_sock_state state;
	struct sockaddr_in addr, peer_addr;
	char path[108];
	struct sim_flow *in, *out;
	int err; /* error for the next call and for SO_ERROR */
	struct ucred peer;
	/* timeouts in ns; 0 means none */
	uint64_t read_limit, write_limit, user_timeout;
	/* `backlog`: connections that a listener has not accepted yet.
	 * `queued`: link of a connection in a backlog. */
	TAILQ_HEAD(, sim_sock) backlog;
	TAILQ_ENTRY(sim_sock) queued;
	LIST_ENTRY(sim_sock) listening;
	struct sim_event dial;
};

/* sim_flow.c */
void sim_flow_join(struct sim_sock *a, struct sim_sock *b);
/* Return whether the flow has room for one more chunk. */
bool sim_flow_room(const struct sim_flow *f);
void sim_flow_send(struct sim_flow *f, struct sim_chunk *c);
struct sim_chunk *sim_chunk_new(const void *bytes, size_t len);
void sim_chunk_free(struct sim_chunk *c);
/* Close the socket's end of both flows. */
void sim_flows_leave(struct sim_sock *sock);

/* Set the seed. `far` is the additional latency of each chunk in ns. */
void sim_net_seed(uint64_t seed, uint64_t far);
/* Cut the path between nodes `a` and `b` until the time `until`. */
void sim_net_cut(unsigned a, unsigned b, uint64_t until);
/* Lose all data from node `a` to node `b` until the time `until`. */
void sim_net_half(unsigned a, unsigned b, uint64_t until);
/* Lose all data at the node's port of network `net` until the time `until`. */
void sim_net_port(unsigned node, unsigned net, uint64_t until);
bool sim_net_open(const struct sockaddr_in *from, const struct sockaddr_in *to);
/* Reset every link between the two nodes. Return the number of links. */
unsigned sim_net_reset(unsigned a, unsigned b);
/* Until the time `until`, delay each chunk by up to `ns`. */
void sim_net_slow(uint64_t until, uint64_t ns);
uint64_t sim_net_latency(void);

/* sim_sock.c */
struct sim_sock *sim_sock_of(int fd);

#endif
