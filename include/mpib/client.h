/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client library: attach a process to the node's mpib-proxy, connect to
 * another client anywhere, move messages. The NCCL plugin is written on it;
 * it needs neither NCCL nor verbs.
 *
 * Calls return 0 or a count, or -errno. mpib_strerror() gives the last
 * failure of the calling thread in whole words. Each call that asks the proxy
 * may return, beside what is said of it,
 *   -EPIPE      the proxy is gone, or hung up on this client
 *   -ETIMEDOUT  it did not answer within its setting client.answer. That is
 *               waited for once: until it answers anything further calls return
 *               at once. What it does all the same is undone by a later call.
 *   -EDQUOT     a limit or a quota of its settings
 *   -EMFILE     no descriptor is left, here or there
 *   -ENOMEM     no memory is
 *   -EPROTO     its answer makes no sense
 * and then only that call has failed, unless it is -EPIPE.
 *
 * Threads: a client, a listener and a region may be used by any thread (their
 * calls serialise on one control socket and may block for a round trip to the
 * proxy). On one connection, mpib_isend() or mpib_irecv() and mpib_test() are
 * called by one thread at a time; region calls may run beside them.
 *
 * After fork() the child must not use what the parent made: a call that returns
 * -errno returns -EOWNERDEAD there, one that returns nothing does nothing, and
 * the parent is not disturbed. What needs no shared memory says in the child
 * what it said before: mpib_query(), mpib_request_buffers(), _slot().
 */
#ifndef MPIB_CLIENT_H
#define MPIB_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct mpib_client;
struct mpib_listener;
struct mpib_conn;
struct mpib_region;
struct mpib_request;
struct mpib_handle; /* 128 bytes, see mpib/control.h; treat as opaque */

struct mpib_attach_opts {
	size_t size; /* sizeof(struct mpib_attach_opts), or 0 for it */
	const char *run_dir; /* NULL: MPIB_RUN_DIR, else the default */
	const char *name; /* how tools call this client, NULL: argv[0] */
	uint64_t job; /* NCCL commId, 0 if none */
	unsigned timeout_ms; /* 0: 2000 */
};

struct mpib_rail_info {
	char name[64];
	char pci_path[128]; /* "" if none */
	uint32_t speed_mbps;
	int up;
};

struct mpib_node_info {
	uint32_t client; /* id that tools show */
	int rails;
	int dmabuf; /* every rail can register one, by mpib_reg_fd() */
	struct mpib_rail_info rail[2];
};

/*
 * Attach to the proxy of this node. The text names socket and remedy. Blocks at
 * most opts->timeout_ms. opts may be NULL.
 *   -ENOENT, -ECONNREFUSED  no proxy at the socket, or it hung up
 *   -EACCES                 this user may not connect to it
 *   -ENAMETOOLONG           the run directory, for a socket
 *   -ETIMEDOUT              it does not answer
 *   -EPROTO                 versions differ
 *   -EDQUOT                 as many clients as it takes, or as a quota allows
 *   -EMFILE, -ENOMEM        no descriptor or memory, here or there
 */
int mpib_attach(const struct mpib_attach_opts *opts,
		struct mpib_client **client);

/* Close everything of the client, also what is outstanding. Never waits for a
 * peer. NULL is nothing. All its objects are invalid afterwards. */
void mpib_detach(struct mpib_client *client);

void mpib_query(struct mpib_client *client, struct mpib_node_info *info);

/* 0, or -errno once the proxy is gone; then nothing of the client works. */
int mpib_alive(struct mpib_client *client);

/* Where mpib-proxy is looked for: MPIB_RUN_DIR, else "$XDG_RUNTIME_DIR/mpib" of
 * who is not root and has one, else "/run/mpib".
 * Returns buf, or NULL when there is no sensible place. Any thread. */
const char *mpib_run_dir(char *buf, size_t len);

/* Last failure of this thread, in a sentence. Never NULL. */
const char *mpib_strerror(void);

/*
 * Listen for connections; handle (128 bytes) is what the sender must be given
 * by any means. Blocks for a proxy round trip, not for a peer.
 */
int mpib_listen(struct mpib_client *client, struct mpib_handle *handle,
		struct mpib_listener **listener);
void mpib_close_listen(struct mpib_listener *listener);

/*
 * Begin to connect a sending end to a handle, or to accept one receiving end.
 * Both block for a proxy round trip, not for a peer; poll mpib_ready(). One
 * listener may have several accepts begun. -EINVAL: not a handle of
 * mpib_listen(); -EMFILE also: 1024 connections are open or closing.
 */
int mpib_connect(struct mpib_client *client, const struct mpib_handle *handle,
		 int traffic_class, struct mpib_conn **conn);
int mpib_accept(struct mpib_listener *listener, struct mpib_conn **conn);

/* 1 ready, 0 not yet, -errno failed (close it). Wait-free while pending, but for
 * one poll(2) each 10 ms. */
int mpib_ready(struct mpib_conn *conn);

/* Close in any state, requests outstanding or not; never waits for a peer.
 * Its requests are invalid afterwards. */
void mpib_close(struct mpib_conn *conn);

/*
 * Regions. mpib_reg() takes any memory of the process: what came from
 * mpib_mem_alloc() moves without a copy, other memory is copied through the
 * connection's staging window by the calls of the connection itself.
 * Registering the same range again is cheap and counted. -EINVAL: no address, or
 * no bytes.
 */
int mpib_reg(struct mpib_client *client, void *addr, size_t size,
	     struct mpib_region **region);
/* flags: MPIB_REG_* of mpib/control.h. fd stays the caller's and may be closed
 * on return. -EPERM: the descriptor is not of that kind; -EINVAL: other flags, or
 * no bytes; -EOPNOTSUPP: a rail cannot register a dma-buf. */
int mpib_reg_fd(struct mpib_client *client, void *addr, size_t size,
		uint64_t offset, int fd, uint32_t flags,
		struct mpib_region **region);
/*
 * A fence: after it nobody but the process touches the memory, except what
 * came from mpib_mem_alloc(), where mpib_mem_free() is the fence. Requests
 * that still name it end in -ECANCELED, and so does the connection where one
 * was not handed over yet. -ETIMEDOUT: the region is gone for its caller, but
 * the proxy has not answered yet, and may still touch the memory.
 */
int mpib_dereg(struct mpib_region *region);

/* What the first request of conn with this region would otherwise wait for: a
 * staging window if it needs one. Optional. Blocks for a round trip. */
int mpib_prepare(struct mpib_conn *conn, struct mpib_region *region);

/* Memory the rails reach without a copy. NULL with errno set. */
void *mpib_mem_alloc(struct mpib_client *client, size_t size);
void mpib_mem_free(struct mpib_client *client, void *addr);

/*
 * -ENOTCONN: not ready yet; -EFAULT: data is not inside region; -E2BIG: more than
 * 2 GiB - 1 in one request, or 1 GiB of ordinary memory in a group; -EINVAL: a
 * number of buffers; and what mpib_test() says of a connection that failed.
 *
 * Send size bytes at data, inside region. 0 with *req NULL: cannot now, call
 * again (32 outstanding, or the ring is full). Wait-free for memory that needs
 * no copy; else it copies up to the staging window and mpib_test() goes on.
 * The receives of tag take the sends of tag, in order; sends of other tags go
 * past one that waits for its receive, as long as it is not all 32 that wait.
 */
int mpib_isend(struct mpib_conn *conn, const void *data, size_t size, int tag,
	       struct mpib_region *region, struct mpib_request **req);

/* Receive into n <= 8 buffers, each by one send of its tag; tag NULL: 0. A tag
 * may be there several times, and is filled in order. */
int mpib_irecv(struct mpib_conn *conn, int n, void *const *data,
	       const size_t *size, const int *tag,
	       struct mpib_region *const *region, struct mpib_request **req);

/*
 * *done = 1 once the request is over, then it must not be used again and
 * sizes[0..n-1], if not NULL, hold the bytes that arrived (or were sent).
 * -errno: the request failed and is over; -EMSGSIZE: the send was larger than
 * the posted receive (the text names both sizes, both ends get it);
 * -ECONNRESET: the peer is gone; -EPIPE: the proxy is gone; -ECANCELED: its
 * region was deregistered; -ETIMEDOUT: both rails were away for too long, or it
 * took longer than the proxy was set to allow. A send is over when its buffer
 * may be used again, which is when the proxy's setting failover.completion
 * says. Makes no system call while the proxy is well, except one poll(2) each
 * 10 ms of waiting and, while it feeds ordinary memory through the staging
 * window, a write(2) for a shard that sleeps.
 */
int mpib_test(struct mpib_request *req, int *done, size_t *sizes);

/* The same for who keeps sizes in int, as NCCL does. */
int mpib_test_int(struct mpib_request *req, int *done, int *sizes);

/* For profilers: reports on what each rail does for a request, which is slower
 * for it. */
enum mpib_report {
	MPIB_REPORT_OFF,
	MPIB_REPORT_ALL, /* requests posted from now on */
	MPIB_REPORT_NEXT, /* the next one, then off */
	MPIB_REPORT_LATER, /* one, after a thousand tests that found nothing */
};

enum mpib_watch {
	MPIB_WATCH_POSTED, /* mpib_isend() or mpib_irecv() is about to return */
	MPIB_WATCH_TESTED, /* mpib_test() is */
	MPIB_WATCH_OVER, /* the same for the last time: done, or failed */
};

/* Of each request with reports. In the call it says, with req readable. */
typedef void mpib_watch_fn(void *user, struct mpib_request *req,
			   enum mpib_watch what);

/* -EOPNOTSUPP: the proxy is too old. Connection's thread, once it is ready. */
int mpib_report(struct mpib_conn *conn, enum mpib_report how, mpib_watch_fn *fn,
		void *user);
struct mpib_rail_report; /* mpib/completion.h */
/* What the rails did for it; report has room for both. */
void mpib_request_rails(const struct mpib_request *req,
			struct mpib_rail_report *report);
/* 0 to 31, no other outstanding request of its connection has it. */
unsigned mpib_request_slot(const struct mpib_request *req);

/* Buffers of a request: n of mpib_irecv(), 1 for a send. Until the next request
 * is posted on its connection. */
int mpib_request_buffers(const struct mpib_request *req);

#ifdef __cplusplus
}
#endif

#endif
