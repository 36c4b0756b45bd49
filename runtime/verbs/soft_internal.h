/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the software HCA.
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
#ifndef MPIB_VERBS_SOFT_INTERNAL_H
#define MPIB_VERBS_SOFT_INTERNAL_H

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "verbs/soft.h"
#include "verbs/soft_wire.h"
#include "verbs/verbs.h"

#define SOFT_MAX_SGE 30
#define SOFT_MAX_WR 32768
#define SOFT_MAX_CQE (1 << 22)
#define SOFT_MAX_INLINE 256
#define SOFT_MAX_RD 16
#define SOFT_NQP 65536
#define SOFT_MAX_MR (1u << 20)
#define SOFT_OPS 64 /* socket operations of one turn */
#define SOFT_OP_IOV 64
#define SOFT_OP_ITEMS 24
#define SOFT_OP_BYTES (4u << 20)
#define SOFT_RBUF 4096
#define SOFT_SCRATCH 65536
#define SOFT_TAIL 64 /* of a message of any size, written upwards */
#define SOFT_MAX_EMBRYOS 256
#define SOFT_MS 1000000ull

struct soft_ctx;
struct soft_qp;
struct soft_conn;

/* Asynchronous events of one object: each type waits at most once. */
struct soft_events {
	TAILQ_ENTRY(soft_events) link;
	uint32_t pending; /* 1 << enum ibv_event_type */
	uint32_t taken, acked;
	void *element; /* ibv_qp, ibv_cq or ibv_srq; NULL: the port */
};
TAILQ_HEAD(soft_event_list, soft_events);

struct soft_pd {
	struct ibv_pd ibv;
	unsigned refs;
};

struct soft_mr {
	struct ibv_mr ibv;
	uint64_t iova;
	uint8_t *host;
	int access;
	uint32_t idx, gen;
	void *map; /* of a dma-buf stand-in */
	size_t map_len;
};

struct soft_mr_table {
	struct soft_mr **slot;
	uint16_t *gen;
	uint32_t size, hint;
	uint32_t lsecret, rsecret;
};

struct soft_channel {
	struct ibv_comp_channel ibv; /* fd is an epoll set of the four */
	int event_fd;
	pthread_mutex_t lock;
	TAILQ_HEAD(, soft_cq) queue; /* CQs with events to deliver */
	LIST_ENTRY(soft_channel) link;
};

struct soft_cqe {
	struct ibv_wc wc;
	uint32_t sq_done; /* with of_sq: the send queue is free up to here */
	bool of_sq;
	uint64_t ns; /* when it was made, if the CQ is stamped */
};

struct soft_cq {
	union {
		struct ibv_cq ibv;
		struct mpib_soft_cq_ex x;
	};
	uint32_t mask;
	_Atomic uint32_t head, tail;
	struct soft_cqe *ring;
	pthread_mutex_t poll_lock; /* the consumer's, in threaded mode */
	_Atomic int armed; /* 0, 1: any, 2: solicited only */
	bool overrun, stamped;
	unsigned refs;
	TAILQ_ENTRY(soft_cq) ch_link;
	uint32_t ch_pending, ch_taken; /* under the channel's lock */
	struct soft_events ev;
};

struct soft_rwqe {
	uint64_t wr_id;
	uint32_t nsge;
};

struct soft_rwq {
	uint32_t mask, max_sge;
	_Atomic uint32_t head, tail;
	struct soft_rwqe *wqe;
	struct ibv_sge *sge;
};

struct soft_srq {
	struct ibv_srq ibv;
	struct soft_rwq rq;
	uint32_t limit;
	unsigned refs;
	struct soft_events ev;
};

struct soft_swqe {
	uint64_t wr_id, raddr;
	uint32_t rkey, imm, len, nsge;
	uint8_t op; /* enum soft_wire_op */
	uint8_t wc_op; /* enum ibv_wc_opcode */
	uint8_t status; /* enum ibv_wc_status found before it was sent */
	bool signaled, solicited, fence, is_inline, done;
	bool counted; /* by soft_fault_drops() */
};

/* Where the payload that is arriving goes. */
enum soft_place {
	SOFT_PLACE_NONE, /* between messages */
	SOFT_PLACE_RKEY,
	SOFT_PLACE_RECV, /* the receive WQE in qp->recv */
	SOFT_PLACE_READ, /* the SGEs of the send WQE read_idx */
	SOFT_PLACE_DROP,
};

struct soft_qp {
	union {
		struct ibv_qp ibv;
		struct mpib_soft_qp_ex x;
	};
	struct soft_ctx *ctx;
	struct soft_pd *pd;
	struct soft_cq *scq, *rcq;
	struct soft_srq *srq;
	struct ibv_qp_cap cap;
	bool sig_all;
	_Atomic int state; /* enum ibv_qp_state */
	struct ibv_qp_attr attr;
	unsigned mask_seen; /* of attr */

	/* Requester. Indices run free; msn = index - sq_base. */
	struct soft_swqe *swqe;
	struct ibv_sge *ssge;
	uint8_t *sinline;
	uint32_t sq_mask;
	_Atomic uint32_t sq_tail; /* post_send -> turn */
	uint32_t sq_next; /* first not sent whole */
	uint32_t sq_una; /* first not completed */
	uint32_t sq_acked;
	uint32_t sq_base;
	uint32_t rd_idx, reads_out;
	uint8_t rnr_tries;
	bool rnr_wait;
	uint64_t progress; /* counts whatever the peer lets us do */
	uint64_t ack_mark; /* progress when ack_at was set */
	uint64_t ack_since, ack_turn;

	/* Responder. */
	struct soft_rwq rq;
	uint32_t rx_msn; /* next request expected, and our ack */
	uint32_t ack_sent;
	enum soft_place place;
	struct soft_hdr rx;
	uint32_t rx_off;
	bool has_recv;
	uint64_t recv_wr_id;
	uint32_t recv_nsge;
	struct ibv_sge recv_sge[SOFT_MAX_SGE];
	uint8_t nak; /* enum soft_nak or 0, to send for rx_msn */
	bool rnr; /* to send for rx_msn */
	bool dying; /* error as soon as the NAK has left */
	struct soft_hdr resp[SOFT_MAX_RD]; /* READs to answer */
	uint32_t resp_head, resp_tail;

	/* The way to the peer. */
	struct in_addr peer_addr;
	bool loop, was_up;
	struct soft_conn *conn;
	bool ready; /* on ctx->loop_ready */
	TAILQ_ENTRY(soft_qp) ready_link;
	_Atomic int belled;
	struct soft_qp *bell_next;
	uint64_t hold_until; /* turn */
	uint64_t conn_backoff;

	/* 0: not set. On ctx->timers when any is. */
	uint64_t conn_at, rnr_at, ack_at;
	bool timed;
	TAILQ_ENTRY(soft_qp) timer_link;

	struct soft_events ev;
	uint32_t idx;
};
TAILQ_HEAD(soft_qp_list, soft_qp);

struct soft_qp_slot {
	struct soft_qp *qp; /* under ctx->lock */
	/* qpn << 32 | sq_done. poll_cq moves it forward, post_send reads. */
	_Atomic uint64_t sq_done;
};

enum soft_item_kind {
	SOFT_ITEM_CTL,
	SOFT_ITEM_RESP,
	SOFT_ITEM_WQE
};

/* One message on its way into the socket. */
struct soft_item {
	uint8_t hdr[SOFT_HDR_LEN];
	enum soft_item_kind kind;
	uint8_t op;
	uint32_t idx; /* WQE */
	uint32_t ack;
	uint32_t len; /* of the payload */
};

enum soft_conn_state {
	SOFT_CONN_ASKING, /* connects, sends its hello, awaits the answer */
	SOFT_CONN_ASKED, /* accepted, awaits the hello; has no QP yet */
	SOFT_CONN_UP,
	SOFT_CONN_LINGER, /* has no QP any more; waits for the peer's end */
	SOFT_CONN_DEAD, /* closed; freed by the next turn */
};

struct soft_conn {
	struct soft_ctx *ctx;
	struct soft_qp *qp;
	int fd;
	uint32_t id, gen;
	enum soft_conn_state state;
	bool queued, to_watch, watched;
	bool rx_ready, tx_work, tx_blocked;
	uint8_t events; /* seen by the engine, not yet applied */
	bool greeted; /* the hello of an ASKING one has left */
	struct soft_item cur; /* partly sent */
	uint32_t cur_off;
	bool has_cur, cur_stale;
	uint32_t rpos, rlen;
	uint64_t expires; /* of ASKED and LINGER */
	TAILQ_ENTRY(soft_conn) ready_link;
	TAILQ_ENTRY(soft_conn) idle_link; /* ASKED, LINGER; DEAD */
	TAILQ_ENTRY(soft_conn) watch_link; /* to be given to the engine */
	uint8_t rbuf[SOFT_RBUF];
};
TAILQ_HEAD(soft_conn_list, soft_conn);

#define SOFT_EV_IN 1
#define SOFT_EV_OUT 2

/* One recvmsg or sendmsg of this turn. */
struct soft_op {
	struct soft_conn *conn;
	bool tx;
	int res;
	size_t asked;
	struct msghdr msg;
	struct iovec iov[SOFT_OP_IOV];
	unsigned nitems;
	struct soft_item items[SOFT_OP_ITEMS];
};

struct soft_engine {
	const char *name;
	/* Threads may take turns at it and find nothing dearer for that. */
	bool shared;
	int (*open)(struct soft_ctx *ctx);
	void (*close)(struct soft_ctx *ctx);
	/* The fd a sleeper polls; may change after run(). */
	int (*fd)(struct soft_ctx *ctx);
	/*
	 * Watch what is on ctx->to_watch, execute ctx->ops, collect readiness
	 * into conn->events and ctx->accept_ready. Never waits.
	 */
	void (*run)(struct soft_ctx *ctx);
	/* Stop watching a closed conn. False: not now, ask again. */
	bool (*forget)(struct soft_ctx *ctx, struct soft_conn *conn);
};

extern const struct soft_engine soft_engine_uring;
extern const struct soft_engine soft_engine_epoll;

struct soft_uring;

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
	_Atomic int kicked;
	int kick_fd, timer_fd;
	uint64_t timer_set;

	const struct soft_engine *engine;
	struct soft_uring *uring;
	int epoll_fd;
	bool accept_ready, listen_watched;
	bool told; /* of a readable socket, in this turn */
	struct soft_conn_list to_watch;
	unsigned nops;
	struct soft_op *ops;
	uint8_t *scratch;

	uint64_t turn;
	_Atomic(struct soft_qp *) bell;
	struct soft_conn_list ready, idle, dead;
	uint64_t idle_min;
	struct soft_qp_list loop_ready, timers;
	uint64_t timer_min;
	unsigned ntimers;
	struct soft_conn **conn_tab;
	uint32_t conn_size, conn_hint, conn_gen, nembryos;

	struct soft_qp_slot *qps;
	uint32_t qp_hint, nqps;
	unsigned npds, nmrs, ncqs, nsrqs, nchannels;
	struct soft_mr_table mrs;
	LIST_HEAD(, soft_channel) channels;

	pthread_mutex_t ev_lock;
	pthread_cond_t ev_cond;
	struct soft_event_list events;
	uint32_t port_toggles; /* events of the port not yet taken */
	bool port_told_down; /* what the last taken event said */
	struct soft_events port_ev;

	struct mpib_soft_fault fault;
	bool paused;
	uint64_t rng, rate_at;
};

static inline struct soft_ctx *to_ctx(struct ibv_context *c)
{
	return (struct soft_ctx *)((char *)c -
				   offsetof(struct soft_ctx, vctx.context));
}

static inline struct soft_qp *to_qp(struct ibv_qp *q)
{
	return (struct soft_qp *)q;
}

static inline struct soft_cq *to_cq(struct ibv_cq *q)
{
	return (struct soft_cq *)q;
}

static inline struct soft_srq *to_srq(struct ibv_srq *q)
{
	return (struct soft_srq *)q;
}

static inline struct soft_pd *to_pd(struct ibv_pd *p)
{
	return (struct soft_pd *)p;
}

static inline int qp_state(struct soft_qp *qp)
{
	/* Acquire pairs with the release in soft_qp_set_state(). */
	return atomic_load_explicit(&qp->state, memory_order_acquire);
}

/* soft_device.c */
void soft_lock(struct soft_ctx *ctx);
void soft_unlock(struct soft_ctx *ctx);

/* soft_event.c */
int soft_get_async_event(struct ibv_context *c, struct ibv_async_event *ev);
void soft_ack_async_event(struct ibv_async_event *ev);
/* Any holder of ctx->lock. */
void soft_event(struct soft_ctx *ctx, struct soft_events *ev,
		enum ibv_event_type type);
void soft_port_event(struct soft_ctx *ctx);
/* Drop what waits; wait until all that was taken is acked. */
void soft_events_drain(struct soft_ctx *ctx, struct soft_events *ev);

/* soft_turn.c */
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

/* soft_thread.c: threaded mode. */
int soft_thread_start(struct soft_ctx *ctx);
void soft_thread_stop(struct soft_ctx *ctx);
/* Around posts. */
void soft_data_lock(struct soft_ctx *ctx);
void soft_data_unlock(struct soft_ctx *ctx);
/* cq is empty: make a turn, unless others see to it. True: things moved. */
bool soft_poll_turn(struct soft_ctx *ctx, struct soft_cq *cq);

/* soft_mr.c */
int soft_mr_table_init(struct soft_mr_table *t);
void soft_mr_table_free(struct soft_mr_table *t);
int soft_alloc_pd(struct ibv_context *c, struct ibv_pd **pd);
int soft_dealloc_pd(struct ibv_pd *pd);
int soft_reg_mr(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
		int access, struct ibv_mr **mr);
int soft_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t len,
		       uint64_t iova, int fd, int access, struct ibv_mr **mr);
int soft_dereg_mr(struct ibv_mr *mr);
/* NULL unless all of [addr, addr + len) may be accessed so. */
uint8_t *soft_mr_remote(struct soft_ctx *ctx, struct soft_pd *pd, uint32_t rkey,
			uint64_t addr, uint64_t len, int access);
/*
 * The pieces of an SGE list from byte off on, at most len bytes and max
 * pieces. Returns how many, or -EACCES when a piece is not ours to use.
 */
int soft_sge_iov(struct soft_qp *qp, const struct ibv_sge *sge, uint32_t nsge,
		 uint64_t off, uint64_t len, int access, struct iovec *iov,
		 int max);
bool soft_sge_valid(struct soft_qp *qp, const struct ibv_sge *sge,
		    uint32_t nsge, int access);

/* soft_iov.c */
/* Take by bytes off the end; how many there were to take. */
size_t soft_iov_trim(struct iovec *iov, int *n, size_t by);

/* soft_cq.c, soft_channel.c */
int soft_create_channel(struct ibv_context *c, struct ibv_comp_channel **ch);
int soft_destroy_channel(struct ibv_comp_channel *ch);
void soft_channel_push(struct soft_channel *ch, struct soft_cq *cq);
void soft_channel_forget(struct soft_channel *ch, struct soft_cq *cq);
int soft_create_cq(struct ibv_context *c, int cqe, void *cq_context,
		   struct ibv_comp_channel *ch, struct ibv_cq **cq);
int soft_destroy_cq(struct ibv_cq *cq);
int soft_get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq,
		      void **cq_context);
void soft_ack_cq_events(struct ibv_cq *cq, unsigned nevents);
int soft_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int soft_req_notify_cq(struct ibv_cq *cq, int solicited_only);
bool soft_disarm_cq(struct ibv_cq *cq);
void soft_cq_send(struct soft_qp *qp, uint32_t idx, enum ibv_wc_status st);
/* Of the receive in qp->recv_wr_id, for the request in qp->rx. */
void soft_cq_recv(struct soft_qp *qp, enum ibv_wc_status st);

/* soft_srq.c */
int soft_rwq_init(struct soft_rwq *rq, uint32_t max_wr, uint32_t max_sge);
void soft_rwq_free(struct soft_rwq *rq);
int soft_rwq_post(struct soft_rwq *rq, struct ibv_recv_wr *wr,
		  struct ibv_recv_wr **bad);
/* Take the next receive for qp into qp->recv_*. False: there is none. */
bool soft_recv_take(struct soft_qp *qp);
int soft_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr,
		    struct ibv_srq **srq);
int soft_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
int soft_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr);
int soft_destroy_srq(struct ibv_srq *srq);
int soft_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
		       struct ibv_recv_wr **bad);
int soft_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
		   struct ibv_recv_wr **bad);

/* soft_qp.c: life; soft_state.c: transitions. */
int soft_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
		   struct ibv_qp **qp);
int soft_destroy_qp(struct ibv_qp *qp);
int soft_query_ece(struct ibv_qp *qp, struct ibv_ece *ece);
int soft_set_ece(struct ibv_qp *qp, const struct ibv_ece *ece);
int soft_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		  struct ibv_qp_init_attr *init);
struct soft_qp *soft_qp_find(struct soft_ctx *ctx, uint32_t qpn);
int soft_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
void soft_qp_set_state(struct soft_qp *qp, int state);
/* To ERR: cut the connection, flush both queues. */
void soft_qp_error(struct soft_qp *qp);
/* Flush what was posted in ERR. */
void soft_qp_flush(struct soft_qp *qp);

/* soft_post.c */
int soft_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		   struct ibv_send_wr **bad);

/* soft_tx.c: the requester. */
static inline struct soft_swqe *soft_swqe(struct soft_qp *qp, uint32_t idx)
{
	return &qp->swqe[idx & qp->sq_mask];
}
static inline uint32_t soft_sq_tail(struct soft_qp *qp)
{
	/* Acquire pairs with the release in post_chain(). */
	return atomic_load_explicit(&qp->sq_tail, memory_order_acquire);
}
/* qp has been posted to. */
void soft_tx_start(struct soft_qp *qp);
/* The peer is gone: what waits fails when its retries are used up. */
void soft_tx_unanswered(struct soft_qp *qp);
/* The WQE at idx if it may be sent now; else NULL. */
struct soft_swqe *soft_tx_next(struct soft_qp *qp, uint32_t idx);
void soft_tx_header(struct soft_qp *qp, uint32_t idx, struct soft_hdr *h);
int soft_tx_iov(struct soft_qp *qp, uint32_t idx, uint64_t off, uint64_t len,
		struct iovec *iov, int max);
void soft_tx_sent(struct soft_qp *qp, uint32_t idx);
/*
 * The peer's word on our requests. False: it lies, or the order of its
 * answers cannot be. Each may end in ERR and cost the QP its connection.
 */
bool soft_tx_ack(struct soft_qp *qp, uint32_t ack);
bool soft_tx_nak(struct soft_qp *qp, uint32_t msn, uint8_t nak);
bool soft_tx_rnr(struct soft_qp *qp, uint32_t msn, uint8_t timer);
/* The READ that must be answered next. False: none waits. */
bool soft_tx_read_awaited(struct soft_qp *qp, uint32_t *idx);
void soft_tx_read_done(struct soft_qp *qp, uint32_t idx);
void soft_tx_complete(struct soft_qp *qp);
/* The oldest WQE fails, the QP goes to ERR. */
void soft_tx_fail(struct soft_qp *qp, enum ibv_wc_status st);
void soft_tx_timers(struct soft_qp *qp, uint64_t now);

/* soft_rx.c: the responder. */
/* The header of a request is in qp->rx: decides qp->place. */
void soft_rx_begin(struct soft_qp *qp);
/* Bytes that follow the header in the stream. */
uint32_t soft_rx_payload(const struct soft_hdr *h);
/* Pieces for the payload from qp->rx_off on; < 0: no longer ours to write. */
int soft_rx_iov(struct soft_qp *qp, struct iovec *iov, int max);
void soft_rx_end(struct soft_qp *qp);
/* rx_iov or the kernel refused: end the request with an error. */
void soft_rx_abort(struct soft_qp *qp);

/* soft_stream.c: a socket's bytes in; soft_send.c: out. */
bool soft_stream_rx_prep(struct soft_conn *conn, struct soft_op *op);
void soft_stream_rx_done(struct soft_conn *conn, struct soft_op *op);
bool soft_stream_tx_prep(struct soft_conn *conn, struct soft_op *op);
void soft_stream_tx_done(struct soft_conn *conn, struct soft_op *op);

/* soft_conn.c: life of a connection; soft_hello.c: how it comes up. */
struct soft_conn *soft_conn_new(struct soft_ctx *ctx, int fd,
				enum soft_conn_state state);
struct soft_conn *soft_conn_find(struct soft_ctx *ctx, uint32_t id,
				 uint32_t gen);
/* Look at conn in the next turn, if it has anything to do. */
void soft_conn_ready(struct soft_conn *conn);
void soft_conn_watch(struct soft_conn *conn);
/* qp has something to send. */
void soft_conn_work(struct soft_qp *qp);
/* The socket is dead: tell the QP and close. */
void soft_conn_lost(struct soft_conn *conn);
/* The QP leaves its connection. */
void soft_conn_leave(struct soft_qp *qp);
void soft_conn_linger(struct soft_conn *conn);
void soft_conn_close(struct soft_conn *conn);
void soft_conn_reap(struct soft_ctx *ctx);
void soft_conn_expire(struct soft_ctx *ctx, uint64_t now);

int soft_listen(struct soft_ctx *ctx);
void soft_accept(struct soft_ctx *ctx);
/* The timer of a QP that is not connected. */
void soft_dial(struct soft_qp *qp, uint64_t now);
void soft_dial_later(struct soft_qp *qp);
/* Bytes, or room for some, have come to a conn that is not UP. */
void soft_hello_send(struct soft_conn *conn);
void soft_hello_recv(struct soft_conn *conn);
bool soft_peer_matches(struct soft_qp *qp, const struct soft_hello *h);
void soft_hello_of(struct soft_qp *qp, struct soft_hello *h);

/* soft_loop.c */
int soft_loop_run(struct soft_qp *qp);

/* soft_fault.c */
/* May qp start another message in this turn? */
bool soft_fault_hold(struct soft_qp *qp);
/* Count one outgoing request. True: it is the one to lose. */
bool soft_fault_drops(struct soft_ctx *ctx);
uint64_t soft_rand(uint64_t *state);

#endif
