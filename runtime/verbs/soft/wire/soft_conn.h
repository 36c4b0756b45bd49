/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TCP connection (conn) of a QP pair, its received and sent bytes, and the
 * I/O engines that move them. All of it runs under ctx->lock, mostly in a turn.
 */
#ifndef MPIB_VERBS_SOFT_CONN_H
#define MPIB_VERBS_SOFT_CONN_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "verbs/soft/wire/soft_wire.h"

#define SOFT_OPS 64 /* socket operations of one turn */
#define SOFT_OP_IOV 64
#define SOFT_OP_ITEMS 24
#define SOFT_OP_BYTES (4u << 20)
/* maximum bytes of an operation in a turn that several domains share */
#define SOFT_SHARED_BYTES (96u << 10)
/* maximum bytes of an operation in a turn while a light domain is active
 * (soft_conn.c) */
#define SOFT_LITTLE_BYTES (80u << 10)
#define SOFT_AHEAD 524288 /* maximum bytes read in one operation */
/* while long messages arrive: maximum bytes read beyond the current message */
#define SOFT_LEAD 16384
/* maximum bytes kept for the next read (an incomplete header) */
#define SOFT_KEEP 128
#define SOFT_SMALL 4096 /* longest message, in bytes, whose ack may wait */
/* Limits of accepted connections without a hello, in total and from one
 * address. */
#define SOFT_MAX_EMBRYOS 256
#define SOFT_MAX_EMBRYOS_OF_ONE 64
/* Limits for accepting: the number of connections in one turn, the number in a
 * burst, and the time in ns per connection after a burst. */
#define SOFT_ACCEPTS_A_TURN 4
#define SOFT_ACCEPTS_AT_ONCE 256
#define SOFT_ACCEPT_EVERY 250000ull

struct soft_ctx;
struct soft_pd;
struct soft_qp;

enum soft_item_kind {
	SOFT_ITEM_CTL,
	SOFT_ITEM_RESP,
	SOFT_ITEM_WQE
};

/* One segment of a message that is being sent on the socket. */
struct soft_item {
	uint8_t hdr[SOFT_HDR_LEN];
	enum soft_item_kind kind;
	uint8_t op;
	uint32_t idx; /* WQE */
	uint32_t ack;
	uint32_t off, len; /* this segment's range of the payload */
};

enum soft_conn_state {
	SOFT_CONN_ASKING, /* connects, sends its hello, waits for the answer */
	SOFT_CONN_ASKED, /* accepted, waits for the hello; has no QP yet */
	SOFT_CONN_UP,
	/* has no QP any more; sends its last bytes, then waits until the peer
	 * closes */
	SOFT_CONN_LINGER,
	SOFT_CONN_DEAD, /* closed; freed by the next turn */
};

struct soft_conn {
	struct soft_ctx *ctx;
	struct soft_qp *qp;
	int fd;
	uint32_t from; /* IPv4 of the peer, if accepted */
	uint32_t id, gen;
	enum soft_conn_state state;
	bool queued, to_watch, watched;
	bool rx_ready, tx_work, tx_blocked;
	uint8_t events; /* SOFT_EV_* from the engine that are not handled yet */
	/* the peer has closed the connection; some bytes may be unread */
	bool ended;
	bool greeted; /* state ASKING: the hello was sent */
	/* soft_stream.c: long messages arrive, so read at most the beginning of
	 * the next message. */
	bool led;
	bool indirect; /* soft_stream.c: reading into place has failed once */
	/* State UP: the QP that sent the hello may be gone. Only the QP's next
	 * bytes will show that it still exists. */
	bool unsure;
	struct soft_item cur; /* the segment that is partly sent */
	uint32_t cur_off; /* bytes of `cur` that were sent */
	/* send one segment at a time: some source memory is gone */
	bool singly;
	/* `cur_stale`: the WQE of `cur` will be sent again anyway */
	bool has_cur, cur_stale;
	/* number of parsed bytes and of all bytes in `in` */
	uint32_t rpos, rlen;
	uint8_t *last; /* last bytes to send in LINGER; NULL: all were sent */
	uint32_t last_len, last_off;
	uint64_t expires; /* time limit, in all states but UP and DEAD */
	TAILQ_ENTRY(soft_conn) ready_link;
	/* on ctx->idle if `expires` is set, or on ctx->dead */
	TAILQ_ENTRY(soft_conn) idle_link;
	TAILQ_ENTRY(soft_conn) watch_link; /* on ctx->to_watch */
	uint8_t *in; /* bytes read; valid only in soft_stream_rx_done() */
	uint8_t kept[SOFT_KEEP];
};

#define SOFT_EV_IN 1
#define SOFT_EV_OUT 2
#define SOFT_EV_END 4 /* with SOFT_EV_IN: the peer has closed its direction */

/* One recvmsg or sendmsg of this turn. */
struct soft_op {
	struct soft_conn *conn;
	bool tx;
	int res;
	size_t asked;
	uint8_t *ahead; /* SOFT_AHEAD bytes */
	/* Destination of the message's first byte if read into place; else
	 * NULL. */
	uint8_t *direct;
	struct msghdr msg;
	struct iovec iov[SOFT_OP_IOV];
	unsigned nitems;
	struct soft_item items[SOFT_OP_ITEMS];
};

struct soft_engine {
	const char *name;
	/* Different threads may call run(), one after another, at no extra
	 * cost. */
	bool shared;
	int (*open)(struct soft_ctx *ctx);
	void (*close)(struct soft_ctx *ctx);
	/* The fd that a sleeper polls; run() may change it. */
	int (*fd)(struct soft_ctx *ctx);
	/*
	 * Watch the conns on ctx->to_watch, execute ctx->ops, and set
	 * conn->events and ctx->accept_ready. Never waits.
	 */
	void (*run)(struct soft_ctx *ctx);
	/* Stop watching a closed conn. Return false if this is not possible
	 * yet: call again later. */
	bool (*forget)(struct soft_ctx *ctx, struct soft_conn *conn);
};

extern const struct soft_engine soft_engine_uring;
extern const struct soft_engine soft_engine_epoll;
/* Execute each of ctx->ops by its own system call. */
void soft_ops_run(struct soft_ctx *ctx);

/* soft_stream.c: receiving on a socket; send.c: sending. */
/* Any thread, before the first turn of a context. */
int soft_stream_init(void);
bool soft_stream_rx_prep(struct soft_conn *conn, struct soft_op *op);
void soft_stream_rx_done(struct soft_conn *conn, struct soft_op *op);
bool soft_stream_tx_prep(struct soft_conn *conn, struct soft_op *op);
/* Set conn->last to the rest of a partly sent segment and a BYE. */
void soft_stream_last_words(struct soft_conn *conn);
void soft_stream_tx_done(struct soft_conn *conn, struct soft_op *op);

/* soft_conn.c */
/* Begin a turn: determine whether domains share it. */
void soft_share_begin(struct soft_ctx *ctx);
/* Return whether conn must wait for a later turn, because other domains share
 * this turn. */
bool soft_share_over(const struct soft_conn *conn);
/* Return whether busy domains may have to wait for the next turn. Busy domains
 * never wait in two consecutive turns. */
bool soft_share_may_give_way(const struct soft_ctx *ctx);
/* If a light domain was served in this turn, record this, and return true: busy
 * domains must wait for the next turn. */
bool soft_share_gives_way(struct soft_ctx *ctx);
/* Record that a socket of a QP of pd was served in this turn. */
void soft_share_take(struct soft_ctx *ctx, struct soft_pd *pd);
/* Account for each domain's bytes, after the operations of the turn are
 * complete. */
void soft_share_pay(const struct soft_ctx *ctx);

/* soft_conn.c: connections, from creation to close. */
struct soft_conn *soft_conn_new(struct soft_ctx *ctx, int fd,
				enum soft_conn_state state);
struct soft_conn *soft_conn_find(struct soft_ctx *ctx, uint32_t id,
				 uint32_t gen);
/* Put conn on ctx->ready, for the next turn. */
void soft_conn_ready(struct soft_conn *conn);
void soft_conn_watch(struct soft_conn *conn);
/* Record that qp has something to send. */
void soft_conn_work(struct soft_qp *qp);
/* Record whether the connection has bytes to send. */
void soft_conn_tx_work(struct soft_conn *conn, bool work);
/* Close conn because its socket is dead, and let its QP connect again. */
void soft_conn_lost(struct soft_conn *conn);
/* Close conn because the peer is gone for good or breaks the protocol. Never
 * connect its QP again. */
void soft_conn_over(struct soft_conn *conn);
/* Detach qp from its connection, which then lingers or is closed. */
void soft_conn_leave(struct soft_qp *qp);
/* Send more of conn->last, in state LINGER. */
void soft_conn_say(struct soft_conn *conn);
/* Clear conn's expiry. */
void soft_conn_leave_idle(struct soft_conn *conn);
void soft_conn_close(struct soft_conn *conn);
void soft_conn_reap(struct soft_ctx *ctx);
/* Call before accepting another connection from this address. If too many
 * connections from this address have sent no hello, close the oldest of them.
 * Otherwise, if too many connections from all addresses have sent no hello,
 * close the oldest of all. So silent connections do not block callers that send
 * their hello immediately. */
void soft_conn_make_room(struct soft_ctx *ctx, uint32_t from);
void soft_conn_expire(struct soft_ctx *ctx, uint64_t now);

/* soft_hello.c: accepting, and the exchange of hellos */
int soft_listen(struct soft_ctx *ctx);
/* Accept a few connections, or set accept_at, after the port became
 * readable. */
void soft_accept(struct soft_ctx *ctx);

/* Handle qp's timers die_at and conn_at: end qp, or connect. */
void soft_dial(struct soft_qp *qp, uint64_t now);
void soft_dial_later(struct soft_qp *qp);
/* Dial again after the connection of qp broke, if qp is the side that dials. */
void soft_dial_again(struct soft_qp *qp);
/* Send or receive the hello on a conn that is not UP yet. */
void soft_hello_send(struct soft_conn *conn);
void soft_hello_recv(struct soft_conn *conn);
bool soft_peer_matches(struct soft_qp *qp, const struct soft_hello *h);
void soft_hello_of(struct soft_qp *qp, struct soft_hello *h);

#endif
