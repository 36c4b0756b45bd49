/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wire format of the software HCA, on the TCP connection of a QP pair. The
 * connecting QP sends a hello, and the accepting QP answers with its own hello.
 * After a positive answer, both QPs may send messages. A message has a header
 * of 32 bytes and, for some types, payload. All integers are big-endian; `imm`
 * is copied unchanged.
 *
 * The payload of a long message comes in segments. Each segment except the
 * first has its own header, MORE. An ACK, NAK, RNR or BYE may be sent between
 * two segments.
 *
 * `msn` numbers the requests of one direction from 0. Every header contains
 * `ack`, the number of requests of the opposite direction that are done. A
 * request is done when its payload is placed and its completions are made. So
 * an ACK is a header without payload, and any other message carries an ack for
 * free.
 *
 * After a connection breaks, a new connection is made. Each hello contains the
 * number of requests that its sender has done. Requests that the peer has not
 * done are sent again from their beginning, and READs whose answers were lost
 * are repeated. If a request was refused before the break but its NAK was not
 * sent, the request is refused again with the same NAK. `life` changes with
 * each reset of a QP, so that a connection never continues with a QP that was
 * reset while the connection was broken. `token` is the sender's secret. Only
 * the owner of the peer QP knows the token, which it received by other means
 * (soft_set_ece()). So a host that can reach the port but does not know the
 * token can neither join a QP nor cut its connection.
 */
#ifndef MPIB_VERBS_SOFT_WIRE_H
#define MPIB_VERBS_SOFT_WIRE_H

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define SOFT_HDR_LEN 32
#define SOFT_HELLO_LEN 80
#define SOFT_HELLO_MAGIC 0x4d50494253465433ull /* "MPIBSFT3" */
#define SOFT_SEGMENT 65536u
#define SOFT_MAX_MSG (1u << 30)

enum soft_wire_op {
	SOFT_OP_ACK = 1, /* ack only */
	SOFT_OP_NAK, /* request `msn` failed with `status`; nothing follows */
	/* no receive for request `msn`: send again from that request on */
	SOFT_OP_RNR,
	SOFT_OP_BYE, /* the sending QP is gone; nothing follows */
	SOFT_OP_WRITE,
	SOFT_OP_WRITE_IMM,
	SOFT_OP_SEND,
	SOFT_OP_SEND_IMM,
	SOFT_OP_READ, /* asks for `len` bytes from `addr` */
	SOFT_OP_READ_RESP, /* payload of the READ `msn` */
	SOFT_OP_MORE, /* next segment, from byte `addr` of the message on */
	SOFT_OP_LAST = SOFT_OP_MORE,
};

/* Bits of soft_hdr.flags. */
#define SOFT_F_SOLICITED 1

/* soft_hdr.status of a NAK. In an RNR the field contains the encoded timer. */
enum soft_nak {
	SOFT_NAK_ACCESS = 1,
	SOFT_NAK_INVALID,
	SOFT_NAK_OP,
	SOFT_NAK_LAST = SOFT_NAK_OP,
};

struct soft_hdr {
	uint8_t op, flags, status;
	uint32_t msn, ack, len, rkey;
	uint64_t addr;
	uint32_t imm;
};

/* soft_hello.status of an answer. */
enum soft_hello_status {
	SOFT_HELLO_ASK, /* a hello, not an answer */
	SOFT_HELLO_OK,
	SOFT_HELLO_LATER, /* no such QP, or not ready to receive: try again */
	/* The life of the QP to which the asking QP was connected has ended. */
	SOFT_HELLO_GONE,
};

/* soft_hello.sq_psn of a QP that was not in RTS yet. */
#define SOFT_PSN_UNKNOWN 0xffffffffu

struct soft_hello {
	uint32_t status;
	uint32_t qpn, dest_qpn;
	uint32_t sq_psn, rq_psn;
	uint32_t life, peer_life; /* 0: not known yet */
	/* how many requests of the other end the sender of this hello has
	 * executed */
	uint32_t ack;
	uint8_t gid[16], dest_gid[16];
	uint64_t token;
};

static inline void soft_put32(uint8_t *p, uint32_t v)
{
	v = htobe32(v);
	memcpy(p, &v, sizeof(v));
}

static inline uint32_t soft_get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return be32toh(v);
}

static inline void soft_put64(uint8_t *p, uint64_t v)
{
	v = htobe64(v);
	memcpy(p, &v, sizeof(v));
}

static inline uint64_t soft_get64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return be64toh(v);
}

static inline void soft_hdr_encode(uint8_t *p, const struct soft_hdr *h)
{
	p[0] = h->op;
	p[1] = h->flags;
	p[2] = h->status;
	p[3] = 0;
	soft_put32(p + 4, h->msn);
	soft_put32(p + 8, h->ack);
	soft_put32(p + 12, h->len);
	soft_put64(p + 16, h->addr);
	soft_put32(p + 24, h->rkey);
	memcpy(p + 28, &h->imm, 4);
}

/* Decode a header. False: a correct peer cannot have sent the header. The
 * caller checks that `msn` and `ack` fit the state of the QP. */
static inline bool soft_hdr_decode(const uint8_t *p, struct soft_hdr *h)
{
	bool payload;

	h->op = p[0];
	h->flags = p[1];
	h->status = p[2];
	h->msn = soft_get32(p + 4);
	h->ack = soft_get32(p + 8);
	h->len = soft_get32(p + 12);
	h->addr = soft_get64(p + 16);
	h->rkey = soft_get32(p + 24);
	memcpy(&h->imm, p + 28, 4);

	if (h->op < SOFT_OP_ACK || h->op > SOFT_OP_LAST || p[3])
		return false;
	if (h->flags & ~SOFT_F_SOLICITED || h->len > SOFT_MAX_MSG)
		return false;
	if (h->op == SOFT_OP_NAK && (!h->status || h->status > SOFT_NAK_LAST))
		return false;
	if (h->op == SOFT_OP_RNR && h->status > 31)
		return false;
	if (h->op != SOFT_OP_NAK && h->op != SOFT_OP_RNR && h->status)
		return false;
	payload = h->op >= SOFT_OP_WRITE;
	return payload || !h->len;
}

static inline void soft_hello_encode(uint8_t *p, const struct soft_hello *h)
{
	soft_put64(p, SOFT_HELLO_MAGIC);
	soft_put32(p + 8, h->status);
	soft_put32(p + 12, h->qpn);
	soft_put32(p + 16, h->dest_qpn);
	soft_put32(p + 20, h->sq_psn);
	soft_put32(p + 24, h->rq_psn);
	soft_put32(p + 28, h->life);
	memcpy(p + 32, h->gid, 16);
	memcpy(p + 48, h->dest_gid, 16);
	soft_put32(p + 64, h->peer_life);
	soft_put32(p + 68, h->ack);
	soft_put64(p + 72, h->token);
}

static inline bool soft_hello_decode(const uint8_t *p, struct soft_hello *h)
{
	h->status = soft_get32(p + 8);
	h->qpn = soft_get32(p + 12);
	h->dest_qpn = soft_get32(p + 16);
	h->sq_psn = soft_get32(p + 20);
	h->rq_psn = soft_get32(p + 24);
	memcpy(h->gid, p + 32, 16);
	h->life = soft_get32(p + 28);
	memcpy(h->dest_gid, p + 48, 16);
	h->peer_life = soft_get32(p + 64);
	h->ack = soft_get32(p + 68);
	h->token = soft_get64(p + 72);
	return soft_get64(p) == SOFT_HELLO_MAGIC && h->life &&
	       h->status <= SOFT_HELLO_GONE;
}

#endif
