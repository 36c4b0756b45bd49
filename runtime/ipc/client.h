/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internal types and functions of the client library, which runs in the rank's
 * process: the client, its connections, requests, regions and staging memory.
 *
 * The first descriptors of a connection's requests are pushed to the shard in
 * the order posted. A request of registered memory is pushed whole; one of
 * ordinary memory part by part through the connection's staging window.
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

#define MPIB_LOOK_EVERY 64 /* fruitless polls before the clock is read */
/*
 * How to make the proxy drop its counterpart of a client object (pool, region,
 * listener, connection); embedded in that object. While the object is in use,
 * the debt is idle. If the object is dropped while the proxy still has (or may
 * still make) its counterpart, the debt is on client->debts: "owed" (rpc.c).
 */
struct mpib_debt {
	LIST_ENTRY(mpib_debt) link; /* in client->debts, while owed */
	/* Owed: id of the control request whose late answer will tell id below;
	 * 0: id is known. */
	uint32_t asked;
	uint32_t undo; /* MPIB_CTL_DEREG, CLOSE_LISTEN or CLOSE of id */
	uint32_t id; /* the counterpart: mr, listen_id or connection index */
	/* The undo request was sent, or the counterpart was never made. Called under
	 * the client's lock. NULL: the object, which begins with d, is freed. */
	void (*paid)(struct mpib_debt *d);
};

/* Memory with a kept descriptor, for its registration at another proxy. */
struct mpib_memory {
	uint32_t kept; /* mpib_keep(); 0: there is none */
	uint32_t flags; /* the arguments of mpib_reg_fd() */
	uint64_t offset;
	size_t size;
	/* The latest registration at another proxy than the one of mpib_reg_fd():
	 * the number of that attach, 0: none; the request's id, 0: answered; and
	 * the region there. */
	uint32_t at, asked, mr;
};

/* Memory that the proxy made and registered, mapped in this process. */
struct mpib_pool {
	struct mpib_debt debt; /* first */
	LIST_ENTRY(mpib_pool) link; /* of mpib_mem_alloc(): in client->pools */
	struct mpib_memseg seg;
	struct mpib_memory memory; /* kept for mpib_mem_alloc() only */
	uint32_t mr;
};

/* Bytes of a window; 0: none. */
static inline uint32_t mpib_window_size(const struct mpib_pool *window)
{
	return window ? (uint32_t)window->memory.size : 0;
}

struct mpib_region {
	struct mpib_debt debt; /* first; used only with own_mr */
	LIST_ENTRY(mpib_region) link;
	struct mpib_client *client;
	char *addr;
	size_t size;
	/* Longest request that needs no copy: 0 for staged memory. */
	size_t direct;
	bool staged; /* ordinary memory: goes through a staging window */
	bool own_mr; /* from mpib_reg_fd(): this region deregisters mr */
	/* With own_mr: the memory, and the file of its descriptor. */
	struct mpib_memory memory;
	dev_t dev;
	ino_t ino;
	_Atomic uint32_t mr; /* another at the next proxy */
	uint64_t off; /* of addr in mr */
	unsigned regs; /* registrations; under the client's lock */
	_Atomic unsigned refs; /* requests that use this region */
	/* Copies under way, plus MPIB_REGION_DEAD once deregistered. */
	_Atomic unsigned copying;
};

#define MPIB_REGION_DEAD 0x80000000u

struct mpib_attached;

/* One life of a connection's end, from its request to the proxy until it stops for
 * good. */
struct mpib_instance {
	struct mpib_attached *at;
	uint32_t index;
	uint64_t base; /* receives that were done when it began, at both ends */
	uint64_t no_window; /* ms: since when it gets none; 0: not so */
	uint32_t late; /* id of the request while its answer is late, else 0 */
};

/* The proxy's reason for a connection's failure. */
struct mpib_reason {
	uint64_t until; /* ms: how long to hope for it; 0: not wanted yet */
	/* Under the client's lock. */
	uint32_t asked; /* id of the WHY; 0: not sent yet */
	uint32_t heard; /* client->heard when it was sent */
	bool early; /* it was asked before the proxy knew */
	char text[240]; /* "": the proxy has none; read once told */
	_Atomic bool told;
};

enum mpib_next {
	MPIB_NEXT_NONE,
	MPIB_NEXT_ASKED, /* of the proxy */
	MPIB_NEXT_READY, /* for the connection's thread */
};

/* A connection that the rank closed stays in client->conns until the process of
 * the other end must know. */
enum mpib_closing {
	MPIB_CLOSING_NOT,
	MPIB_CLOSING_TOLD, /* the proxy has closed it: waits for FREE */
	MPIB_CLOSING_OWED, /* waits for its next instance, to close that */
};

struct mpib_conn {
	struct mpib_client *client;
	/* The client, or NULL where the end does not: whose regions it takes. */
	const struct mpib_client *sends, *receives;
	/* Parts in the window + requests in feed[] + 1 if error is set + 1 if
	 * armed. While not 0, post and test take the slow path. */
	uint32_t work;
	/* Generations of the first and of the latest request. Each request adds
	 * two, so they count the connection's receives. */
	uint32_t first_gen, gen;
	uint32_t turn; /* the latest, see MPIB_TURN */
	/* Requests that are not in use: with a place, with one of the sender's
	 * reserve, and with none. */
	struct mpib_request *free, *reserve, *bare;
	uint32_t idle; /* polls (test, ready) that found nothing */
	uint64_t lived; /* MPIB_ATTACHED() of its proxy */
	struct mpib_producer ring;
	const struct mpib_reply_conn *reply;
	const _Atomic uint32_t *sleeping; /* flag of its shard */
	/* This connection's summary bits in the submit segment. */
	_Atomic uint64_t *word, *top;
	uint64_t word_bit, top_bit;
	const struct mpib_completion *completion;
	/* 0: usable; -ENOTCONN until ready; otherwise the connection failed
	 * (reason in why[]) and nothing is pushed or copied any more. */
	int error;
	/* Changes under the client's lock, too. */
	struct mpib_attached *at;
	struct mpib_index *place; /* of index in it */
	uint32_t index;
	bool is_sender;
	bool refused; /* the latest send, for lack of requests */
	/* rail_report.c. Armed: the next post is watched, by the slow path. */
	enum mpib_report report;
	uint32_t later; /* fruitless tests that MPIB_REPORT_LATER still waits */
	bool armed;
	mpib_watch_fn *watch;
	void *user;
	struct mpib_feed feed;
	/* Requests posted in this instance (resume.c), as mpib_conn_lap() counted
	 * last, and the number of the instance's first receive. */
	_Atomic uint64_t posts;
	uint64_t base;
	LIST_ENTRY(mpib_conn) link;
	/* Under the client's lock: what it takes to ask for the connection again. */
	uint64_t number; /* how many times it was requested */
	struct mpib_ctl_connect ask; /* sender */
	struct mpib_listener *listener; /* receiver; NULL: closed */
	struct mpib_reply_end end; /* receiver; key 0: not known */
	/* The instance in which the connection continues. The state changes
	 * under the lock, and is read without it. */
	struct mpib_instance next;
	_Atomic unsigned next_state; /* enum mpib_next */
	_Atomic int lost; /* -errno: not resumed, for lost_why */
	char lost_why[256];
	enum mpib_closing closing;
	struct mpib_request *who[MPIB_REQUESTS]; /* has each place */
	struct mpib_request req[MPIB_REQUESTS];
	struct mpib_flush_queue flush;
	struct mpib_window window;
	struct mpib_reason reason;
	char why[256];
};

/* State of a connection index that outlives the connection. */
struct mpib_index {
	struct mpib_debt debt; /* first; used while taken */
	uint64_t key; /* that the reply segment had when it was taken */
	bool taken;
	uint64_t tail; /* of the index's ring */
	uint32_t gen; /* even, and at least that of every request so far */
	/* The window, and the one before it while parts are in that. A closing
	 * connection keeps both: the proxy may still write there. */
	struct mpib_pool *window, *before;
};

struct mpib_listener {
	struct mpib_debt debt; /* first */
	LIST_ENTRY(mpib_listener) link;
	struct mpib_client *client;
	uint64_t nonce;
	uint32_t at; /* number of the latest attach that it was asked for at */
	uint32_t late; /* like that of an instance */
};

/* Registrations that a client waits for at a time. Each descriptor on its way counts
 * for the limit of the process's user (ETOOMANYREFS of unix(7)). */
#define MPIB_REGISTERING 32

/* What the client got from one proxy. It stays until each connection has gone
 * on at the next one. */
struct mpib_attached {
	uint32_t number; /* of this attach of the client, from 1 */
	bool serves; /* false: the successor of an upgrade, which may not yet */
	unsigned users; /* the client and instances; under the lock */
	bool registered; /* all memory; connections may have been asked for */
	bool whole; /* connections may have used it */
	bool cut; /* this client shut the socket down */
	int sock, doorbell;
	int pidfd; /* of the proxy's process; -1: the kernel has none */
	const struct mpib_status *status;
	struct mpib_submit *submit;
	const struct mpib_reply *reply;
	struct mpib_memseg seg[3];
	struct mpib_ctl_welcome welcome;
	unsigned registering; /* requests of mpib_memory_step() without answer */
	struct mpib_index index[MPIB_INDEXES_MAX];
};

/* The state of the latest control request. */
enum mpib_asked {
	MPIB_ASKED_NOT, /* not sent */
	MPIB_ASKED_LATE, /* sent; the answer is still to come */
	MPIB_ASKED_ANSWERED,
};

/*
 * The helper: a thread of the client that finds out that the proxy is gone, attaches
 * to the next one, and asks there for what the client has; docs/recovery.md. There is
 * none where nothing can be resumed.
 */
struct mpib_helper {
	/* The client continues at another proxy when this one ends. */
	atomic_bool resumes;
	bool runs;
	pthread_t thread;
	int wake, stop; /* eventfds; -1: there is no helper */
	/* keep.c, under the client's lock; -1: nothing is kept. */
	int keeper;
	pthread_t keeping;
	/* Under the client's lock. */
	uint64_t until; /* ms: the end of the grace; 0: the proxy lives */
	uint32_t grace_ms;
	uint32_t pause_ms; /* before the next attempt */
	char tried[256]; /* why the last attempt failed */
	/* Number of the proxy's upgrade, 0: none, and whether the client has to
	 * attach for it. */
	uint32_t upgrade;
	bool attach;
	/* Written before resumes becomes false: why the client cannot continue;
	 * "": it never could. */
	char why[512];
};

struct mpib_client {
	unsigned forks; /* mpib_forks when the client attached */
	/* forks, and above it how often the client attached; MPIB_GONE once the
	 * proxy is. One comparison finds a dead proxy, a forked child and a
	 * connection of an earlier attach. */
	_Atomic uint64_t living;
	_Atomic uint64_t looked; /* when the socket was last polled, ms */
	uint32_t answer_ms; /* how long a call waits for the proxy's answer */
	char path[108];
	char start[108]; /* a program that starts a proxy there; "": none */
	uid_t proxy_uid; /* of the first proxy */
	struct mpib_ctl_hello hello;
	struct mpib_helper helper;
	pthread_mutex_t lock; /* of all below, and of the control socket */
	struct mpib_attached *at; /* only the helper changes it */
	/* During an upgrade: the successor of the proxy; NULL: the helper
	 * attaches when c->at has ended. */
	struct mpib_attached *successor;
	uint32_t attaches; /* all, also those that failed */
	uint32_t next_id;
	enum mpib_asked asked;
	/* The proxy sent nothing for answer_ms, and nothing since. Calls fail
	 * with -ETIMEDOUT at once until the proxy answers something. */
	bool deaf;
	uint32_t heard; /* messages that came */
	uint64_t swept; /* when windows were swept last, ms */
	_Atomic uint32_t sweeps;
	LIST_HEAD(, mpib_debt) debts;
	LIST_HEAD(, mpib_conn) conns; /* closed ones, too: enum mpib_closing */
	LIST_HEAD(, mpib_listener) listeners;
	LIST_HEAD(, mpib_pool) pools; /* of mpib_mem_alloc() */
	LIST_HEAD(, mpib_region) regions;
	/* Deregistered; freed when no request uses them (registration.c). */
	LIST_HEAD(, mpib_region) graves;
};

/* thread.c: set this thread's text for mpib_strerror(), return rc. */
int mpib_fail(int rc, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Like strerror(-rc), but thread-safe. */
const char *mpib_errtext(int rc);

/* attach.c: forks between the process that first attached and this one. */
extern unsigned mpib_forks __attribute__((visibility("hidden")));
/* mpib_forks never reaches its low half. */
#define MPIB_GONE UINT64_MAX
/* Of an attach, in living. */
#define MPIB_ATTACHED(number) ((uint64_t)(number) << 32)

/* rpc.c. Monotonic clock. */
uint64_t mpib_now_ms(void);
/* Wait until the control socket has one of events (poll(2)) or the monotonic
 * ms deadline passes. 0, -ETIMEDOUT, -ECANCELED: the client detaches, -errno. */
int mpib_wait_socket(struct mpib_client *c, int sock, short events,
		     uint64_t deadline);
/* Under the lock. The proxy hung up, or ended: -EPIPE, with the text. */
int mpib_client_gone(struct mpib_client *c);
/* Under the lock. The process of the proxy has ended, and with it all that it could
 * write. Waits at most this many ms. */
bool mpib_client_dead(const struct mpib_client *c, int ms);
/* Under the lock. Send a control request and wait for its answer, which goes
 * into *m; the caller owns the descriptors in *m. -EPIPE: the proxy is gone;
 * -ETIMEDOUT: no answer in answer_ms, and later calls do not wait again until
 * the proxy answers something; -EMFILE: the answer came without descriptors;
 * else the status of the answer. c->asked says how far the request got. */
struct mpib_message;
int mpib_rpc(struct mpib_client *c, struct mpib_ctl_header *h, const int *fd,
	     unsigned fds, struct mpib_message *m, size_t want);
/* Under the lock. Take answers that came too late for their callers, and send
 * the undo requests that can be sent. Never waits. */
void mpib_rpc_settle(struct mpib_client *c);
/* Like mpib_rpc(), for a request of the form mpib_ctl_id. */
int mpib_rpc_of(struct mpib_client *c, uint32_t type, uint32_t id,
		struct mpib_message *m, size_t want);
/* Under the lock. Send a request to the proxy of at; h->id becomes its id. Never
 * waits. -EAGAIN: the socket is full; -errno. */
int mpib_rpc_send(struct mpib_client *c, const struct mpib_attached *at,
		  struct mpib_ctl_header *h, const int *fd, unsigned fds);
/* The same for a request of the form mpib_ctl_id; *asked becomes its id. */
int mpib_rpc_tell(struct mpib_client *c, const struct mpib_attached *at,
		  uint32_t type, uint32_t id, uint32_t *asked);
/* An answer of at least want bytes: 0; or the status of m, or -EPROTO, with the text and
 * without the descriptors. */
int mpib_rpc_check(struct mpib_message *m, size_t want);

/* Under the lock. Like mpib_rpc(), for a request that makes an object in the
 * proxy; d says how to undo it. On failure the object that embeds d is no longer
 * the caller's: it is freed at once, or after the proxy's object is undone. */
int mpib_rpc_make(struct mpib_client *c, struct mpib_ctl_header *h,
		  const int *fd, unsigned fds, struct mpib_debt *d,
		  struct mpib_message *m, size_t want);
/* Ask the proxy to undo d and wait for the answer. d's object is dropped in any
 * case. -ETIMEDOUT: the proxy has not confirmed yet. */
int mpib_rpc_undo(struct mpib_client *c, struct mpib_debt *d);
/* Like mpib_rpc_undo(), without waiting for the answer. */
void mpib_rpc_undo_later(struct mpib_client *c, struct mpib_debt *d);
/* Owed, with its answer still to come: idle again. Returns the request's id. */
uint32_t mpib_debt_keep(struct mpib_debt *d);
/* The client detaches, so the proxy drops everything: free the debts. */
void mpib_debts_forget(struct mpib_client *c);

/* 0, also while the client waits for another proxy; or why nothing can be asked:
 * -EPIPE, or -EOWNERDEAD in a forked child. */
int mpib_client_check(struct mpib_client *c);
/* Like mpib_client_check() == 0, wait-free and without an error text. Relaxed:
 * no data is published with living; noticing a dead proxy late is harmless. */
static inline bool mpib_client_ok(const struct mpib_client *c)
{
	return (uint32_t)atomic_load_explicit(
		       &c->living, memory_order_relaxed) == mpib_forks;
}
/* The same of the proxy that conn is a connection of. c is conn->client. */
static inline bool mpib_conn_lives(const struct mpib_conn *conn,
				   const struct mpib_client *c)
{
	return (atomic_load_explicit(&c->living, memory_order_relaxed) ^
		mpib_forks) == conn->lived;
}
/* Any thread: the proxy is gone, and the client waits for another one. */
static inline bool mpib_client_resumes(const struct mpib_client *c)
{
	return atomic_load(&c->helper.resumes) &&
	       atomic_load(&c->living) == MPIB_GONE;
}
/* Return whether to repeat a request that failed with -EPIPE: the proxy ended,
 * and another one may serve by now. */
static inline bool mpib_client_again(const struct mpib_client *c)
{
	return atomic_load(&c->helper.resumes);
}
/* Take the lock, when there is a proxy: -ETIMEDOUT, without the lock.
 * -EOWNERDEAD, without the lock, in a forked child: another thread of the
 * parent may have held the lock at fork(). */
int mpib_client_lock(struct mpib_client *c);
/* Take it in the process that attached, whether there is a proxy or not. */
void mpib_client_hold(struct mpib_client *c);
/* Take it if no other thread has it: posts and tests must not wait for a thread
 * that waits for the proxy. */
bool mpib_client_try(struct mpib_client *c);
void mpib_client_unlock(struct mpib_client *c);
/* Any thread, while it polls: if 10 ms have passed since the last look, see
 * whether the proxy hung up or a late answer came; _now: in any case. */
int mpib_client_look(struct mpib_client *c);
int mpib_client_look_now(struct mpib_client *c);

/* helper.c. */
/* When the client has attached. After a failure the client has no helper. */
void mpib_helper_start(struct mpib_client *c);
/* In the process that attached; then nothing else runs in the client. */
void mpib_helper_stop(struct mpib_client *c);
/* Any thread: have it look at all. */
void mpib_helper_wake(struct mpib_client *c);
/* Under the client's lock: what the proxy says of an upgrade. */
struct mpib_ctl_next;
void mpib_helper_upgrade(struct mpib_client *c,
			 const struct mpib_ctl_next *next);
/* Under the client's lock: a late answer, maybe to what the helper asked. */
void mpib_helper_answered(struct mpib_client *c, struct mpib_message *m);
/* Under the client's lock: give up what was prepared at another proxy. */
void mpib_successor_drop(struct mpib_client *c);
/* Under the client's lock: a descriptor that a resume needs cannot be kept, -errno. */
void mpib_helper_gives_up(struct mpib_client *c, int rc);

/* keep.c, under the client's lock. Keep a copy of fd, which stays the caller's. 0:
 * it is not kept. */
uint32_t mpib_keep(struct mpib_client *c, int fd);
/* Return the kept memory as a descriptor that the caller closes. -errno. */
int mpib_keep_lend(const struct mpib_client *c, uint32_t kept);
/* It is closed when this returns. 0: nothing. */
void mpib_keep_close(const struct mpib_client *c, uint32_t kept);
void mpib_keep_stop(struct mpib_client *c);

/* thread.c. Start a thread with all signals blocked: they are the program's. */
int mpib_thread_start(pthread_t *thread, void *(*run)(void *), void *arg);
void mpib_thread_join(pthread_t thread);
/* pthread_mutex_trylock(). True: this thread has the mutex now. */
bool mpib_mutex_try(pthread_mutex_t *mutex);

/* pool.c. Under the lock. pool may be NULL. */
void mpib_pool_free(struct mpib_pool *pool);
/* registration.c. Under the lock, at another proxy: register all memory that it has
 * not registered yet, and wait until it serves. */
int mpib_memory_register(struct mpib_client *c, struct mpib_attached *at);
/* The same, without waiting. 0: all is registered; 1: call again when something came
 * from the proxy; -errno. */
int mpib_memory_step(struct mpib_client *c, struct mpib_attached *at);
/* The memory is deregistered and on no list any more: do not keep it, nor leave it
 * registered at a successor. */
void mpib_memory_drop(struct mpib_client *c, const struct mpib_memory *memory);
/* Under the lock: release the windows of closed connections. */
void mpib_windows_trim(struct mpib_client *c);

/* Return whether the bytes lie inside the region. */
bool mpib_region_holds(const struct mpib_region *r, const char *addr,
		       size_t size);
/* registration.c: ref and unref hold the regions of a request while it is in use. A
 * staged copy runs between copy_begin (false: the region is deregistered, do
 * not copy) and copy_end. */
void mpib_regions_ref(struct mpib_request *r);
void mpib_regions_unref(struct mpib_request *r);
bool mpib_region_copy_begin(struct mpib_region *r);
void mpib_region_copy_end(struct mpib_region *r);
bool mpib_region_dead(const struct mpib_region *r);
/* Under the lock: c->at is another proxy, which registered all memory; post with its
 * regions from now on. */
void mpib_regions_renew(struct mpib_client *c);
static inline uint32_t mpib_region_mr(const struct mpib_region *r)
{
	/* Relaxed: it changes while no connection lives. */
	return atomic_load_explicit(&r->mr, memory_order_relaxed);
}

/* attach.c: connect to the proxy and attach, within answer_ms. If there is none and the
 * process may start one, start it, and wait for it until deadline (ms): then -ENOENT and
 * -ECONNREFUSED say that there will be one. */
int mpib_attach_once(struct mpib_client *c, uint64_t deadline,
		     struct mpib_attached **at);
/* The same, without starting one. */
int mpib_attach_there(struct mpib_client *c, struct mpib_attached **at);
/* Under the lock: one user less. */
void mpib_attached_put(struct mpib_attached *at);

/* connect.c, under the lock. Post at that index from now on; what is posted at its
 * index no more, whose debt this returns. */
void mpib_conn_enter(struct mpib_conn *conn, struct mpib_attached *at,
		     uint32_t index);
/* connect.c, under the lock. Ask the client's proxy for the connection, once more;
 * base: receives that are done. */
int mpib_conn_ask(struct mpib_conn *conn, uint64_t base, uint32_t *index);
/* Return the key of a receiving end, if the proxy reported one at that
 * index. */
void mpib_conn_learn(struct mpib_conn *conn, const struct mpib_attached *at,
		     uint32_t index);
struct mpib_debt *mpib_conn_leave(struct mpib_conn *conn);
/* helper.c, under the lock. The instance that was asked for is not wanted. */
void mpib_next_drop(struct mpib_client *c, struct mpib_conn *conn);
/* Free the closed connections whose other end knows. */
void mpib_closed_sweep(struct mpib_client *c);
/* connect.c. Free what the connection has in this process. */
void mpib_conn_free(struct mpib_conn *conn);
/* connect.c. On the connection's thread: copy out what has arrived, then mark
 * the connection failed, so that nothing is pushed or copied again. why NULL:
 * ask the proxy for the reason. Returns rc, with the text, or 0: the reason is
 * not known yet, call again. Never waits. */
#define MPIB_BAD_HEAD "the head of the proxy's ring is impossible"
int mpib_conn_fail(struct mpib_conn *conn, int rc, const char *why);
/* connect.c. On the connection's thread, before a request. 1: usable; 0: not now, or
 * the reason is still to come; -errno: the reason, with the text. */
int mpib_conn_usable(struct mpib_conn *conn);
/* connect.c, under the lock: m is an answer to WHY. */
void mpib_why_answered(struct mpib_client *c, const struct mpib_message *m);
/* 0, or the failure that the shard has published. */
static inline int mpib_conn_broken(const struct mpib_conn *conn)
{
	/* Acquire pairs with the shard's release store of broken: requests
	 * that the shard completed before are seen as complete. */
	return atomic_load_explicit(&conn->reply->broken, memory_order_acquire);
}

/* Return whether a request with this result failed alone, because it did not
 * fit: nothing of it was sent, and the connection continues. */
static inline bool mpib_conn_refused(const struct mpib_conn *conn, int res)
{
	return res == -EMSGSIZE && mpib_conn_broken(conn) != -EMSGSIZE;
}

static inline struct mpib_request *mpib_request_of(struct mpib_conn *conn,
						   unsigned number)
{
	return number < MPIB_REQUESTS
		       ? &conn->req[number]
		       : &conn->feed.room[number - MPIB_REQUESTS];
}

/* r, which has a place, is posted. */
static inline void mpib_request_number(struct mpib_conn *conn,
				       struct mpib_request *r)
{
	r->gen = conn->gen += 2;
}

/*
 * Return how many slots of the ring may be pushed, or -errno, as mpib_ring_room()
 * does. Each push asks here first, except on the fast path, which pushes only into
 * room that was seen here. So mpib_conn_lap() is called at least once per lap.
 */
static inline int mpib_conn_room(struct mpib_conn *conn, uint32_t want)
{
	if (MPIB_RING_SLOTS - (conn->ring.tail - conn->ring.head_seen) < want)
		mpib_conn_lap(conn);
	return mpib_ring_room(&conn->ring, want);
}

/*
 * resume.c. On the connection's thread: the connection's instance has stopped,
 * and nothing is written for it any more. Continue in the next one, which is
 * ready: keep the results of completed requests, and post the others again from
 * their first byte. 1; 0: not now, call again; -errno: the connection failed,
 * and does not use the new instance.
 */
int mpib_conn_resume(struct mpib_conn *conn);
/* Under the lock: the next instance has no window, where the connection has one. */
bool mpib_conn_lacks_window(const struct mpib_conn *conn);
/* On the connection's thread. 1: the instance lives, as far as is known; 0: it
 * has stopped, and nothing can be posted now; -errno: it has stopped and will
 * not continue, with the text. */
int mpib_conn_goes_on(struct mpib_conn *conn);
/* Sort by generation, oldest first; newest: the connection's latest
 * generation. */
void mpib_requests_sort(struct mpib_request **r, unsigned n, uint32_t newest);
/* Any thread: how many receives of the connection are done, when nothing is written
 * for its instance any more. */
uint64_t mpib_conn_over(const struct mpib_conn *conn);

/* stage.c, on the connection's thread. */
/* Post r again from its first byte, behind what is queued. */
void mpib_stage_again(struct mpib_conn *conn, struct mpib_request *r);
/* Under the lock: use the window of the connection's index. */
void mpib_stage_take_window(struct mpib_conn *conn);
/* Append r to the feed queue; r is pushed, in parts if staged, as places, ring
 * and window have room. 1; 0: not now, for r needs a larger window; -errno. */
int mpib_stage_add(struct mpib_conn *conn, struct mpib_request *r);
/* Push r as far as ring and window have room: 1: all of it; 0, -errno. */
int mpib_stage_push(struct mpib_conn *conn, struct mpib_request *r);
/* Take parts that are done out of the window, then push queued requests as far
 * as there is room. An error fails the connection. */
void mpib_stage(struct mpib_conn *conn);
/* push.c. Push a descriptor for len bytes at pos of buffer i, which lie at off
 * in mr. The caller has checked that the ring has room. */
void mpib_push(struct mpib_conn *conn, const struct mpib_request *r, unsigned i,
	       uint32_t mr, uint64_t off, uint32_t pos, uint32_t len);
/* Push all of buffer i of r, which is registered memory. */
void mpib_push_direct(struct mpib_conn *conn, const struct mpib_request *r,
		      unsigned i);

/* Any thread: the client's connections share the counters. */
static inline void mpib_count(_Atomic uint64_t *n, uint64_t by)
{
	atomic_fetch_add_explicit(n, by, memory_order_relaxed);
}

/* rail_report.c, on the connection's thread, only on the slow path. ask: before r is
 * submitted; asked: after r was submitted. */
void mpib_report_ask(struct mpib_conn *conn, struct mpib_request *r);
void mpib_report_asked(struct mpib_conn *conn, struct mpib_request *r);
/* r could not be submitted, or is done. */
void mpib_report_drop(struct mpib_request *r);
/* r is tested; over: r has completed, so this is the last test. */
void mpib_report_look(struct mpib_conn *conn, struct mpib_request *r,
		      bool over);

/* push.c. Wake the sleeping shard through its eventfd. Returns 0. */
int mpib_bell_write(struct mpib_conn *conn);

/* Set the connection's summary bit, so that the shard reads its ring, and wake
 * the shard if it sleeps; wait-free if it does not. Returns 0. */
static inline int mpib_ring_bell(struct mpib_conn *conn)
{
	if (__builtin_expect(mpib_summary_tell(conn->word, conn->word_bit,
					       conn->top, conn->top_bit,
					       conn->sleeping),
			     0))
		return mpib_bell_write(conn);
	return 0;
}

#endif
