/* SPDX-License-Identifier: Apache-2.0 */
#include "peer/protocol.h"

#include <assert.h>
#include <errno.h>
#include <mpib/wire.h>
#include <stdio.h>

#include "peer/part.h"

static void put_node(struct mpib_encoder *w, const struct mpib_peer_msg *m)
{
	const struct mpib_node_id *n = &m->node;

	mpib_put(w, &n->addr, sizeof(n->addr));
	mpib_put16(w, n->port);
	mpib_put64(w, n->boot);
	mpib_put(w, &n->sout, sizeof(n->sout));
}

static void get_node(struct mpib_decoder *r, struct mpib_peer_msg *m)
{
	struct mpib_node_id *n = &m->node;

	mpib_get(r, &n->addr, sizeof(n->addr));
	n->port = mpib_get16(r);
	n->boot = mpib_get64(r);
	mpib_get(r, &n->sout, sizeof(n->sout));
}

static void put_key(struct mpib_encoder *w, const struct mpib_peer_msg *m)
{
	const struct mpib_lane_key *k = &m->key;

	mpib_put32(w, k->uid);
	mpib_put16(w, k->from_shard);
	mpib_put16(w, k->to_shard);
	mpib_put8(w, k->traffic_class);
	mpib_put64(w, k->serial);
}

static void get_key(struct mpib_decoder *r, struct mpib_peer_msg *m)
{
	struct mpib_lane_key *k = &m->key;

	k->uid = mpib_get32(r);
	k->from_shard = mpib_get16(r);
	k->to_shard = mpib_get16(r);
	k->traffic_class = mpib_get8(r);
	k->serial = mpib_get64(r);
}

#define SLOTS_SHIFT 20

MPIB_ABI_ASSERT(MPIB_WIRE_CONNS_MAX == 1u << SLOTS_SHIFT);

static void put_conn(struct mpib_encoder *w, const struct mpib_peer_msg *m)
{
	const struct engine_conn_info *f = &m->conn;

	mpib_put32(w, f->id | (f->slots % MPIB_SLOTS) << SLOTS_SHIFT);
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		mpib_put32(w, f->rkey[r]);
	mpib_put64(w, f->addr);
}

static void get_conn(struct mpib_decoder *r, struct mpib_peer_msg *m)
{
	struct engine_conn_info *f = &m->conn;
	uint32_t id = mpib_get32(r);

	f->id = id % MPIB_WIRE_CONNS_MAX;
	f->slots = id >> SLOTS_SHIFT;
	if (f->slots == 0)
		f->slots = MPIB_SLOTS;
	else if (f->slots != MPIB_TABLE_SLOTS)
		r->failed = true;
	for (unsigned i = 0; i < MPIB_RAILS; i++)
		f->rkey[i] = mpib_get32(r);
	f->addr = mpib_get64(r);
}

static void put_why(struct mpib_encoder *w, const struct mpib_peer_msg *m)
{
	uint16_t n = (uint16_t)strnlen(m->why, sizeof(m->why) - 1);

	mpib_put32(w, (uint32_t)-m->error);
	mpib_put16(w, n);
	mpib_put(w, m->why, n);
}

static void get_why(struct mpib_decoder *r, struct mpib_peer_msg *m)
{
	uint32_t error = mpib_get32(r);
	uint16_t n = mpib_get16(r);

	if (error == 0 || error > 4095 || n >= sizeof(m->why)) {
		r->failed = true;
		return;
	}
	m->error = -(int32_t)error;
	mpib_get(r, m->why, n);
	/* The text ends up in logs: no control characters, which a terminal
	 * would obey. */
	for (unsigned i = 0; i < n; i++) {
		if (m->why[i] < ' ' || m->why[i] > '~')
			m->why[i] = '?';
	}
}

/* A part of a message: a number or bytes in struct mpib_peer_msg, or whatever a
 * pair of functions encodes. A message's parts follow each other. */
struct part {
	uint16_t at, bytes; /* bytes 0: put and get, or no part */
	bool number; /* a number of so many bytes */
	mpib_put_part *put;
	mpib_get_part *get;
};

#define SIZE(f) sizeof(((struct mpib_peer_msg *)0)->f)
#define NUMBER(f)                                                              \
	{                                                                      \
		offsetof(struct mpib_peer_msg, f), SIZE(f), true, NULL, NULL   \
	}
#define BYTES(f)                                                               \
	{                                                                      \
		offsetof(struct mpib_peer_msg, f), SIZE(f), false, NULL, NULL  \
	}
#define PAIR(put, get)                                                         \
	{                                                                      \
		0, 0, false, put, get                                          \
	}
#define NODE PAIR(put_node, get_node)
#define KEY PAIR(put_key, get_key)
#define TABLES PAIR(put_conn, get_conn)
#define WHY PAIR(put_why, get_why)
#define LANE PAIR(mpib_put_lane, mpib_get_lane)
#define RAIL PAIR(mpib_put_rail, mpib_get_rail)
#define REPORT PAIR(mpib_put_report, mpib_get_report)
#define PARTS 6

static const struct {
	const char *name;
	struct part part[PARTS];
} messages[] = {
	[MPIB_PEER_HELLO] = { "HELLO",
			      { NUMBER(magic), NUMBER(version_min),
				NUMBER(version), NODE, BYTES(challenge) } },
	[MPIB_PEER_WELCOME] = { "WELCOME",
				{ NUMBER(version), NODE, BYTES(challenge),
				  BYTES(proof), NUMBER(session) } },
	[MPIB_PEER_REFUSED] = { "REFUSED", { WHY } },
	[MPIB_PEER_READY] = { "READY",
			      { BYTES(proof), NUMBER(session), NUMBER(seen) } },
	[MPIB_PEER_PING] = { "PING", { NUMBER(seen) } },
	[MPIB_PEER_PONG] = { "PONG", { NUMBER(seen) } },
	[MPIB_PEER_LANE_OPEN] = { "LANE_OPEN", { NUMBER(from), KEY, LANE } },
	[MPIB_PEER_LANE_ACCEPT] = { "LANE_ACCEPT",
				    { NUMBER(to), NUMBER(from), LANE } },
	[MPIB_PEER_LANE_REJECT] = { "LANE_REJECT", { NUMBER(to), WHY } },
	[MPIB_PEER_LANE_CLOSE] = { "LANE_CLOSE",
				   { NUMBER(to), NUMBER(from), WHY } },
	[MPIB_PEER_CONN_OPEN] = { "CONN_OPEN",
				  { NUMBER(from), NUMBER(lane),
				    NUMBER(listen_id), NUMBER(nonce),
				    NUMBER(uid), TABLES } },
	[MPIB_PEER_CONN_ACCEPT] = { "CONN_ACCEPT",
				    { NUMBER(to), NUMBER(from), TABLES } },
	[MPIB_PEER_CONN_REJECT] = { "CONN_REJECT", { NUMBER(to), WHY } },
	[MPIB_PEER_CONN_CANCEL] = { "CONN_CANCEL", { NUMBER(to) } },
	[MPIB_PEER_CONN_CLOSE] = { "CONN_CLOSE", { NUMBER(to), WHY } },
	[MPIB_PEER_CONN_CLOSED] = { "CONN_CLOSED", { NUMBER(to) } },
	[MPIB_PEER_LANE_RAIL] = { "LANE_RAIL", { NUMBER(to), RAIL } },
	[MPIB_PEER_CONN_MOVED] = { "CONN_MOVED", { NUMBER(to), TABLES } },
	[MPIB_PEER_ASK] = { "ASK", { { 0 } } },
	[MPIB_PEER_REPORT] = { "REPORT", { REPORT } },
	[MPIB_PEER_SECOND] = { "SECOND", { BYTES(second) } },
};

/* The PARTS parts of a type of message; NULL: there is no such type. */
static const struct part *parts_of(unsigned type)
{
	if (type >= sizeof(messages) / sizeof(messages[0]) ||
	    !messages[type].name)
		return NULL;
	return messages[type].part;
}

/* Numbers are little-endian on the wire, native in memory. */
static void put_number(struct mpib_encoder *w, const void *v, size_t bytes)
{
	uint16_t two;
	uint32_t four;
	uint64_t eight;

	switch (bytes) {
	case sizeof(two):
		memcpy(&two, v, sizeof(two));
		mpib_put16(w, two);
		break;
	case sizeof(four):
		memcpy(&four, v, sizeof(four));
		mpib_put32(w, four);
		break;
	default:
		memcpy(&eight, v, sizeof(eight));
		mpib_put64(w, eight);
	}
}

static void get_number(struct mpib_decoder *r, void *v, size_t bytes)
{
	uint16_t two;
	uint32_t four;
	uint64_t eight;

	switch (bytes) {
	case sizeof(two):
		two = mpib_get16(r);
		memcpy(v, &two, sizeof(two));
		break;
	case sizeof(four):
		four = mpib_get32(r);
		memcpy(v, &four, sizeof(four));
		break;
	default:
		eight = mpib_get64(r);
		memcpy(v, &eight, sizeof(eight));
	}
}

static void put_part(struct mpib_encoder *w, const struct part *p,
		     const struct mpib_peer_msg *m)
{
	const char *field = (const char *)m + p->at;

	if (p->put)
		p->put(w, m);
	else if (p->number)
		put_number(w, field, p->bytes);
	else
		mpib_put(w, field, p->bytes);
}

static void get_part(struct mpib_decoder *r, const struct part *p,
		     struct mpib_peer_msg *m)
{
	char *field = (char *)m + p->at;

	if (p->get)
		p->get(r, m);
	else if (p->number)
		get_number(r, field, p->bytes);
	else
		mpib_get(r, field, p->bytes);
}

size_t mpib_peer_encode(const struct mpib_peer_msg *m, uint8_t *buf)
{
	const struct part *part = parts_of(m->type);
	struct mpib_encoder w = { buf + 4, buf + MPIB_PEER_FRAME_MAX, false };
	struct mpib_encoder len = { buf, buf + 4, false };

	assert(part);
	mpib_put8(&w, (uint8_t)m->type);
	for (unsigned i = 0; i < PARTS; i++)
		put_part(&w, &part[i], m);
	/* The longest message, a REPORT of MPIB_RAILS_MAX rails with all texts
	 * of full length, leaves a tenth of a frame free. */
	assert(!w.failed);
	mpib_put32(&len, (uint32_t)(w.at - buf) - 4);
	return (size_t)(w.at - buf);
}

int mpib_peer_decode(const uint8_t *buf, size_t len, struct mpib_peer_msg *m)
{
	struct mpib_decoder r = { buf, buf + len, false };
	unsigned type = mpib_get8(&r);
	const struct part *part = parts_of(type);

	memset(m, 0, sizeof(*m));
	if (!part)
		return -EPROTO;
	m->type = (enum mpib_peer_type)type;
	for (unsigned i = 0; i < PARTS; i++)
		get_part(&r, &part[i], m);
	if (type == MPIB_PEER_HELLO &&
	    (m->magic != MPIB_PEER_MAGIC || m->version_min > m->version))
		return -EPROTO;
	return r.failed || r.at != r.end ? -EPROTO : 0;
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
