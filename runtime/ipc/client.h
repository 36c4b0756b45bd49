/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internal types and functions of the client library, which runs in the rank's
 * process: the client, its connections, requests, regions and staging memory.
 *
 * To push a request is to write its descriptors into the connection's ring,
 * which the proxy reads. The library begins to push the requests of a
 * connection in the order in which they were posted, with one exception: a send
 * that the oldest unanswered receive needs (a "wanted" send, feed.h) may
 * overtake other sends. If the memory of a request needs no copy, the library
 * pushes the request at once, with one descriptor per buffer. The bytes of
 * ordinary memory pass through the connection's staging window. So the library
 * pushes such a request part by part.
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

/* Every 64th poll without a result checks whether the proxy still runs. */
#define MPIB_LOOK_EVERY 64

/*
 * A debt says how to undo an object in the proxy: a pool, a region, a listener
 * or a connection. For each such object the client has an object of its own,
 * which contains the debt. The debt is unused while the client uses its own
 * object. After the client has dropped its own object, the proxy's object may
 * still exist, or the proxy may make it later. In this case the debt is "owed":
 * the debt is on client->debts until the client has sent the undo request
 * (rpc.c).
 */
struct mpib_debt {
	/* in client->debts, until the undo request is sent */
	LIST_ENTRY(mpib_debt) link;
	/* Id of the request that makes the object; 0 after the answer to this
	 * request has arrived. For MRs and listeners, the answer contains
	 * `id`. */
	uint32_t asked;
	/* type of the undo request: MPIB_CTL_DEREG, MPIB_CTL_CLOSE_LISTEN or
	 * MPIB_CTL_CLOSE */
	uint32_t undo;
	/* id of the MR, id of the listener, or index of the connection */
	uint32_t id;
	/* Function to call under the lock after the undo request was sent, or
	 * if the proxy did not make the object. NULL: free the client's object,
	 * whose first member is the debt. */
	void (*paid)(struct mpib_debt *d);
};

/* Memory that can be registered again at another proxy, because the client
 * keeps the memory's file descriptor. */
struct mpib_memory {
	/* number of the kept descriptor, from mpib_keep(); 0: none */
	uint32_t kept;
	/* The arguments of mpib_reg_fd(). */
	uint32_t flags;
	uint64_t offset;
	size_t size;
	/* When the client attaches to another proxy, it registers the memory
	 * again. The fields below describe the latest of these
	 * registrations. */
	/* number of the attach to that proxy; 0: not registered again yet */
	uint32_t at;
	/* id of the registration request; 0: the proxy has answered it */
	uint32_t asked;
	uint32_t mr; /* id of the MR at that proxy */
};

/* Memory that the proxy made and registered, mapped in this process. */
struct mpib_pool {
	struct mpib_debt debt; /* first member */
	/* in client->pools; unused for staging windows */
	LIST_ENTRY(mpib_pool) link;
	struct mpib_memseg seg;
	struct mpib_memory memory; /* a staging window uses only `size` */
};

/* Return the window's size in bytes, or 0 if `window` is NULL. */
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
	/* Maximum size of a request that needs no copy; 0 for staged memory. */
	size_t direct;
	/* true: ordinary memory, whose bytes pass through a staging window */
	bool staged;
	/* true: mpib_reg_fd() made the region and the MR at the proxy. When the
	 * region is deregistered, the MR must be deregistered, too. */
	bool own_mr;
	struct mpib_memory memory; /* used only if `own_mr` is set */
	dev_t dev; /* if `own_mr` is set: device and inode of the file */
	ino_t ino;
	_Atomic uint32_t mr; /* id of the MR at the current proxy */
	uint64_t off; /* offset of `addr` in the MR */
	/* number of registrations of this region; protected by the client's
	 * lock */
	unsigned regs;
	/* number of references from requests; requests of the fast path take no
	 * references */
	_Atomic unsigned refs;
	/* Number of staged copies in progress, plus MPIB_REGION_DEAD after
	 * deregistration. */
	_Atomic unsigned copying;
};

#define MPIB_REGION_DEAD 0x80000000u

struct mpib_attached;
struct mpib_message;

/* An instance: the sending or receiving end of a connection at one proxy. An
 * instance begins when the client requests the connection from the proxy. An
 * instance ends when the proxy ends or loses the connection. The connection may
 * then resume in another instance. */
struct mpib_instance {
	struct mpib_attached *at;
	uint32_t index;
	/* number of receives that both ends had completed before this instance
	 * began */
	uint64_t base;
	/* time, in ms, when the proxy first refused a window for this instance;
	 * 0: never */
	uint64_t no_window;
};

/* The reason for a connection's failure, reported by the proxy or the
 * helper. */
struct mpib_reason {
	/* time, in ms, until which the client waits for the reason; 0: the
	 * reason is not needed yet */
	uint64_t until;
	/* Used under the client's lock. */
	uint32_t asked; /* id of the WHY request; 0: not sent yet */
	/* value of client->heard when the request was sent */
	uint32_t heard;
	/* The proxy answered the first WHY request without a reason. The
	 * proxy's control thread may receive the reason from the shard later,
	 * so the client sends one more WHY request. */
	bool early;
	/* "": the reason is unknown. The text does not change any more after
	 * `told` is true. */
	char text[240];
	_Atomic bool told;
};

enum mpib_next {
	MPIB_NEXT_NONE,
	MPIB_NEXT_ASKED, /* the client has requested `next` from the proxy */
	MPIB_NEXT_READY, /* the connection's thread may switch to `next` */
};

/* The state of a connection's close. A connection that the rank has closed
 * stays in client->conns until the process at the other end knows of the close.
 * If the proxy ends before that, the helper closes the connection at the next
 * proxy. */
enum mpib_closing {
	MPIB_CLOSING_NOT,
	/* The client has asked the proxy to close the connection. The close is
	 * complete when the index is FREE. */
	MPIB_CLOSING_TOLD,
	/* The helper waits until the connection has another instance, then
	 * closes that instance. */
	MPIB_CLOSING_OWED,
};

struct mpib_conn {
	struct mpib_client *client;
	/* In a sending end, `sends` is the client and `receives` is NULL. In a
	 * receiving end, `sends` is NULL and `receives` is the client. Requests
	 * may use only regions of this client. */
	const struct mpib_client *sends, *receives;
	/* The number of parts in the window, plus the number of requests in
	 * `feed`, plus 1 for each of `error`, `armed` and `refused` that is
	 * set. If `work` is not 0, post and test take the slow path. */
	uint32_t work;
	/* Generations of the first and of the latest request. Each request has
	 * a generation that is 2 more than the previous request's. So the
	 * number of posted requests can be computed from `gen`. */
	uint32_t first_gen, gen;
	/* value of `gen` / MPIB_TURN at the last mpib_conn_lap() */
	uint32_t turn;
	/* Unused requests (feed.h explains places). `free`: with an ordinary
	 * place. `reserve`: with a place reserved for wanted sends. `bare`:
	 * without a place. */
	struct mpib_request *free, *reserve, *bare;
	uint32_t idle; /* number of tests and polls without a result */
	uint64_t lived; /* MPIB_ATTACHED(at->number) */
	struct mpib_producer ring;
	const struct mpib_reply_conn *reply;
	const _Atomic uint32_t *sleeping; /* not 0 while the shard sleeps */
	/* This connection's bits in the summary bitmap of the submit segment,
	 * and the words that contain these bits. */
	_Atomic uint64_t *word, *top;
	uint64_t word_bit, top_bit;
	const struct mpib_completion *completion;
	/* 0: usable. -ENOTCONN: not ready yet. Other values: the connection has
	 * failed for the reason in `why`, and nothing more is pushed or
	 * copied. */
	int error;
	/* The current instance. `at`, `place` and `index` change only under the
	 * client's lock. */
	struct mpib_attached *at;
	struct mpib_index *place; /* &at->index[index] */
	uint32_t index;
	bool is_sender;
	/* the latest call of mpib_isend() found no free request */
	bool refused;
	/* For rail_report.c: which requests to watch, see mpib_report(3). */
	enum mpib_report report;
	/* for MPIB_REPORT_LATER: number of mpib_test() calls without a result
	 * until the next request is watched */
	uint32_t later;
	bool armed; /* the next request will be watched */
	mpib_watch_fn *watch;
	void *user;
	struct mpib_feed feed;
	/* Number of requests that had been posted in this instance when
	 * mpib_conn_lap() last ran. */
	_Atomic uint64_t posts;
	/* number of receives that completed before this instance began */
	uint64_t base;
	LIST_ENTRY(mpib_conn) link;
	/* The arguments of the connection's next connect, accept or resume
	 * message. Used under the client's lock. */
	/* number of connect, accept and resume messages sent so far */
	uint64_t number;
	struct mpib_ctl_connect ask; /* used only in a sending end */
	/* Used only in a receiving end. NULL: the listener was closed. */
	struct mpib_listener *listener;
	/* Used only in a receiving end. If end.key is 0, the other fields of
	 * `end` are not known yet. */
	struct mpib_reply_end end;
	/* The instance in which the connection will continue. `next_state` is
	 * written under the lock, but may be read without the lock. */
	struct mpib_instance next;
	_Atomic unsigned next_state; /* enum mpib_next */
	/* -errno: the connection cannot resume; reason.text says why */
	_Atomic int lost;
	enum mpib_closing closing;
	/* placed[i]: the request that has place i */
	struct mpib_request *placed[MPIB_REQUESTS];
	struct mpib_request req[MPIB_REQUESTS];
	struct mpib_flush_queue flush;
	struct mpib_window window;
	struct mpib_reason reason;
	char why[256];
};

/* A connection index. The fields keep their values when the connection ends,
 * because the next connection at this index needs them. */
struct mpib_index {
	struct mpib_debt debt; /* first member; used while `taken` is set */
	bool taken;
	/* value of reply->end[].key when the index was taken */
	uint64_t key;
	uint64_t tail; /* tail of the index's ring */
	/* An even generation that is later than those of all requests at this
	 * index so far. */
	uint32_t gen;
	/* The staging window, and the previous window while it still holds
	 * parts. A closing connection keeps both windows, because the peer may
	 * still write to them. */
	struct mpib_pool *window, *before;
};

struct mpib_listener {
	struct mpib_debt debt; /* first member */
	LIST_ENTRY(mpib_listener) link;
	struct mpib_client *client;
	uint64_t nonce;
	/* number of the latest attach at which the listener was requested */
	uint32_t at;
};

/* Maximum number of unanswered registrations. Each registration sends a
 * descriptor through the socket. The kernel limits how many descriptors a user
 * may have in transit in sockets (ETOOMANYREFS in unix(7)). */
#define MPIB_REGISTERING 32

enum mpib_attach_state {
	MPIB_ATTACH_NEW,
	/* all memory is registered, so connections may be requested */
	MPIB_ATTACH_REGISTERED,
	/* all objects were requested, so connections may use this attach */
	MPIB_ATTACH_WHOLE,
	/* this client shut the socket down before it had requested all
	 * objects */
	MPIB_ATTACH_CUT,
};

/* One attach to a proxy: the socket, the mapped segments and the connection
 * indexes. The client keeps them until all connections have moved to the next
 * proxy. */
struct mpib_attached {
	uint32_t number; /* number of this attach, from 1 */
	enum mpib_attach_state state;
	/* false: the proxy is a successor that does not serve yet */
	bool serves;
	/* number of references from the client and from instances; protected by
	 * the client's lock */
	unsigned users;
	int sock, doorbell;
	/* pidfd of the proxy's process; -1: the kernel does not support
	 * pidfds */
	int pidfd;
	const struct mpib_status *status;
	struct mpib_submit *submit;
	const struct mpib_reply *reply;
	struct mpib_memseg seg[3];
	struct mpib_ctl_welcome welcome;
	unsigned registering; /* number of unanswered registrations */
	struct mpib_index index[MPIB_INDEXES_MAX];
};

/* The state of the latest control request. */
enum mpib_asked {
	MPIB_ASKED_NOT, /* not sent */
	MPIB_ASKED_LATE, /* sent, but not answered yet */
	MPIB_ASKED_ANSWERED,
};

/*
 * The helper: a thread of the client. The helper waits until the proxy ends. It
 * then attaches to the next proxy and requests the client's objects again from
 * that proxy (docs/recovery.md). If the proxy does not resume connections, the
 * client has no helper.
 */
struct mpib_helper {
	/* true: when this proxy ends, the client will continue at another
	 * proxy */
	atomic_bool resumes;
	bool runs;
	pthread_t thread;
	int wake, stop; /* eventfds; -1: there is no helper */
	/* Used by keep.c, under the client's lock. */
	/* socket to the thread of keep.c; -1: that thread does not run */
	int keeper;
	pthread_t keeping;
	/* Under the client's lock. */
	/* end of the grace period, in ms; 0: the proxy runs */
	uint64_t until;
	/* True: the helper's last turn found that the proxy's process has
	 * ended. False: the helper still polls the pidfd of the process. */
	bool ended;
	uint32_t grace_ms;
	uint32_t pause_ms; /* pause before the next attempt */
	char tried[256]; /* why the last attempt failed */
	uint32_t upgrade; /* number of the announced upgrade; 0: none */
	/* the helper has not attached to the announced successor yet */
	bool attach;
	/* Why the helper gave up finding another proxy; "": it has not given
	 * up. Written before `resumes` becomes false. */
	char why[512];
};

struct mpib_client {
	unsigned forks; /* value of mpib_forks when the client attached */
	/* Low half: `forks`. High half: the attach's number. MPIB_GONE: no
	 * proxy. So one comparison with `living` detects a dead proxy, a forked
	 * child and a connection of an earlier attach. */
	_Atomic uint64_t living;
	/* time, in ms, when the socket was last polled */
	_Atomic uint64_t looked;
	/* how long a call waits for the proxy's answer, in ms */
	uint32_t answer_ms;
	char path[108];
	/* the program that MPIB_START names; "": MPIB_START is not set */
	char start[108];
	uid_t proxy_uid; /* uid of the first proxy */
	struct mpib_ctl_hello hello;
	struct mpib_helper helper;
	/* protects all fields below and the control socket */
	pthread_mutex_t lock;
	struct mpib_attached *at; /* only the helper changes this pointer */
	/* during an upgrade: the attach to the next proxy */
	struct mpib_attached *successor;
	/* number of attaches so far, including failed ones */
	uint32_t attaches;
	uint32_t next_id;
	enum mpib_asked asked;
	/* The proxy did not answer a request within `answer_ms`. Until the
	 * proxy sends an answer, calls fail with -ETIMEDOUT at once. */
	bool deaf;
	uint32_t heard; /* number of messages received from the proxy */
	/* time, in ms, of the last mpib_windows_sweep() */
	uint64_t swept;
	_Atomic uint32_t sweeps; /* number of window sweeps so far */
	LIST_HEAD(, mpib_debt) debts;
	/* includes closed connections, see enum mpib_closing */
	LIST_HEAD(, mpib_conn) conns;
	LIST_HEAD(, mpib_listener) listeners;
	LIST_HEAD(, mpib_pool) pools; /* pools of mpib_mem_alloc() */
	LIST_HEAD(, mpib_region) regions;
	/* Deregistered regions. They are freed when no request uses them
	 * (registration.c). */
	LIST_HEAD(, mpib_region) graves;
};

/* thread.c, any thread. Set this thread's text for mpib_strerror(). Returns
 * rc. */
int mpib_fail(int rc, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Like strerror(-rc), but thread-safe. */
const char *mpib_errtext(int rc);
/* Start a thread that blocks all signals, so that only the program's own
 * threads handle signals. */
int mpib_thread_start(pthread_t *thread, void *(*run)(void *), void *arg);
void mpib_thread_join(pthread_t thread);
/* Call pthread_mutex_trylock(). True: this thread has locked the mutex. */
bool mpib_mutex_try(pthread_mutex_t *mutex);

/* attach.c: number of forks between the process that first attached and this
 * one. */
extern unsigned mpib_forks __attribute__((visibility("hidden")));
/* The value of client->living if there is no proxy. The low half of MPIB_GONE
 * is larger than any number of forks, so it never equals mpib_forks. */
#define MPIB_GONE UINT64_MAX
/* The high half of client->living for the attach with this number. */
#define MPIB_ATTACHED(number) ((uint64_t)(number) << 32)
/*
 * attach.c, without the lock. Attach to the proxy. Fail if the proxy does not
 * answer within client->answer_ms. If no proxy runs and MPIB_START names a
 * program, start a proxy and wait for this proxy until `deadline` (ms). If
 * MPIB_START is set, -ENOENT and -ECONNREFUSED mean that another process is
 * still starting a proxy.
 */
int mpib_attach_once(struct mpib_client *c, uint64_t deadline,
		     struct mpib_attached **at);
/* Like mpib_attach_once(), without starting a proxy. */
int mpib_attach_there(struct mpib_client *c, struct mpib_attached **at);
/* Under the lock. Drop one reference to the attach. Dropping the last reference
 * frees the attach. */
void mpib_attached_put(struct mpib_attached *at);

/*
 * rpc.c: the client's lock, and requests to the proxy.
 */
/* Return 0 if requests are possible, or will be possible after another proxy
 * has started. -EPIPE: the proxy is gone, and the client will not attach to
 * another proxy. -EOWNERDEAD: this is a forked child. */
int mpib_client_check(struct mpib_client *c);
/* Return whether the proxy runs and this is not a forked child. Wait-free.
 * Unlike mpib_client_check(), this does not set the error text. Relaxed: no
 * data is published with client->living, and noticing a dead proxy late is
 * harmless. */
static inline bool mpib_client_ok(const struct mpib_client *c)
{
	return (uint32_t)atomic_load_explicit(
		       &c->living, memory_order_relaxed) == mpib_forks;
}
/* Like mpib_client_ok(), but also false if the connection has not moved to the
 * current proxy yet. `c` must be conn->client. */
static inline bool mpib_conn_lives(const struct mpib_conn *conn,
				   const struct mpib_client *c)
{
	return (atomic_load_explicit(&c->living, memory_order_relaxed) ^
		mpib_forks) == conn->lived;
}
/* Any thread. True: the helper runs. If this proxy ends, the helper attaches to
 * another proxy. So the caller may repeat a request that failed with
 * -EPIPE. */
static inline bool mpib_client_again(const struct mpib_client *c)
{
	return atomic_load(&c->helper.resumes);
}
/* Any thread. True: the proxy is gone, and the client waits for another
 * proxy. */
static inline bool mpib_client_resumes(const struct mpib_client *c)
{
	return mpib_client_again(c) && atomic_load(&c->living) == MPIB_GONE;
}
/* If the client waits for another proxy, wait for that proxy. Then take the
 * lock. After an error the caller does not hold the lock. -ETIMEDOUT: no proxy
 * accepted the client in time. -EOWNERDEAD: this is a forked child. It must not
 * use the lock, because another thread of the parent may have held the lock
 * during fork(). */
int mpib_client_lock(struct mpib_client *c);
/* Take the lock, even if no proxy runs. Call this only in the process that
 * attached. */
void mpib_client_hold(struct mpib_client *c);
/* Take the lock if no other thread has it. Posts and tests use this function,
 * so that they never wait for a thread that waits for the proxy. */
bool mpib_client_try(struct mpib_client *c);
void mpib_client_unlock(struct mpib_client *c);
/* Any thread, without the lock. Check whether the proxy hung up, and read late
 * answers. Both functions return the result of mpib_client_check(), but
 * mpib_client_look() does nothing and returns 0 if the last check was less than
 * 10 ms ago. mpib_client_look_now() always checks. */
int mpib_client_look(struct mpib_client *c);
int mpib_client_look_now(struct mpib_client *c);
/* Return the time of the monotonic clock in ms. */
uint64_t mpib_now_ms(void);
/* Wait until poll(2) reports one of `events` for the socket, but not beyond
 * `deadline` (a time of mpib_now_ms()). Returns 0, -ETIMEDOUT after the
 * deadline, -ECANCELED if the client detaches, or -errno. */
int mpib_wait_socket(struct mpib_client *c, int sock, short events,
		     uint64_t deadline);

/* All functions below are called under the lock. */
/* Record that the proxy has ended or hung up. Returns -EPIPE and sets the
 * text. */
int mpib_client_gone(struct mpib_client *c);
/* Wait at most `ms` milliseconds until the proxy's process has ended. Return
 * whether it has ended. An ended process cannot write to memory any more. */
bool mpib_client_dead(const struct mpib_client *c, int ms);
/*
 * Send a control request and wait for an answer of at least `want` bytes. *m
 * receives the answer and its descriptors. c->asked tells whether the request
 * was sent and answered. Returns the status of the answer, or:
 *   -EPIPE      the proxy is gone
 *   -ETIMEDOUT  no answer within answer_ms. Later calls fail at once until the
 *               proxy answers any request.
 *   -EMFILE     the answer came without its descriptors
 */
int mpib_rpc(struct mpib_client *c, struct mpib_ctl_header *h, const int *fd,
	     unsigned fds, struct mpib_message *m, size_t want);
/* Like mpib_rpc(), for a request that is a struct mpib_ctl_id. */
int mpib_rpc_of(struct mpib_client *c, uint32_t type, uint32_t id,
		struct mpib_message *m, size_t want);
/* Return -ETIMEDOUT, with the text "the proxy did not answer". */
int mpib_rpc_too_late(const struct mpib_client *c);
/* Check the answer m. Returns 0, the answer's status if it is negative, or
 * -EPROTO if the answer has less than `want` bytes. After an error, the text is
 * set and the descriptors of m are closed. */
int mpib_rpc_check(struct mpib_message *m, size_t want);
/* Send the request *h to the proxy that `at` is attached to. Sets h->id. Never
 * waits. Returns 0, -EAGAIN if the socket is full, or another -errno. */
int mpib_rpc_send(struct mpib_client *c, const struct mpib_attached *at,
		  struct mpib_ctl_header *h, const int *fd, unsigned fds);
/* Like mpib_rpc_send(), for a request that is a struct mpib_ctl_id. Stores the
 * request's id in *asked. */
int mpib_rpc_tell(struct mpib_client *c, const struct mpib_attached *at,
		  uint32_t type, uint32_t id, uint32_t *asked);
/* Read the answers that came too late for their callers. Then send as many undo
 * requests as the socket accepts. Never waits. */
void mpib_rpc_settle(struct mpib_client *c);
/* Like mpib_rpc(), for a request that makes an object in the proxy. `d` says
 * how to undo that object. After a failure the caller must no longer use its
 * own object, which contains `d`: that object is freed at once, or after the
 * undo request was sent. */
int mpib_rpc_make(struct mpib_client *c, struct mpib_ctl_header *h,
		  const int *fd, unsigned fds, struct mpib_debt *d,
		  struct mpib_message *m, size_t want);
/* Ask the proxy to undo the object of `d`, and wait for the answer. If the
 * proxy has not yet answered the request that makes the object, do not wait:
 * the undo request is sent after that answer. In both cases the caller must no
 * longer use its own object, which contains `d`. -ETIMEDOUT: the proxy has not
 * confirmed the undo yet. */
int mpib_rpc_undo(struct mpib_client *c, struct mpib_debt *d);
/* Like mpib_rpc_undo(), without waiting for the answer. */
void mpib_rpc_undo_later(struct mpib_client *c, struct mpib_debt *d);
/* Remove `d` from client->debts, because the caller still needs the object of
 * `d`. The proxy has not answered the request that makes the object yet, so the
 * caller must handle the answer. */
void mpib_debt_keep(struct mpib_debt *d);
/* Drop all undo requests that were not sent yet (client->debts), because the
 * proxy drops all objects of the client anyway. */
void mpib_debts_forget(struct mpib_client *c);

/*
 * helper.c, keep.c.
 */
/* Start the helper of an attached client. If the start fails, the client runs
 * without a helper. */
void mpib_helper_start(struct mpib_client *c);
/* Stop the helper and wait until its thread has ended. Call this only in the
 * process that attached. */
void mpib_helper_stop(struct mpib_client *c);
/* Any thread. Wake the helper, so that it checks for work. */
void mpib_helper_wake(struct mpib_client *c);
/* All functions below are called under the lock. */
/* Handle the proxy's message that an upgrade begins or is cancelled. */
void mpib_helper_upgrade(struct mpib_client *c,
			 const struct mpib_ctl_next *next);
/* If m is a late answer to a request of the helper, handle this answer. */
void mpib_helper_answered(struct mpib_client *c, struct mpib_message *m);
/* Give up resuming, because the error `rc` made it impossible to keep a
 * descriptor that a resume needs. */
void mpib_helper_gives_up(struct mpib_client *c, int rc);
/* If the client is attached to a successor during an upgrade, detach from this
 * successor. */
void mpib_successor_drop(struct mpib_client *c);
/* If `conn` has a next instance, drop that instance. */
void mpib_next_drop(struct mpib_client *c, struct mpib_conn *conn);
/* Free each closed connection whose other end knows of the close, or can no
 * longer learn of the close. If the next instance of a closed connection is
 * ready, close this instance and free the connection, too. */
void mpib_closed_sweep(struct mpib_client *c);
/* Keep a copy of `fd`. Returns the number that identifies the copy, or 0 if no
 * copy is kept. The caller still owns `fd`. */
uint32_t mpib_keep(struct mpib_client *c, int fd);
/* For each i < `n`, set fd[i] to a copy of the kept descriptor kept[i], or to
 * -errno. The caller must close the copies. */
void mpib_keep_lend(const struct mpib_client *c, const uint32_t *kept, int *fd,
		    unsigned n);
/* Close the kept descriptor, and wait until it is closed. No effect if `kept`
 * is 0. */
void mpib_keep_close(const struct mpib_client *c, uint32_t kept);
void mpib_keep_stop(struct mpib_client *c);

/*
 * pool.c, registration.c: memory.
 */
/* Under the lock. Unmap and free the pool. `pool` may be NULL. */
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
/* Begin and end a staged copy. False: the region is deregistered, do not
 * copy. */
bool mpib_region_copy_begin(struct mpib_region *r);
void mpib_region_copy_end(struct mpib_region *r);
bool mpib_region_dead(const struct mpib_region *r);
static inline uint32_t mpib_region_mr(const struct mpib_region *r)
{
	/* Relaxed: `mr` changes only while no connection is usable. */
	return atomic_load_explicit(&r->mr, memory_order_relaxed);
}
/* Under the lock. Store the ids of the MRs at the current proxy (c->at) in all
 * pools and regions. All memory must be registered at this proxy. */
void mpib_regions_renew(struct mpib_client *c);
/* Under the lock. Register all memory that the proxy of `at` does not have yet,
 * and wait until that proxy serves. */
int mpib_memory_register(struct mpib_client *c, struct mpib_attached *at);
/* Like mpib_memory_register(), but without waiting. 0: all memory is
 * registered; 1: call again after the proxy has sent a message; -errno. */
int mpib_memory_step(struct mpib_client *c, struct mpib_attached *at);
/* Under the lock. Close the kept descriptor of deregistered memory. If there is
 * a successor, deregister the memory at the successor, too. The caller has
 * removed the memory from all lists. */
void mpib_memory_drop(struct mpib_client *c, const struct mpib_memory *memory);

/*
 * connect.c.
 */
/* Under the lock. From now on, use index `index` of `at` for posts. */
void mpib_conn_enter(struct mpib_conn *conn, struct mpib_attached *at,
		     uint32_t index);
/* Under the lock. Stop using the current index. Returns the index's debt, which
 * the caller may pass to mpib_rpc_undo() to close the index at the proxy. */
struct mpib_debt *mpib_conn_leave(struct mpib_conn *conn);
/* Under the lock. Return whether an accept must wait, because the proxy has not
 * answered the request for its listener yet. */
bool mpib_accept_is_early(struct mpib_conn *conn);
/* Under the lock. Request the connection from the client's current proxy, for
 * the first time or again. `base` is the number of receives that have
 * completed. *index becomes the connection's index at that proxy. */
int mpib_conn_ask(struct mpib_conn *conn, uint64_t base, uint32_t *index);
/* Under the lock. Read the proxy's report about index `index`, and copy the
 * fields that are needed to request the connection again. */
void mpib_conn_learn(struct mpib_conn *conn, const struct mpib_attached *at,
		     uint32_t index);
/* Return whether the connection was ready at index `index` of the proxy of
 * `at`. If the connection was ready and then failed, the other end has closed
 * the connection. */
bool mpib_conn_was_ready(const struct mpib_conn *conn,
			 const struct mpib_attached *at, uint32_t index);
/* Under the lock. Free the connection's memory in this process. */
void mpib_conn_free(struct mpib_conn *conn);
/* Under the lock. Store the reason for the connection's failure, "" if unknown.
 * Later reasons are ignored. */
void mpib_why_tell(struct mpib_conn *conn, const char *text);
/* Under the lock. Handle an answer to a WHY request. */
void mpib_why_answered(struct mpib_client *c, const struct mpib_message *m);
/* On the connection's thread. Copy the arrived bytes out of the window, then
 * mark the connection as failed, so that nothing more is pushed or copied. If
 * `why` is NULL, ask the proxy for the reason. Returns rc after it has set the
 * text, or 0 if the reason is not known yet. After 0, call again. Never
 * waits. */
#define MPIB_BAD_HEAD "the ring head from the proxy has an impossible value"
int mpib_conn_fail(struct mpib_conn *conn, int rc, const char *why);
/* On the connection's thread, before each request. Check whether the connection
 * is usable. 1: usable. 0: not usable at the moment, or failed for a reason
 * that is not known yet. -errno: failed, and the text is set. */
int mpib_conn_usable(struct mpib_conn *conn);
/* Return the state of the connection at this index (enum mpib_conn_state). */
static inline unsigned mpib_index_state(const struct mpib_attached *at,
					uint32_t index)
{
	/* Acquire pairs with the proxy's release store of `state`. */
	return atomic_load_explicit(&at->reply->conn[index].state,
				    memory_order_acquire);
}
/* Return 0, or the failure that the shard has published. */
static inline int mpib_conn_broken(const struct mpib_conn *conn)
{
	/* Acquire pairs with the shard's release store of `broken`. So this
	 * thread also sees all completions that the shard wrote before. */
	return atomic_load_explicit(&conn->reply->broken, memory_order_acquire);
}
/* Return whether `res` means that only this request failed, because the send
 * was too large. Then nothing was sent, and the connection continues. */
static inline bool mpib_conn_refused(const struct mpib_conn *conn, int res)
{
	return res == -EMSGSIZE && mpib_conn_broken(conn) != -EMSGSIZE;
}

/*
 * resume.c.
 */
/*
 * On the connection's thread, after the connection's instance has stopped and
 * the next one is ready. Continue in the next instance: keep the results of
 * completed requests, and post the others again from their first byte. 1: done.
 * 0: not possible yet, call again. -errno: the connection failed and does not
 * use the next instance.
 */
int mpib_conn_resume(struct mpib_conn *conn);
/* Under the lock. Return whether the next instance's window is still smaller
 * than the current instance's window. */
bool mpib_conn_lacks_window(const struct mpib_conn *conn);
/* On the connection's thread. Check the current instance. 1: no failure of the
 * instance is known. 0: the instance has stopped, and nothing can be posted
 * until the connection resumes. -errno: the instance has stopped, and the
 * connection will not resume; the text is set. */
int mpib_conn_goes_on(struct mpib_conn *conn);
/* Sort the n requests by generation, oldest first. `newest` is the connection's
 * latest generation. */
void mpib_requests_sort(struct mpib_request **r, unsigned n, uint32_t newest);
/* Any thread. Return how many receives of the connection have completed. Call
 * this only after all processes have stopped writing completions of the
 * connection's instance. */
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
/* Give r the connection's next generation. Call this when r is posted and has a
 * place (feed.h). */
static inline void mpib_request_number(struct mpib_conn *conn,
				       struct mpib_request *r)
{
	r->gen = conn->gen += 2;
}
/*
 * Return the number of free slots in the ring, or -errno, as mpib_ring_room()
 * does. Call this before each push. Only the fast path pushes without calling
 * this, and only into slots that an earlier call found free. So mpib_conn_lap()
 * is called at least once per lap of the ring.
 */
static inline int mpib_conn_room(struct mpib_conn *conn, uint32_t want)
{
	if (MPIB_RING_SLOTS - (conn->ring.tail - conn->ring.head_seen) < want)
		mpib_conn_lap(conn);
	return mpib_ring_room(&conn->ring, want);
}
/* Append r to the feed queue. Then push as much of r as possible: a push needs
 * a place for r, free slots in the ring and, if r is staged, room in the
 * window. 1: r was queued; 0: r was not queued, because it needs a window that
 * is not available yet; -errno. */
int mpib_stage_add(struct mpib_conn *conn, struct mpib_request *r);
/* Append r to the feed queue, so that r is pushed again from its first byte. */
void mpib_stage_again(struct mpib_conn *conn, struct mpib_request *r);
/* Push as much of r as the ring and the window have room for. 1: all of r is
 * pushed; 0: a part of r is not pushed yet; -errno. */
int mpib_stage_push(struct mpib_conn *conn, struct mpib_request *r);
/* Remove the completed parts from the window. Then push queued requests while
 * the ring and the window have room. If an error occurs, the connection
 * fails. */
void mpib_stage(struct mpib_conn *conn);
/* Under the lock. From now on, use conn->place->window as the staging
 * window. */
void mpib_stage_take_window(struct mpib_conn *conn);
/* Push buffer i of r, which needs no copy, in one descriptor. The caller has
 * checked that the ring has room. */
void mpib_push_direct(struct mpib_conn *conn, const struct mpib_request *r,
		      unsigned i);
/* Wake the sleeping shard through its eventfd. Returns 0. */
int mpib_bell_write(struct mpib_conn *conn);
/* Set the connection's summary bit, so that the shard reads the connection's
 * ring. If the shard sleeps, wake the shard. If the shard is awake, the call is
 * wait-free. Returns 0. */
static inline int mpib_ring_bell(struct mpib_conn *conn)
{
	if (__builtin_expect(mpib_summary_tell(conn->word, conn->word_bit,
					       conn->top, conn->top_bit,
					       conn->sleeping),
			     0))
		return mpib_bell_write(conn);
	return 0;
}
/* Any thread. Add `by` to *n, atomically, because all connections of the client
 * share the counters. */
static inline void mpib_count(_Atomic uint64_t *n, uint64_t by)
{
	atomic_fetch_add_explicit(n, by, memory_order_relaxed);
}

/* Call before r is submitted. If the connection is armed, r becomes a watched
 * request: the shard reports what each rail does for r. */
void mpib_report_ask(struct mpib_conn *conn, struct mpib_request *r);
/* Call after r was submitted. */
void mpib_report_asked(struct mpib_conn *conn, struct mpib_request *r);
/* Call when r could not be submitted, or has completed. */
void mpib_report_drop(struct mpib_request *r);
/* Call when r is tested. `over`: r has completed or failed, so this is its last
 * test. */
void mpib_report_look(struct mpib_conn *conn, struct mpib_request *r,
		      bool over);

#endif
