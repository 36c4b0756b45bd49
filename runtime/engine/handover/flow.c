/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flows. Regions are named by their handles, places in them by their distance
 * from the start: here they lie where this process has mapped them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/sure.h"
#include "engine/flow/flow.h"
#include "engine/handover/handover.h"

/* A held region and a place of len bytes in it. */
static void place(struct mpib_parcel *p, struct mpib_flow *f,
		  struct mpib_mr **mr, uint64_t *addr, uint32_t len)
{
	uint32_t handle = p->packing && *mr ? (*mr)->handle : 0;
	uint64_t off = handle ? *addr - (*mr)->addr : 0;
	struct mpib_mr *m;

	mpib_parcel_count(p, &handle, MPIB_MRS_MAX - 1);
	mpib_parcel_u64(p, &off);
	if (p->packing)
		return;
	*mr = NULL;
	*addr = 0;
	if (!handle)
		return;
	m = f->attachment->mr[handle];
	if (!m || off > m->len || len > m->len - off) {
		mpib_parcel_fail(p, "a place outside of its region");
		return;
	}
	mpib_mr_ref(m);
	*mr = m;
	*addr = m->addr + off;
}

static void request(struct mpib_parcel *p, struct mpib_freq *r)
{
	mpib_parcel_u32(p, &r->gen);
	mpib_parcel_bool(p, &r->active);
	mpib_parcel_bool(p, &r->multipart);
	mpib_parcel_bool(p, &r->posted);
	mpib_parcel_bool(p, &r->report);
	mpib_parcel_u8(p, &r->n);
	mpib_parcel_u32(p, &r->msg);
	mpib_parcel_u32(p, &r->total);
	mpib_parcel_u32(p, &r->fed);
	mpib_parcel_u32(p, &r->done);
	mpib_parcel_u64(p, &r->since); /* of the machine's one clock */
	for (unsigned i = 0; i < MPIB_RAILS; i++) {
		uint8_t state = (uint8_t)r->rail[i].state;

		mpib_parcel_u8(p, &state);
		r->rail[i].state = (enum mpib_rail_state)state;
		mpib_parcel_u32(p, &r->rail[i].qpn);
		mpib_parcel_u32(p, &r->rail[i].bytes);
		mpib_parcel_u16(p, &r->chains[i]);
	}
}

/* Which request something belongs to. */
static void owner(struct mpib_parcel *p, uint8_t *req)
{
	uint32_t n = *req;

	mpib_parcel_count(p, &n, MPIB_REQUESTS - 1);
	*req = (uint8_t)n;
}

static void extent(struct mpib_parcel *p, struct mpib_flow *f,
		   struct mpib_extent *e)
{
	owner(p, &e->req);
	mpib_parcel_i32(p, &e->tag);
	mpib_parcel_u32(p, &e->len);
	mpib_parcel_u32(p, &e->pos);
	mpib_parcel_u32(p, &e->total);
	place(p, f, &e->mr, &e->addr, e->len);
}

static void share(struct mpib_parcel *p, struct mpib_flow *f,
		  struct mpib_share *s)
{
	uint32_t buf = s->buf;

	mpib_parcel_u32(p, &s->at);
	mpib_parcel_u32(p, &s->len);
	mpib_parcel_u32(p, &s->sup);
	owner(p, &s->req);
	mpib_parcel_count(p, &buf, MPIB_GROUP_MAX - 1);
	s->buf = (uint8_t)buf;
	place(p, f, &s->mr, &s->from, s->len);
}

static void piece(struct mpib_parcel *p, struct mpib_flow *f,
		  struct mpib_piece *piece)
{
	uint32_t n = piece->n;

	mpib_parcel_u8(p, &piece->c.all);
	mpib_parcel_u8(p, &piece->c.pending);
	mpib_parcel_u8(p, &piece->c.lost);
	mpib_parcel_u8(p, &piece->c.imm);
	mpib_parcel_u8(p, &piece->c.spread);
	for (unsigned k = 0; k < MPIB_RAILS; k++) {
		uint32_t carrier = piece->c.carrier[k];
		uint32_t cover = piece->c.cover[k];

		mpib_parcel_count(p, &carrier, MPIB_RAILS - 1);
		mpib_parcel_count(p, &cover, MPIB_RAILS - 1);
		piece->c.carrier[k] = (uint8_t)carrier;
		piece->c.cover[k] = (uint8_t)cover;
		mpib_parcel_u32(p, &piece->chunk[k].bytes);
	}
	mpib_parcel_u64(p, &piece->slot);
	mpib_parcel_count(p, &n, MPIB_GROUP_MAX);
	piece->n = (uint8_t)n;
	for (unsigned i = 0; i < n; i++)
		share(p, f, &piece->share[i]);
	/* Nothing is under way. */
	if (piece->c.pending != piece->c.lost)
		mpib_parcel_fail(p, "a piece is still under way");
}

static void group(struct mpib_parcel *p, struct mpib_flow *f)
{
	struct mpib_group *g = &f->tx.group;
	uint32_t n = g->n;

	mpib_parcel_count(p, &n, MPIB_GROUP_MAX);
	g->n = (uint8_t)n;
	mpib_parcel_u8(p, &g->matched);
	mpib_parcel_u8(p, &g->whole);
	mpib_parcel_u8(p, &g->held);
	mpib_parcel_u8(p, &g->mask);
	mpib_parcel_bool(p, &g->stale);
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		mpib_parcel_u32(p, &g->rail[r]);
	for (unsigned i = 0; i < n; i++) {
		owner(p, &g->req[i]);
		mpib_parcel_u32(p, &g->size[i]);
		mpib_parcel_raw(p, &g->cts[i], sizeof(g->cts[i]));
		if (g->held >> i & 1)
			extent(p, f, &g->ext[i]);
	}
}

/* Two running numbers, not too far apart. */
static void range(struct mpib_parcel *p, uint32_t *tail, uint32_t *head,
		  uint32_t most)
{
	mpib_parcel_u32(p, tail);
	mpib_parcel_u32(p, head);
	if (*head - *tail <= most)
		return;
	mpib_parcel_fail(p, "%u where %u is the most", *head - *tail, most);
	*head = *tail;
}

static void sender(struct mpib_parcel *p, struct mpib_flow *f)
{
	struct mpib_sender *tx = &f->tx;

	mpib_parcel_mark(p, "sender");
	range(p, &tx->ext_tail, &tx->ext_head, MPIB_EXTENTS);
	for (uint32_t i = tx->ext_tail; i != tx->ext_head; i++)
		extent(p, f, &tx->ext[i % MPIB_EXTENTS]);
	range(p, &tx->piece_tail, &tx->piece_head, MPIB_PIECES);
	for (uint32_t i = tx->piece_tail; i != tx->piece_head; i++)
		piece(p, f, &tx->piece[i % MPIB_PIECES]);
	mpib_parcel_u32(p, &tx->lost);
	mpib_parcel_raw(p, tx->ended, sizeof(tx->ended));
	mpib_parcel_u64(p, &tx->cts_next);
	mpib_parcel_u64(p, &tx->told);
	mpib_parcel_u32(p, &tx->msg);
	mpib_parcel_u32(p, &tx->pos);
	owner(p, &tx->req);
	mpib_parcel_u8(p, &tx->mask);
	mpib_parcel_u8(p, &tx->spread);
	mpib_parcel_bool(p, &tx->released);
	mpib_parcel_bool(p, &tx->promised);
	mpib_parcel_bool(p, &tx->moved);
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		mpib_parcel_u32(p, &tx->rail[r]);
	group(p, f);
	tx->looked_for = tx->cts_next;
	tx->looked = tx->ext_tail;
	if (!p->packing && (mpib_sender_has_work(f) || tx->lost || tx->group.n))
		mpib_flow_make_ready(f);
	if (!p->packing && f->lane->delivered && !mpib_sender_quiet(f))
		mpib_delivery_enter(f);
}

/* The slot, and where its clear-to-send says that it is. */
static void slot(struct mpib_parcel *p, struct mpib_flow *f, uint64_t number)
{
	struct mpib_slot *s = &f->rx.slot[number % MPIB_SLOTS];
	struct mpib_cts *cts = f->tables.out;
	uint32_t state = s->state, n = s->n;

	cts += number % MPIB_SLOTS;
	mpib_parcel_count(p, &state, MPIB_SLOT_CANCELLED);
	mpib_parcel_count(p, &n, MPIB_GROUP_MAX);
	s->state = (uint8_t)state;
	s->n = (uint8_t)n;
	owner(p, &s->req);
	mpib_parcel_u8(p, &s->idx);
	mpib_parcel_u8(p, &s->expected);
	mpib_parcel_u8(p, &s->seen);
	mpib_parcel_u32(p, &s->size_q);
	mpib_parcel_u32(p, &s->pos);
	mpib_parcel_u32(p, &s->len);
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		mpib_parcel_u32(p, &s->rail[r]);
	place(p, f, &s->mr, &cts->addr, s->len);
	for (unsigned r = 0; !p->packing && s->mr && r < f->lane->rails; r++)
		cts->rkey[r] = s->mr->rkey[r];
}

static void members(struct mpib_parcel *p, struct mpib_receiver *rx)
{
	uint32_t got = rx->group_got;

	mpib_parcel_count(p, &got, MPIB_GROUP_MAX - 1);
	rx->group_got = (uint8_t)got;
	for (unsigned i = 0; i < got; i++)
		mpib_parcel_raw(p, &rx->group[i], sizeof(rx->group[i]));
}

static void receiver(struct mpib_parcel *p, struct mpib_flow *f)
{
	struct mpib_receiver *rx = &f->rx;

	mpib_parcel_mark(p, "receiver");
	mpib_parcel_u64(p, &rx->tail);
	mpib_parcel_u64(p, &rx->freed);
	mpib_parcel_u64(p, &rx->cts_posted);
	mpib_parcel_u64(p, &rx->next);
	mpib_parcel_u32(p, &rx->msg);
	members(p, rx);
	if (rx->next - rx->tail > MPIB_SLOTS ||
	    rx->cts_posted - rx->tail > rx->next - rx->tail) {
		mpib_parcel_fail(p, "slots out of their range");
		return;
	}
	for (uint64_t i = rx->tail; i != rx->next; i++)
		slot(p, f, i);
	if (p->packing)
		return;
	/* To an end that may have moved, too. */
	rx->told = MPIB_NOT_TOLD;
	mpib_delivery_owe(f);
	/* With the keys of now. */
	rx->cts_again = rx->tail;
	rx->forgotten = rx->cts_posted;
	if (rx->tail != rx->next) {
		f->on_cts = true;
		TAILQ_INSERT_TAIL(&f->shard->cts, f, cts_link);
	}
}

static void remote_end(struct mpib_parcel *p, struct mpib_flow_info *r)
{
	mpib_parcel_count(p, &r->id, MPIB_FLOW_MAX - 1);
	for (unsigned i = 0; i < MPIB_RAILS; i++)
		mpib_parcel_u32(p, &r->rkey[i]);
	mpib_parcel_u64(p, &r->addr);
}

/* Its part among the connections of its client. */
static void claim(struct mpib_parcel *p, struct mpib_flow *f)
{
	uint32_t weight = f->claim.weight;
	uint64_t rate = f->claim.rate;

	mpib_parcel_count(p, &weight, MPIB_CLAIM_WEIGHT_MAX);
	mpib_parcel_u64(p, &rate);
	if (!p->packing)
		mpib_flow_share(f, weight, rate);
}

static void body(struct mpib_parcel *p, struct mpib_flow *f)
{
	claim(p, f);
	mpib_parcel_u8(p, &f->home);
	f->home &= 1;
	mpib_parcel_i32(p, &f->local_rank);
	mpib_parcel_i32(p, &f->remote_rank);
	mpib_flow_counts_parcel(p, f);
	mpib_parcel_count(p, &f->outstanding, MPIB_REQUESTS);
	for (unsigned i = 0; i < MPIB_REQUESTS; i++)
		request(p, &f->req[i]);
	mpib_parcel_raw(p, f->tables.in, MPIB_TABLE_BYTES);
	mpib_parcel_raw(p, f->tables.out, MPIB_TABLE_BYTES);
	if (f->is_sender)
		sender(p, f);
	else
		receiver(p, f);
}

void mpib_flow_parcel(struct mpib_parcel *p, struct mpib_flow **flow,
		      struct mpib_attachment *attachment, uint32_t index,
		      bool sending, struct mpib_lane *lane)
{
	struct mpib_flow_info remote = { 0 };
	uint32_t id = 0;

	if (p->packing) {
		id = (*flow)->id;
		remote = (*flow)->remote;
	} else {
		*flow = NULL;
	}
	mpib_parcel_mark(p, "flow");
	mpib_parcel_count(p, &id, MPIB_FLOWS_MAX - 1);
	remote_end(p, &remote);
	if (p->failed)
		return;
	if (!p->packing && mpib_flow_restore(attachment, index, sending, lane,
					     id, &remote, flow) < 0) {
		mpib_parcel_fail(p, "no tables for a connection");
		return;
	}
	body(p, *flow);
}

struct move {
	struct mpib_msg msg;
	struct mpib_flow *flow;
	struct mpib_flow_info remote;
};

/* What the old tables say is of the peer's past. No rail writes into them
 * before both ends have said that it is up, which comes later. */
static void on_moved(struct mpib_msg *msg)
{
	struct move *m = (struct move *)msg;
	struct mpib_flow *f = m->flow;

	f->remote = m->remote;
	if (f->is_sender) {
		memset(f->tables.in, 0, MPIB_TABLE_BYTES);
		f->tx.moved = true;
		f->tx.cts_seen = f->tx.cts_next;
		f->tx.group.stale = f->tx.group.n > 0;
	} else {
		f->rx.told = MPIB_NOT_TOLD;
		mpib_delivery_owe(f);
	}
	free(m);
}

bool mpib_flow_moved(struct mpib_flow *flow,
		     const struct mpib_flow_info *remote)
{
	const struct mpib_lane *lane = flow->lane;
	struct move *m;

	if (remote->id != flow->remote.id || !lane->failover)
		return false;
	for (unsigned r = 0; r < lane->rails; r++) {
		if (lane->life.rail[r].fence.state == MPIB_FENCE_LIVE)
			return false;
	}
	m = mpib_sure_alloc(sizeof(*m));
	m->flow = flow;
	m->remote = *remote;
	mpib_mailbox_send(&flow->shard->mailbox, &m->msg, on_moved);
	return true;
}
