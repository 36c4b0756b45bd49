/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control messages between a client and the proxy. The control socket is
 * RUNDIR/proxy.sock (AF_UNIX, SOCK_SEQPACKET). Each packet is one message.
 * File descriptors are passed by SCM_RIGHTS. The proxy answers each request
 * once, and the answer has the id of the request.
 *
 * The proxy answers CONNECT, ACCEPT, RESUME and CLOSE before the operation is
 * complete. The outcome appears in `state` of the connection in the reply
 * segment. When the client gets the answer to CONNECT, ACCEPT or RESUME,
 * `state` is no longer FREE. When the client gets the answer to CLOSE, `state`
 * is no longer READY.
 *
 * The proxy takes the client's uid and pid from SO_PEERCRED, never from a
 * message.
 */
#ifndef MPIB_CONTROL_H
#define MPIB_CONTROL_H

#include <mpib/abi.h>
#include <mpib/client.h>
#include <stdint.h>

/* Names of sockets in the run directory. */
#define MPIB_CONTROL_SOCK "proxy.sock"
#define MPIB_STATS_SOCK "stats.sock"
/* The administration socket is RUNDIR.admin/admin.sock. Its directory is not
 * inside the run directory, because containers mount the run directory. */
#define MPIB_ADMIN_SUFFIX ".admin"
#define MPIB_ADMIN_SOCK "admin.sock"

#define MPIB_HANDLE_MAGIC 0x4c444e484249504dull

/* The address of a listener. The sending process needs it to connect. A handle
 * has 128 bytes, as in NCCL. */
struct mpib_handle {
	uint64_t magic;
	uint32_t version; /* MPIB_ABI_VERSION of the listener's proxy */
	/* IPv4 address at which the listener's proxy accepts peer links,
	 * network order; 0: the address is in `addr6` */
	uint32_t addr;
	uint64_t nonce; /* secret number that identifies the listener */
	uint8_t addr6[16]; /* IPv6; 0 if `addr` is set */
	/* second address of the proxy, at the same port: IPv6, or IPv4-mapped;
	 * 0: none */
	uint8_t second[16];
	uint16_t port; /* TCP port of both addresses, host order */
	uint16_t shard; /* index of the listening client's shard */
	uint32_t rsvd[17];
};

/* Only the proxy sends LOST. Both sides send NEXT. Only the client sends the
 * others. */
enum mpib_control_type {
	/* the first message; struct mpib_ctl_welcome describes the answer */
	MPIB_CTL_HELLO = 1,
	MPIB_CTL_POOL, /* make a sealed memfd and register it on every rail */
	MPIB_CTL_REG_FD, /* register the memory of the message's fd */
	MPIB_CTL_DEREG, /* deregister a region from POOL or REG_FD */
	MPIB_CTL_LISTEN,
	MPIB_CTL_CLOSE_LISTEN,
	MPIB_CTL_CONNECT, /* make a sending end, or resume one */
	MPIB_CTL_ACCEPT, /* make a receiving end */
	MPIB_CTL_CLOSE, /* close a connection in any state but FREE */
	MPIB_CTL_DEVICE, /* ask for a device's properties */
	MPIB_CTL_RESUME, /* resume a receiving end */
	/* From the proxy, with id 0, never answered: some of the client's
	 * connections have entered the state MPIB_CONN_LOST. The client must
	 * check the state of all its connections. */
	MPIB_CTL_LOST,
	/*
	 * A step of an upgrade: struct mpib_ctl_next, never answered. The
	 * meaning depends on the sender:
	 *
	 * From the proxy, with id 0 and `number` not 0: the successor accepts
	 * clients at the proxy's socket. The client must also attach to the
	 * successor and register all its memory there.
	 *
	 * From the proxy, with id 0 and `number` 0: the client must drop the
	 * successor.
	 *
	 * From the client: `status` says whether the client has attached to the
	 * successor and registered its memory there.
	 *
	 * From the successor: from now on the successor serves the client.
	 * Before this message, it accepts only HELLO, POOL, REG_FD and DEREG.
	 */
	MPIB_CTL_NEXT,
	/* From the client: struct mpib_ctl_id, never answered. `id` is the
	 * thread id of the client's helper, which will attach to the next proxy
	 * when this proxy ends. If the client was attached to an earlier proxy,
	 * it first requests all its connections and listeners from this proxy,
	 * and then sends this message. */
	MPIB_CTL_RESUMED,
};

struct mpib_ctl_header {
	uint32_t type; /* enum mpib_control_type */
	uint32_t id; /* chosen by the client; the answer has the same id */
	int32_t status; /* answers: 0 or -errno */
	uint32_t len; /* bytes of the whole message */
};

/* The answer to a request that failed (`status` < 0). `why` gives the reason in
 * a sentence. */
struct mpib_ctl_error {
	struct mpib_ctl_header h;
	char why[240];
};

/* Flag of HELLO: only check whether the process could attach. The proxy checks
 * its limits, makes the client's segments, and answers with only a header. Then
 * it frees the segments and closes the socket. */
#define MPIB_HELLO_PROBE 1u

struct mpib_ctl_hello {
	struct mpib_ctl_header h;
	uint32_t version; /* MPIB_ABI_VERSION of the client */
	/* index of the device whose shards and rails the client will use */
	uint32_t device;
	/* The proxy does not trust `job`, `name` and `label`. They only
	 * describe the client to users. */
	uint64_t job; /* NCCL's commId; 0: none */
	char name[64]; /* the client's name in tools */
	char label[64]; /* "slurm 1234.0", "pod NAME" */
	uint32_t flags; /* MPIB_HELLO_PROBE */
	/* If the process was attached to an earlier proxy: `shard` of that
	 * proxy's WELCOME, plus 1. The process needs the same shard again,
	 * because the handles of its listeners contain the shard. 0: any
	 * shard. */
	uint32_t shard;
	/* `id` that the client will send in MPIB_CTL_RESUMED; 0: none */
	uint32_t thread;
	uint32_t rsvd;
};

/* Answer to HELLO, with fds in this order: status segment, submit segment,
 * reply segment, doorbell eventfd, and a pidfd of the proxy's process if the
 * kernel has pidfds. The pidfd tells the client when the proxy's process has
 * ended. Until then the proxy may write to the client's memory, even if the
 * socket is closed. Each client has its own submit segment, reply segment and
 * doorbell. */
struct mpib_ctl_welcome {
	struct mpib_ctl_header h;
	uint32_t version; /* MPIB_ABI_VERSION of the proxy */
	uint32_t client; /* the client's id, as tools show it */
	uint32_t shard; /* the client's shard: index in struct mpib_status */
	uint32_t dmabuf; /* 1: every rail can register dma-bufs */
	uint32_t window; /* bytes of a connection's staging window */
	/* maximum bytes of a part in the staging window, a multiple of 128 */
	uint32_t part;
	/* how long the client waits for an answer, in ms */
	uint32_t answer_ms;
	uint32_t devices; /* number of the node's devices */
	uint32_t device; /* index of the client's device */
	/* how long an interrupted connection waits for its peer or for the next
	 * proxy, in ms; 0: connections do not resume */
	uint32_t grace_ms;
};

struct mpib_ctl_next {
	struct mpib_ctl_header h; /* `status`: 0, or -errno with `why` */
	uint32_t number; /* identifies the upgrade; 0: see MPIB_CTL_NEXT */
	uint32_t rsvd;
	char why[232]; /* a sentence, if `status` is not 0 */
};

struct mpib_ctl_pool {
	struct mpib_ctl_header h;
	uint64_t size; /* bytes; the proxy rounds up to whole pages */
};

/* Answer to POOL and to REG_FD. The answer to POOL carries the memfd, which has
 * the seals F_SEAL_SHRINK, F_SEAL_GROW and F_SEAL_SEAL. */
struct mpib_ctl_region {
	struct mpib_ctl_header h;
	uint32_t mr; /* id of the region in ring descriptors and DEREG */
	uint32_t rsvd;
};

/* Flag of REG_FD: the fd is a memfd with the seal F_SEAL_SHRINK, and all its
 * pages are allocated. The proxy accepts the memfd only if client.own_memory of
 * mpib.conf(5) allows memfds of this user. */
#define MPIB_REG_MEMFD 1u
/* Flag of REG_FD: the fd is a dma-buf. */
#define MPIB_REG_DMABUF 2u

/* The request REG_FD. It carries one fd, which the client may close after the
 * answer. */
struct mpib_ctl_reg_fd {
	struct mpib_ctl_header h;
	uint64_t offset; /* offset of the first byte in the file */
	uint64_t size; /* number of bytes */
	uint32_t flags; /* MPIB_REG_MEMFD or MPIB_REG_DMABUF */
	uint32_t rsvd;
};

/* The messages DEREG, CLOSE_LISTEN, CLOSE, DEVICE and RESUMED, and the answers
 * to DEREG, CLOSE_LISTEN, CONNECT, ACCEPT, RESUME and CLOSE. The proxy answers
 * DEREG when neither the proxy nor a peer can access the memory any more. */
struct mpib_ctl_id {
	struct mpib_ctl_header h;
	uint32_t id; /* id of the region, listener or thread, or index of the
		      * connection or device */
	uint32_t rsvd;
};

struct mpib_ctl_listen {
	struct mpib_ctl_header h;
	/* If this listener continues a listener of an earlier proxy: the nonce
	 * of that listener. 0: the proxy draws a nonce. */
	uint64_t nonce;
};

/* Answer to LISTEN. */
struct mpib_ctl_listening {
	struct mpib_ctl_header h;
	uint32_t listen_id;
	uint32_t rsvd;
	struct mpib_handle handle;
};

/*
 * The requests CONNECT and RESUME. RESUME resumes a receiving end that was made
 * by an ACCEPT. The client copies the key and the address from struct
 * mpib_reply_end. To resume a sending end, the client sends a CONNECT with a
 * higher `number`.
 */
struct mpib_ctl_connect {
	struct mpib_ctl_header h;
	/* index of the connection: any index in the state FREE */
	uint32_t conn;
	/* CONNECT: traffic class; -1: the class in the proxy's settings */
	int32_t traffic_class;
	/* Random bits, not 0, that identify the connection at both ends for its
	 * whole life. */
	uint64_t key;
	/* number of CONNECT, ACCEPT and RESUME requests for this end so far,
	 * including this one */
	uint64_t number;
	/* CONNECT: `peer_number` of struct mpib_reply_end from the last time
	 * the connection was READY; 0: the connection was never READY */
	uint64_t peer_number;
	/* RESUME: number of receives that have completed */
	uint64_t base;
	/* CONNECT: address of the listener. RESUME: address of the peer's proxy
	 * in `addr6`, `second` and `port`; `nonce` is 0. */
	struct mpib_handle handle;
};

struct mpib_ctl_accept {
	struct mpib_ctl_header h;
	uint32_t listen_id; /* from struct mpib_ctl_listening */
	/* index of the connection: any index in the state FREE */
	uint32_t conn;
};

/* Answer to DEVICE. If struct mpib_device_info changes, the ABI changes. */
struct mpib_ctl_device {
	struct mpib_ctl_header h;
	struct mpib_device_info info;
};

/* The maximum length of a message in bytes, in either direction. */
#define MPIB_CTL_MAX 1024u
#define MPIB_CTL_FDS_MAX 5 /* maximum number of fds of a message */
#define MPIB_WELCOME_PIDFD 4 /* index of the pidfd in the answer to HELLO */

MPIB_ABI_ASSERT(sizeof(struct mpib_handle) == 128);
MPIB_ABI_ASSERT(sizeof(struct mpib_ctl_header) == 16);
MPIB_ABI_ASSERT(sizeof(struct mpib_ctl_hello) == 176);
MPIB_ABI_ASSERT(sizeof(struct mpib_ctl_welcome) == 56);
MPIB_ABI_ASSERT(sizeof(struct mpib_ctl_device) == 456);
MPIB_ABI_ASSERT(sizeof(struct mpib_ctl_reg_fd) == 40);
MPIB_ABI_ASSERT(sizeof(struct mpib_ctl_connect) == 184);
MPIB_ABI_ASSERT(sizeof(struct mpib_ctl_next) == 256);

#endif
