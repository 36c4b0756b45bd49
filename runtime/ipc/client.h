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
 * How to undo in the proxy what the client made there: a pool, region, listener
 * or connection. Embedded in the client's object. The debt is idle while the
 * object is in use. If the client drops the object while the proxy still has,
 * or may still make, its own, the debt is "owed": on client->debts until the
 * undo request is sent (rpc.c).
 */
struct mpib_debt {
	LIST_ENTRY(mpib_debt) link; /* in client->debts, while owed */
	/* Id of the request that makes the object, while its answer is late.
	 * The answer brings id below. 0: id is known. */
	uint32_t asked;
	uint32_t undo; /* MPIB_CTL_DEREG, CLOSE_LISTEN or CLOSE of id */
	uint32_t id; /* mr, listen_id or connection index */
	/* Called under the lock once the undo request was sent, or the proxy
	 * made nothing. NULL: the object, which begins with d, is freed. */
	void (*paid)(struct mpib_debt *d);
};

/* Memory with a kept descriptor, for its registration at another proxy. */
struct mpib_memory {
	uint32_t kept; /* from mpib_keep(); 0: none */
	uint32_t flags; /* the arguments of mpib_reg_fd() */
	uint64_t offset;
	size_t size;
	/* The latest registration at another proxy than the first. */
	uint32_t at; /* number of that attach; 0: none */
	uint32_t asked; /* id of the request; 0: answered */
	uint32_t mr; /* the region there */
};

/* Memory that the proxy made and registered, mapped in this process. */
struct mpib_pool {
	struct mpib_debt debt; /* first */
	LIST_ENTRY(mpib_pool) link; /* of mpib_mem_alloc(): in client->pools */
	struct mpib_memseg seg;
	struct mpib_memory memory; /* kept for mpib_mem_alloc() only */
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
	bool own_mr; /* from mpib_reg_fd(): deregister mr with the region */
	struct mpib_memory memory; /* with own_mr */
	dev_t dev; /* with own_mr: the file of the descriptor */
	ino_t ino;
	_Atomic uint32_t mr; /* changes with the proxy */
	uint64_t off; /* of addr in mr */
	unsigned regs; /* registrations; under the client's lock */
	_Atomic unsigned refs; /* requests that use this region */
	/* Copies under way, plus MPIB_REGION_DEAD once deregistered. */
	_Atomic unsigned copying;
};

#define MPIB_REGION_DEAD 0x80000000u

struct mpib_attached;
struct mpib_message;

/* One life of a connection's end: from its request to the proxy until the proxy
 * ends or loses the connection. */
struct mpib_instance {
	struct mpib_attached *at;
	uint32_t index;
	uint64_t base; /* receives that both ends had completed before */
	uint64_t no_window; /* ms: since when a window is refused; 0: no */
};

/* The reason for a connection's failure, from the proxy or the helper. */
struct mpib_reason {
	uint64_t until; /* ms: how long to wait for it; 0: not needed yet */
	/* Under the client's lock. */
	uint32_t asked; /* id of the WHY; 0: not sent yet */
	uint32_t heard; /* client->heard when the WHY was sent */
	bool early; /* the first WHY came before the proxy knew */
	char text[240]; /* "": there is none; final once told is true */
	_Atomic bool told;
};

enum mpib_next {
	MPIB_NEXT_NONE,
	MPIB_NEXT_ASKED, /* requested from the proxy */
	MPIB_NEXT_READY, /* the connection's thread may continue there */
};

/* A connection that the rank closed stays in client->conns until the process at
 * the other end knows of it, also if the proxy ends before. */
enum mpib_closing {
	MPIB_CLOSING_NOT,
	MPIB_CLOSING_TOLD, /* the proxy has closed it: waits for FREE */
	MPIB_CLOSING_OWED, /* waits for its next instance, to close that */
};

struct mpib_conn {
	struct mpib_client *client;
	/* The client, if this end sends or receives, else NULL. Requests use
	 * regions of that client only. */
	const struct mpib_client *sends, *receives;
	/* Parts in the window + requests in feed + 1 if error is set + 1 if
	 * armed + 1 if refused. While not 0, post and test take the slow
	 * path. */
	uint32_t work;
	/* Generations of the first and of the latest request. Each request adds
	 * two, so they count the connection's receives. */
	uint32_t first_gen, gen;
	uint32_t turn; /* gen / MPIB_TURN at the last lap */
	/* Unused requests: with a place, with a place of the sender's reserve,
	 * and without a place. */
	struct mpib_request *free, *reserve, *bare;
	uint32_t idle; /* polls (test, ready) that found nothing */
	uint64_t lived; /* MPIB_ATTACHED() of at */
	struct mpib_producer ring;
	const struct mpib_reply_conn *reply;
	const _Atomic uint32_t *sleeping; /* flag of the shard */
	/* This connection's summary bits in the submit segment. */
	_Atomic uint64_t *word, *top;
	uint64_t word_bit, top_bit;
	const struct mpib_completion *completion;
	/* 0: usable; -ENOTCONN until ready; else the connection failed for the
	 * reason in why[], and nothing is pushed or copied any more. */
	int error;
	/* The current instance. These three change under the client's lock. */
	struct mpib_attached *at;
	struct mpib_index *place; /* &at->index[index] */
	uint32_t index;
	bool is_sender;
	bool refused; /* the latest send was, for lack of requests */
	/* rail_report.c. Armed: the slow path watches the next post. */
	enum mpib_report report;
	uint32_t later; /* fruitless tests until MPIB_REPORT_LATER watches */
	bool armed;
	mpib_watch_fn *watch;
	void *user;
	struct mpib_feed feed;
	/* Requests posted in this instance, as of the last mpib_conn_lap(). */
	_Atomic uint64_t posts;
	uint64_t base; /* receives completed before this instance */
	LIST_ENTRY(mpib_conn) link;
	/* Under the client's lock: arguments of the next request for it. */
	uint64_t number; /* requests for the connection so far */
	struct mpib_ctl_connect ask; /* sender */
	struct mpib_listener *listener; /* receiver; NULL: closed */
	struct mpib_reply_end end; /* receiver; key 0: not known */
	/* The instance in which the connection continues. The state is written
	 * under the lock, and read without it. */
	struct mpib_instance next;
	_Atomic unsigned next_state; /* enum mpib_next */
	_Atomic int lost; /* -errno: cannot resume, reason.text says why */
	enum mpib_closing closing;
	struct mpib_request *placed[MPIB_REQUESTS]; /* by place */
	struct mpib_request req[MPIB_REQUESTS];
	struct mpib_flush_queue flush;
	struct mpib_window window;
	struct mpib_reason reason;
	char why[256];
};

/* State of a connection index that outlives the connection. */
struct mpib_index {
	struct mpib_debt debt; /* first; used while taken */
	bool taken;
	uint64_t key; /* in the reply segment when the index was taken */
	uint64_t tail; /* of the index's ring */
	uint32_t gen; /* even; no request so far has a later one */
	/* The window, and the one before it while parts are in that. A closing
	 * connection keeps both: the proxy may still write there. */
	struct mpib_pool *window, *before;
};

struct mpib_listener {
	struct mpib_debt debt; /* first */
	LIST_ENTRY(mpib_listener) link;
	struct mpib_client *client;
	uint64_t nonce;
	uint32_t at; /* number of the latest attach where it was requested */
};

/* Registrations that may be without an answer at a time. Descriptors in a
 * socket count for a limit of the process's user (ETOOMANYREFS of unix(7)). */
#define MPIB_REGISTERING 32

enum mpib_attach_state {
	MPIB_ATTACH_NEW,
	MPIB_ATTACH_REGISTERED, /* all memory; connections may be requested */
	MPIB_ATTACH_WHOLE, /* all is requested; connections may use it */
	MPIB_ATTACH_CUT, /* never whole, and this client shut the socket down */
};

/* What the client got from one proxy. It stays until each connection continues
 * at the next one. */
struct mpib_attached {
	uint32_t number; /* of this attach of the client, from 1 */
	enum mpib_attach_state state;
	bool serves; /* false: a successor that does not serve yet */
	unsigned users; /* the client and instances; under the lock */
	int sock, doorbell;
	int pidfd; /* of the proxy's process; -1: the kernel has none */
	const struct mpib_status *status;
	struct mpib_submit *submit;
	const struct mpib_reply *reply;
	struct mpib_memseg seg[3];
	struct mpib_ctl_welcome welcome;
	unsigned registering; /* registrations without an answer */
	struct mpib_index index[MPIB_INDEXES_MAX];
};

/* The state of the latest control request. */
enum mpib_asked {
	MPIB_ASKED_NOT, /* not sent */
	MPIB_ASKED_LATE, /* sent; the answer is still to come */
	MPIB_ASKED_ANSWERED,
};

/*
 * The helper: a thread of the client that waits for the end of the proxy,
 * attaches to the next one, and requests there what the client has;
 * docs/recovery.md. There is no helper if the proxy resumes nothing.
 */
struct mpib_helper {
	/* The client continues at another proxy when this one ends. */
	atomic_bool resumes;
	bool runs;
	pthread_t thread;
	int wake, stop; /* eventfds; -1: there is no helper */
	/* keep.c, under the client's lock. */
	int keeper; /* socket to the thread; -1: nothing is kept */
	pthread_t keeping;
	/* Under the client's lock. */
	uint64_t until; /* ms: the end of the grace; 0: the proxy lives */
	uint32_t grace_ms;
	uint32_t pause_ms; /* before the next attempt */
	char tried[256]; /* why the last attempt failed */
	uint32_t upgrade; /* number of the announced upgrade; 0: none */
	bool attach; /* the announcement is not handled yet */
	/* Why the client cannot continue; "": it never could. Written before
	 * resumes becomes false. */
	char why[512];
};

struct mpib_client {
	unsigned forks; /* mpib_forks when the client attached */
	/* Low half: forks; high half: the attach's number. MPIB_GONE while
	 * there is no proxy. One comparison finds a dead proxy, a forked child
	 * and a connection of an earlier attach. */
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
	struct mpib_attached *successor; /* of the proxy, in an upgrade */
	uint32_t attaches; /* so far, with those that failed */
	uint32_t next_id;
	enum mpib_asked asked;
	/* The proxy answered nothing for answer_ms. Calls fail with -ETIMEDOUT
	 * at once until it answers something. */
	bool deaf;
	uint32_t heard; /* messages received */
	uint64_t swept; /* when idle windows were released last, ms */
	_Atomic uint32_t sweeps; /* how many times that was done */
	LIST_HEAD(, mpib_debt) debts;
	LIST_HEAD(, mpib_conn) conns; /* closed ones, too: enum mpib_closing */
	LIST_HEAD(, mpib_listener) listeners;
	LIST_HEAD(, mpib_pool) pools; /* of mpib_mem_alloc() */
	LIST_HEAD(, mpib_region) regions;
	/* Deregistered; freed when no request uses them (registration.c). */
	LIST_HEAD(, mpib_region) graves;
};

/* thread.c, any thread. Set this thread's text for mpib_strerror(); returns
 * rc. */
int mpib_fail(int rc, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Like strerror(-rc), but thread-safe. */
const char *mpib_errtext(int rc);
/* Start a thread with all signals blocked: they are the program's. */
int mpib_thread_start(pthread_t *thread, void *(*run)(void *), void *arg);
void mpib_thread_join(pthread_t thread);
/* pthread_mutex_trylock(). True: this thread has the mutex now. */
bool mpib_mutex_try(pthread_mutex_t *mutex);

/* attach.c: forks between the process that first attached and this one. */
extern unsigned mpib_forks __attribute__((visibility("hidden")));
/* A value of living whose low half is no value of mpib_forks. */
#define MPIB_GONE UINT64_MAX
/* The number of an attach, as it is in living. */
#define MPIB_ATTACHED(number) ((uint64_t)(number) << 32)
/*
 * attach.c, without the lock. Attach to the proxy, within answer_ms. If there
 * is none and MPIB_START names a program, start a proxy and wait for it until
 * deadline (ms). Then -ENOENT and -ECONNREFUSED mean that another process still
 * starts one.
 */
int mpib_attach_once(struct mpib_client *c, uint64_t deadline,
		     struct mpib_attached **at);
/* The same, without starting one. */
int mpib_attach_there(struct mpib_client *c, struct mpib_attached **at);
/* Under the lock. Drop one user of at; the last one frees it. */
void mpib_attached_put(struct mpib_attached *at);

/*
 * rpc.c: the client's lock, and requests to the proxy.
 */
/* Return 0, also while the client waits for another proxy; else why no request
 * is possible: -EPIPE, or -EOWNERDEAD in a forked child. */
int mpib_client_check(struct mpib_client *c);
/* Like mpib_client_check() == 0, wait-free and without a text. Relaxed: no data
 * is published with living, and noticing a dead proxy late is harmless. */
static inline bool mpib_client_ok(const struct mpib_client *c)
{
	return (uint32_t)atomic_load_explicit(
		       &c->living, memory_order_relaxed) == mpib_forks;
}
/* The same for the proxy that has the connection. c is conn->client. */
static inline bool mpib_conn_lives(const struct mpib_conn *conn,
				   const struct mpib_client *c)
{
	return (atomic_load_explicit(&c->living, memory_order_relaxed) ^
		mpib_forks) == conn->lived;
}
/* Any thread. The helper runs, and attaches to another proxy if this one ends.
 * So a request that failed with -EPIPE may be repeated. */
static inline bool mpib_client_again(const struct mpib_client *c)
{
	return atomic_load(&c->helper.resumes);
}
/* Any thread. The proxy is gone, and the client waits for another one. */
static inline bool mpib_client_resumes(const struct mpib_client *c)
{
	return mpib_client_again(c) && atomic_load(&c->living) == MPIB_GONE;
}
/* Take the lock once there is a proxy. -ETIMEDOUT, without the lock: there is
 * none. -EOWNERDEAD, without the lock, in a forked child: another thread of the
 * parent may have held the lock at fork(). */
int mpib_client_lock(struct mpib_client *c);
/* Take the lock in the process that attached, whether there is a proxy or
 * not. */
void mpib_client_hold(struct mpib_client *c);
/* Take the lock if no other thread has it. Posts and tests never wait for a
 * thread that waits for the proxy. */
bool mpib_client_try(struct mpib_client *c);
void mpib_client_unlock(struct mpib_client *c);
/* Any thread, without the lock. If the last look was 10 ms ago, find out
 * whether the proxy hung up, and take late answers; _now: in any case. Returns
 * what mpib_client_check() does. */
int mpib_client_look(struct mpib_client *c);
int mpib_client_look_now(struct mpib_client *c);
/* Monotonic clock. */
uint64_t mpib_now_ms(void);
/* Wait until the socket has one of events (poll(2)), at most until the
 * monotonic deadline. 0, -ETIMEDOUT, -ECANCELED: the client detaches,
 * -errno. */
int mpib_wait_socket(struct mpib_client *c, int sock, short events,
		     uint64_t deadline);

/* All that follow are called under the lock. */
/* The proxy hung up, or ended. Returns -EPIPE, with the text. */
int mpib_client_gone(struct mpib_client *c);
/* Return whether the proxy's process has ended, and with it all its writes.
 * Waits at most this many ms. */
bool mpib_client_dead(const struct mpib_client *c, int ms);
/*
 * Send a control request and wait for its answer of at least want bytes, which
 * goes to *m with its descriptors. c->asked says how far the request got.
 *   -EPIPE      the proxy is gone
 *   -ETIMEDOUT  no answer within answer_ms. Later calls fail at once until the
 *               proxy answers something.
 *   -EMFILE     the answer came without its descriptors
 * or the status of the answer.
 */
int mpib_rpc(struct mpib_client *c, struct mpib_ctl_header *h, const int *fd,
	     unsigned fds, struct mpib_message *m, size_t want);
/* Like mpib_rpc(), for a request of the form mpib_ctl_id. */
int mpib_rpc_of(struct mpib_client *c, uint32_t type, uint32_t id,
		struct mpib_message *m, size_t want);
/* Check that m is an answer of at least want bytes. Returns its status or
 * -EPROTO, with the text; the descriptors are closed then. */
int mpib_rpc_check(struct mpib_message *m, size_t want);
/* Send a request to the proxy of at; h->id becomes its id. Never waits.
 * -EAGAIN: the socket is full; -errno. */
int mpib_rpc_send(struct mpib_client *c, const struct mpib_attached *at,
		  struct mpib_ctl_header *h, const int *fd, unsigned fds);
/* The same for a request of the form mpib_ctl_id; *asked becomes its id. */
int mpib_rpc_tell(struct mpib_client *c, const struct mpib_attached *at,
		  uint32_t type, uint32_t id, uint32_t *asked);
/* Take answers that came too late for their callers, and send the undo requests
 * that can be sent. Never waits. */
void mpib_rpc_settle(struct mpib_client *c);
/* Like mpib_rpc(), for a request that makes an object in the proxy; d says how
 * to undo it. On failure the object that embeds d is no longer the caller's: it
 * is freed at once, or after the proxy's object is undone. */
int mpib_rpc_make(struct mpib_client *c, struct mpib_ctl_header *h,
		  const int *fd, unsigned fds, struct mpib_debt *d,
		  struct mpib_message *m, size_t want);
/* Ask the proxy to undo d, and wait for the answer, unless that to the first
 * request is still late. In any case the object of d is no longer the caller's.
 * -ETIMEDOUT: the proxy has not confirmed yet. */
int mpib_rpc_undo(struct mpib_client *c, struct mpib_debt *d);
/* Like mpib_rpc_undo(), without waiting for the answer. */
void mpib_rpc_undo_later(struct mpib_client *c, struct mpib_debt *d);
/* Stop owing d, whose answer is late: the caller needs the object after all,
 * and handles the answer. */
void mpib_debt_keep(struct mpib_debt *d);
/* The proxy drops the client with everything: free the debts. */
void mpib_debts_forget(struct mpib_client *c);

/*
 * helper.c, keep.c.
 */
/* Start the helper of an attached client. After a failure there is none. */
void mpib_helper_start(struct mpib_client *c);
/* In the process that attached. Returns when the thread has ended. */
void mpib_helper_stop(struct mpib_client *c);
/* Any thread. Make the helper look for work. */
void mpib_helper_wake(struct mpib_client *c);
/* All that follow are called under the lock. */
/* The proxy announces an upgrade, or cancels it. */
void mpib_helper_upgrade(struct mpib_client *c,
			 const struct mpib_ctl_next *next);
/* m is a late answer, perhaps to a request of the helper. */
void mpib_helper_answered(struct mpib_client *c, struct mpib_message *m);
/* A descriptor that a resume needs cannot be kept, for -errno. */
void mpib_helper_gives_up(struct mpib_client *c, int rc);
/* Detach from the successor of an upgrade, if there is one. */
void mpib_successor_drop(struct mpib_client *c);
/* Drop the next instance of conn, if there is one. */
void mpib_next_drop(struct mpib_client *c, struct mpib_conn *conn);
/* Free the closed connections whose other end knows. */
void mpib_closed_sweep(struct mpib_client *c);
/* Keep a copy of fd, which stays the caller's. 0: it is not kept. */
uint32_t mpib_keep(struct mpib_client *c, int fd);
/* Return a copy of the kept descriptor, which the caller closes. -errno. */
int mpib_keep_lend(const struct mpib_client *c, uint32_t kept);
/* Close the kept descriptor before this returns. 0: nothing. */
void mpib_keep_close(const struct mpib_client *c, uint32_t kept);
void mpib_keep_stop(struct mpib_client *c);

/*
 * pool.c, registration.c: memory.
 */
/* Under the lock. Unmap and free the pool; it may be NULL. */
void mpib_pool_free(struct mpib_pool *pool);
/* Under the lock. Release the windows of closed connections. */
void mpib_windows_trim(struct mpib_client *c);
/* Return whether the bytes lie inside the region. */
bool mpib_region_holds(const struct mpib_region *r, const char *addr,
		       size_t size);
/* Hold the regions of a request while it is in use, so that they are not
 * freed. */
void mpib_regions_ref(struct mpib_request *r);
void mpib_regions_unref(struct mpib_request *r);
/* A staged copy runs between these two. False: the region is deregistered, do
 * not copy. */
bool mpib_region_copy_begin(struct mpib_region *r);
void mpib_region_copy_end(struct mpib_region *r);
bool mpib_region_dead(const struct mpib_region *r);
static inline uint32_t mpib_region_mr(const struct mpib_region *r)
{
	/* Relaxed: it changes while no connection lives. */
	return atomic_load_explicit(&r->mr, memory_order_relaxed);
}
/* Under the lock. All memory is registered at c->at: use its regions from now
 * on. */
void mpib_regions_renew(struct mpib_client *c);
/* Under the lock. Register at another proxy all memory that it does not have
 * yet, and wait until it serves. */
int mpib_memory_register(struct mpib_client *c, struct mpib_attached *at);
/* The same, without waiting. 0: all is registered; 1: call again after a
 * message from the proxy; -errno. */
int mpib_memory_step(struct mpib_client *c, struct mpib_attached *at);
/* Under the lock. The memory is deregistered and on no list any more: do not
 * keep it, nor leave it registered at a successor. */
void mpib_memory_drop(struct mpib_client *c, const struct mpib_memory *memory);

/*
 * connect.c.
 */
/* Under the lock. Post at that index of at from now on. */
void mpib_conn_enter(struct mpib_conn *conn, struct mpib_attached *at,
		     uint32_t index);
/* Under the lock. Post no more at the current index. Returns its debt. */
struct mpib_debt *mpib_conn_leave(struct mpib_conn *conn);
/* Under the lock. Request the connection from the client's proxy, again if it
 * was requested before. base: receives that have completed. */
int mpib_conn_ask(struct mpib_conn *conn, uint64_t base, uint32_t *index);
/* Under the lock. Copy what the proxy reported about the connection at that
 * index and a later request for it needs. */
void mpib_conn_learn(struct mpib_conn *conn, const struct mpib_attached *at,
		     uint32_t index);
/* Under the lock. Free what the connection has in this process. */
void mpib_conn_free(struct mpib_conn *conn);
/* Under the lock. Store the reason of the connection's failure, "" if there is
 * none. The first one counts. */
void mpib_why_tell(struct mpib_conn *conn, const char *text);
/* Under the lock. m is an answer to WHY. */
void mpib_why_answered(struct mpib_client *c, const struct mpib_message *m);
/* On the connection's thread: copy out what has arrived, then mark the
 * connection failed, so that nothing is pushed or copied again. why NULL: ask
 * the proxy for the reason. Returns rc, with the text, or 0: the reason is not
 * known yet, call again. Never waits. */
#define MPIB_BAD_HEAD "the head of the proxy's ring is impossible"
int mpib_conn_fail(struct mpib_conn *conn, int rc, const char *why);
/* On the connection's thread, before a request. 1: usable; 0: not now, or the
 * reason is not known yet; -errno, with the text. */
int mpib_conn_usable(struct mpib_conn *conn);
/* Return the enum mpib_conn_state at that index. */
static inline unsigned mpib_index_state(const struct mpib_attached *at,
					uint32_t index)
{
	/* Acquire pairs with the proxy's release store of state. */
	return atomic_load_explicit(&at->reply->conn[index].state,
				    memory_order_acquire);
}
/* Return 0, or the failure that the shard has published. */
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

/*
 * resume.c.
 */
/*
 * On the connection's thread: the connection's instance has stopped, and
 * nothing writes for it any more. Continue in the next one, which is ready:
 * keep the results of completed requests, and post the others again from their
 * first byte. 1; 0: not now, call again; -errno: the connection failed, and
 * does not use the next instance.
 */
int mpib_conn_resume(struct mpib_conn *conn);
/* Under the lock. Return whether the next instance still needs a window,
 * because the current one has one. */
bool mpib_conn_lacks_window(const struct mpib_conn *conn);
/* On the connection's thread. 1: the instance lives, as far as is known; 0: it
 * has stopped, and nothing can be posted now; -errno: it has stopped and will
 * not continue, with the text. */
int mpib_conn_goes_on(struct mpib_conn *conn);
/* Sort by generation, oldest first; newest: the connection's latest
 * generation. */
void mpib_requests_sort(struct mpib_request **r, unsigned n, uint32_t newest);
/* Any thread. Return how many receives of the connection have completed, when
 * nothing writes for its instance any more. */
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
/* Give r, which has a place, the next generation: it is being posted. */
static inline void mpib_request_number(struct mpib_conn *conn,
				       struct mpib_request *r)
{
	r->gen = conn->gen += 2;
}
/*
 * Return how many slots of the ring may be pushed, or -errno, as
 * mpib_ring_room() does. Each push asks here first, except on the fast path,
 * which pushes only into room that was seen here. So mpib_conn_lap() is called
 * at least once per lap.
 */
static inline int mpib_conn_room(struct mpib_conn *conn, uint32_t want)
{
	if (MPIB_RING_SLOTS - (conn->ring.tail - conn->ring.head_seen) < want)
		mpib_conn_lap(conn);
	return mpib_ring_room(&conn->ring, want);
}
/* Append r to the feed queue, and push it, in parts if staged, as places, ring
 * and window have room. 1; 0: not now, r needs a window that it cannot have
 * yet; -errno. */
int mpib_stage_add(struct mpib_conn *conn, struct mpib_request *r);
/* Append r to the feed queue, to be pushed again from its first byte. */
void mpib_stage_again(struct mpib_conn *conn, struct mpib_request *r);
/* Push r as far as ring and window have room. 1: all of it; 0; -errno. */
int mpib_stage_push(struct mpib_conn *conn, struct mpib_request *r);
/* Take completed parts out of the window, then push queued requests as far as
 * there is room. An error fails the connection. */
void mpib_stage(struct mpib_conn *conn);
/* Under the lock. Use the window of the connection's index. */
void mpib_stage_take_window(struct mpib_conn *conn);
/* Push all of buffer i of r, which is registered memory. The caller has checked
 * that the ring has room. */
void mpib_push_direct(struct mpib_conn *conn, const struct mpib_request *r,
		      unsigned i);
/* Wake the sleeping shard through its eventfd. Returns 0. */
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
/* Any thread: the client's connections share the counters. */
static inline void mpib_count(_Atomic uint64_t *n, uint64_t by)
{
	atomic_fetch_add_explicit(n, by, memory_order_relaxed);
}

/* r is about to be submitted: have it watched if the connection is armed. */
void mpib_report_ask(struct mpib_conn *conn, struct mpib_request *r);
/* r was submitted. */
void mpib_report_asked(struct mpib_conn *conn, struct mpib_request *r);
/* r could not be submitted, or has completed. */
void mpib_report_drop(struct mpib_request *r);
/* r is tested; over: r has completed, so this is the last test. */
void mpib_report_look(struct mpib_conn *conn, struct mpib_request *r,
		      bool over);

#endif
