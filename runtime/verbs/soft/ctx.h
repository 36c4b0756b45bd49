/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A context of the software HCA: its lock, its turn, and all its objects.
 *
 * Locking. ctx->lock protects everything in a context except four things:
 *  - The send queue: post_send fills a WQE and publishes it to the turn by a
 *    release of sq_tail.
 *  - Receive queues: the poster publishes WQEs by a release of `tail`, and the
 *    turn frees entries by a release of `head`.
 *  - Completion queues: the holder of ctx->lock produces, and poll_cq consumes.
 *  - ctx->bell, a lock-free stack of QPs that have been posted to.
 * Control verbs wait for the lock. Without threaded mode, soft_turn() only
 * tries to take the lock: if another thread holds the lock, the work is left
 * undone. So soft_unlock() kicks the sleepers.
 *
 * Between turns no operation is in the kernel, because all reads and writes of
 * sockets are nonblocking. So while a thread holds ctx->lock and makes no turn,
 * nothing accesses the memory of an MR. dereg_mr needs no other fence.
 */
#ifndef MPIB_VERBS_SOFT_CTX_H
#define MPIB_VERBS_SOFT_CTX_H

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/bell.h"
#include "base/clock.h"
#include "base/xalloc.h"
#include "verbs/soft/mr.h"
#include "verbs/soft/soft.h"

/* Asynchronous events: ibv_get_async_event() of the software HCA. */

struct soft_ctx;

/* Events of one object; each event type is pending at most once. */
struct soft_events {
	TAILQ_ENTRY(soft_events) link;
	uint32_t pending; /* 1 << enum ibv_event_type */
	uint32_t taken, acked;
	void *element; /* ibv_qp, ibv_cq or ibv_srq; NULL: port or device */
};
TAILQ_HEAD(soft_event_list, soft_events);

int soft_get_async_event(struct ibv_context *c, struct ibv_async_event *out);
void soft_ack_async_event(struct ibv_async_event *ev);
/* Raise an event. The caller holds ctx->lock. */
void soft_event(struct soft_ctx *ctx, struct soft_events *ev,
		enum ibv_event_type type);
void soft_port_event(struct soft_ctx *ctx);
/* Remove n events from fd, a semaphore that counts events. Waiting threads may
 * have read some of the events already, without having handled them yet. Return
 * the number of these events. */
unsigned soft_uncount(int fd, unsigned n);
/* Call this before the object is destroyed. Drop its pending events, and block
 * until all delivered events are acked. */
void soft_events_drain(struct soft_ctx *ctx, struct soft_events *ev);

#define SOFT_MS 1000000ull

struct soft_channel;
struct soft_conn;
struct soft_cq;
struct soft_engine;
struct soft_op;
struct soft_qp;
struct soft_qp_slot;
struct soft_uring;

TAILQ_HEAD(soft_qp_list, soft_qp);
TAILQ_HEAD(soft_conn_list, soft_conn);

struct soft_ctx {
	struct verbs_context vctx;
	struct ibv_device dev;
	struct in_addr addr;
	union ibv_gid gid;
	/* speed of the rail's interface when the context was opened */
	uint64_t speed_mbps;
	struct mpib_soft_limits limits;
	uint16_t port_base;
	uint8_t slot;
	int listen_fd;

	pthread_mutex_t lock;
	bool threaded;
	_Atomic int stop;
	pthread_t thread;
	int sleep_fd; /* the thread's epoll set, like a channel's fd */
	/* number of threads that wait for `lock`; threads that wait to make a
	 * turn do not count */
	_Atomic int waiters;
	_Atomic int polled; /* threaded mode: a polling thread makes turns */
	/* number of consecutive polls that found nothing */
	unsigned empty_polls;
	/* number of armed CQs, and of threads that sleep or are about to
	 * sleep */
	_Atomic int sleepers;
	struct mpib_bell kick;
	int timer_fd;
	uint64_t timer_set;

	const struct soft_engine *engine;
	struct soft_uring *uring;
	int epoll_fd;
	bool accept_ready, listen_watched;
	/* time in ns of the next try of accept(); 0: not set */
	uint64_t accept_at;
	/* state of the rate limit on accept(), see mpib_rate_wait() */
	uint64_t accept_paid;
	bool told; /* a socket became readable in this turn */
	struct soft_conn_list to_watch;
	/* number of all operations in this turn, and number of reads */
	unsigned nops, nreads;
	struct soft_op *ops;

	uint64_t turn;
	/* For wire/soft_conn.c. */
	bool shared; /* several domains share the thread in this turn */
	bool rest; /* busy domains wait for a later turn */
	uint32_t most; /* maximum bytes of an operation */
	/* the thread's turn counter (`mine.turns` in wire/soft_conn.c) at the
	 * last large operation */
	uint64_t much_at;
	/* for now this turn serves only light domains */
	bool little;
	/* last turn in which busy domains waited */
	uint64_t gave_way;
	/* The PD served last; NULL: no PD, or a destroyed one. */
	const struct soft_pd *served;
	_Atomic(struct soft_qp *) bell;
	struct soft_conn_list ready, idle, dead;
	uint64_t idle_min;
	struct soft_qp_list loop_ready, timers;
	uint64_t timer_min;
	unsigned ntimers;
	struct soft_conn **conn_tab;
	uint32_t conn_size, conn_hint, conn_gen, nembryos;

	struct soft_qp_slot *qps;
	uint32_t qp_hint, nqps, lives;
	unsigned npds, nmrs, ncqs, nsrqs, nchannels;
	struct soft_mr_table mrs;
	LIST_HEAD(, soft_channel) channels;

	pthread_mutex_t ev_lock;
	pthread_cond_t ev_cond;
	struct soft_event_list events;
	/* Number of stray events: threads read them from async_fd, but the
	 * object was destroyed before the threads handled them. */
	unsigned stray_counts;
	unsigned event_waiters; /* threads in soft_get_async_event() */
	uint32_t port_toggles; /* number of port events not delivered yet */
	/* the last port event that was delivered is PORT_ERR */
	bool port_told_down;
	struct soft_events port_ev, gone_ev;
	_Atomic int gone; /* the device is lost for good, see fault.c */

	struct mpib_soft_fault fault;
	/* For fault.c: the time to read the device's file again (0: never), and
	 * the text of the file. */
	uint64_t faults_at;
	char fault_text[128];
	bool paused;
	uint64_t rng, rate_at;
	unsigned ntx; /* number of connections with bytes to send */
};

static inline struct soft_ctx *to_ctx(struct ibv_context *c)
{
	return container_of(c, struct soft_ctx, vctx.context);
}

/* soft_device.c */
void soft_lock(struct soft_ctx *ctx);
void soft_unlock(struct soft_ctx *ctx);

/* turn.c */
int soft_turn(struct soft_ctx *ctx);
/* The caller holds ctx->lock. */
int soft_turn_locked(struct soft_ctx *ctx);
/* Wake the sleepers of ctx, so that one makes a turn. */
void soft_kick(struct soft_ctx *ctx);
/* Ensure that the next turn processes qp, because WRs were posted to it. */
void soft_bell(struct soft_qp *qp);
void soft_bells_drain(struct soft_ctx *ctx);
/* Call this after one of qp's times (`conn_at` to `die_at`) has changed. */
void soft_timer_update(struct soft_qp *qp);
/* Add the fds that wake a sleeper of ctx to epoll set epfd. */
void soft_sleep_fds(struct soft_ctx *ctx, int epfd);

/* soft_thread.c: threaded mode. */
int soft_thread_start(struct soft_ctx *ctx);
void soft_thread_stop(struct soft_ctx *ctx);
/* Take or release ctx->lock around a post. */
void soft_data_lock(struct soft_ctx *ctx);
void soft_data_unlock(struct soft_ctx *ctx);
/* Call this after a poll found cq empty. Make a turn, unless another thread
 * makes one or the engine allows only the context's thread to make turns.
 * Return whether the turn moved data. */
bool soft_poll_turn(struct soft_ctx *ctx, struct soft_cq *cq);

/* fault.c */
/* Read the device's faults at open. Return -ENODEV if the device is gone. */
int soft_faults_begin(struct soft_ctx *ctx);
/* Read the device's faults again. The caller holds ctx->lock. */
void soft_faults_look(struct soft_ctx *ctx, uint64_t now);
/* Mark the device as lost for good. The caller holds ctx->lock. */
void soft_die(struct soft_ctx *ctx);

/* Return whether the engine must start to watch the port. The engine stops
 * watching when the next connection arrives. */
static inline bool soft_must_listen(const struct soft_ctx *ctx)
{
	return !ctx->listen_watched && !ctx->accept_ready && !ctx->accept_at;
}

static inline bool soft_is_gone(struct soft_ctx *ctx)
{
	/* Acquire pairs with the release in soft_die(). */
	return atomic_load_explicit(&ctx->gone, memory_order_acquire);
}

/* Return whether a fault delays messages of qp (fault.delay_turns,
 * fault.delay_ns). */
bool soft_fault_slow(struct soft_qp *qp);
/* Return whether the delay prevents qp from starting another message in this
 * turn. */
bool soft_fault_hold(struct soft_qp *qp);

#endif
