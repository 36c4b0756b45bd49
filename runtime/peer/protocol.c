/* SPDX-License-Identifier: Apache-2.0 */
#include "peer/protocol.h"

#include <assert.h>
#include <errno.h>
#include <mpib/wire.h>
#include <stdio.h>
#include <string.h>

#include "engine/split/mode.h"

static void code_node(struct mpib_codec *c, struct mpib_peer_msg *m)
{
	struct mpib_node_id *n = &m->node;

	mpib_code(c, &n->addr, sizeof(n->addr));
	mpib_code16(c, &n->port);
	mpib_code64(c, &n->boot);
	mpib_code(c, &n->sout, sizeof(n->sout));
	mpib_code(c, &n->second, sizeof(n->second));
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

static void code_text(struct mpib_codec *c, char *text, size_t n)
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
	code_text(c, m->why, n);
}

/*
 * Lanes in messages: the QPs of a lane (LANE_OPEN, LANE_ACCEPT) and the state
 * of a rail (LANE_RAIL).
 */

/* Encode or decode 24 bits: a QP number or an initial PSN. */
static void code_24(struct mpib_codec *c, uint32_t *v)
{
	mpib_code32(c, v);
	if (!c->to)
		*v &= 0xffffff;
}

static void code_qps(struct mpib_codec *c, struct mpib_lane_rail_info *p)
{
	mpib_code(c, p->gid, sizeof(p->gid));
	mpib_code16(c, &p->lid);
	mpib_code8(c, &p->mtu);
	mpib_code8(c, &p->link_layer);
	mpib_code8(c, &p->qps);
	mpib_code32(c, &p->max_msg_sz);
	if (mpib_code_bad(c, p->qps < 1 || p->qps > MPIB_QPS_MAX ||
				     p->mtu < 1 || p->mtu > IBV_MTU_4096 ||
				     p->max_msg_sz < MPIB_MSG_LEAST))
		p->qps = 0;
	for (unsigned q = 0; q < p->qps; q++) {
		code_24(c, &p->qpn[q]);
		code_24(c, &p->psn[q]);
	}
	mpib_code_bool(c, &p->ece);
	for (unsigned q = 0; p->ece && q < p->qps; q++) {
		mpib_code32(c, &p->ece_vendor[q]);
		mpib_code32(c, &p->ece_options[q]);
	}
}

static void code_lane(struct mpib_codec *c, struct mpib_peer_msg *msg)
{
	struct mpib_lane_info *i = &msg->lane_info;

	mpib_code8(c, &i->imm_version);
	mpib_code8(c, &i->mode);
	mpib_code8(c, &i->path);
	mpib_code8(c, &i->failover);
	mpib_code8(c, &i->rails);
	if (mpib_code_bad(c, i->rails < 1 || i->rails > MPIB_RAILS ||
				     i->mode > MPIB_MODE_STATIC ||
				     i->path > MPIB_PATH_INTER ||
				     (i->imm_version != MPIB_IMM_V1 &&
				      i->imm_version != MPIB_IMM_V2)))
		i->rails = 0;
	for (unsigned r = 0; r < i->rails && !c->failed; r++)
		code_qps(c, &i->rail[r]);
	mpib_code8(c, &i->spread);
	mpib_code_bool(c, &i->delivered);
	mpib_code8(c, &i->away);
	mpib_code_bad(c, i->spread > MPIB_SPREAD_AUTO ||
				 i->away >= (1u << i->rails) - 1);
}

static void code_bitmap(struct mpib_codec *c, struct mpib_recv_bitmap *a)
{
	mpib_code32(c, &a->conn);
	mpib_code_bool(c, &a->sender);
	mpib_code64(c, &a->first);
	mpib_code16(c, &a->slots);
	if (mpib_code_bad(c, a->slots > MPIB_TABLE_SLOTS ||
				     a->conn >= MPIB_WIRE_CONNS_MAX))
		return;
	/* Only the bytes that the slots need are in the message. */
	mpib_code(c, a->seen, (a->slots * MPIB_RAILS + 7u) / 8);
}

static void code_rail(struct mpib_codec *c, struct mpib_peer_msg *msg)
{
	struct mpib_rail_msg *m = &msg->rail;

	mpib_code8(c, &m->type);
	mpib_code8(c, &m->rail);
	mpib_code32(c, &m->epoch);
	switch ((enum mpib_rail_msg_type)m->type) {
	case MPIB_RAIL_FENCE:
		mpib_code8(c, &m->cause);
		break;
	case MPIB_RAIL_FENCED:
		mpib_code_bool(c, &m->more);
		mpib_code_bool(c, &m->lost);
		mpib_code8(c, &m->bitmaps);
		if (mpib_code_bad(c, m->bitmaps > MPIB_RECV_BITMAPS))
			m->bitmaps = 0;
		for (unsigned i = 0; i < m->bitmaps; i++)
			code_bitmap(c, &m->bitmap[i]);
		break;
	case MPIB_RAIL_RECONNECT:
		code_qps(c, &m->info);
		break;
	case MPIB_RAIL_UP:
		break;
	case MPIB_RAIL_DRAIN:
		mpib_code_bool(c, &m->on);
		break;
	case MPIB_RAIL_LOOK:
		break;
	case MPIB_RAIL_LOOKED:
		mpib_code_bool(c, &m->moved);
		break;
	default:
		mpib_code_bad(c, true);
	}
	mpib_code_bad(c, m->rail >= MPIB_RAILS || m->cause >= MPIB_CAUSES);
}

/* The report of a node, which a REPORT contains. */

static void code_short(struct mpib_codec *c, char *text, size_t size)
{
	uint8_t n = (uint8_t)strnlen(text, size - 1);

	mpib_code8(c, &n);
	if (!mpib_code_bad(c, n >= size))
		code_text(c, text, n);
}

/* Encode or decode bits. When decoding, clear the bits that this version does
 * not know. */
static void code_bits(struct mpib_codec *c, uint8_t *v, uint8_t known)
{
	mpib_code8(c, v);
	if (!c->to)
		*v &= known;
}

static void code_rails(struct mpib_codec *c, struct mpib_node_report *m)
{
	mpib_code8(c, &m->devices);
	mpib_code8(c, &m->rails);
	if (mpib_code_bad(c, m->rails > MPIB_RAILS ||
				     m->devices > MPIB_DEVICES_MAX ||
				     (unsigned)m->devices * m->rails >
					     MPIB_RAILS_MAX))
		m->devices = m->rails = 0;
	for (unsigned i = 0; i < m->devices; i++)
		code_short(c, m->device[i], sizeof(m->device[i]));
	for (unsigned i = 0; i < (unsigned)m->devices * m->rails; i++) {
		struct mpib_report_rail *rail = &m->rail[i];

		code_bits(c, &rail->flags, MPIB_REPORT_FLAGS);
		mpib_code32(c, &rail->speed_mbps);
		mpib_code32(c, &rail->expected_mbps);
		mpib_code64(c, &rail->errors);
		mpib_code64(c, &rail->failovers);
	}
}

static void code_jobs(struct mpib_codec *c, struct mpib_node_report *m)
{
	mpib_code8(c, &m->jobs);
	if (mpib_code_bad(c, m->jobs > MPIB_REPORT_JOBS))
		m->jobs = 0;
	for (unsigned i = 0; i < m->jobs; i++) {
		struct mpib_report_job *job = &m->job[i];

		code_short(c, job->name, sizeof(job->name));
		mpib_code32(c, &job->uid);
		mpib_code32(c, &job->clients);
		mpib_code64(c, &job->tx_bytes);
		mpib_code64(c, &job->rx_bytes);
	}
}

static void code_waiting(struct mpib_codec *c, struct mpib_node_report *m)
{
	mpib_code8(c, &m->waiting);
	if (mpib_code_bad(c, m->waiting > MPIB_REPORT_WAITING))
		m->waiting = 0;
	for (unsigned i = 0; i < m->waiting; i++) {
		struct mpib_report_wait *wait = &m->wait[i];

		code_short(c, wait->job, sizeof(wait->job));
		code_short(c, wait->peer, sizeof(wait->peer));
		code_short(c, wait->last, sizeof(wait->last));
		code_bits(c, &wait->sends, 1);
		mpib_code32(c, &wait->pid);
		mpib_code32(c, &wait->age_ms);
		mpib_code32(c, &wait->local_rank);
		mpib_code32(c, &wait->remote_rank);
	}
}

static void code_report(struct mpib_codec *c, struct mpib_peer_msg *msg)
{
	struct mpib_node_report *m = &msg->report;

	code_short(c, m->version, sizeof(m->version));
	code_short(c, m->host, sizeof(m->host));
	mpib_code32(c, &m->uptime_s);
	mpib_code32(c, &m->clients);
	mpib_code32(c, &m->connections);
	mpib_code32(c, &m->stuck);
	code_rails(c, m);
	code_short(c, m->drain_why, sizeof(m->drain_why));
	code_jobs(c, m);
	code_waiting(c, m);
	mpib_code8(c, &m->settings);
	if (mpib_code_bad(c, m->settings > MPIB_REPORT_SETTINGS))
		m->settings = 0;
	for (unsigned i = 0; i < m->settings; i++) {
		mpib_code32(c, &m->setting[i].name);
		mpib_code32(c, &m->setting[i].value);
	}
}

/* A part of a message: a number or bytes in struct mpib_peer_msg, or fields
 * that a function encodes. A message is a sequence of parts. */
struct part {
	/* Offset and size of the field. If `bytes` is 0, `code` handles the
	 * part. If `bytes` is 0 and `code` is NULL, the entry is unused. */
	uint16_t at, bytes;
	bool number; /* the field is a number of `bytes` bytes */
	void (*code)(struct mpib_codec *c, struct mpib_peer_msg *m);
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
#define LANE CODE(code_lane)
#define RAIL CODE(code_rail)
#define REPORT CODE(code_report)
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
	[MPIB_PEER_CONN_CLOSE] = { "CONN_CLOSE",
				   { NAME, NUMBER(to), NUMBER(ended), WHY } },
	[MPIB_PEER_CONN_CLOSED] = { "CONN_CLOSED", { NAME } },
	[MPIB_PEER_CONN_WAIT] = { "CONN_WAIT", { NAME } },
	[MPIB_PEER_LANE_RAIL] = { "LANE_RAIL", { NUMBER(to), RAIL } },
	[MPIB_PEER_ASK] = { "ASK", { { 0 } } },
	[MPIB_PEER_REPORT] = { "REPORT", { REPORT } },
	[MPIB_PEER_LANE_KEPT] = { "LANE_KEPT", { NUMBER(to), NUMBER(from) } },
};

/* Return the parts of a message type, an array of PARTS entries. Return NULL if
 * the type is unknown. */
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
	/* Dropping the const is safe, because encoding does not change the
	 * message. */
	union {
		const struct mpib_peer_msg *given;
		struct mpib_peer_msg *m;
	} msg = { m };

	assert(part);
	mpib_code8(&c, &type);
	for (unsigned i = 0; i < PARTS; i++)
		code_part(&c, &part[i], msg.m);
	/* The longest message, a REPORT of MPIB_RAILS_MAX rails with all texts
	 * of full length, leaves at least a tenth of a frame free. */
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
