/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client library: attach a process to the node's mpib-proxy, connect to a
 * client of any node, move messages. The NCCL plugin is built on this library,
 * which itself needs neither NCCL nor verbs.
 *
 * Calls return 0 or a count, or -errno. mpib_strerror() describes the last
 * failure of the calling thread in a sentence. Any call that sends a request to
 * the proxy may also return
 *   -EPIPE      the proxy is gone, and no other started within its setting
 *               resume.grace; or the proxy ended this client's session for good
 *   -ETIMEDOUT  the proxy did not answer within its setting client.answer,
 *               or it ended and the next one did not start within that time.
 *               Only one call waits that long: until the proxy answers
 *               something, further calls fail at once. If the proxy carries
 *               the request out later, the library undoes it.
 *   -EDQUOT     a limit or a quota in the proxy's settings is reached
 *   -EMFILE     this process or the proxy has no file descriptor left
 *   -ENOMEM     this process or the proxy has no memory left
 *   -EFBIG      the memory is larger than the proxy's LimitFSIZE
 *   -EPROTO     the proxy's answer makes no sense
 * With any of these errors except -EPIPE, only that one call has failed.
 *
 * When the proxy ends, a thread of the library (the helper) attaches to the
 * next one at the same run directory. Until then mpib_isend() and mpib_irecv()
 * return no request, and no request completes. Afterwards posted requests
 * continue. This needs Linux 5.3.
 *
 * Threads: any thread may use a client, a listener or a region. Such calls take
 * the client's lock and may block for a round trip to the proxy. On one
 * connection only one thread at a time may call mpib_isend(), mpib_irecv(),
 * mpib_iflush() and mpib_test(). These four never wait for the client's lock.
 * They need the lock to get a staging window, to continue at another proxy, and
 * to ask why a connection failed. If another thread or the helper holds the
 * lock at that moment, these four calls report "not yet": mpib_isend() and
 * mpib_irecv() return no request, mpib_test() returns 0 with *done 0, and
 * mpib_iflush() queues the flush.
 *
 * After fork() the child must not use the parent's objects. In the child, calls
 * that return -errno return -EOWNERDEAD, and calls that return nothing do
 * nothing. The parent is not affected. mpib_query(), mpib_request_buffers() and
 * mpib_request_slot() need no shared memory and still give the child the
 * parent's answers.
 */
#ifndef MPIB_CLIENT_H
#define MPIB_CLIENT_H

#include <mpib/report.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* libmpib.map lists the exports */

struct mpib_client;
struct mpib_listener;
struct mpib_conn;
struct mpib_region;
struct mpib_request;
struct mpib_handle; /* 128 bytes, see mpib/control.h; treat as opaque */

struct mpib_attach_opts {
	size_t size; /* sizeof(struct mpib_attach_opts); 0 means the same */
	const char *run_dir; /* NULL: that of mpib_run_dir() */
	const char *name; /* this client's name in tools; NULL: argv[0] */
	uint64_t job; /* NCCL commId, 0 if none */
	unsigned timeout_ms; /* 0: 10000 */
	unsigned device; /* index of the node's device, see mpib_query() */
};

struct mpib_rail_info {
	char name[64];
	char pci_path[128]; /* "" if none */
	uint32_t speed_mbps;
	int up;
};

struct mpib_node_info {
	uint32_t client; /* id that tools show */
	int dmabuf; /* 1: every rail can register dma-bufs, by mpib_reg_fd() */
	unsigned devices; /* number of the node's devices, <= MPIB_DEVICES */
	unsigned device; /* index of the client's device */
};

#define MPIB_DEVICES 16

struct mpib_device_info {
	char name[32]; /* as tools show it */
	int rails;
	unsigned carries; /* bit per rail that is not a standby rail */
	struct mpib_rail_info rail[2];
};

/*
 * Attach to the proxy of this node. Blocks for at most opts->timeout_ms, and up
 * to 60 s more if MPIB_START starts a proxy or processes of an earlier proxy
 * attach first. `opts` may be NULL. On failure mpib_strerror() names the socket
 * and what to do.
 *   -ENOENT, -ECONNREFUSED  no proxy at the socket, or it hung up
 *   -EPERM                  the proxy crashed twice while it worked for this
 *                           process
 *   -EINPROGRESS            processes of an earlier proxy attach first
 *   -ENOEXEC                MPIB_START is set, and no proxy could be started
 *   -EACCES                 this user may not connect to the proxy, or another
 *                           user may listen at the socket
 *   -ENAMETOOLONG           the run directory's path is too long for a socket
 *   -ETIMEDOUT              the proxy does not answer
 *   -EPROTO                 versions of library and proxy differ
 *   -ENODEV                 the proxy has no such device
 *   -EDQUOT                 the proxy, or a quota, allows no more clients
 *   -ENOSPC                 the device has no room for another user
 *   -EMFILE, -ENOMEM        no descriptor or memory, here or in the proxy
 */
int mpib_attach(const struct mpib_attach_opts *opts,
		struct mpib_client **client);

/* Close the client with all its connections, listeners, regions and outstanding
 * requests. Never waits for a peer. `client` may be NULL. All objects of the
 * client are invalid afterwards. */
void mpib_detach(struct mpib_client *client);

void mpib_query(struct mpib_client *client, struct mpib_node_info *info);
/* Query any device of the node. Blocks for a round trip to the proxy. -ENODEV:
 * no such device. */
int mpib_query_device(struct mpib_client *client, unsigned device,
		      struct mpib_device_info *info);

/* Return 0 while the proxy runs, -errno after it is gone. After that every call
 * on the client fails. */
int mpib_alive(struct mpib_client *client);

/* Return the directory of the proxy's socket: MPIB_RUN_DIR, else
 * "$XDG_RUNTIME_DIR/mpib" for a user other than root if that directory has a
 * proxy's socket, else "/run/mpib". Returns `buf`, or NULL if the path does not
 * fit into `len` bytes. Any thread. */
const char *mpib_run_dir(char *buf, size_t len);

/* Return the last failure of the calling thread as a sentence. Never NULL. */
const char *mpib_strerror(void);

/*
 * Listen for connections. The caller passes `handle` (128 bytes) to the sending
 * process by any means, for mpib_connect(). Blocks for a round trip to the
 * proxy, not for a peer.
 */
int mpib_listen(struct mpib_client *client, struct mpib_handle *handle,
		struct mpib_listener **listener);
/* `listener` may be NULL. */
void mpib_close_listen(struct mpib_listener *listener);

/*
 * mpib_connect() starts to connect a sending end to a handle. mpib_accept()
 * starts to accept one receiving end. Both block for a round trip to the proxy,
 * not for a peer. Poll mpib_ready() for the outcome. A listener may have
 * several pending accepts.
 *   -EINVAL  `handle` is not from mpib_listen()
 *   -EMFILE  may also mean that 1024 connections of this client are open or
 *            closing
 *   -EACCES  the peer's address is in none of the networks of the proxies
 *   -EPERM   clients may not use the traffic class
 *   -ENOSPC  the proxy has too many peers
 *   -EIO     mpib_connect() could not get random bits from the kernel
 */
int mpib_connect(struct mpib_client *client, const struct mpib_handle *handle,
		 int traffic_class, struct mpib_conn **conn);
int mpib_accept(struct mpib_listener *listener, struct mpib_conn **conn);

/*
 * Return 1 when the connection is ready. Return 0 while it is pending, or if it
 * failed and the reason is not known yet. Return -errno if it failed: close it
 * then. Wait-free, except for one poll(2) every 10 ms while the connection is
 * pending.
 *   -ETIMEDOUT     the peer was not reached, or did not accept within the
 *                  proxy's setting client.connect_timeout
 *   -ECONNREFUSED, -ECONNRESET  the listener or the peer is gone
 *   -ECANCELED     the listener of this accept was closed
 *   -ENETDOWN      the two nodes have no rail in common that is up
 * Other codes mean a limit of either proxy, see the list above.
 */
int mpib_ready(struct mpib_conn *conn);

/* Close a connection in any state, with or without outstanding requests. Never
 * waits for a peer. The connection's requests are invalid afterwards. `conn`
 * may be NULL. */
void mpib_close(struct mpib_conn *conn);

/*
 * Register memory for sends and receives. mpib_reg() accepts any memory of the
 * process. Memory from mpib_mem_alloc() is sent and received without a copy.
 * All other memory is "ordinary memory": mpib_isend(), mpib_irecv() and
 * mpib_test() copy it through the connection's staging window. Registering the
 * same range again is cheap: the range is registered once and counted. -EINVAL:
 * `addr` is NULL, `size` is 0, or the range ends beyond the address space.
 */
int mpib_reg(struct mpib_client *client, void *addr, size_t size,
	     struct mpib_region **region);
/*
 * Register memory behind a file descriptor, which the process has mapped at
 * `addr`. `flags`: MPIB_REG_* of mpib/control.h. The caller may close `fd`
 * after the call.
 *
 * If the memory lies within a region with the same flags, that region is
 * returned and counted. This is cheap. The region needs one mpib_dereg() for
 * each call. Do not free its memory before the last mpib_dereg(). The reason:
 * the library identifies a dma-buf by its addresses, because each export of the
 * same memory is a separate file. So it would mistake other memory at these
 * addresses for the dma-buf. For a memfd the library also compares file and
 * offset.
 *
 * This call allocates all pages of a memfd and adds F_SEAL_SEAL: add other
 * seals before.
 *
 *   -EPERM       the descriptor is not of the kind in `flags`; or a memfd is
 *                too short or not sealed; or the proxy accepts no memfds from
 *                this user (client.own_memory of mpib.conf(5)): use
 *                mpib_mem_alloc()
 *   -EBADF       `fd` is not open
 *   -EINVAL      unknown `flags`, or `size` is 0
 *   -EOPNOTSUPP  a rail cannot register a dma-buf
 */
int mpib_reg_fd(struct mpib_client *client, void *addr, size_t size,
		uint64_t offset, int fd, uint32_t flags,
		struct mpib_region **region);
/*
 * Deregister a region. This is a fence: when it returns, only this process
 * touches the memory. The exception is memory from mpib_mem_alloc(), for which
 * mpib_mem_free() is the fence, and outstanding requests continue until then.
 *
 * A connection with an outstanding request that names the region fails with
 * -ECANCELED. The proxy knows nothing about ordinary memory. So with ordinary
 * memory a connection fails only if a send must still be copied. A receive into
 * ordinary memory ends with -ECANCELED when its message has arrived, and the
 * connection continues.
 *
 * -ETIMEDOUT: the caller cannot use the region any more, but the proxy has not
 * answered yet and may still touch the memory. `region` may be NULL.
 */
int mpib_dereg(struct mpib_region *region);

/* Allocate memory that the rails access without a copy. Until a receive is
 * complete, its bytes may arrive in any order. Returns NULL with errno set on
 * failure. */
void *mpib_mem_alloc(struct mpib_client *client, size_t size);
void mpib_mem_free(struct mpib_client *client, void *addr);

/*
 * Send `size` bytes at `data`, which lies inside `region`. If 0 is returned
 * with *req NULL, the request cannot be posted now: test outstanding requests,
 * then try again. The reasons:
 *   - 256 sends wait for receives in the library, 24 more wait in the proxy,
 *     and the oldest receive that still lacks a send has another tag
 *   - 544 sends or 32 receives are outstanding, or the ring is full
 *   - the proxy has ended, and the connection has not continued yet
 *   - the connection failed, and the proxy has not said why yet
 *   - the request needs a staging window, and another call or the helper has
 *     the client's lock
 *   - the connection was idle and released its staging window, and the proxy
 *     has no memory for a new one or does not answer
 *
 * Wait-free for memory that needs no copy. Otherwise the call copies as much as
 * the staging window holds, and mpib_test() copies the rest. The first such
 * call of a connection blocks for a round trip to the proxy, which makes the
 * window. So does the first call after the window was released.
 *
 * A receive takes the sends of its tag in the order sent. A send whose receive
 * is posted never waits for sends of other tags. Waiting sends make progress
 * only in mpib_isend(), and in mpib_test() of any send of the connection.
 *
 * Errors of mpib_isend() and mpib_irecv():
 *   -ENOTCONN  the connection is not ready yet
 *   -EFAULT    `data` is not inside `region`
 *   -E2BIG     more than 2 GiB - 1 in one request, or 1 GiB of ordinary memory
 *              in a grouped receive
 *   -EINVAL    `n` is out of range, `conn` is the wrong end, or `region` is of
 *              another client
 * and, on a failed connection, the errors of mpib_test().
 */
int mpib_isend(struct mpib_conn *conn, const void *data, size_t size, int tag,
	       struct mpib_region *region, struct mpib_request **req);

/* Receive into `n` buffers, at most 8. Each buffer takes one send of its tag.
 * If `tag` is NULL, all tags are 0. Buffers with the same tag are filled in
 * order. *req is NULL for the same reasons as in mpib_isend(). It is also NULL
 * while a group in ordinary memory needs a larger staging window than the
 * current one. */
int mpib_irecv(struct mpib_conn *conn, int n, void *const *data,
	       const size_t *size, const int *tag,
	       struct mpib_region *const *region, struct mpib_request **req);

/*
 * Flush the bytes received so far into device memory at `data`, inside a region
 * that mpib_reg_fd() made with MPIB_REG_DMABUF. The host may see a completion
 * before the device sees the bytes. A flush of one byte covers all memory of
 * the same device, so one buffer of a grouped receive is enough. If 0 is
 * returned with *req NULL, `data` is host memory and needs no flush; unlike in
 * mpib_isend(), this is final. Otherwise mpib_test() reports when the flush is
 * complete, and writes no sizes. Flushes do not count among the 32 receives.
 * Wait-free.
 *   -EBUSY   256 flushes are outstanding
 *   -EINVAL  `conn` is a sending end, or `region` is of another client
 *   -ENOTCONN, -EFAULT  as for mpib_irecv()
 */
int mpib_iflush(struct mpib_conn *conn, const void *data,
		struct mpib_region *region, struct mpib_request **req);

/*
 * Set *done to 1 once the request is complete. `req` must not be used after
 * that, and sizes[0..n-1] hold the number of bytes received (or sent), if
 * `sizes` is not NULL. A send is complete when its buffer may be used again;
 * the proxy's setting failover.completion says when that is.
 *
 * A negative return means that the request ended with an error:
 *   -EMSGSIZE    the send was larger than the receive buffer that it matched.
 *                Both ends get this error, and its text has both sizes. The
 *                connection and the other sends of a grouped receive continue.
 *   -ECONNRESET  the peer is gone
 *   -EPIPE       the proxy is gone
 *   -ECANCELED   the request's region was deregistered
 *   -ETIMEDOUT   both rails were down for too long, or the request took longer
 *                than the proxy's settings allow
 * A connection's failure is reported after the proxy has sent the reason, or
 * after client.answer. No call waits for the reason. Close a failed connection:
 * after -ECANCELED, closing may be the only way the peer learns of the failure.
 *
 * While the proxy runs, mpib_test() makes no system call, with two exceptions.
 * Every 64th call in a row without a result makes one poll(2), at most every 10
 * ms; a program that calls rarely should also call mpib_alive(). While ordinary
 * memory passes through the staging window, mpib_test() wakes a sleeping shard
 * by write(2).
 */
int mpib_test(struct mpib_request *req, int *done, size_t *sizes);

/* Like mpib_test(), with sizes of type int, as in NCCL's interface. */
int mpib_test_int(struct mpib_request *req, int *done, int *sizes);

/* For profilers: choose which requests get a report of what each rail does for
 * them. A request with a report is slower. */
enum mpib_report {
	MPIB_REPORT_OFF,
	MPIB_REPORT_ALL, /* every request posted from now on */
	MPIB_REPORT_NEXT, /* the next request, then off */
	MPIB_REPORT_LATER, /* like NEXT, after 1024 tests without a result */
};

enum mpib_watch {
	MPIB_WATCH_POSTED, /* mpib_isend() or mpib_irecv() is about to return */
	MPIB_WATCH_TESTED, /* mpib_test() is about to return: not complete */
	MPIB_WATCH_OVER, /* the last mpib_test(): done, or failed */
};

/* Called for each request with a report, on the connection's thread, from
 * inside mpib_isend(), mpib_irecv() or mpib_test(). `what` names the step that
 * the request has reached. The callback may read `req`. */
typedef void mpib_watch_fn(void *user, struct mpib_request *req,
			   enum mpib_watch what);

/* Enable reports for requests of conn. The library calls `fn` with `user`. Call
 * this on the connection's thread, once the connection is ready. */
int mpib_report(struct mpib_conn *conn, enum mpib_report how, mpib_watch_fn *fn,
		void *user);
/* Get what each rail has done for the request so far. `report` points to two
 * entries, one per rail. */
void mpib_request_rails(const struct mpib_request *req,
			struct mpib_rail_report *report);
/* Get the times of the request's steps. */
void mpib_request_times(const struct mpib_request *req,
			struct mpib_report_times *times);
/* Return a send's or receive's number: below MPIB_REQUEST_SLOTS, and different
 * for all outstanding requests of a connection. */
#define MPIB_REQUEST_SLOTS 544
unsigned mpib_request_slot(const struct mpib_request *req);

/* Return the number of buffers of the request: `n` of mpib_irecv(), or 1 for a
 * send. Valid until the next request is posted on its connection. */
int mpib_request_buffers(const struct mpib_request *req);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
