/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket RUNDIR/proxy.sock: AF_UNIX, SOCK_SEQPACKET, one message
 * per datagram, file descriptors by SCM_RIGHTS. The proxy answers each request
 * of the client once, with the same id. The proxy also answers connect, accept
 * and close at once, although they take time: their outcome appears in the
 * connection's state word in the reply segment. That word is no longer FREE
 * when the client gets the answer to connect or accept, and no longer READY
 * when it gets the answer to close. The proxy takes the client's identity from
 * SO_PEERCRED, never from a message.
 */
#ifndef MPIB_CONTROL_H
#define MPIB_CONTROL_H

#include <mpib/abi.h>
#include <stdint.h>

#define MPIB_CONTROL_SOCK "proxy.sock"
#define MPIB_STATS_SOCK "stats.sock"
/* Suffix of the administration socket's directory, RUNDIR.admin. It is not
 * inside the run directory, because containers mount the run directory. */
#define MPIB_ADMIN_SUFFIX ".admin"
#define MPIB_ADMIN_SOCK "admin.sock"

/* Data from a listener to a sender, in the 128 bytes of an NCCL handle. */
#define MPIB_HANDLE_MAGIC 0x4c444e484249504dull

struct mpib_handle {
	uint64_t magic;
	uint32_t version; /* MPIB_ABI_VERSION of the listening proxy */
	/* IPv4 address of the listening proxy's peer links, network order; 0:
	 * `addr6` has the address. */
	uint32_t addr;
	uint64_t nonce; /* identifies the listener; found only in its handle */
	uint8_t addr6[16]; /* IPv6; 0 if `addr` is set */
	/* second address, on the same port: IPv6, or IPv4 as a mapped address;
	 * 0: none */
	uint8_t second[16];
	uint16_t port; /* TCP port of these peer links, host order */
	uint16_t shard; /* of the listening client */
	uint32_t rsvd[17];
};

enum mpib_control_type {
	MPIB_CTL_HELLO = 1, /* first message; the answer carries fds, see
			       mpib_ctl_welcome */
	MPIB_CTL_POOL, /* make a sealed memfd, registered on every rail */
	MPIB_CTL_REG_FD, /* register the memory of the message's fd */
	MPIB_CTL_DEREG,
	MPIB_CTL_LISTEN,
	MPIB_CTL_CLOSE_LISTEN,
	MPIB_CTL_CONNECT,
	MPIB_CTL_ACCEPT,
	MPIB_CTL_CLOSE, /* close a connection in any state but FREE */
	MPIB_CTL_WHY, /* ask why a connection failed */
	MPIB_CTL_DEVICE, /* ask for a device's properties */
	MPIB_CTL_RESUME, /* resume a connection that was accepted before */
	/* from the proxy, id 0, never answered: check which connections are
	 * MPIB_CONN_LOST */
	MPIB_CTL_LOST,
	/* An upgrade; struct mpib_ctl_next, never answered. From the proxy,
	 * with id 0 and `number` not 0: the successor now accepts at the
	 * proxy's socket, so attach there, too, and register all memory with
	 * the successor. From the proxy, with `number` 0: forget the successor.
	 * From the client: `status` says whether it attached and registered its
	 * memory. From the successor: it now serves; before this message it
	 * accepts only HELLO, POOL, REG_FD and DEREG. */
	MPIB_CTL_NEXT,
	/* struct mpib_ctl_id, never answered. `id`: the client's thread that
	 * will attach to the next proxy after this one. A client of an earlier
	 * proxy sends this after it has asked for all its connections and
	 * listeners. */
	MPIB_CTL_RESUMED,
};

struct mpib_ctl_header {
	uint32_t type;
	uint32_t id; /* chosen by the client, echoed in the answer */
	int32_t status; /* answers: 0 or -errno */
	uint32_t len; /* bytes of the whole message */
};

/* Every answer with status < 0 has this form. `why` holds a sentence. */
struct mpib_ctl_error {
	struct mpib_ctl_header h;
	char why[240];
};

/* Only check whether the process could attach now. The proxy checks and
 * reserves what an attach needs, answers with a header alone, and hangs up. */
#define MPIB_HELLO_PROBE 1u

struct mpib_ctl_hello {
	struct mpib_ctl_header h;
	uint32_t version;
	uint32_t pid; /* in the client's pid namespace; a label, not trusted */
	uint64_t job; /* NCCL's commId, 0 if none; a label, not trusted */
	char name[64]; /* the client's name in tools; a label, not trusted */
	/* the client will use this device's shards and rails */
	uint32_t device;
	uint32_t flags; /* MPIB_HELLO_PROBE */
	char label[64]; /* "slurm 1234.0", "pod NAME"; a label, not trusted */
	/* For a process that was attached to an earlier proxy: 1 + the shard in
	 * that proxy's WELCOME, because the handles of the process's listeners
	 * contain that shard. 0: any shard. */
	uint32_t shard;
	uint32_t thread; /* `id` of the MPIB_CTL_RESUMED to come, or 0 */
};

struct mpib_ctl_rail {
	char name[64]; /* "soft:127.0.0.1", "rdma:mlx5_0:1" */
	char pci_path[128];
	uint32_t speed_mbps;
	uint32_t up;
};

/* Answer to HELLO, with fds in this order: status segment, submit segment,
 * reply segment, doorbell eventfd, and a pidfd of the proxy's process if the
 * kernel has pidfds. The pidfd is needed because a proxy that has hung up may
 * write to memory until its process ends. Only this client gets the submit
 * segment, the reply segment and the doorbell. */
struct mpib_ctl_welcome {
	struct mpib_ctl_header h;
	uint32_t version;
	uint32_t client; /* the client's id, as tools show it */
	uint32_t shard; /* the client's shard: index in struct mpib_status */
	uint32_t dmabuf; /* dma-buf registration works on every rail */
	uint32_t window; /* bytes of a connection's staging window */
	uint32_t part; /* largest staged part, a multiple of 128 */
	uint32_t answer_ms; /* ms that the client waits for an answer; 0:
			       10000 */
	uint32_t devices;
	uint32_t device; /* index of the client's device */
	/* ms that a connection waits for its peer or for the next proxy; 0:
	 * connections do not resume */
	uint32_t grace_ms;
};

struct mpib_ctl_next {
	struct mpib_ctl_header h; /* `status`: 0, or -errno with `why` */
	uint32_t number; /* identifies the upgrade */
	uint32_t rsvd;
	char why[232];
};

struct mpib_ctl_pool {
	struct mpib_ctl_header h;
	uint64_t size; /* bytes; the proxy rounds up to whole pages */
};

/* Answer to POOL, with the memfd (sealed SHRINK|GROW|SEAL), and to REG_FD,
 * without an fd. */
struct mpib_ctl_region {
	struct mpib_ctl_header h;
	uint64_t size;
	uint32_t mr; /* region handle, for ring descriptors and DEREG */
	uint32_t rsvd;
};

/* A memfd sealed with F_SEAL_SHRINK whose pages are all allocated. The proxy
 * maps it if client.own_memory of mpib.conf(5) allows memfds of this user. */
#define MPIB_REG_MEMFD 1u
#define MPIB_REG_DMABUF 2u

/* Request with one fd, which the client may close once the answer has come. */
struct mpib_ctl_reg_fd {
	struct mpib_ctl_header h;
	uint64_t offset;
	uint64_t size;
	uint32_t flags;
	uint32_t rsvd;
};

/* The requests DEREG, CLOSE_LISTEN, CLOSE, WHY and DEVICE, and the answers to
 * DEREG, CLOSE_LISTEN, CONNECT, ACCEPT and CLOSE. The answer to DEREG is a
 * fence: neither the proxy nor a peer touches the memory any more. */
struct mpib_ctl_id {
	struct mpib_ctl_header h;
	uint32_t id; /* id of the region, listener or thread, or index of the
		      * connection or device */
	uint32_t rsvd;
};

struct mpib_ctl_listen {
	struct mpib_ctl_header h;
	/* nonce of an earlier proxy's listener; 0: the proxy draws one */
	uint64_t nonce;
};

struct mpib_ctl_listening {
	struct mpib_ctl_header h;
	uint32_t listen_id;
	uint32_t rsvd;
	struct mpib_handle handle;
};

struct mpib_ctl_connect {
	struct mpib_ctl_header h;
	uint32_t conn; /* chosen by the client; its state must be FREE */
	int32_t traffic_class; /* -1: the proxy's configured class */
	/* Identifies the connection at both ends for its whole life: unique
	 * random bits, not 0. */
	uint64_t key;
	/* How many times this end was requested, including this one. */
	uint64_t number;
	/* The peer's `number`, as struct mpib_reply_end had it when the
	 * connection was last READY; 0: it never was. */
	uint64_t peer_number;
	struct mpib_handle handle;
};

/* Resume the receiving end of a connection that was made by an ACCEPT. The rank
 * has these values from struct mpib_reply_end. The sending end resumes by a
 * CONNECT with a greater number. */
struct mpib_ctl_resume {
	struct mpib_ctl_header h;
	uint32_t conn; /* chosen by the client; its state must be FREE */
	uint32_t rsvd;
	uint64_t key;
	/* how many times this end was requested, including its ACCEPT and this
	 * request */
	uint64_t number;
	uint64_t base; /* receives that have completed */
	uint8_t addr[16], second[16]; /* addresses of the peer's proxy */
	uint16_t port;
	uint16_t zero[3];
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

/* Answer to DEVICE. */
struct mpib_ctl_device {
	struct mpib_ctl_header h;
	char name[32]; /* as tools show it */
	uint32_t rails;
	/* bit per rail that carries payload while all rails are up */
	uint32_t carries;
	struct mpib_ctl_rail rail[MPIB_RAILS];
};

/* The maximum length of a message in either direction. */
#define MPIB_CTL_MAX 1024u
#define MPIB_CTL_FDS_MAX 5
#define MPIB_WELCOME_PIDFD 4 /* index of the pidfd in the WELCOME */

MPIB_ABI_ASSERT(sizeof(struct mpib_handle) == 128);
MPIB_ABI_ASSERT(sizeof(struct mpib_ctl_header) == 16);
MPIB_ABI_ASSERT(sizeof(struct mpib_ctl_hello) == 176);
MPIB_ABI_ASSERT(sizeof(struct mpib_ctl_rail) == 200);
MPIB_ABI_ASSERT(sizeof(struct mpib_ctl_welcome) == 56);
MPIB_ABI_ASSERT(sizeof(struct mpib_ctl_device) == 456);
MPIB_ABI_ASSERT(sizeof(struct mpib_ctl_reg_fd) == 40);
MPIB_ABI_ASSERT(sizeof(struct mpib_ctl_connect) == 176);
MPIB_ABI_ASSERT(sizeof(struct mpib_ctl_resume) == 88);
MPIB_ABI_ASSERT(sizeof(struct mpib_ctl_next) == 256);

#endif
