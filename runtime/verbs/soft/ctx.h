/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A context of the software HCA: its lock, its turn, what it holds.
 *
 * Locking. ctx->lock guards everything of a context but four things:
 *  - the send queue between sq_tail and what the turn has taken: post_send
 *    fills a WQE and publishes it with a release of sq_tail;
 *  - receive queues: the same with tail, and the turn frees with head;
 *  - completion queues: the holder of ctx->lock produces, poll_cq consumes;
 *  - ctx->bell, a lock-free stack of QPs that have been posted to.
 * A turn only tries the lock. Control verbs wait for it, and leave the turn
 * they may have displaced a kick (soft_unlock).
 *
 * Nothing is in flight in the kernel between turns: sockets are only ever
 * read and written without waiting. So whoever holds ctx->lock knows that no
 * memory of an MR is being touched, and dereg_mr needs no other fence.
 */
#ifndef MPIB_VERBS_SOFT_CTX_H
#define MPIB_VERBS_SOFT_CTX_H

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/bell.h"
#include "base/clock.h"
#include "verbs/soft/event.h"
#include "verbs/soft/mr.h"
#include "verbs/soft/soft.h"

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
TAILQ_HEAD(soft_cq_list, soft_cq);

struct soft_ctx {
	struct verbs_context vctx;
	struct ibv_device dev;
	struct in_addr addr;
	union ibv_gid gid;
	uint16_t port_base;
	uint8_t slot;
	int listen_fd;

	pthread_mutex_t lock;
	bool threaded;
	_Atomic int stop;
	pthread_t thread;
	int sleep_fd; /* an epoll set, as of a channel */
	_Atomic int waiters; /* for the lock, but for those who only turn */
	_Atomic int polled; /* in threaded mode: somebody else turns */
	unsigned empty_polls; /* in a row */
	_Atomic int sleepers; /* armed CQs, and a thread about to sleep */
	struct mpib_bell kick;
	int timer_fd, gone_fd;
	uint64_t timer_set;

	const struct soft_engine *engine;
	struct soft_uring *uring;
	int epoll_fd;
	bool accept_ready, listen_watched;
	uint64_t accept_at; /* 0, or when to try again */
	bool told; /* of a readable socket, in this turn */
	struct soft_conn_list to_watch;
	unsigned nops;
	struct soft_op *ops;
	uint8_t *ahead; /* of each op; few are ever touched */

	uint64_t turn;
	_Atomic(struct soft_qp *) bell;
	struct soft_conn_list ready, idle, dead;
	uint64_t idle_min;
	struct soft_qp_list ack_due; /* in a turn: completed receives */
	struct soft_cq_list held; /* in a turn: not shown yet */
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
	uint32_t port_toggles; /* events of the port not yet taken */
	bool port_told_down; /* what the last taken event said */
	struct soft_events port_ev, gone_ev;
	_Atomic int gone; /* for good, see gone.c */
	bool foreign; /* of a parent process, see fork.c; and gone */
	LIST_ENTRY(soft_ctx) fork_link;

	struct mpib_soft_fault fault;
	bool paused;
	uint64_t rng, rate_at;
	_Atomic uint64_t forgotten; /* fault.forgets */
};

static inline struct soft_ctx *to_ctx(struct ibv_context *c)
{
	return (struct soft_ctx *)((char *)c -
				   offsetof(struct soft_ctx, vctx.context));
}

/* device.c */
void soft_lock(struct soft_ctx *ctx);
void soft_unlock(struct soft_ctx *ctx);

/* turn.c */
int soft_turn(struct soft_ctx *ctx);
/* Under ctx->lock. */
int soft_turn_locked(struct soft_ctx *ctx);
void soft_kick(struct soft_ctx *ctx);
/* As soft_kick(), if anybody sleeps. */
void soft_nudge(struct soft_ctx *ctx);
void soft_bell(struct soft_qp *qp);
void soft_bells_drain(struct soft_ctx *ctx);
/* The timers of qp changed. */
void soft_timer_update(struct soft_qp *qp);
void soft_sleep_fds(struct soft_ctx *ctx, int epfd);

/* thread.c: threaded mode. */
int soft_thread_start(struct soft_ctx *ctx);
void soft_thread_stop(struct soft_ctx *ctx);
/* Around posts. */
void soft_data_lock(struct soft_ctx *ctx);
void soft_data_unlock(struct soft_ctx *ctx);
/* cq is empty: make a turn, unless others see to it. True: things moved. */
bool soft_poll_turn(struct soft_ctx *ctx, struct soft_cq *cq);

/* gone.c */
/* At open: -ENODEV when the device is not there. */
int soft_gone_watch(struct soft_ctx *ctx);
/* Under ctx->lock, both. */
void soft_gone_look(struct soft_ctx *ctx);
void soft_die(struct soft_ctx *ctx);

static inline bool soft_is_gone(struct soft_ctx *ctx)
{
	/* Acquire pairs with the release in soft_die(). */
	return atomic_load_explicit(&ctx->gone, memory_order_acquire);
}

/* fork.c */
/* An open context; before it is freed. */
void soft_fork_add(struct soft_ctx *ctx);
void soft_fork_remove(struct soft_ctx *ctx);

/* fault.c */
/* May qp start another message in this turn? */
bool soft_fault_hold(struct soft_qp *qp);
/* Count one outgoing request. True: it is the one to lose. */
bool soft_fault_drops(struct soft_ctx *ctx);
uint64_t soft_rand(uint64_t *state);

#endif
