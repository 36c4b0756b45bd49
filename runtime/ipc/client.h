/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the client library.
 *
 * A connection's requests are fed to the shard strictly in the order posted:
 * those of registered memory whole, those of ordinary memory part by part
 * through the connection's staging window, a ring of bytes whose parts are
 * taken and given back in that same order.
 */
#ifndef MPIB_IPC_CLIENT_H
#define MPIB_IPC_CLIENT_H

#include <limits.h>
#include <mpib/client.h>
#include <mpib/control.h>
#include <mpib/segment.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "base/memseg.h"

#define MPIB_LOOK_EVERY 64 /* calls in vain before the clock is read */
#define MPIB_WINDOW_MAX (1u << 30)
#define MPIB_PARTS 256 /* staged parts of one connection under way */

/*
 * What the proxy has of an object, embedded in that: how it is taken back. From
 * the object's making on it is either an object's in use, or owed (debt.c).
 */
struct mpib_debt {
	LIST_ENTRY(mpib_debt) link; /* of the client's, while owed */
	uint32_t asked; /* request whose answer will name it; 0: id does */
	uint32_t undo; /* MPIB_CTL_DEREG, CLOSE_LISTEN or CLOSE of id */
	uint32_t id;
	/* Nothing is owed for it any more, or it was never made: the object
	 * may go. Under the lock. */
	void (*paid)(struct mpib_debt *d);
};

/* Memory behind a region handle of the proxy, mapped here. */
struct mpib_pool {
	struct mpib_debt debt; /* first: what is paid is freed */
	LIST_ENTRY(mpib_pool) link;
	struct mpib_memseg seg;
	uint32_t mr;
	uint64_t windows_free; /* a pool carved into windows: bit each */
	bool carved;
	bool staging; /* windows or a window, not mpib_mem_alloc()'s */
};

struct mpib_region {
	struct mpib_debt debt; /* first, of one with own_mr */
	LIST_ENTRY(mpib_region) link;
	struct mpib_client *client;
	char *addr;
	size_t size;
	/* Longest request that needs no copy: 0 for staged memory. */
	size_t direct;
	bool staged;
	bool own_mr; /* from mpib_reg_fd(): ours to deregister */
	uint32_t mr;
	uint64_t off; /* of addr in mr */
	unsigned regs; /* mpib_reg() calls; under the client's lock */
	_Atomic unsigned refs; /* requests that name it */
	/* Copies under way, plus MPIB_REGION_DEAD once deregistered. */
	_Atomic unsigned copying;
};

#define MPIB_REGION_DEAD 0x80000000u

/* A piece of a window, in the order taken. */
struct mpib_staging_chunk {
	uint8_t req;
	uint8_t idx; /* buffer of a grouped receive */
	uint32_t pos, len;
	uint64_t at; /* in the window, running */
};

struct mpib_buffer {
	char *addr;
	struct mpib_region *region;
	uint32_t size;
	int32_t tag;
};

struct mpib_request {
	_Alignas(256) struct mpib_conn *conn;
	struct mpib_request *next; /* on the free list */
	const struct mpib_completion *completion;
	uint8_t plain[4]; /* op, req, idx, n of a request of one buffer */
	/* Odd, and one more each time this slot is used: so the word that its
	 * completion has from before is never this one's, however often other
	 * slots are used meanwhile. */
	uint32_t gen;
	uint8_t n;
	/* Queued behind others, staged or grouped. The rest matters only
	 * then. */
	bool slow;
	bool held; /* its regions are */
	bool feeding; /* something of it is still to be pushed */
	/* A send: it waits for its receive before it takes of the window; and
	 * the proxy has been told of it. */
	bool asks, asked;
	bool cancelled; /* its memory was deregistered under it */
	bool watched; /* reports were asked for */
	uint16_t parts; /* in the window */
	uint32_t pos; /* bytes pushed */
	struct mpib_buffer buf[MPIB_GROUP_MAX];
};

static inline uint8_t mpib_request_index(const struct mpib_request *r)
{
	return r->plain[1];
}

struct mpib_window {
	char *base; /* NULL until first needed */
	uint64_t off; /* of base in its region */
	uint32_t mr;
	uint32_t size;
	uint64_t head, tail; /* running bytes; both 0 when empty */
	struct mpib_staging_chunk part[MPIB_PARTS];
	uint32_t part_head, part_tail;
};

struct mpib_conn {
	struct mpib_client *client;
	/* Parts in the window, requests to feed, and 1 for an error: while it
	 * is not 0 every call takes the slow way. */
	uint32_t work;
	uint32_t first_gen; /* of its requests */
	struct mpib_request *free;
	uint32_t idle; /* tests that found nothing */
	struct mpib_producer ring;
	const struct mpib_reply_conn *reply;
	/* Ours in the submit segment. */
	_Atomic uint64_t *word, *top;
	uint64_t word_bit, top_bit;
	const struct mpib_completion *completion;
	/* 0: usable; -ENOTCONN until ready; else why nothing is pushed or
	 * copied any more, as why says. */
	int error;
	uint32_t index;
	bool is_sender;
	/* Sends have had this tag, or several. */
	bool has_tag, has_tags;
	int32_t tag;
	/* See report.c. Armed, work is one more, so posts take the slow way. */
	enum mpib_report report;
	bool armed;
	mpib_watch_fn *watch;
	void *user;
	/* Requests not wholly pushed, oldest first. */
	uint8_t feed[MPIB_REQUESTS];
	uint32_t feed_head, feed_tail;
	LIST_ENTRY(mpib_conn) link;
	struct mpib_request req[MPIB_REQUESTS];
	struct mpib_window window;
	char why[256];
};

/* What outlives a connection at an index of the tables. */
struct mpib_index {
	struct mpib_debt debt; /* first: while taken */
	bool taken;
	uint64_t tail; /* of its ring */
	uint32_t gen; /* even; no request had a later one */
	/* Its window: held from the first staged use until the next user of
	 * the index, since a closing connection may still be written to. */
	struct mpib_pool *pool;
	uint64_t off;
	uint32_t size;
};

struct mpib_listener {
	struct mpib_debt debt; /* first: what is paid is freed */
	LIST_ENTRY(mpib_listener) link;
	struct mpib_client *client;
};

/* What became of the latest request. */
enum mpib_asked {
	MPIB_ASKED_NOT, /* not sent */
	MPIB_ASKED_LATE, /* sent; its answer is still to come */
	MPIB_ASKED_ANSWERED,
};

struct mpib_client {
	int sock, doorbell;
	unsigned forks; /* process generation that attached */
	/* forks, until the proxy is gone: then MPIB_GONE. One comparison with
	 * mpib_forks tells that all is well. */
	_Atomic unsigned living;
	_Atomic uint64_t looked; /* when the socket was last looked at, ms */
	const struct mpib_status *status;
	const _Atomic uint32_t *sleeping; /* our shard's */
	struct mpib_submit *submit;
	const struct mpib_reply *reply;
	struct mpib_memseg seg[3];
	struct mpib_ctl_welcome welcome;
	uint32_t answer_ms; /* patience with the proxy */
	char path[108];
	pthread_mutex_t lock; /* all below, and the control socket */
	uint32_t next_id;
	enum mpib_asked asked;
	/* It answered nothing for answer_ms, nor since: nobody waits for it
	 * again before it has. */
	bool deaf;
	LIST_HEAD(, mpib_debt) debts;
	LIST_HEAD(, mpib_conn) conns;
	LIST_HEAD(, mpib_listener) listeners;
	LIST_HEAD(, mpib_pool) pools;
	LIST_HEAD(, mpib_region) regions;
	LIST_HEAD(, mpib_region) graves; /* requests may still name them */
	struct mpib_index index[MPIB_CONNS_MAX];
};

/* error.c: remember a sentence for mpib_strerror(), return rc. */
int mpib_fail(int rc, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* As strerror(-rc), safe in any thread. */
const char *mpib_errtext(int rc);

/* attach.c: how often this process is a child of one that used the library. */
extern unsigned mpib_forks __attribute__((visibility("hidden")));
/* No process is as many forks deep. */
#define MPIB_GONE UINT_MAX

/* rpc.c. Monotonic. */
uint64_t mpib_now_ms(void);
/* Until the control socket has events (poll(2)'s). -ETIMEDOUT, -errno. */
int mpib_wait_socket(struct mpib_client *c, short events, uint64_t deadline);
/* Under the lock. The answer replaces what is in *m; its fds are the
 * caller's. -EPIPE: the proxy is gone; -ETIMEDOUT: it does not answer, which
 * is waited for once and not again until it does; -EMFILE: its answer came
 * without the descriptors; or the status of the answer. c->asked says more. */
struct mpib_message;
int mpib_rpc(struct mpib_client *c, struct mpib_ctl_header *h, const int *fd,
	     unsigned fds, struct mpib_message *m, size_t want);
/* Under the lock. Take answers that nobody waits for any more, and pay what can
 * be paid. Never waits. */
void mpib_rpc_settle(struct mpib_client *c);
/* -ETIMEDOUT, with the text. */
int mpib_fail_late(const struct mpib_client *c);

/* debt.c. Under the lock. As mpib_rpc(); d is how to undo what it makes. Where
 * it fails d's object is no longer the caller's: it goes when what may have
 * been made is undone. */
int mpib_rpc_make(struct mpib_client *c, struct mpib_ctl_header *h,
		  const int *fd, unsigned fds, struct mpib_debt *d,
		  struct mpib_message *m, size_t want);
/* Undo it, with the answer or, where none is in time, at once after it; the
 * object goes. -ETIMEDOUT: not undone yet. */
int mpib_rpc_undo(struct mpib_client *c, struct mpib_debt *d);
/* The same without waiting. */
void mpib_rpc_undo_later(struct mpib_client *c, struct mpib_debt *d);
/* m, which loses its descriptors, is an answer nobody waited for. */
void mpib_debt_answered(struct mpib_client *c, struct mpib_message *m);
/* Send what is known to be undone, as far as the socket takes it. */
void mpib_debts_pay(struct mpib_client *c);
/* The proxy has nothing any more. */
void mpib_debts_forget(struct mpib_client *c);

/* 0, or why nothing can be asked: -EPIPE, or -EOWNERDEAD in a forked child. */
int mpib_client_check(struct mpib_client *c);
/* The same as a question, wait-free. Relaxed: the death of the proxy orders
 * nothing, and a later look finds it out just as well. */
static inline bool mpib_client_ok(const struct mpib_client *c)
{
	return atomic_load_explicit(&c->living, memory_order_relaxed) ==
	       mpib_forks;
}
/* Take the lock, unless in a forked child: another thread of the parent may
 * have held it. 0 or -EOWNERDEAD. */
int mpib_client_lock(struct mpib_client *c);
/* Any thread, while waiting: look at the socket if 10 ms have passed. */
int mpib_client_look(struct mpib_client *c);
int mpib_client_look_now(struct mpib_client *c);

/* pool.c. Under the lock. */
int mpib_pool_new(struct mpib_client *c, size_t size, struct mpib_pool **pool);
void mpib_pool_free(struct mpib_pool *pool);
/* Give the index a window of at least size bytes; one that is too small must
 * be out of use and goes back. */
int mpib_window_get(struct mpib_client *c, struct mpib_index *x, uint32_t size);
void mpib_window_put(struct mpib_client *c, struct mpib_index *x);
/* A connection or a region is gone: give back what no window is used of, but
 * for one pool while there may be a use for it. */
void mpib_windows_trim(struct mpib_client *c);

/* region.c: hold a region while a request names it; a staged copy goes between
 * begin (false: deregistered) and end. */
void mpib_regions_ref(struct mpib_request *r);
void mpib_regions_unref(struct mpib_request *r);
bool mpib_region_copy_begin(struct mpib_region *r);
void mpib_region_copy_end(struct mpib_region *r);
bool mpib_region_dead(const struct mpib_region *r);

/* connect.c. Connection's thread: take what has arrived, then never push or
 * copy again. why NULL: the proxy is asked. Returns rc, with the text. */
#define MPIB_BAD_HEAD "the head of the proxy's ring is impossible"
int mpib_conn_fail(struct mpib_conn *conn, int rc, const char *why);
/* 0, or the failure that the shard has published. */
static inline int mpib_conn_broken(const struct mpib_conn *conn)
{
	/* Acquire pairs with the release when the shard breaks the connection: what
	 * it completed before is seen as complete. */
	return atomic_load_explicit(&conn->reply->broken, memory_order_acquire);
}

/* stage.c. Connection's thread. */
/* Let a request wait for its turn, its parts for the window. 0 or -errno. */
int mpib_stage_add(struct mpib_conn *conn, struct mpib_request *r);
/* Empty and refill the window, push what the ring takes. On failure the
 * connection has failed. */
void mpib_stage(struct mpib_conn *conn);
/* Empty the window of what has arrived. */
void mpib_stage_drain(struct mpib_conn *conn);
/* push.c. len bytes at pos of buffer i, which lie at off of the region; the ring
 * has room. */
void mpib_push(struct mpib_conn *conn, const struct mpib_request *r, unsigned i,
	       uint32_t mr, uint64_t off, uint32_t pos, uint32_t len);
/* All of buffer i, registered memory. */
void mpib_push_direct(struct mpib_conn *conn, const struct mpib_request *r,
		      unsigned i);

/* Any thread: several connections share the counters. */
static inline void mpib_count(_Atomic uint64_t *n, uint64_t by)
{
	atomic_fetch_add_explicit(n, by, memory_order_relaxed);
}

/* report.c, connection's thread, on the slow way. Before r is submitted, and
 * when it was. */
void mpib_report_ask(struct mpib_conn *conn, struct mpib_request *r);
void mpib_report_asked(struct mpib_conn *conn, struct mpib_request *r);
/* It was not. */
void mpib_report_drop(struct mpib_request *r);
/* r is tested; over: for the last time. */
void mpib_report_look(struct mpib_conn *conn, struct mpib_request *r,
		      bool over);

/* push.c. Wake the shard. */
int mpib_bell_write(struct mpib_client *c);

/* Wait-free unless the shard sleeps. Tell it that the ring has something.
 * Returns 0, as mpib_bell_write() does. */
static inline int mpib_ring_bell(struct mpib_conn *conn)
{
	struct mpib_client *c = conn->client;

	if (__builtin_expect(mpib_summary_tell(conn->word, conn->word_bit,
					       conn->top, conn->top_bit,
					       c->sleeping),
			     0))
		return mpib_bell_write(c);
	return 0;
}

#endif
