/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TCP links between the hosts of a test form a star. The hub is in the
 * process that prints the report, and has one link to each node. A node is a
 * process that forks the ranks of its host. Integers are in native byte order.
 * HELLO checks that both ends have the same byte order.
 */
#ifndef PERF_LINK_H
#define PERF_LINK_H

#include <stddef.h>
#include <stdint.h>

#include "nccl_abi.h"
#include "perf/options.h"

#define PERF_LINK_MAGIC 0x6d70696270657266ull
/* Protocol version. Increment it with each change of a message or of struct
 * perf_result. */
#define PERF_LINK_PROTO 2
/* The maximum size of a message: enough for the results and handles of a
 * node. */
#define PERF_LINK_MAX (64u << 20)

enum perf_msg_type {
	PERF_HELLO = 1, /* node to hub: struct perf_hello */
	PERF_SETUP, /* hub to node: struct perf_setup */
	PERF_INFO, /* node to hub: struct perf_info */
	PERF_HANDLES, /* both ways: struct perf_handle_msg[] */
	PERF_ARRIVE, /* node to hub: all its ranks wait at a barrier */
	PERF_GO, /* hub to node: all ranks of all nodes have arrived */
	PERF_RESULT, /* node to hub: struct perf_result_head, perf_result */
	PERF_FAIL, /* both ways: a text that says why the test ends */
	PERF_BYE, /* node to hub: all ranks succeeded; struct perf_rails */
};

struct perf_hello {
	uint64_t magic;
	uint32_t proto;
	int32_t rank; /* rank that the launcher assigned; -1 for a server */
	/* Number of the launcher's job, so that jobs do not mix. */
	uint64_t job;
	char host[64];
};

struct perf_info {
	int32_t abi, speed, max_recvs, devices;
	char plugin[32], device[128];
};

struct perf_handle_msg {
	int32_t to, from, channel, rsvd;
	char bytes[NCCL_NET_HANDLE_MAXSIZE];
};

struct perf_arrive {
	int32_t more; /* set by rank 0's node: whether a steady run continues */
	int32_t row; /* the current row */
	int32_t ended; /* the row has ended and its results were sent */
	int32_t senders;
	uint64_t sent, wrong; /* bytes of the row so far */
	/* seconds of the row's timed part on the slowest rank */
	double seconds;
};

struct perf_go {
	int32_t more, rsvd;
};

struct perf_result_head {
	int32_t row, rank;
};

#define PERF_RAILS 2

/* The rails of the tested device, with their counts during the test, as a
 * node's proxy reported them. */
struct perf_rails {
	int32_t n, rsvd;
	struct {
		char name[48], device[64];
		int32_t soft, up;
		int32_t standby; /* used only while the other rail is down */
		int32_t rsvd;
		uint64_t speed_mbps, tx_bytes, rx_bytes, errors;
	} rail[PERF_RAILS];
};

/* A received message. `data` has `len` bytes, followed by a zero
 * byte. */
struct perf_msg {
	uint32_t type, len;
	char *data;
};

/* Limit the time that sending and receiving on `fd` take, and detect a peer
 * that vanished. */
void perf_link_ready(int fd);

/* Send a message. Returns 0 or -errno. */
int perf_link_send(int fd, enum perf_msg_type type, const void *data,
		   size_t len);

/* Turn `text`, which has `size` bytes, into a string of printable ASCII: text
 * from another host is printed to a terminal. */
void perf_link_clean(char *text, size_t size);

/* Receive a message into *m. The caller frees its `data`. The text of a
 * PERF_FAIL is printable. -EPIPE: the other end hung up; -EPROTO: the bytes are
 * not a message; -ETIMEDOUT: the message is incomplete. */
int perf_link_recv(int fd, struct perf_msg *m);

/* Receive a message that must be of `type` and have at least `len` bytes. If a
 * PERF_FAIL arrives instead, print its text to stderr and return -EREMOTEIO. */
int perf_link_expect(int fd, struct perf_msg *m, enum perf_msg_type type,
		     size_t len, const char *host);

/* Connect to `host`: "NAME", "NAME:PORT" or "[V6]:PORT". If no process listens
 * there yet, retry for `seconds`. Returns the fd, or -1 after a line on
 * stderr. */
int perf_link_dial(const char *host, int port, double seconds);

/* Listen at the address `addr`, or at all addresses if `addr` is NULL. If *port
 * is 0, choose a free port and set *port. Returns the fd, or -1 after a line on
 * stderr. */
int perf_link_listen(const char *addr, int *port);

/* Description of a test, sent by the hub to each node. A node chooses its
 * plugin, ABI version and environment itself. These settings are never sent
 * over the network. The node also chooses its device, except in "mpib-perf
 * check". */
/* The device that the node chose itself. */
#define PERF_SETUP_OWN UINT32_MAX

struct perf_setup {
	uint32_t node, nnodes, ranks_per_node;
	uint32_t pattern, block_order, channels, inflight, sealed;
	uint32_t check, group, early, churn;
	uint32_t device, rsvd; /* PERF_SETUP_OWN, or the device's index */
	uint64_t min, max, factor, iters, warmup, chunk, seed;
	uint64_t random_sizes, steady_count;
	double steady_seconds, timeout;
};

void perf_setup_make(struct perf_setup *s, const struct perf_options *opt,
		     int node, uint32_t device);

/* Check *s like a command line and copy it into *opt. Returns 0, or -EINVAL
 * after a line on stderr. */
int perf_setup_take(const struct perf_setup *s, struct perf_options *opt);

#endif
