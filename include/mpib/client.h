/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client library attaches a process to the node's mpib-proxy, connects the
 * process to clients on any node, and exchanges messages with them. The NCCL
 * plugin uses this library. The library itself needs neither NCCL nor verbs.
 *
 * Errors: calls return 0 or a count on success, and -errno on failure.
 * mpib_strerror() describes the last failure of the calling thread in a
 * sentence. Any call that sends a request to the proxy may also return:
 *
 *   -EPIPE      the proxy has ended, and no new proxy started within
 *               resume.grace (a setting of the proxy); or the proxy ended this
 *               client's session
 *   -ETIMEDOUT  the proxy did not answer within client.answer (a setting of the
 *               proxy), or the proxy ended and the next proxy did not start
 *               within this time. After this error, further calls fail at once
 *               until the proxy sends any answer. If the proxy later executes
 *               the request that timed out, the library undoes its effect.
 *   -EDQUOT     a limit or a quota in the proxy's settings is reached
 *   -EMFILE     this process or the proxy has no file descriptor left
 *   -ENOMEM     this process or the proxy has no memory left
 *   -EFBIG      the memory is larger than LimitFSIZE of the proxy's service
 *   -EPROTO     the proxy's answer is invalid
 *
 * After -EPIPE the client no longer works: detach it. After any other error the
 * client still works: only the call has failed.
 *
 * When the proxy ends, a thread of the library (the helper) attaches to the
 * next proxy of the same run directory. Until the helper has attached,
 * mpib_isend() and mpib_irecv() return 0 with *req NULL, and no request
 * completes. After that, the requests posted earlier continue. The helper needs
 * Linux 5.3.
 *
 * Threads: any thread may use a client, a listener or a region. Calls on these
 * objects take the client's lock and may block for a round trip to the proxy.
 * On one connection only one thread at a time may call mpib_isend(),
 * mpib_irecv(), mpib_iflush() and mpib_test(). These four calls need the
 * client's lock only to get a staging window, to continue at another proxy, and
 * to ask why a connection failed. They never wait for the lock. If another
 * thread or the helper holds the lock, mpib_isend() and mpib_irecv() return 0
 * with *req NULL, mpib_test() returns 0 with *done 0, and mpib_iflush() queues
 * the flush.
 *
 * Fork: a child process must not use its parent's objects. In the child, calls
 * on these objects fail with -EOWNERDEAD. Void functions change no object. The
 * parent is not affected. Three functions work in the child as in the parent,
 * because they use no shared memory: mpib_query(), mpib_request_buffers() and
 * mpib_request_slot().
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
	/* the proxy's run directory; NULL: the result of mpib_run_dir() */
	const char *run_dir;
	const char *name; /* this client's name in tools; NULL: argv[0] */
	uint64_t job; /* job number that tools show: NCCL's commId; 0: none */
	/* how long mpib_attach() may block, in ms; 0 means 10000 */
	unsigned timeout_ms;
	/* index of a device, less than `devices` of struct mpib_node_info */
	unsigned device;
};

struct mpib_rail_info {
	char name[64]; /* such as "rdma:mlx5_0:1" */
	char pci_path[128]; /* "": no PCI device */
	uint32_t speed_mbps;
	int up; /* 1: the rail is up, 0: it is down */
};

/* A node, as one of its clients sees it. */
struct mpib_node_info {
	uint32_t client; /* the client's id, as tools show it */
	int dmabuf; /* 1: mpib_reg_fd() can register dma-bufs on every rail */
	unsigned devices; /* number of the node's devices, <= MPIB_DEVICES */
	unsigned device; /* index of the client's device */
};

#define MPIB_DEVICES 16 /* maximum number of devices of a node */

struct mpib_device_info {
	char name[32]; /* as tools show it */
	int rails; /* number of entries of `rail` in use */
	/* Mask of the rails that are not standby rails. Bit 0 is rail[0]. */
	unsigned carries;
	struct mpib_rail_info rail[2];
};

/*
 * Attach to the proxy of this node. The caller owns *client until
 * mpib_detach(). `opts` may be NULL. The call blocks for at most
 * opts->timeout_ms, and up to 60 s longer in two cases: the call starts a proxy
 * (the program in the environment variable MPIB_START), or the proxy lets
 * clients of the previous proxy attach first. On failure mpib_strerror() names
 * the socket and says what to do.
 *
 *   -ENOENT, -ECONNREFUSED  no proxy listens at the socket, or the proxy closed
 *                           the connection
 *   -EPERM                  the proxy crashed twice in a minute while it served
 *                           this process, and now refuses this process
 *   -EINPROGRESS            the proxy still lets clients of the previous proxy
 *                           attach first
 *   -ENOEXEC                MPIB_START is set, and no proxy could be started
 *   -EACCES                 this user may not connect to the proxy; or other
 *                           users can write to the run directory, and the
 *                           process that listens at the socket runs neither as
 *                           root nor as this user
 *   -ENAMETOOLONG           the run directory's path is too long for the
 *                           address of a socket
 *   -ETIMEDOUT              the proxy does not answer
 *   -EPROTO                 library and proxy have different versions
 *   -ENODEV                 the proxy has no device with this index
 *   -EDQUOT                 the proxy has its maximum number of clients, or
 *                           this user has used up its quota of clients
 *   -ENOSPC                 the device has no room for another user
 *   -EMFILE, -ENOMEM        this process or the proxy has no file descriptor or
 *                           no memory left
 */
int mpib_attach(const struct mpib_attach_opts *opts,
		struct mpib_client **client);

/* Close the client with all its connections, listeners, regions and outstanding
 * requests. Never waits for a peer. `client` may be NULL. All objects of the
 * client are invalid afterwards. */
void mpib_detach(struct mpib_client *client);

/* Fill *info with facts about the client and its node. Makes no round trip to
 * the proxy. */
void mpib_query(struct mpib_client *client, struct mpib_node_info *info);
/* Fill *info with the properties of the node's device with index `device`.
 * Blocks for a round trip to the proxy. -ENODEV: there is no such device. */
int mpib_query_device(struct mpib_client *client, unsigned device,
		      struct mpib_device_info *info);

/* Poll the proxy's socket and return 0 if the proxy runs, or if the helper may
 * still attach to the next proxy. Otherwise return -EPIPE: every later call on
 * the client fails, too. */
int mpib_alive(struct mpib_client *client);

/*
 * Write the path of the proxy's run directory to `buf`. This is the first of
 * these paths that applies:
 *   - the value of the environment variable MPIB_RUN_DIR, if it is set
 *   - "$XDG_RUNTIME_DIR/mpib", if the user is not root and this directory has a
 *     proxy's socket
 *   - "/run/mpib"
 * Return `buf`, or NULL if the path does not fit into `len` bytes. Any thread.
 */
const char *mpib_run_dir(char *buf, size_t len);

/* Return a sentence about the last failure of the calling thread. Never NULL.
 * The text is valid until the thread's next call of the library. */
const char *mpib_strerror(void);

/*
 * Listen for connections, and write the listener's address (128 bytes) to
 * *handle. The program must send these bytes to the process that will connect,
 * because mpib_connect() needs them. mpib_listen() blocks for a round trip to
 * the proxy, and does not wait for a peer. The caller owns *listener until
 * mpib_close_listen().
 */
int mpib_listen(struct mpib_client *client, struct mpib_handle *handle,
		struct mpib_listener **listener);
/* Close the listener. Its pending accepts fail. `listener` may be NULL. */
void mpib_close_listen(struct mpib_listener *listener);

/*
 * Make one end of a connection. mpib_connect() makes a sending end, which
 * connects to the listener of `handle`. mpib_accept() makes a receiving end,
 * which accepts one such connection. A listener may have several pending
 * accepts. The caller owns *conn until mpib_close().
 *
 * Both calls block for a round trip to the proxy and do not wait for a peer. To
 * wait for the peer, call mpib_ready() until the connection is ready or has
 * failed. `traffic_class` is 1 to 255; other values select the class in the
 * proxy's settings.
 *
 *   -EINVAL  `handle` is not from mpib_listen()
 *   -EMFILE  may also mean that 1024 connections of this client are open or
 *            closing
 *   -EACCES  the peer's address is in none of the networks that the proxy
 *            allows (setting peer.networks)
 *   -EPERM   the proxy does not allow its clients this traffic class
 *   -ENOSPC  the proxy has too many peers
 *   -EIO     mpib_connect() could not get random bits from the kernel
 */
int mpib_connect(struct mpib_client *client, const struct mpib_handle *handle,
		 int traffic_class, struct mpib_conn **conn);
int mpib_accept(struct mpib_listener *listener, struct mpib_conn **conn);

/*
 * Return 1 if the connection is ready. Return 0 if the connection is pending,
 * or has failed and the proxy has not reported the reason yet. Return -errno if
 * the connection has failed and the reason is known: then close the connection.
 * Never blocks. While the connection is pending, this function calls poll(2) at
 * most every 10 ms.
 *
 *   -ETIMEDOUT     the peer was not reached, or did not accept within
 *                  client.connect_timeout (a setting of the proxy)
 *   -ECONNREFUSED, -ECONNRESET  the listener or the peer is gone
 *   -ECANCELED     the listener of this accept was closed
 *   -ENETDOWN      no rail is up at both nodes
 *
 * Other codes mean that one of the two proxies reached a limit. They are
 * described at the beginning of this file.
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
 * mpib_test() copy it through the connection's staging window. The call is
 * cheap, because it does not ask the proxy. Each call returns a new region,
 * which needs its own mpib_dereg().
 *
 *   -EINVAL  `addr` is NULL, `size` is 0, or the range ends beyond the address
 *            space
 */
int mpib_reg(struct mpib_client *client, void *addr, size_t size,
	     struct mpib_region **region);
/*
 * Register `size` bytes of a file, starting at `offset`, so that the rails
 * access them without a copy. The file is a memfd (`flags` is MPIB_REG_MEMFD of
 * mpib/control.h) or a dma-buf (MPIB_REG_DMABUF). `addr` is the address at
 * which this process has mapped the bytes. The caller may close `fd` after the
 * call.
 *
 * If the memory lies within an existing region with the same flags, the call is
 * cheap: it returns this region, which then needs one more mpib_dereg(). Do not
 * free the memory of a region before its last mpib_dereg(). The library
 * recognizes the memory of a dma-buf only by its address, because each export
 * of the same memory is a separate file. If you free the memory before that and
 * new memory gets the same address, the library mistakes the new memory for the
 * old. For a memfd, the library also compares the file and the offset.
 *
 * A memfd must have the seal F_SEAL_SHRINK. The call allocates all its pages
 * and adds F_SEAL_SEAL, so that no further seals can be added.
 *
 *   -EPERM       `fd` is not of the kind in `flags`; or a memfd is too short or
 *                lacks F_SEAL_SHRINK; or the proxy accepts no memfds from this
 *                user (client.own_memory of mpib.conf(5)): then use
 *                mpib_mem_alloc()
 *   -EBADF       `fd` is not open
 *   -EINVAL      unknown `flags`, or `size` is 0
 *   -EOPNOTSUPP  a rail cannot register a dma-buf
 */
int mpib_reg_fd(struct mpib_client *client, void *addr, size_t size,
		uint64_t offset, int fd, uint32_t flags,
		struct mpib_region **region);
/*
 * Deregister a region. If mpib_reg_fd() returned the region several times, only
 * the last mpib_dereg() has an effect. After the call, neither the proxy nor a
 * peer accesses the memory any more. The exception is memory from
 * mpib_mem_alloc(): it stays accessible until mpib_mem_free(), and requests
 * that use it continue. `region` may be NULL.
 *
 * If an outstanding request uses the region, the request's connection fails
 * with -ECANCELED. The exception is ordinary memory, because the proxy never
 * accesses it: then the connection fails only if the library has not yet copied
 * all bytes of a send. A receive into ordinary memory ends with -ECANCELED when
 * its message has arrived, and the connection continues.
 *
 *   -ETIMEDOUT  the region is invalid, but the proxy has not answered yet and
 *               may still access the memory
 */
int mpib_dereg(struct mpib_region *region);

/* Allocate memory that the rails access without a copy. Until a receive into
 * this memory is complete, its bytes may arrive in any order. On failure return
 * NULL with errno set. */
void *mpib_mem_alloc(struct mpib_client *client, size_t size);
/* Free memory from mpib_mem_alloc(). Deregister its regions first. */
void mpib_mem_free(struct mpib_client *client, void *addr);

/*
 * Send `size` bytes at `data`, which lies inside `region`. Returns 0 with the
 * request in *req. The buffer belongs to the library until mpib_test() reports
 * the request as complete. If the call returns 0 with *req NULL, it has posted
 * nothing: test outstanding requests, then call it again. Possible reasons:
 *   - as many sends as allowed wait for their receives (256 in the library and
 *     24 in the proxy), and the oldest receive that lacks a send has another tag
 *   - 544 sends or 32 receives are outstanding
 *   - the ring to the proxy is full
 *   - the proxy has ended, and the connection has not yet continued at the next
 *     proxy
 *   - the connection failed, and the proxy has not reported the reason yet
 *   - the request needs a staging window, and another call or the helper holds
 *     the client's lock
 *   - the connection released its staging window while it was idle, and the
 *     proxy does not answer or has no memory for a new window
 *
 * For memory that needs no copy the call is wait-free. Otherwise the call
 * copies as many bytes as the staging window holds, and mpib_test() copies the
 * rest. If the connection has no window, the call blocks for a round trip to
 * the proxy, which makes one.
 *
 * Each receive buffer is matched with the oldest unmatched send of the same
 * tag. If the receive for a send is posted, the send never waits for sends of
 * other tags. Sends that wait in the library make progress only in mpib_isend()
 * on their connection, and in mpib_test() of any send of their connection.
 *
 * Errors of mpib_isend() and mpib_irecv():
 *
 *   -ENOTCONN  the connection is not ready yet
 *   -EFAULT    `data` is not inside `region`
 *   -E2BIG     a buffer has more than 2 GiB - 1 bytes, or a grouped receive has
 *              more than 1 GiB of ordinary memory
 *   -EINVAL    `n` is not 1 to 8, `conn` is the wrong end, or `region` belongs
 *              to another client
 *
 * and, on a failed connection, the errors of mpib_test().
 */
int mpib_isend(struct mpib_conn *conn, const void *data, size_t size, int tag,
	       struct mpib_region *region, struct mpib_request **req);

/*
 * Receive into `n` buffers, at most 8. Buffer i is at data[i] in region[i],
 * holds up to size[i] bytes, and gets one send with tag tag[i]. If `tag` is
 * NULL, all tags are 0. Buffers with the same tag are filled in the order of
 * their indices. The arrays may be reused after the call. The buffers belong to
 * the library until mpib_test() reports the request as complete. *req is NULL
 * for the same reasons as in mpib_isend(). *req is also NULL if a receive of
 * several buffers of ordinary memory has to wait for a larger staging window.
 */
int mpib_irecv(struct mpib_conn *conn, int n, void *const *data,
	       const size_t *size, const int *tag,
	       struct mpib_region *const *region, struct mpib_request **req);

/*
 * Make all bytes that the connection has received visible to the device that
 * owns the memory at `data`. `data` must be inside a region that mpib_reg_fd()
 * made with MPIB_REG_DMABUF. A flush is needed because the host may see that a
 * receive is complete before the device sees the bytes. One flush covers all
 * memory of the device, so a grouped receive needs only one flush. When
 * mpib_test() reports *req as complete, the bytes are visible. For a flush,
 * mpib_test() writes no sizes. If the call returns 0 with *req NULL, `data` is
 * host memory and needs no flush. Flushes do not count towards the limit of 32
 * receives. Wait-free.
 *
 *   -EBUSY   256 flushes are outstanding
 *   -EINVAL  `conn` is a sending end, or `region` belongs to another client
 *   -ENOTCONN, -EFAULT  as for mpib_irecv()
 */
int mpib_iflush(struct mpib_conn *conn, const void *data,
		struct mpib_region *region, struct mpib_request **req);

/*
 * Set *done to 1 if the request is complete, else to 0. A complete request is
 * invalid after the call. If a receive is complete, sizes[i] becomes the number
 * of bytes received in buffer i. If a send is complete, sizes[0] becomes the
 * number of bytes sent. `sizes` may be NULL.
 *
 * A send is complete when its buffer may be reused. The proxy's setting
 * failover.completion decides whether the peer must have received all bytes by
 * then.
 *
 * A negative return means that the request ended with an error:
 *
 *   -EMSGSIZE    the send was larger than the receive buffer that it was
 *                matched with. Both ends get this error, and mpib_strerror()
 *                names both sizes. The connection continues, and so do the
 *                other sends of a grouped receive.
 *   -ECONNRESET  the peer is gone
 *   -EPIPE       the proxy is gone
 *   -ECANCELED   the request's region was deregistered
 *   -ETIMEDOUT   both rails were down for longer than failover.grace, or the
 *                request took longer than client.request_timeout (settings of
 *                the proxy)
 *
 * Requests of a failed connection stay incomplete until the proxy has sent the
 * reason, or until the time client.answer has passed. No call waits for the
 * reason. Close a failed connection: after -ECANCELED, the peer may learn of
 * the failure only by the close.
 *
 * While the proxy runs, mpib_test() makes only two kinds of system calls.
 * First, every 64th consecutive call without a result polls the proxy's socket
 * to detect that the proxy has ended, but at most every 10 ms. A program that
 * calls mpib_test() rarely should therefore also call mpib_alive(). Second, if
 * mpib_test() pushes waiting sends or parts of ordinary memory while the shard
 * sleeps, the call wakes the shard by write(2).
 */
int mpib_test(struct mpib_request *req, int *done, size_t *sizes);

/* Like mpib_test(), with sizes of type int, as in NCCL's interface. */
int mpib_test_int(struct mpib_request *req, int *done, int *sizes);

/* Which requests of a connection get a report. A report tells a profiler what
 * each rail does for the request. Requests with a report are slower. */
enum mpib_report {
	MPIB_REPORT_OFF, /* none */
	MPIB_REPORT_ALL, /* every request posted after mpib_report() */
	MPIB_REPORT_NEXT, /* only the next request */
	/* only one request: the first that is posted after mpib_test() has
	 * found a request incomplete 1024 times */
	MPIB_REPORT_LATER,
};

/* Why the library calls mpib_watch_fn(). */
enum mpib_watch {
	MPIB_WATCH_POSTED, /* mpib_isend() or mpib_irecv() posted the request */
	MPIB_WATCH_TESTED, /* mpib_test() found the request incomplete */
	MPIB_WATCH_OVER, /* the request completed or failed; last call for it */
};

/* A callback for requests with a report. The library calls it on the
 * connection's thread, inside mpib_isend(), mpib_irecv() or mpib_test(). The
 * callback may call mpib_request_rails() and mpib_request_times() for `req`. */
typedef void mpib_watch_fn(void *user, struct mpib_request *req,
			   enum mpib_watch what);

/* Choose which requests of the connection get a report. The library passes
 * `user` to each call of `fn`. Call this function on the connection's thread,
 * when the connection is ready. Returns 0, or -EOWNERDEAD after fork(). */
int mpib_report(struct mpib_conn *conn, enum mpib_report how, mpib_watch_fn *fn,
		void *user);
/* Write to report[0] (SOUT) and report[1] (SUP) what each rail has done for the
 * request so far. */
void mpib_request_rails(const struct mpib_request *req,
			struct mpib_rail_report *report);
/* Write the times of the request's steps to *times. */
void mpib_request_times(const struct mpib_request *req,
			struct mpib_report_times *times);
/* Return the number of a send or receive. The number is less than
 * MPIB_REQUEST_SLOTS. No other outstanding request of the connection has the
 * same number. */
#define MPIB_REQUEST_SLOTS 544
unsigned mpib_request_slot(const struct mpib_request *req);

/* Return the number of buffers of the request: `n` of mpib_irecv(), or 1 for a
 * send. The number is valid until the next request of the connection is
 * posted. */
int mpib_request_buffers(const struct mpib_request *req);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
