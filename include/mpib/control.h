/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket RUNDIR/proxy.sock: AF_UNIX, SOCK_SEQPACKET, one message
 * a datagram, file descriptors by SCM_RIGHTS. The client asks, the proxy
 * answers each request once with the same id; slow things (connect, accept,
 * close) are answered at once and their outcome appears in the connection's
 * state in the reply segment, which has left FREE before connect and accept
 * are answered and READY before close is. Who the client is comes from
 * SO_PEERCRED, never from a message.
 */
#ifndef MPIB_CONTROL_H
#define MPIB_CONTROL_H

#include <mpib/abi.h>
#include <stdint.h>

#define MPIB_CONTROL_SOCK "proxy.sock"
#define MPIB_STATS_SOCK "stats.sock"
#define MPIB_METRICS_SOCK "metrics.sock"

/* An NCCL handle holds 128 bytes; this is what travels in one. */
#define MPIB_HANDLE_MAGIC 0x4c444e484249504dull

struct mpib_handle {
	uint64_t magic;
	uint32_t version; /* MPIB_ABI_VERSION of the listening proxy's plugin */
	uint32_t addr; /* IPv4 of its peer link, network order */
	uint16_t port; /* host order */
	uint16_t shard; /* that the listening client is on */
	uint32_t listen_id;
	uint64_t nonce; /* proves the handle came from the listener */
	uint64_t node; /* boot nonce of the proxy, tells a restart */
	uint64_t rsvd[11];
};

enum mpib_control_type {
	MPIB_CTL_HELLO = 1, /* first message; fds back: see mpib_ctl_welcome */
	MPIB_CTL_POOL, /* a new sealed memfd, registered on every rail */
	MPIB_CTL_REG_FD, /* register memory behind the fd passed */
	MPIB_CTL_DEREG,
	MPIB_CTL_LISTEN,
	MPIB_CTL_CLOSE_LISTEN,
	MPIB_CTL_CONNECT,
	MPIB_CTL_ACCEPT,
	MPIB_CTL_CLOSE, /* a connection, in any state but FREE */
	MPIB_CTL_WHY, /* text of a failed connection */
};

struct mpib_ctl_header {
	uint32_t type;
	uint32_t id; /* echoed */
	int32_t status; /* answers: 0 or -errno */
	uint32_t len; /* of the whole message */
};

/* Any answer with status < 0: only this, saying why in whole words. */
struct mpib_ctl_error {
	struct mpib_ctl_header h;
	char why[240];
};

struct mpib_ctl_hello {
	struct mpib_ctl_header h;
	uint32_t version;
	uint32_t pid; /* as the client sees itself; a label, not trusted */
	uint64_t job; /* NCCL's commId, 0 if none; a label */
	char name[64]; /* what to call this client; a label */
};

struct mpib_ctl_rail {
	char name[64]; /* "soft:127.0.0.1", "rdma:mlx5_0:1" */
	char pci_path[128];
	uint32_t speed_mbps;
	uint32_t up;
};

/* With four fds in this order: status, submit, reply, doorbell eventfd. */
struct mpib_ctl_welcome {
	struct mpib_ctl_header h;
	uint32_t version;
	uint32_t client; /* id, as tools show it */
	uint32_t shard; /* whose doorbell and heartbeat are ours */
	uint32_t rails;
	uint32_t dmabuf; /* dma-buf registration works on every rail */
	uint32_t window; /* staging bytes a connection gets */
	uint32_t part; /* largest staged part, a multiple of 128 */
	uint32_t answer_ms; /* wait so long for an answer; 0: 10000 */
	struct mpib_ctl_rail rail[MPIB_RAILS];
};

struct mpib_ctl_pool {
	struct mpib_ctl_header h;
	uint64_t size; /* bytes; rounded up to pages by the proxy */
};

/* With the memfd, sealed SHRINK|GROW|SEAL, for POOL; no fd for REG_FD. */
struct mpib_ctl_region {
	struct mpib_ctl_header h;
	uint64_t size;
	uint32_t mr; /* handle for descriptors and DEREG */
	uint32_t rsvd;
};

#define MPIB_REG_MEMFD 1u /* sealed against SHRINK, mapped by the proxy */
#define MPIB_REG_DMABUF 2u
#define MPIB_REG_STRICT (1u << 8) /* no relaxed ordering: FORCE_SO */

/* With one fd. It may be closed as soon as the answer is there. */
struct mpib_ctl_reg_fd {
	struct mpib_ctl_header h;
	uint64_t offset;
	uint64_t size;
	uint32_t flags;
	uint32_t rsvd;
};

/* DEREG, and the bare answers to DEREG, CLOSE_LISTEN, CONNECT, ACCEPT, CLOSE.
 * DEREG's answer is a fence: nothing touches the memory any more. */
struct mpib_ctl_id {
	struct mpib_ctl_header h;
	uint32_t id; /* region, listener or connection index */
	uint32_t rsvd;
};

struct mpib_ctl_listening {
	struct mpib_ctl_header h;
	uint32_t listen_id;
	uint32_t rsvd;
	struct mpib_handle handle;
};

struct mpib_ctl_connect {
	struct mpib_ctl_header h;
	uint32_t conn; /* a FREE index of the client's choice */
	int32_t traffic_class; /* -1: the proxy's own */
	struct mpib_handle handle;
};

struct mpib_ctl_accept {
	struct mpib_ctl_header h;
	uint32_t listen_id;
	uint32_t conn;
};

/* Answer to WHY. */
struct mpib_ctl_text {
	struct mpib_ctl_header h;
	char text[240];
};

/* Room for any message of either side. */
#define MPIB_CTL_MAX 1024u
#define MPIB_CTL_FDS_MAX 4

MPIB_ABI_ASSERT(sizeof(struct mpib_handle) == 128);
MPIB_ABI_ASSERT(sizeof(struct mpib_ctl_header) == 16);
MPIB_ABI_ASSERT(sizeof(struct mpib_ctl_hello) == 96);
MPIB_ABI_ASSERT(sizeof(struct mpib_ctl_rail) == 200);
MPIB_ABI_ASSERT(sizeof(struct mpib_ctl_welcome) == 448);
MPIB_ABI_ASSERT(sizeof(struct mpib_ctl_reg_fd) == 40);
MPIB_ABI_ASSERT(sizeof(struct mpib_ctl_connect) == 152);

#endif
