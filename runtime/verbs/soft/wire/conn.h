/* SPDX-License-Identifier: Apache-2.0 */
/* The connection of a QP pair, its bytes in and out, and who moves them. */
#ifndef MPIB_VERBS_SOFT_CONN_H
#define MPIB_VERBS_SOFT_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "verbs/soft/wire/wire.h"

#define SOFT_OPS 64 /* socket operations of one turn */
#define SOFT_OP_IOV 64
#define SOFT_OP_ITEMS 24
#define SOFT_OP_BYTES (4u << 20)
#define SOFT_AHEAD 524288 /* read in one operation */
#define SOFT_KEEP 128 /* of it for the next: less than a header or hello */
#define SOFT_SMALL 4096 /* bytes of a message whose ack may wait */
#define SOFT_MAX_EMBRYOS 256

struct soft_ctx;
struct soft_qp;

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
	uint32_t off, len; /* of the payload, this segment */
};

enum soft_conn_state {
	SOFT_CONN_ASKING, /* connects, sends its hello, awaits the answer */
	SOFT_CONN_ASKED, /* accepted, awaits the hello; has no QP yet */
	SOFT_CONN_UP,
	SOFT_CONN_LINGER, /* has no QP any more; says its last words, and waits
			     for the peer's end */
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
	bool ended; /* the peer's end is behind what is not read yet */
	bool greeted; /* the hello of an ASKING one has left */
	struct soft_item cur; /* partly sent */
	uint32_t cur_off;
	bool has_cur, cur_stale;
	uint32_t rpos, rlen;
	uint8_t *last; /* words of LINGER, NULL: all said */
	uint32_t last_len, last_off;
	uint64_t expires; /* of all but UP and DEAD */
	TAILQ_ENTRY(soft_conn) ready_link;
	TAILQ_ENTRY(soft_conn) idle_link; /* as expires; DEAD */
	TAILQ_ENTRY(soft_conn) watch_link; /* to be given to the engine */
	uint8_t *in; /* what was read ahead; only in soft_stream_rx_done() */
	uint8_t kept[SOFT_KEEP];
};

#define SOFT_EV_IN 1
#define SOFT_EV_OUT 2
#define SOFT_EV_END 4 /* with IN: the peer says no more */

/* One recvmsg or sendmsg of this turn. */
struct soft_op {
	struct soft_conn *conn;
	bool tx;
	int res;
	size_t asked;
	uint8_t *ahead; /* SOFT_AHEAD bytes */
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
/* Each of ctx->ops by a system call of its own. */
void soft_ops_run(struct soft_ctx *ctx);

/* stream.c: a socket's bytes in; send.c: out. */
bool soft_stream_rx_prep(struct soft_conn *conn, struct soft_op *op);
void soft_stream_rx_done(struct soft_conn *conn, struct soft_op *op);
bool soft_stream_tx_prep(struct soft_conn *conn, struct soft_op *op);
/* gather.c */
/* Into op, about limit bytes. Returns how many pieces, or -errno when memory that
 * the last item names is not ours to read. */
int soft_stream_gather(struct soft_conn *conn, struct soft_op *op,
		       size_t limit);
/* What is left of a segment that is partly sent, and a BYE: conn->last. */
void soft_stream_last_words(struct soft_conn *conn);
void soft_stream_tx_done(struct soft_conn *conn, struct soft_op *op);

/* conn.c: life of a connection. */
struct soft_conn *soft_conn_new(struct soft_ctx *ctx, int fd,
				enum soft_conn_state state);
struct soft_conn *soft_conn_find(struct soft_ctx *ctx, uint32_t id,
				 uint32_t gen);
/* Look at conn in the next turn, if it has anything to do. */
void soft_conn_ready(struct soft_conn *conn);
void soft_conn_watch(struct soft_conn *conn);
/* qp has something to send. */
void soft_conn_work(struct soft_qp *qp);
/* The socket is dead: close, and let the QP connect again. */
void soft_conn_lost(struct soft_conn *conn);
/* The peer is gone for good, or no honest one: close, and never again. */
void soft_conn_over(struct soft_conn *conn);
/* The QP leaves its connection. */
void soft_conn_leave(struct soft_qp *qp);
void soft_conn_linger(struct soft_conn *conn);
/* One that lingers may send. */
void soft_conn_say(struct soft_conn *conn);
/* It does not expire any more. */
void soft_conn_leave_idle(struct soft_conn *conn);
void soft_conn_close(struct soft_conn *conn);
void soft_conn_reap(struct soft_ctx *ctx);
void soft_conn_expire(struct soft_ctx *ctx, uint64_t now);

/* hello.c: how it comes up. */
int soft_listen(struct soft_ctx *ctx);
void soft_accept(struct soft_ctx *ctx);
/* The timer of a QP that is not connected. */
void soft_dial(struct soft_qp *qp, uint64_t now);
void soft_dial_later(struct soft_qp *qp);
/* The connection of qp broke: the side that dials does so again. */
void soft_dial_again(struct soft_qp *qp);
/* Bytes, or room for some, have come to a conn that is not UP. */
void soft_hello_send(struct soft_conn *conn);
void soft_hello_recv(struct soft_conn *conn);
bool soft_peer_matches(struct soft_qp *qp, const struct soft_hello *h);
void soft_hello_of(struct soft_qp *qp, struct soft_hello *h);

#endif
