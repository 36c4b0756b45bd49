/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internal types and functions of the client library, which runs in the rank's
 * process. The comments of this folder use these terms:
 *
 * - A session (struct mpib_attached) is what the client has with one proxy. If
 *   the proxy ends, the client begins a session with another proxy.
 * - An instance (struct mpib_instance) is one end of a connection at one proxy.
 *   If the proxy ends, the connection can continue in another instance, which
 *   has its own connection index.
 * - A completion entry (struct mpib_completion) is the record in the reply
 *   segment to which the shard writes the result of a request. Functions and
 *   fields call the completion entry of a request its "place" (feed.h).
 * - A part is a piece of a message that is in the connection's staging window
 *   (window.h).
 * - An undo record (struct mpib_debt) says how to remove an object from the
 *   proxy.
 * - "Under the lock" means that the calling thread holds client->lock.
 *
 * To push a request is to write its descriptors into the connection's ring,
 * which the proxy reads. The library begins to push the requests of a
 * connection in the order in which they were posted, with one exception: a send
 * that the oldest unanswered receive needs (a "wanted" send, feed.h) may
 * overtake other sends. If the memory of a request needs no copy, the library
 * pushes the request at once, with one descriptor per buffer. The library
 * copies ordinary memory through the connection's staging window, and pushes
 * such a request part by part.
 */
#ifndef MPIB_IPC_CLIENT_H
#define MPIB_IPC_CLIENT_H

#include <errno.h>
#include <limits.h>
#include <mpib/client.h>
#include <mpib/control.h>
#include <mpib/segment.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "base/memseg.h"
#include "ipc/feed.h"
#include "ipc/window.h"

/* Each 64th call that finds no result also checks whether the proxy still
 * runs. */
#define MPIB_LOOK_EVERY 64

/* An undo record is part of the client's struct for a pool, a region, a
 * listener or a connection index. It has no effect while the struct is in use.
 * After the client has dropped the struct, the proxy's object may still exist,
 * or the proxy may make it later. Then the record is on client->debts until the
 * client has sent the undo request (rpc.c). */
struct mpib_debt {
	/* links the undo records that are on client->debts */
	LIST_ENTRY(mpib_debt) link;
	/* Id of the request that makes the object; 0 after its answer, which
	 * sets `id` if the object is an MR or a listener. */
	uint32_t asked;
	/* type of the undo request: MPIB_CTL_DEREG, _CLOSE_LISTEN or _CLOSE */
	uint32_t undo;
	/* id of the MR, id of the listener, or index of the connection */
	uint32_t id;
	/* Function to call under the lock after the undo request was sent, or
	 * if the proxy did not make the object. NULL: call free() on the
	 * client's struct, whose first member is this record. */
	void (*paid)(struct mpib_debt *d);
};

/* Memory that the client can register again at another proxy, because the
 * client keeps the memory's file descriptor. */
struct mpib_memory {
	TAILQ_ENTRY(mpib_memory) link; /* element of client->memories */
	/* result of mpib_keep() for the memory's descriptor; 0: no descriptor
	 * is kept */
	uint32_t kept;
	/* The arguments of mpib_reg_fd(). */
	uint32_t flags;
	uint64_t offset;
	size_t size;
	/* After the client has attached to another proxy, it registers the
	 * memory there. The fields below describe the latest of these
	 * registrations. */
	/* number of the session in which the memory was registered again; 0:
	 * none */
	uint32_t at;
	/* id of the registration request; 0 after the proxy has answered */
	uint32_t asked;
	uint32_t mr; /* id of the memory's MR at that proxy */
};

/* Shared memory that the proxy allocated and registered, and that this process
 * has mapped. */
struct mpib_pool {
	struct mpib_debt debt; /* first member */
	/* element of client->pools; not used for staging windows */
	LIST_ENTRY(mpib_pool) link;
	struct mpib_memseg seg;
	/* in a staging window, only `size` is used */
	struct mpib_memory memory;
};

/* Return the size of a staging window in bytes, or 0 if `window` is NULL. */
static inline uint32_t mpib_window_size(const struct mpib_pool *window)
{
	return window ? (uint32_t)window->memory.size : 0;
}

struct mpib_region {
	struct mpib_debt debt; /* first member; used only if `own_mr` is set */
	LIST_ENTRY(mpib_region) link;
	struct mpib_client *client;
	char *addr;
	size_t size;
	/* Size of the largest request, in bytes, that needs no copy. 0: all
	 * requests are copied, because the memory is staged. */
	size_t direct;
	/* true: ordinary memory, which is copied through a staging window */
	bool staged;
	/* true: mpib_reg_fd() made this region, so the region has an MR of its
	 * own at the proxy. mpib_dereg() must deregister this MR, too. */
	bool own_mr;
	struct mpib_memory memory; /* only if `own_mr` is set */
	/* Device and inode of the region's file. Only if `own_mr` is set. */
	dev_t dev;
	ino_t ino;
	_Atomic uint32_t mr; /* id of the MR at the current proxy */
	uint64_t off; /* offset of `addr` in the MR, in bytes */
	/* How often mpib_reg_fd() returned this region. Used under the client's
	 * lock. */
	unsigned regs;
	/* Number of requests that hold a reference on this region. Requests of
	 * the fast path take no reference. */
	_Atomic unsigned refs;
	/* Number of threads that are copying bytes of this region to or from a
	 * window, plus MPIB_REGION_DEAD if the region is deregistered. */
	_Atomic unsigned copying;
};

#define MPIB_REGION_DEAD 0x80000000u

struct mpib_attached;
struct mpib_message;

/* One end of a connection at one proxy. An instance begins when the client
 * requests the connection from the proxy. An instance ends when the proxy ends
 * or loses the connection. The connection may then continue in another
 * instance. */
struct mpib_instance {
	struct mpib_attached *at;
	uint32_t index;
	/* number of receives that both ends had completed before this instance
	 * began */
	uint64_t base;
	/* time, in ms, when the proxy first refused a staging window for this
	 * instance; 0: never */
	uint64_t no_window;
};

enum mpib_next {
	MPIB_NEXT_NONE,
	/* the client has requested the instance `next` from the proxy */
	MPIB_NEXT_ASKED,
	/* the connection's thread may switch to the instance `next` */
	MPIB_NEXT_READY,
};

/* The state of a connection's close. After the rank has closed a connection,
 * the connection stays in client->conns until the peer knows of the close. If
 * the proxy ends earlier than that, the helper closes the connection at the
 * next proxy. */
enum mpib_closing {
	MPIB_CLOSING_NOT,
	/* The client has asked the proxy to close the connection. The close is
	 * complete when the state of the connection's index is FREE. */
	MPIB_CLOSING_TOLD,
	/* The helper waits until the connection has a new instance, and then
	 * closes that instance. */
	MPIB_CLOSING_OWED,
};

struct mpib_conn {
	struct mpib_client *client;
	/* In a sending end, `sends` is the client and `receives` is NULL. In a
	 * receiving end, `sends` is NULL and `receives` is the client. The
	 * memory of a request must be registered by the same client. */
	const struct mpib_client *sends, *receives;
	/* If `work` is not 0, posts and tests take the slow path. `work` is the
	 * sum of three numbers: the parts in the window, the requests in the
	 * feed queue, and how many of `error`, `armed` and `refused` are
	 * set. */
	uint32_t work;
	/* The generation of the first request of this instance, and of the
	 * latest request. Each request has a generation that is 2 more than the
	 * previous request's. So the number of posted requests can be computed
	 * from `gen`. */
	uint32_t first_gen, gen;
	/* value of `gen` / MPIB_TURN in the last call of mpib_conn_lap() */
	uint32_t turn;
	/* Lists of unused requests. `free`: requests with an ordinary
	 * completion entry. `reserve`: requests with a completion entry that is
	 * reserved for wanted sends (feed.h). `bare`: requests without a
	 * completion entry. */
	struct mpib_request *free, *reserve, *bare;
	uint32_t idle; /* number of calls that found no result */
	/* value of MPIB_ATTACHED() for the session that this connection
	 * uses */
	uint64_t lived;
	struct mpib_producer ring;
	const struct mpib_reply_conn *reply;
	/* in the status segment: not 0 while the shard sleeps */
	const _Atomic uint32_t *sleeping;
	/* This connection's two bits in the summary bitmap of the submit
	 * segment, and the words that contain these bits. */
	_Atomic uint64_t *word, *top;
	uint64_t word_bit, top_bit;
	const struct mpib_completion *completion;
	/* 0: the connection is usable. -ENOTCONN: the connection is not ready
	 * yet. Other values: the connection has failed for the reason in `why`,
	 * so this end pushes and copies nothing more. */
	int error;
	/* The current instance: its session (`at`), its index, and the data
	 * of this index (`place`). These fields change only under the client's
	 * lock. */
	struct mpib_attached *at;
	struct mpib_index *place; /* &at->index[index] */
	uint32_t index;
	bool is_sender;
	/* the latest call of mpib_isend() found no unused request */
	bool refused;
	/* Which requests the shard reports on, see mpib_report(3). Used by
	 * rail_report.c. */
	enum mpib_report report;
	/* With MPIB_REPORT_LATER: the number of mpib_test() calls that must
	 * still find a request incomplete before the next request gets a
	 * report. */
	uint32_t later;
	bool armed; /* the shard will report on the next request */
	mpib_watch_fn *watch;
	void *user;
	struct mpib_feed feed;
	/* How many requests of this instance had been posted when
	 * mpib_conn_lap() last ran. */
	_Atomic uint64_t posts;
	/* number of receives that had completed before this instance began */
	uint64_t base;
	LIST_ENTRY(mpib_conn) link;
	/* The fields below are the arguments of the connection's next connect,
	 * accept or resume message. Used under the client's lock. */
	/* The latest CONNECT or RESUME. In a receiving end, ask.key is 0 until
	 * a sender has connected. */
	struct mpib_ctl_connect ask;
	/* Only in a receiving end. NULL: the listener was closed. */
	struct mpib_listener *listener;
	/* The instance in which the connection will continue, and its state
	 * (enum mpib_next). `next_state` is written under the lock, but may be
	 * read without it. */
	struct mpib_instance next;
	_Atomic unsigned next_state;
	/* -errno: the connection cannot continue, and `lost_why` says why; 0
	 * otherwise. The helper sets both once, `lost_why` first. */
	_Atomic int lost;
	char lost_why[240];
	enum mpib_closing closing;
	/* placed[i] is the request that has completion entry i */
	struct mpib_request *placed[MPIB_REQUESTS];
	struct mpib_request req[MPIB_REQUESTS];
	struct mpib_flush_queue flush;
	struct mpib_window window;
	/* The connection has failed: time, in ms, until which the client waits
	 * for the proxy's reason. 0: it has not failed. */
	uint64_t why_until;
	char why[256];
};

/* A connection index of a session. The fields keep their values when the
 * connection ends, because the next connection at this index needs them. */
struct mpib_index {
	struct mpib_debt debt; /* first member; only while `taken` is set */
	bool taken;
	/* value of reply->end[].key when the index was taken */
	uint64_t key;
	/* position in the index's ring where the next descriptor will be
	 * written */
	uint64_t tail;
	/* An even generation that is later than the generations of all earlier
	 * requests at this index. */
	uint32_t gen;
	/* The current staging window, and the previous window, which may still
	 * hold parts. A closing connection keeps both windows, because the peer
	 * may still write to them. */
	struct mpib_pool *window, *before;
};

struct mpib_listener {
	struct mpib_debt debt; /* first member */
	LIST_ENTRY(mpib_listener) link;
	struct mpib_client *client;
	uint64_t nonce;
	/* number of the latest session in which the client requested the
	 * listener */
	uint32_t at;
};

/* Maximum number of registration requests without an answer. Each request sends
 * a descriptor through the socket, and the kernel limits how many descriptors a
 * user may have in transit in sockets (ETOOMANYREFS in unix(7)). */
#define MPIB_REGISTERING 32

enum mpib_attach_state {
	MPIB_ATTACH_NEW,
	/* all memory is registered at the proxy, so the client may request
	 * connections */
	MPIB_ATTACH_REGISTERED,
	/* the client has requested all its objects, so connections may use this
	 * session */
	MPIB_ATTACH_WHOLE,
	/* the client shut the socket down before it had requested all its
	 * objects */
	MPIB_ATTACH_CUT,
};

/* A session: the client's session with one proxy. It consists of the
 * socket, the mapped segments and the connection indexes. The client keeps
 * these until all connections have moved to the next proxy. */
struct mpib_attached {
	uint32_t number; /* number of this session; the first has number 1 */
	enum mpib_attach_state state;
	/* false: the proxy is a successor in an upgrade, and does not serve
	 * clients yet */
	bool serves;
	/* Number of references to this session, which the client and the
	 * instances of connections hold. Used under the client's lock. */
	unsigned users;
	int sock, doorbell;
	/* pidfd of the proxy's process; -1 if the kernel does not support
	 * pidfds */
	int pidfd;
	const struct mpib_status *status;
	struct mpib_submit *submit;
	const struct mpib_reply *reply;
	struct mpib_memseg seg[3];
	struct mpib_ctl_welcome welcome;
	/* number of registration requests that the proxy has not answered */
	unsigned registering;
	/* Indexes from this one on were never taken. Do not read their states:
	 * the kernel would allocate the pages. */
	uint32_t used;
	struct mpib_index index[MPIB_INDEXES_MAX];
};

/* The state of the latest control request. */
enum mpib_asked {
	MPIB_ASKED_NOT, /* not sent */
	MPIB_ASKED_LATE, /* sent, but not answered yet */
	MPIB_ASKED_ANSWERED,
};

/*
 * The helper: a thread of the client. The helper waits until the proxy ends.
 * Then it attaches to the next proxy, and requests the client's objects from
 * that proxy (docs/recovery.md). If the proxy does not support resuming, the
 * client has no helper.
 */
struct mpib_helper {
	/* true: if the current proxy ends, the client will continue at another
	 * proxy */
	atomic_bool resumes;
	bool runs;
	pthread_t thread;
	int wake, stop; /* eventfds; -1: there is no helper */
	_Atomic uint64_t woken; /* ms, last wake-up by a thread that polls */
	/* The next two fields are used by keep.c, under the client's lock. */
	/* socket to the thread of keep.c; -1: that thread does not run */
	int keeper;
	pthread_t keeping;
	/* The fields below are used under the client's lock. */
	/* time, in ms, when the helper gives up finding another proxy; 0: the
	 * proxy runs */
	uint64_t until;
	/* The helper has seen that the proxy's process has ended. So the helper
	 * does not poll the pidfd of this process any more. */
	bool ended;
	uint32_t grace_ms;
	uint32_t pause_ms; /* pause before the next attempt to attach, in ms */
	char tried[256]; /* error text of the last failed attempt */
	/* number of the upgrade that the proxy has announced; 0: none */
	uint32_t upgrade;
	/* the helper has not handled the latest message about an upgrade yet */
	bool attach;
	/* Why the helper gave up finding another proxy; an empty string if it
	 * has not given up. The helper sets this text before it sets `resumes`
	 * to false. */
	char why[512];
};

struct mpib_client {
	unsigned forks; /* value of mpib_forks in the process that attached */
	/* Low half: `forks`. High half: the number of the session.
	 * MPIB_GONE: no proxy runs. So one comparison with `living` detects
	 * three cases: the proxy is dead, this process is a forked child, or
	 * the connection uses an earlier session. */
	_Atomic uint64_t living;
	/* time, in ms, when mpib_client_look() last polled the socket */
	_Atomic uint64_t looked;
	uint32_t answer_ms; /* time limit for an answer of the proxy */
	char path[108];
	/* the program that MPIB_START names; an empty string if MPIB_START is
	 * not set */
	char start[108];
	uid_t proxy_uid; /* uid of the first proxy */
	struct mpib_ctl_hello hello;
	struct mpib_helper helper;
	/* protects the fields below and the control socket */
	pthread_mutex_t lock;
	/* the current session; only the helper changes this pointer */
	struct mpib_attached *at;
	/* during an upgrade: the session to the next proxy */
	struct mpib_attached *successor;
	/* number of sessions that the client has made */
	uint32_t attaches;
	uint32_t next_id;
	enum mpib_asked asked;
	/* The proxy did not answer a request within `answer_ms`. Until the
	 * proxy sends a message, further calls fail with -ETIMEDOUT at once. */
	bool deaf;
	/* time, in ms, when mpib_windows_sweep() last released idle windows */
	uint64_t swept;
	/* how often mpib_windows_sweep() has released idle windows */
	_Atomic uint32_t sweeps;
	LIST_HEAD(, mpib_debt) debts;
	/* all connections, including closed ones (enum mpib_closing) */
	LIST_HEAD(, mpib_conn) conns;
	LIST_HEAD(, mpib_listener) listeners;
	LIST_HEAD(, mpib_pool) pools; /* pools of mpib_mem_alloc() */
	LIST_HEAD(, mpib_region) regions;
	/* The memory of `pools` and of the regions with an MR of their own. The
	 * memory that is not registered at the newest proxy yet comes first. */
	TAILQ_HEAD(mpib_memories, mpib_memory) memories;
	/* Deregistered regions. registration.c frees them when no request uses
	 * them any more. */
	LIST_HEAD(, mpib_region) graves;
};

/* thread.c: its functions may be called on any thread. Set the text that
 * mpib_strerror() returns in this thread. Returns `rc`. */
int mpib_fail(int rc, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Return the text of the error `rc`, like strerror(-rc). Thread-safe. */
const char *mpib_errtext(int rc);
/* Start a thread that blocks all signals, so that the program's own threads
 * handle the signals. */
int mpib_thread_start(pthread_t *thread, void *(*run)(void *), void *arg);
void mpib_thread_join(pthread_t thread);
/* Call pthread_mutex_trylock(). Return whether this thread locked the mutex. */
bool mpib_mutex_try(pthread_mutex_t *mutex);

/* attach.c: how many forks lie between the process that loaded this library and
 * the current process. */
extern unsigned mpib_forks __attribute__((visibility("hidden")));
/* The value of client->living while no proxy runs. mpib_forks never reaches the
 * low half of MPIB_GONE. */
#define MPIB_GONE UINT64_MAX
/* The high half of client->living for the session with this number. */
#define MPIB_ATTACHED(number) ((uint64_t)(number) << 32)
/*
 * attach.c. Call this without the lock. Attach to the proxy. Fail if the proxy
 * does not answer within client->answer_ms. If no proxy runs and MPIB_START
 * names a program, start a proxy and wait for this proxy until `deadline` (ms).
 * If MPIB_START is set, -ENOENT and -ECONNREFUSED mean that another process is
 * still starting a proxy.
 */
int mpib_attach_once(struct mpib_client *c, uint64_t deadline,
		     struct mpib_attached **at);
/* Like mpib_attach_once(), but never starts a proxy. */
int mpib_attach_there(struct mpib_client *c, struct mpib_attached **at);
/* Under the lock. Drop one reference to the session, and free the session
 * if this was the last reference. */
void mpib_attached_put(struct mpib_attached *at);

/*
 * rpc.c: the client's lock, and requests to the proxy.
 */
/* Return 0 if the client can send requests to a proxy, or will be able to after
 * another proxy has started. Return -EPIPE if the proxy is gone and the client
 * will not attach to another proxy, or -EOWNERDEAD if this process is a forked
 * child. */
int mpib_client_check(struct mpib_client *c);
/* Return whether the proxy runs and this process is not a forked child.
 * Wait-free. Unlike mpib_client_check(), this function does not set the error
 * text. The load is relaxed, because no data is published with client->living,
 * and because it is harmless to notice a dead proxy late. */
static inline bool mpib_client_ok(const struct mpib_client *c)
{
	return (uint32_t)atomic_load_explicit(
		       &c->living, memory_order_relaxed) == mpib_forks;
}
/* Like mpib_client_ok(), but also return false if the connection still uses an
 * earlier session. `c` must be conn->client. */
static inline bool mpib_conn_lives(const struct mpib_conn *conn,
				   const struct mpib_client *c)
{
	return (atomic_load_explicit(&c->living, memory_order_relaxed) ^
		mpib_forks) == conn->lived;
}
/* Any thread. Return whether the helper runs. If so, the helper attaches to
 * another proxy when this proxy ends. So the caller may repeat a request that
 * failed with -EPIPE. */
static inline bool mpib_client_again(const struct mpib_client *c)
{
	return atomic_load(&c->helper.resumes);
}
/* Any thread. Return whether the proxy is gone and the client waits for another
 * proxy. */
static inline bool mpib_client_resumes(const struct mpib_client *c)
{
	return mpib_client_again(c) && atomic_load(&c->living) == MPIB_GONE;
}
/* Wait until the client is attached to a running proxy. Then take the lock.
 * After an error the caller does not hold the lock. Returns -ETIMEDOUT if no
 * proxy accepted the client in time, or -EOWNERDEAD in a forked child. A forked
 * child must not use the lock, because another thread of the parent may have
 * held the lock during fork(). */
int mpib_client_lock(struct mpib_client *c);
/* Take the lock, even if no proxy runs. Call this only in the process that
 * attached. */
void mpib_client_hold(struct mpib_client *c);
/* Take the lock if it is free, and return whether it was free. Posts and tests
 * use this function, because they must not wait for a thread that holds the
 * lock while it waits for the proxy. */
bool mpib_client_try(struct mpib_client *c);
void mpib_client_unlock(struct mpib_client *c);
/* Any thread, without the lock. Check whether the proxy hung up, and read late
 * answers. Both functions return the result of mpib_client_check().
 * mpib_client_look_now() always checks. mpib_client_look() does nothing and
 * returns 0 if the last check was less than 10 ms ago. */
int mpib_client_look(struct mpib_client *c);
int mpib_client_look_now(struct mpib_client *c);
/* Return the time of the monotonic clock in ms. */
uint64_t mpib_now_ms(void);
/* Wait until poll(2) reports one of `events` for the socket. Returns 0,
 * -ETIMEDOUT after `deadline` (a time of mpib_now_ms()), -ECANCELED if the
 * client detaches, or -errno. */
int mpib_wait_socket(struct mpib_client *c, int sock, short events,
		     uint64_t deadline);

/* All functions below are called under the lock. */
/* Record that the proxy has ended or hung up. Sets the error text and returns
 * -EPIPE. */
int mpib_client_gone(struct mpib_client *c);
/* Wait until the proxy's process has ended, but at most `ms` milliseconds.
 * Return whether the process has ended. A process that has ended cannot write
 * to memory any more. */
bool mpib_client_dead(const struct mpib_client *c, int ms);
/*
 * Send a control request and wait for an answer of at least `want` bytes. `*m`
 * receives the answer and its descriptors. c->asked tells whether the request
 * was sent and answered.
 *
 * Returns the status of the answer. Returns -EPIPE if the proxy is gone, or
 * -EMFILE if the answer came without its descriptors. Returns -ETIMEDOUT if no
 * answer came within c->answer_ms. After -ETIMEDOUT, further calls fail at once
 * until the proxy answers any request.
 */
int mpib_rpc(struct mpib_client *c, struct mpib_ctl_header *h, const int *fd,
	     unsigned fds, struct mpib_message *m, size_t want);
/* Like mpib_rpc(), for a request that is a struct mpib_ctl_id. */
int mpib_rpc_of(struct mpib_client *c, uint32_t type, uint32_t id,
		struct mpib_message *m, size_t want);
/* Set the error text to "the proxy did not answer", and return -ETIMEDOUT. */
int mpib_rpc_too_late(const struct mpib_client *c);
/* Check the answer `m`. Returns 0, the answer's status if it is negative, or
 * -EPROTO if the answer has less than `want` bytes. After an error, the
 * function has set the error text and closed the descriptors of `m`. */
int mpib_rpc_check(struct mpib_message *m, size_t want);
/* Send the request `*h` to the proxy of the session `at`, and store the
 * request's id in h->id. Never waits. Returns 0, -EAGAIN if the socket is full,
 * or another -errno. */
int mpib_rpc_send(struct mpib_client *c, const struct mpib_attached *at,
		  struct mpib_ctl_header *h, const int *fd, unsigned fds);
/* Like mpib_rpc_send(), for a request that is a struct mpib_ctl_id. Stores the
 * request's id in `*asked`. */
int mpib_rpc_tell(struct mpib_client *c, const struct mpib_attached *at,
		  uint32_t type, uint32_t id, uint32_t *asked);
/* Read the answers that came after their callers had stopped waiting. Then send
 * as many of the due undo requests (client->debts) as the socket accepts. Never
 * waits. */
void mpib_rpc_settle(struct mpib_client *c);
/* Like mpib_rpc(), for a request that makes an object in the proxy. `d` is the
 * undo record of that object. After a failure the caller must no longer use the
 * struct that contains `d`: the library frees this struct, either at once or
 * after it has sent the undo request. */
int mpib_rpc_make(struct mpib_client *c, struct mpib_ctl_header *h,
		  const int *fd, unsigned fds, struct mpib_debt *d,
		  struct mpib_message *m, size_t want);
/* Ask the proxy to remove the object of the undo record `d`, and wait for the
 * answer. If the proxy has not yet answered the request that makes the object,
 * do not wait: the library sends the undo request after that answer. In both
 * cases the caller must no longer use the struct that contains `d`. Returns
 * -ETIMEDOUT if the proxy has not confirmed the removal yet. */
int mpib_rpc_undo(struct mpib_client *c, struct mpib_debt *d);
/* Like mpib_rpc_undo(), but do not wait for the answer. */
void mpib_rpc_undo_later(struct mpib_client *c, struct mpib_debt *d);
/* Remove the undo record `d` from client->debts, because the caller still needs
 * the object of `d`. The proxy has not answered the request that makes the
 * object yet, so the caller must handle the answer. */
void mpib_debt_keep(struct mpib_debt *d);
/* Drop all undo requests that were not sent yet (client->debts), because the
 * proxy removes all objects of the client anyway. */
void mpib_debts_forget(struct mpib_client *c);

/*
 * helper.c, keep.c.
 */
/* Start the helper thread of an attached client. If the thread cannot be
 * started, the client runs without a helper. */
void mpib_helper_start(struct mpib_client *c);
/* Stop the helper, and wait until its thread has ended. Call this only in the
 * process that attached, not in a forked child. */
void mpib_helper_stop(struct mpib_client *c);
/* Any thread. Wake the helper thread, so that it checks for work. */
void mpib_helper_wake(struct mpib_client *c);
/* All functions below are called under the lock. */
/* Handle a message in which the proxy announces or cancels an upgrade. */
void mpib_helper_upgrade(struct mpib_client *c,
			 const struct mpib_ctl_next *next);
/* If `m` is a late answer to a request of the helper, handle this answer. */
void mpib_helper_answered(struct mpib_client *c, struct mpib_message *m);
/* Call this after the error `rc` has prevented mpib_keep() from keeping a
 * descriptor. From then on, the client can no longer move to another proxy. */
void mpib_helper_gives_up(struct mpib_client *c, int rc);
/* If the client has attached to the successor proxy of an upgrade, detach from
 * this successor. */
void mpib_successor_drop(struct mpib_client *c);
/* If the connection has a next instance, discard it. If that instance is at the
 * current proxy, close it there. */
void mpib_next_drop(struct mpib_client *c, struct mpib_conn *conn);
/* Free each closed connection if its peer knows of the close, or can no longer
 * learn of the close. If a closed connection has a next instance that is ready,
 * close the next instance and free the connection. */
void mpib_closed_sweep(struct mpib_client *c);
/* Keep a copy of the descriptor `fd`. Returns a number that identifies the
 * copy, or 0 if no copy is kept. The caller still owns `fd`. */
uint32_t mpib_keep(struct mpib_client *c, int fd);
/* Return a copy of the kept descriptor with the number `kept`, or -errno. The
 * caller must close the copy. */
int mpib_keep_lend(const struct mpib_client *c, uint32_t kept);
/* Close the kept descriptor with the number `kept`, and wait until it is
 * closed. No effect if `kept` is 0. */
void mpib_keep_close(const struct mpib_client *c, uint32_t kept);
void mpib_keep_stop(struct mpib_client *c);

/*
 * pool.c, registration.c: memory.
 */
/* Under the lock. Unmap and free the pool. No effect if `pool` is NULL. */
void mpib_pool_free(struct mpib_pool *pool);
/* Under the lock. Release the windows of closed connections. */
void mpib_windows_trim(struct mpib_client *c);
/* Return whether the `size` bytes at `addr` lie inside the region. */
bool mpib_region_holds(const struct mpib_region *r, const char *addr,
		       size_t size);
/* Take a reference on each region of the request, so that no region is freed
 * while the request is in use. */
void mpib_regions_ref(struct mpib_request *r);
void mpib_regions_unref(struct mpib_request *r);
/* Begin or end a copy between the region and a staging window.
 * mpib_region_copy_begin() returns false if the region is deregistered. Then
 * the caller must not copy. */
bool mpib_region_copy_begin(struct mpib_region *r);
void mpib_region_copy_end(struct mpib_region *r);
bool mpib_region_dead(const struct mpib_region *r);
static inline uint32_t mpib_region_mr(const struct mpib_region *r)
{
	/* Relaxed: `mr` changes only while no connection is usable. */
	return atomic_load_explicit(&r->mr, memory_order_relaxed);
}
/* Under the lock. Store in all pools and regions the MR ids that the current
 * proxy (c->at) has assigned. The client must have registered all memory at
 * this proxy. */
void mpib_regions_renew(struct mpib_client *c);
/* Under the lock. Register all memory that is not registered at the proxy of
 * `at` yet, and wait until that proxy serves clients. */
int mpib_memory_register(struct mpib_client *c, struct mpib_attached *at);
/* Like mpib_memory_register(), but never waits. Returns 0 if all memory is
 * registered, -errno after an error, or 1 if the caller must call again after
 * the proxy has sent a message. */
int mpib_memory_step(struct mpib_client *c, struct mpib_attached *at);
/* Under the lock. Close the kept descriptor of memory that the program has
 * deregistered. If the client has attached to a successor proxy, deregister the
 * memory there, too. */
void mpib_memory_drop(struct mpib_client *c, struct mpib_memory *memory);

/*
 * connect.c.
 */
/* Under the lock. Set the connection's current instance: index `index` of the
 * session `at`. Later posts use this index. */
void mpib_conn_enter(struct mpib_conn *conn, struct mpib_attached *at,
		     uint32_t index);
/* Under the lock. Stop using the current index. Returns the undo record of the
 * index, which the caller may pass to mpib_rpc_undo() to close the index at the
 * proxy. */
struct mpib_debt *mpib_conn_leave(struct mpib_conn *conn);
/* Under the lock. Return whether the accept must be sent later, because the
 * proxy has not answered the request for the listener yet. */
bool mpib_accept_is_early(struct mpib_conn *conn);
/* Under the lock. Request the connection from the current proxy, for the first
 * time or again. `base` is the number of receives that have completed. Sets
 * `*index` to the connection's index at that proxy. */
int mpib_conn_ask(struct mpib_conn *conn, uint64_t base, uint32_t *index);
/* Under the lock. Read what the proxy has published about the connection at
 * index `index`, and copy the fields that a later request for the connection
 * needs. */
void mpib_conn_learn(struct mpib_conn *conn, const struct mpib_attached *at,
		     uint32_t index);
/* Return whether the connection became ready in session `at`, at index `index`.
 * If it became ready and then failed, the peer has closed the connection. */
bool mpib_conn_was_ready(const struct mpib_conn *conn,
			 const struct mpib_attached *at, uint32_t index);
/* Under the lock. Free the connection's memory in this process. */
void mpib_conn_free(struct mpib_conn *conn);
/* On the connection's thread. Copy the arrived bytes out of the staging window.
 * Then mark the connection as failed, so that this end pushes and copies
 * nothing more. If `why` is NULL, the reason is the proxy's. Never waits.
 * Returns 0 if the reason is not known yet: then call again. Otherwise sets the
 * error text and returns `rc`. */
#define MPIB_BAD_HEAD "the ring head from the proxy has an impossible value"
int mpib_conn_fail(struct mpib_conn *conn, int rc, const char *why);
/* On the connection's thread, before each request. Return 1 if the connection
 * is usable. Return 0 if the connection cannot be used yet, or if it has failed
 * and the reason is not known yet. Return -errno, and set the error text, if it
 * has failed. */
int mpib_conn_usable(struct mpib_conn *conn);
/* Return the state of the connection at this index (enum mpib_conn_state). */
static inline unsigned mpib_index_state(const struct mpib_attached *at,
					uint32_t index)
{
	/* Acquire pairs with the proxy's release store of `state`. */
	return atomic_load_explicit(&at->reply->conn[index].state,
				    memory_order_acquire);
}
/* Return the error that the shard has published for the connection, or 0. */
static inline int mpib_conn_broken(const struct mpib_conn *conn)
{
	/* Acquire pairs with the shard's release store of `broken`. So if this
	 * thread sees the error, it also sees all completions that the shard
	 * wrote before. */
	return atomic_load_explicit(&conn->reply->broken, memory_order_acquire);
}
/* Return conn->lost. If it is not 0, conn->lost_why may be read. */
static inline int mpib_conn_lost(const struct mpib_conn *conn)
{
	/* Acquire pairs with the release in conn_lose(). */
	return atomic_load_explicit(&conn->lost, memory_order_acquire);
}
/* Return whether the result `res` of a request means only that the send was
 * larger than the receive. In this case nothing was sent, and the connection
 * continues. */
static inline bool mpib_conn_refused(const struct mpib_conn *conn, int res)
{
	return res == -EMSGSIZE && mpib_conn_broken(conn) != -EMSGSIZE;
}

/*
 * resume.c.
 */
/*
 * On the connection's thread. Call this after the current instance has stopped
 * and the next instance is ready. Continue in the next instance: keep the
 * results of completed requests, and post the other requests again from their
 * first byte. Returns 1 after success, or 0 if this is not possible yet: then
 * call again. Returns -errno if the connection failed and does not use the next
 * instance.
 */
int mpib_conn_resume(struct mpib_conn *conn);
/* Under the lock. Return whether the staging window of the next instance is
 * smaller than the window of the current instance. */
bool mpib_conn_lacks_window(const struct mpib_conn *conn);
/* On the connection's thread. Return 1 if no failure of the current instance is
 * known. Return 0 if the instance has stopped, and nothing can be posted until
 * the connection continues in another instance. Return -errno, and set the
 * error text, if the instance has stopped and the connection will not
 * continue. */
int mpib_conn_goes_on(struct mpib_conn *conn);
/* Sort the `n` requests of `r` by generation, oldest first. `newest` is the
 * connection's latest generation. */
void mpib_requests_sort(struct mpib_request **r, unsigned n, uint32_t newest);
/* Any thread. Return how many receives of the connection have completed. Before
 * this call, all processes must have stopped writing completions of the current
 * instance. */
uint64_t mpib_conn_over(const struct mpib_conn *conn);

/*
 * stage.c, rail_report.c, on the connection's thread.
 */
static inline struct mpib_request *mpib_request_of(struct mpib_conn *conn,
						   unsigned number)
{
	return number < MPIB_REQUESTS
		       ? &conn->req[number]
		       : &conn->feed.room[number - MPIB_REQUESTS];
}
/* Set r->gen to the connection's next generation. Call this when the request
 * `r` is posted and has a completion entry. */
static inline void mpib_request_number(struct mpib_conn *conn,
				       struct mpib_request *r)
{
	r->gen = conn->gen += 2;
}
/*
 * Return the number of free slots in the connection's ring, or -errno, as
 * mpib_ring_room() does. Call this before each push, so that mpib_conn_lap()
 * runs at least once per MPIB_RING_SLOTS descriptors. The fast path does not
 * call this: it pushes only into slots that an earlier call found free.
 */
static inline int mpib_conn_room(struct mpib_conn *conn, uint32_t want)
{
	if (MPIB_RING_SLOTS - (conn->ring.tail - conn->ring.head_seen) < want)
		mpib_conn_lap(conn);
	return mpib_ring_room(&conn->ring, want);
}
/* Append the request `r` to the feed queue. Then push as much of `r` as
 * possible. A push is possible if `r` has a completion entry, the ring has free
 * slots and, for staged memory, the window has room. Returns 1 if `r` was
 * queued, -errno after an error, or 0 if `r` was not queued because it needs a
 * window that is not available yet. */
int mpib_stage_add(struct mpib_conn *conn, struct mpib_request *r);
/* Append the request `r` to the feed queue, so that `r` is pushed again from
 * its first byte. */
void mpib_stage_again(struct mpib_conn *conn, struct mpib_request *r);
/* Push as much of the request `r` as the ring and the window have room for.
 * Returns 1 if all of `r` is pushed, 0 if some bytes are not pushed yet, or
 * -errno. */
int mpib_stage_push(struct mpib_conn *conn, struct mpib_request *r);
/* Remove the complete parts from the staging window. Then push queued requests
 * while the ring and the window have room. After an error, mark the connection
 * as failed. */
void mpib_stage(struct mpib_conn *conn);
/* Under the lock. Start to use conn->place->window as the connection's staging
 * window. */
void mpib_stage_take_window(struct mpib_conn *conn);
/* Push buffer `i` of the request `r` as one descriptor. The buffer must need no
 * copy, and the ring must have room. */
void mpib_push_direct(struct mpib_conn *conn, const struct mpib_request *r,
		      unsigned i);
/* Wake the sleeping shard through its eventfd. Returns 0. */
int mpib_bell_write(struct mpib_conn *conn);
/* Set the connection's bit in the summary bitmap, so that the shard reads the
 * connection's ring. If the shard sleeps, wake the shard. Otherwise this call
 * is wait-free. Returns 0. */
static inline int mpib_ring_bell(struct mpib_conn *conn)
{
	if (__builtin_expect(mpib_summary_tell(conn->word, conn->word_bit,
					       conn->top, conn->top_bit,
					       conn->sleeping),
			     0))
		return mpib_bell_write(conn);
	return 0;
}
/* Any thread. Add `by` to the counter `*n`. The addition is atomic, because all
 * connections of the client share the counters. */
static inline void mpib_count(_Atomic uint64_t *n, uint64_t by)
{
	atomic_fetch_add_explicit(n, by, memory_order_relaxed);
}

/* Call this before the request `r` is submitted. If the connection is armed
 * (rail_report.c), the shard will report what each rail does for `r`. */
void mpib_report_ask(struct mpib_conn *conn, struct mpib_request *r);
/* Call this after the request `r` was submitted. */
void mpib_report_asked(struct mpib_conn *conn, struct mpib_request *r);
/* Call this if the request `r` could not be submitted, or when it has
 * completed. */
void mpib_report_drop(struct mpib_request *r);
/* Call this in each test of the request `r`. `over`: the request has completed
 * or failed, so this is its last test. */
void mpib_report_look(struct mpib_conn *conn, struct mpib_request *r,
		      bool over);

#endif
