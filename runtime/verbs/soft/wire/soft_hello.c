/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Set-up of a connection. In a pair, the QP with the smaller address connects
 * (dials). If the addresses are equal, the QP with the smaller number dials. So
 * there is never more than one connection. The hello of the dialing QP contains
 * both QP numbers and both first PSNs. The answer says whether the wanted QP
 * exists and is ready to receive. Each hello contains the sending QP's token,
 * which its peer knows. If the wanted QP does not exist, the accepting side
 * answers and keeps no state. The dialing QP asks again until the wanted QP
 * exists, even if it has nothing to send, because the peer may want to send.
 * After the connection breaks, the dialing QP dials again, and both QPs
 * continue where they stopped.
 */
#include "verbs/soft/wire/soft_conn.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include "base/clock.h"
#include "verbs/soft/ctx.h"
#include "verbs/soft/qp.h"
#include "verbs/soft/soft.h"
#include "verbs/soft/wire/rc.h"
#include "verbs/soft/wire/soft_wire.h"

#define BACKOFF_MIN (1 * SOFT_MS)
#define BACKOFF_MAX (64 * SOFT_MS)
#define LOCAL_SNDBUF 524288 /* the kernel doubles it, for its own overhead */

/* Return the socket address for an IPv4 address and a port. */
static struct sockaddr_in soft_address(struct in_addr addr, unsigned port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_addr = addr,
		.sin_port = htons((uint16_t)port),
	};
}

static bool is_local(struct in_addr own, struct in_addr peer)
{
	return own.s_addr == peer.s_addr ||
	       ntohl(peer.s_addr) >> 24 == IN_LOOPBACKNET;
}

/*
 * Set socket options. A peer's kernel may forget the connection, and the TCP
 * reset that it sends may be lost. If this end has nothing to send, only
 * keepalive detects the loss, within a second. Keepalive needs no turns,
 * because the kernel does it.
 *
 * Between two addresses of one machine there is no network to share, so
 * congestion control only costs time (BBR paces by timers). Use reno, which
 * every kernel has and every user may select. Keep the buffer small, too: data
 * that waits in a socket leaves the CPU caches before the peer reads it, and
 * displaces the data of other sockets.
 */
static void soft_tune(int fd, struct in_addr own, struct in_addr peer)
{
	static const char reno[] = "reno";
	int one = 1, waits = LOCAL_SNDBUF;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &one, sizeof(one));
	if (!is_local(own, peer))
		return;
	setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, reno, sizeof(reno) - 1);
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &waits, sizeof(waits));
}

static bool hello_dials(struct soft_qp *qp)
{
	uint32_t own = ntohl(qp->ctx->addr.s_addr);
	uint32_t peer = ntohl(qp->peer_addr.s_addr);

	return own != peer ? own < peer : qp->ibv.qp_num < qp->attr.dest_qp_num;
}

void soft_dial_again(struct soft_qp *qp)
{
	if (qp->peer_gone || !hello_dials(qp))
		return;
	if (qp->progress != qp->up_mark)
		qp->conn_backoff = 0;
	soft_dial_later(qp);
}

void soft_dial_later(struct soft_qp *qp)
{
	uint64_t next = qp->conn_backoff * 2;

	if (next < BACKOFF_MIN)
		next = BACKOFF_MIN;
	if (next > BACKOFF_MAX)
		next = BACKOFF_MAX;
	qp->conn_backoff = next;
	qp->conn_at = mpib_now_ns() + next;
	soft_timer_update(qp);
}

static int open_socket(struct soft_qp *qp)
{
	struct sockaddr_in from = soft_address(qp->ctx->addr, 0);
	struct sockaddr_in to =
		soft_address(qp->peer_addr,
			     qp->ctx->port_base + (qp->attr.dest_qp_num >> 16));
	int one = 1, rc;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	soft_tune(fd, qp->ctx->addr, qp->peer_addr);
	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one));
	/* The peer compares this source address with the GID (comes_from()). */
	if (bind(fd, (struct sockaddr *)&from, sizeof(from)) < 0 ||
	    (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 &&
	     errno != EINPROGRESS)) {
		rc = -errno;
		close(fd);
		return rc;
	}
	return fd;
}

void soft_dial(struct soft_qp *qp, uint64_t now)
{
	struct soft_conn *conn;
	int fd;

	if (qp->die_at && now >= qp->die_at) {
		soft_qp_error(qp);
		return;
	}
	if (!qp->conn_at || now < qp->conn_at)
		return;
	qp->conn_at = 0;
	if (qp->loop) {
		soft_conn_work(qp);
		return;
	}
	if (qp->conn || qp->peer_gone || !hello_dials(qp))
		return;
	fd = open_socket(qp);
	conn = fd < 0 ? NULL : soft_conn_new(qp->ctx, fd, SOFT_CONN_ASKING);
	if (!conn) {
		if (fd >= 0)
			close(fd);
		soft_dial_later(qp);
		return;
	}
	conn->qp = qp;
	qp->conn = conn;
}

void soft_hello_of(struct soft_qp *qp, struct soft_hello *h)
{
	h->qpn = qp->ibv.qp_num;
	h->dest_qpn = qp->attr.dest_qp_num;
	h->sq_psn = qp_state(qp) == IBV_QPS_RTS ? qp->attr.sq_psn
						: SOFT_PSN_UNKNOWN;
	h->rq_psn = qp->attr.rq_psn;
	h->life = qp->life;
	h->peer_life = qp->peer_life;
	h->ack = qp->rx_msn;
	h->token = qp->token;
	memcpy(h->gid, qp->ctx->gid.raw, 16);
	memcpy(h->dest_gid, soft_gid_mapped(qp->peer_addr).raw, 16);
}

/* Return whether h comes from the QP that qp must connect to. */
bool soft_peer_matches(struct soft_qp *qp, const struct soft_hello *h)
{
	int state = qp_state(qp);

	if (state != IBV_QPS_RTR && state != IBV_QPS_RTS)
		return false;
	/* A QP in RTR has no first PSN yet. */
	if (state == IBV_QPS_RTS && h->rq_psn != qp->attr.sq_psn)
		return false;
	if (h->sq_psn != SOFT_PSN_UNKNOWN && h->sq_psn != qp->attr.rq_psn)
		return false;
	if (qp->peer_token && h->token != qp->peer_token)
		return false;
	return h->dest_qpn == qp->ibv.qp_num &&
	       h->qpn == qp->attr.dest_qp_num &&
	       !memcmp(h->gid, soft_gid_mapped(qp->peer_addr).raw, 16) &&
	       !memcmp(h->dest_gid, qp->ctx->gid.raw, 16);
}

static bool hello_send_hello(struct soft_conn *conn, const struct soft_hello *h)
{
	uint8_t out[SOFT_HELLO_LEN];

	soft_hello_encode(out, h);
	/* The first bytes sent on a connection always fit into its buffer. */
	return send(conn->fd, out, sizeof(out), MSG_DONTWAIT | MSG_NOSIGNAL) ==
	       sizeof(out);
}

void soft_hello_send(struct soft_conn *conn)
{
	struct soft_hello h = { .status = SOFT_HELLO_ASK };

	if (conn->greeted)
		return;
	soft_hello_of(conn->qp, &h);
	if (hello_send_hello(conn, &h))
		conn->greeted = true;
	else if (errno != EAGAIN && errno != ENOTCONN)
		soft_conn_lost(conn);
}

static void come_up(struct soft_conn *conn, struct soft_qp *qp,
		    const struct soft_hello *h)
{
	soft_conn_leave_idle(conn);
	conn->unsure = conn->state == SOFT_CONN_ASKED && !qp->peer_life;
	conn->state = SOFT_CONN_UP;
	conn->qp = qp;
	qp->conn = conn;
	if (!qp->was_up)
		qp->progress++;
	qp->was_up = true;
	qp->up_mark = qp->progress;
	qp->peer_life = h->life;
	qp->peer_rq_psn = h->rq_psn;
	qp->ack_sent = qp->rx_msn;
	qp->conn_at = 0;
	soft_timer_update(qp);
	soft_tx_resume(qp, h->ack);
	soft_conn_work(qp);
}

/* Return whether h comes from the life of the peer to which qp was connected,
 * and is meant for the current life of qp. An unknown life matches any life. */
static bool same_lives(const struct soft_qp *qp, const struct soft_hello *h)
{
	return (!qp->peer_life || qp->peer_life == h->life) &&
	       (!h->peer_life || h->peer_life == qp->life);
}

static bool comes_from(struct soft_conn *conn, const struct soft_hello *h)
{
	struct sockaddr_in sa;
	socklen_t len = sizeof(sa);

	return !getpeername(conn->fd, (struct sockaddr *)&sa, &len) &&
	       sa.sin_family == AF_INET &&
	       !memcmp(&sa.sin_addr, &h->gid[12], 4);
}

/* If h may connect, return the QP that h asks for, else NULL. */
static struct soft_qp *hello_wanted(struct soft_conn *conn,
				    const struct soft_hello *h)
{
	struct soft_qp *qp = soft_qp_find(conn->ctx, h->dest_qpn);

	if (!qp || !comes_from(conn, h) || qp->loop || hello_dials(qp) ||
	    qp->peer_gone)
		return NULL;
	return soft_peer_matches(qp, h) && same_lives(qp, h) &&
			       soft_tx_may_resume(qp, h->ack)
		       ? qp
		       : NULL;
}

static void hello_answer(struct soft_conn *conn, const struct soft_hello *ask)
{
	struct soft_qp *qp = hello_wanted(conn, ask);
	/* If the asking QP was connected before (peer_life), the wanted QP will
	 * not come back, so answer GONE. Otherwise the wanted QP may still be
	 * created, so answer LATER. */
	struct soft_hello h = { .status = ask->peer_life ? SOFT_HELLO_GONE
							 : SOFT_HELLO_LATER,
				.life = ask->life };

	if (!qp) {
		hello_send_hello(conn, &h);
		soft_conn_close(conn);
		return;
	}
	/* The peer has noticed that the old connection broke, but qp has
	 * not. */
	if (qp->conn)
		soft_conn_lost(qp->conn);
	h.status = SOFT_HELLO_OK;
	soft_hello_of(qp, &h);
	if (hello_send_hello(conn, &h))
		come_up(conn, qp, ask);
	else
		soft_conn_close(conn);
}

void soft_hello_recv(struct soft_conn *conn)
{
	struct soft_qp *qp = conn->qp;
	struct soft_hello h;

	if (conn->rlen < SOFT_HELLO_LEN)
		return;
	if (!soft_hello_decode(conn->in, &h)) {
		soft_conn_lost(conn);
		return;
	}
	conn->rpos = SOFT_HELLO_LEN;
	if (conn->state == SOFT_CONN_ASKED) {
		if (h.status == SOFT_HELLO_ASK && conn->rlen == conn->rpos)
			hello_answer(conn, &h);
		else
			soft_conn_close(conn);
		return;
	}
	if (h.status == SOFT_HELLO_OK && soft_peer_matches(qp, &h) &&
	    same_lives(qp, &h) && soft_tx_may_resume(qp, h.ack)) {
		come_up(conn, qp, &h);
		return;
	}
	if (h.status == SOFT_HELLO_GONE)
		qp->peer_gone = true;
	soft_conn_lost(conn);
}

/* The TCP port of a context. Every host that reaches the port may connect at
 * any rate, and each connection costs the context's thread about 12 us. So
 * accepting is limited per turn and over time. Above the limit the engine does
 * not watch the port. */

#define A_TURN SOFT_ACCEPTS_A_TURN
#define AT_ONCE SOFT_ACCEPTS_AT_ONCE
#define AGAIN (10 * SOFT_MS)

static int try_slot(struct soft_ctx *ctx, unsigned slot)
{
	struct sockaddr_in sa = soft_address(ctx->addr, ctx->port_base + slot);
	int one = 1, rc;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	/* Bind even if connections of the port's former owner linger. */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 ||
	    listen(fd, 1024) < 0) {
		rc = -errno;
		close(fd);
		return rc;
	}
	return fd;
}

int soft_listen(struct soft_ctx *ctx)
{
	for (unsigned slot = 0; slot < 256; slot++) {
		int fd = try_slot(ctx, slot);

		if (fd == -EADDRNOTAVAIL)
			return -ENODEV;
		if (fd == -EADDRINUSE)
			continue;
		if (fd < 0)
			return fd;
		ctx->listen_fd = fd;
		ctx->slot = (uint8_t)slot;
		return 0;
	}
	return -EADDRINUSE;
}

static bool is_shortage(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOBUFS ||
	       error == ENOMEM;
}

/* Stop accepting until the time `at`; the kernel queues the callers. */
static void accept_later(struct soft_ctx *ctx, uint64_t at)
{
	ctx->accept_ready = false;
	ctx->accept_at = at;
}

static void accept_one(struct soft_ctx *ctx, int fd, struct in_addr peer)
{
	struct soft_conn *conn;

	soft_tune(fd, ctx->addr, peer);
	soft_conn_make_room(ctx, peer.s_addr);
	conn = soft_conn_new(ctx, fd, SOFT_CONN_ASKED);
	if (conn)
		conn->from = peer.s_addr;
	else
		close(fd);
}

void soft_accept(struct soft_ctx *ctx)
{
	const uint64_t ahead = (AT_ONCE - A_TURN) * SOFT_ACCEPT_EVERY;
	uint64_t now = mpib_now_ns();
	uint64_t wait = mpib_rate_wait(ctx->accept_paid, now, ahead);

	if (wait > 0) {
		accept_later(ctx, now + wait);
		return;
	}
	for (unsigned i = 0; i < A_TURN; i++) {
		struct sockaddr_in peer;
		socklen_t len = sizeof(peer);
		int fd = accept4(ctx->listen_fd, (struct sockaddr *)&peer, &len,
				 SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0 && errno == EAGAIN) {
			ctx->accept_ready = false;
			return;
		}
		/* If there is no descriptor or memory, the connection stays in
		 * the backlog. */
		if (fd < 0 && is_shortage(errno)) {
			accept_later(ctx, now + AGAIN);
			return;
		}
		mpib_rate_pay(&ctx->accept_paid, now, SOFT_ACCEPT_EVERY);
		/* With other errors, this connection ended before it was
		 * accepted. */
		if (fd >= 0)
			accept_one(ctx, fd, peer.sin_addr);
	}
}
