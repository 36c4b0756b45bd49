/* SPDX-License-Identifier: Apache-2.0 */
#include "peer/protocol.h"

#include <assert.h>
#include <errno.h>
#include <mpib/wire.h>
#include <stdio.h>

#include "peer/part.h"

static void code_node(struct mpib_codec *c, struct mpib_peer_msg *m)
{
	struct mpib_node_id *n = &m->node;

	mpib_code(c, &n->addr, sizeof(n->addr));
	mpib_code16(c, &n->port);
	mpib_code64(c, &n->boot);
	mpib_code(c, &n->sout, sizeof(n->sout));
}

static void code_key(struct mpib_codec *c, struct mpib_peer_msg *m)
{
	struct mpib_lane_key *k = &m->key;

	mpib_code32(c, &k->uid);
	mpib_code16(c, &k->from_shard);
	mpib_code16(c, &k->to_shard);
	mpib_code8(c, &k->traffic_class);
	mpib_code64(c, &k->serial);
}

static void code_name(struct mpib_codec *c, struct mpib_peer_msg *m)
{
	struct mpib_conn_name *n = &m->name;
	uint8_t sender = (uint8_t)n->sender;

	mpib_code64(c, &n->key);
	mpib_code32(c, &n->uid);
	mpib_code8(c, &sender);
	mpib_code_bad(c, sender > 1);
	if (!c->to)
		n->sender = sender;
}

static void code_conn(struct mpib_codec *c, struct mpib_peer_msg *m)
{
	struct engine_conn_info *f = &m->conn;

	mpib_code32(c, &f->id);
	mpib_code_bad(c, f->id >= MPIB_WIRE_CONNS_MAX);
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		mpib_code32(c, &f->rkey[r]);
	mpib_code64(c, &f->addr);
}

void mpib_code_text(struct mpib_codec *c, char *text, size_t n)
{
	mpib_code(c, text, n);
	for (size_t i = 0; !c->to && i < n; i++) {
		if (text[i] < ' ' || text[i] > '~')
			text[i] = '?';
	}
}

static void code_why(struct mpib_codec *c, struct mpib_peer_msg *m)
{
	uint32_t error = (uint32_t)-m->error;
	uint16_t n = (uint16_t)strnlen(m->why, sizeof(m->why) - 1);

	mpib_code32(c, &error);
	mpib_code16(c, &n);
	if (mpib_code_bad(c, error == 0 || error > 4095 || n >= sizeof(m->why)))
		return;
	if (!c->to)
		m->error = -(int32_t)error;
	mpib_code_text(c, m->why, n);
}

/* A part of a message: a number or bytes in struct mpib_peer_msg, or whatever a
 * function encodes. A message's parts follow each other. */
struct part {
	uint16_t at, bytes; /* bytes 0: code, or no part */
	bool number; /* a number of so many bytes */
	mpib_code_part *code;
};

#define SIZE(f) sizeof(((struct mpib_peer_msg *)0)->f)
#define NUMBER(f)                                                              \
	{                                                                      \
		offsetof(struct mpib_peer_msg, f), SIZE(f), true, NULL         \
	}
#define BYTES(f)                                                               \
	{                                                                      \
		offsetof(struct mpib_peer_msg, f), SIZE(f), false, NULL        \
	}
#define CODE(f)                                                                \
	{                                                                      \
		0, 0, false, f                                                 \
	}
#define NODE CODE(code_node)
#define KEY CODE(code_key)
#define NAME CODE(code_name)
#define TABLES CODE(code_conn)
#define WHY CODE(code_why)
#define LANE CODE(mpib_code_lane)
#define RAIL CODE(mpib_code_rail)
#define REPORT CODE(mpib_code_report)
#define PARTS 7

static const struct {
	const char *name;
	struct part part[PARTS];
} messages[] = {
	[MPIB_PEER_HELLO] = { "HELLO",
			      { NUMBER(magic), NUMBER(version_min),
				NUMBER(version), NODE, BYTES(challenge) } },
	[MPIB_PEER_WELCOME] = { "WELCOME",
				{ NUMBER(version), NODE, BYTES(challenge),
				  BYTES(proof) } },
	[MPIB_PEER_REFUSED] = { "REFUSED", { WHY } },
	[MPIB_PEER_READY] = { "READY", { BYTES(proof) } },
	[MPIB_PEER_PING] = { "PING", { { 0 } } },
	[MPIB_PEER_PONG] = { "PONG", { { 0 } } },
	[MPIB_PEER_LANE_OPEN] = { "LANE_OPEN",
				  { NUMBER(from), NUMBER(nonce), NAME, KEY,
				    LANE } },
	[MPIB_PEER_LANE_ACCEPT] = { "LANE_ACCEPT",
				    { NUMBER(to), NUMBER(from), LANE } },
	[MPIB_PEER_LANE_REJECT] = { "LANE_REJECT", { NUMBER(to), WHY } },
	[MPIB_PEER_LANE_CLOSE] = { "LANE_CLOSE",
				   { NUMBER(to), NUMBER(from), WHY } },
	[MPIB_PEER_CONN_OPEN] = { "CONN_OPEN",
				  { NAME, NUMBER(number), NUMBER(met),
				    NUMBER(from), NUMBER(lane), NUMBER(nonce),
				    TABLES } },
	[MPIB_PEER_CONN_ACCEPT] = { "CONN_ACCEPT",
				    { NUMBER(to), NUMBER(from), NUMBER(number),
				      NUMBER(base), TABLES } },
	[MPIB_PEER_CONN_REJECT] = { "CONN_REJECT", { NUMBER(to), WHY } },
	[MPIB_PEER_CONN_CANCEL] = { "CONN_CANCEL", { NAME, NUMBER(from) } },
	[MPIB_PEER_CONN_CLOSE] = { "CONN_CLOSE", { NAME, NUMBER(to), WHY } },
	[MPIB_PEER_CONN_CLOSED] = { "CONN_CLOSED", { NAME } },
	[MPIB_PEER_LANE_RAIL] = { "LANE_RAIL", { NUMBER(to), RAIL } },
	[MPIB_PEER_ASK] = { "ASK", { { 0 } } },
	[MPIB_PEER_REPORT] = { "REPORT", { REPORT } },
	[MPIB_PEER_SECOND] = { "SECOND", { BYTES(second) } },
	[MPIB_PEER_LANE_KEPT] = { "LANE_KEPT", { NUMBER(to), NUMBER(from) } },
};

/* The PARTS parts of a type of message; NULL: there is no such type. */
static const struct part *parts_of(unsigned type)
{
	if (type >= sizeof(messages) / sizeof(messages[0]) ||
	    !messages[type].name)
		return NULL;
	return messages[type].part;
}

static void code_part(struct mpib_codec *c, const struct part *p,
		      struct mpib_peer_msg *m)
{
	void *field = (char *)m + p->at;

	if (p->code)
		p->code(c, m);
	else if (p->number && p->bytes == sizeof(uint16_t))
		mpib_code16(c, field);
	else if (p->number && p->bytes == sizeof(uint32_t))
		mpib_code32(c, field);
	else if (p->number)
		mpib_code64(c, field);
	else
		mpib_code(c, field, p->bytes);
}

size_t mpib_peer_encode(const struct mpib_peer_msg *m, uint8_t *buf)
{
	const struct part *part = parts_of(m->type);
	struct mpib_codec c = { .to = buf + 4,
				.left = MPIB_PEER_FRAME_MAX - 4 };
	uint8_t type = (uint8_t)m->type;
	/* What is written stays as it was. */
	union {
		const struct mpib_peer_msg *given;
		struct mpib_peer_msg *m;
	} msg = { m };

	assert(part);
	mpib_code8(&c, &type);
	for (unsigned i = 0; i < PARTS; i++)
		code_part(&c, &part[i], msg.m);
	/* The longest message, a REPORT of MPIB_RAILS_MAX rails with all texts
	 * of full length, leaves a tenth of a frame free. */
	assert(!c.failed);
	mpib_frame_set_len(buf, (size_t)(c.to - buf) - 4);
	return (size_t)(c.to - buf);
}

int mpib_peer_decode(const uint8_t *buf, size_t len, struct mpib_peer_msg *m)
{
	struct mpib_codec c = { .from = buf, .left = len };
	const struct part *part;
	uint8_t type;

	mpib_code8(&c, &type);
	part = parts_of(type);
	memset(m, 0, sizeof(*m));
	if (!part)
		return -EPROTO;
	m->type = (enum mpib_peer_type)type;
	for (unsigned i = 0; i < PARTS; i++)
		code_part(&c, &part[i], m);
	if (type == MPIB_PEER_HELLO &&
	    (m->magic != MPIB_PEER_MAGIC || m->version_min > m->version))
		return -EPROTO;
	return c.failed || c.left > 0 ? -EPROTO : 0;
}

void mpib_peer_text(char *to, size_t room, const char *text)
{
	static const char cut[] = "...";

	if ((size_t)snprintf(to, room, "%s", text) >= room)
		memcpy(to + room - sizeof(cut), cut, sizeof(cut));
}

const char *mpib_peer_type_name(enum mpib_peer_type type)
{
	return parts_of(type) ? messages[type].name : "?";
}
