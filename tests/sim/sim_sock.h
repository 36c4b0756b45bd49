/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets of the simulated kernel: Unix sockets, which carry descriptors and
 * deliver at once, and TCP between nodes. TCP's bytes take time, wait while the
 * path between two nodes is cut, and are lost with a reset.
 */
#ifndef SIM_SOCK_H
#define SIM_SOCK_H

#include <netinet/in.h>
#include <sys/un.h>

#include "sim_file.h"
#include "sim_world.h"

#define SIM_NODES 8
#define SIM_NETS 2 /* a node has an address in each */
#define SIM_CHUNK_FDS 256

/* What one call sent. */
struct sim_chunk {
	TAILQ_ENTRY(sim_chunk) link;
	uint8_t *bytes;
	size_t len, at; /* bytes before at were read */
	int *held; /* descriptors */
	unsigned helds;
	uint64_t sent;
	bool last; /* FIN: no bytes */
};
TAILQ_HEAD(sim_chunks, sim_chunk);

/* One direction of a connection. */
struct sim_flow {
	struct sim_sock *writer, *reader; /* NULL: closed */
	struct sim_chunks flight, arrived;
	size_t bytes; /* of both */
	bool ended; /* the writer sends no more */
	bool eof; /* and the reader has been told */
	bool inet;
	struct sim_flow **place; /* among all of TCP; NULL: it has none */
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
	int err; /* for the next call, and SO_ERROR */
	struct ucred peer;
	uint64_t read_limit, write_limit, user_timeout; /* ns, 0: none */
	/* Of a listener; of a connection that waits there. */
	TAILQ_HEAD(, sim_sock) backlog;
	TAILQ_ENTRY(sim_sock) queued;
	LIST_ENTRY(sim_sock) listening;
	struct sim_event dial;
};

/* sim_flow.c */
void sim_flow_join(struct sim_sock *a, struct sim_sock *b);
/* Room for one more chunk. */
bool sim_flow_room(const struct sim_flow *f);
void sim_flow_send(struct sim_flow *f, struct sim_chunk *c);
struct sim_chunk *sim_chunk_new(const void *bytes, size_t len);
void sim_chunk_free(struct sim_chunk *c);
/* sock closes: its ends of both directions. */
void sim_flows_leave(struct sim_sock *sock);

/* far: ns that each chunk takes in addition. */
void sim_net_seed(uint64_t seed, uint64_t far);
/* The paths between nodes, for the plan of faults. */
void sim_net_cut(unsigned a, unsigned b, uint64_t until);
/* What a sends to b. */
void sim_net_half(unsigned a, unsigned b, uint64_t until);
/* Nothing passes at the node's port of that network. */
void sim_net_port(unsigned node, unsigned net, uint64_t until);
bool sim_net_open(const struct sockaddr_in *from, const struct sockaddr_in *to);
/* Every link between the two is reset; returns how many. */
unsigned sim_net_reset(unsigned a, unsigned b);
/* Until that time each chunk takes up to this much longer. */
void sim_net_slow(uint64_t until, uint64_t ns);
uint64_t sim_net_latency(void);

/* sim_sock.c */
struct sim_sock *sim_sock_of(int fd);

#endif
