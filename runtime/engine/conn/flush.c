/* SPDX-License-Identifier: Apache-2.0 */
/* Flushes of a receiving connection, see conn.h. Shard thread. */
#include "engine/conn/request.h"

/* If nothing has arrived on a rail for this time, the rail's data counts as
 * settled without a READ. A rail may fail between its last write and the READ.
 * Then no READ is possible until the rail is up again. No write stays on PCIe
 * for this long, because the longest default completion timeout of devices is
 * 50 ms. */
#define SETTLE_NS 100000000u
#define PER_TURN 32 /* connections per turn, each with up to 32 flushes */

static struct mpib_flush *flush_at(struct engine_conn *f, uint32_t i)
{
	return &f->rx.flush.at[i % MPIB_FLUSHES];
}

static bool flush_well_formed(const struct engine_conn *f,
			      const struct mpib_desc *d)
{
	return d->n == 1 && d->idx == 0 && d->len == 1 && d->pos == 0 &&
	       d->total == 1 && d->gen == f->rx.flush.taken + 1;
}

static void flush_leave(struct engine_conn *f)
{
	if (f->rx.flush.queued)
		TAILQ_REMOVE(&f->shard->flushing, f, rx.flush.link);
	f->rx.flush.queued = false;
}

static void flush_enter(struct engine_conn *f)
{
	if (!f->rx.flush.queued)
		TAILQ_INSERT_TAIL(&f->shard->flushing, f, rx.flush.link);
	f->rx.flush.queued = true;
}

static void flush_tell(struct engine_conn *f)
{
	/* Release pairs with the acquire in mpib_flush_over(). */
	atomic_store_explicit(&f->reply->flushed, f->rx.flush.ended,
			      memory_order_release);
}

/* End the oldest flushes, in order. Stop at the first flush that still waits
 * for a READ. */
static void flush_end(struct engine_conn *f)
{
	struct mpib_flushes *fl = &f->rx.flush;
	uint32_t before = fl->ended;

	while (fl->ended != fl->taken) {
		struct mpib_flush *p = flush_at(f, fl->ended);

		if (p->unread || p->reading)
			break;
		mpib_mr_unref(p->mr);
		p->mr = NULL;
		fl->ended++;
	}
	if (fl->ended == before)
		return;
	mpib_submit_again(f);
	/* A connection that has ended drops its unfinished flushes. The client
	 * must not see these flushes as done. */
	if (f->state == ENGINE_CONN_OPEN)
		flush_tell(f);
}

/* Return whether no READ is possible through the rail, but no write of the rail
 * can still be in flight. */
static bool rail_settled(const struct engine_conn *f,
			 const struct mpib_flush *p, unsigned r)
{
	return f->shard->rail[r].lost ||
	       (!f->client->tenant->loop[r].usable &&
		f->shard->now - p->arrived[r] > SETTLE_NS);
}

/* Post the READ of flush i on rail r. Return 1 if it was posted, else 0. */
static int flush_post(struct engine_conn *f, uint32_t i, unsigned r)
{
	struct mpib_flush *p = flush_at(f, i);
	uint64_t wr_id = mpib_wr_tag(MPIB_WR_FLUSH, f->id, i & 0xffff);
	uint8_t bit = mpib_rail_bit(r);

	if (!(p->unread & bit))
		return 0;
	if (rail_settled(f, p, r)) {
		p->unread &= (uint8_t)~bit;
		return 0;
	}
	if (!mpib_loopback_read(f->client->tenant, r, wr_id, p->addr,
				p->mr->rkey[r]))
		return 0;
	p->unread &= (uint8_t)~bit;
	p->reading |= bit;
	return 1;
}

static int flush_step(struct engine_conn *f)
{
	struct mpib_flushes *fl = &f->rx.flush;
	uint8_t unread = 0;
	int posted = 0;

	for (uint32_t i = fl->ended; i != fl->taken; i++) {
		for (unsigned r = 0; r < f->lane->rails; r++)
			posted += flush_post(f, i, r);
		unread |= flush_at(f, i)->unread;
	}
	if (unread)
		flush_enter(f);
	else
		flush_leave(f);
	flush_end(f);
	return posted;
}

static int flush_begin(struct engine_conn *f, const struct mpib_desc *d)
{
	struct mpib_flushes *fl = &f->rx.flush;
	struct mpib_flush *p = flush_at(f, fl->taken);
	struct mpib_mr *mr;
	uint64_t addr;
	int rc;

	if (!flush_well_formed(f, d))
		return -EINVAL;
	rc = engine_conn_hold(f, d, &mr, &addr);
	if (rc < 0)
		return rc;
	if (!mr->device) {
		mpib_mr_unref(mr);
		return -EINVAL;
	}
	*p = (struct mpib_flush){ .mr = mr, .addr = addr };
	for (unsigned r = 0; r < f->lane->rails; r++) {
		p->arrived[r] = fl->arrived[r];
		if (fl->arrived[r] && mr->mr[r])
			p->unread |= mpib_rail_bit(r);
	}
	fl->taken++;
	flush_step(f);
	return 1;
}

int mpib_flush_take(struct engine_conn *f, const struct mpib_desc *d)
{
	if (!f->rx.flush.early)
		return flush_begin(f, d);
	f->rx.flush.early--;
	return 1;
}

int mpib_flush_early(struct engine_conn *f, struct mpib_desc *d)
{
	struct mpib_flushes *fl = &f->rx.flush;
	uint64_t end = f->ring.next + f->ring.size;
	int rc;

	if (fl->looked < f->ring.next)
		fl->looked = f->ring.next;
	while (fl->looked < end && mpib_flush_room(fl) &&
	       mpib_ring_look(&f->ring, fl->looked, d)) {
		fl->looked++;
		if (d->op != MPIB_OP_FLUSH)
			continue;
		rc = flush_begin(f, d);
		fl->early += rc > 0;
		return rc;
	}
	return 0;
}

int mpib_flush_turn(struct mpib_shard *s)
{
	struct engine_conn *f = NULL;
	struct engine_conn *last = TAILQ_LAST(&s->flushing, engine_conn_list);
	int posted = 0;

	for (unsigned i = 0; i < PER_TURN && f != last; i++) {
		f = TAILQ_FIRST(&s->flushing);
		/* if needed, flush_step() appends the connection again */
		flush_leave(f);
		posted += flush_step(f);
	}
	/* keep the shard awake until all connections were served */
	return posted + (f != last);
}

void mpib_flush_read(struct engine_conn *f, unsigned rail, uint32_t op, bool ok,
		     bool bad)
{
	struct mpib_flushes *fl = &f->rx.flush;
	uint32_t i = fl->ended + ((op - fl->ended) & 0xffff);
	struct mpib_flush *p = flush_at(f, i);
	uint8_t bit = mpib_rail_bit(rail);

	mpib_loopback_over(f->client->tenant, rail, ok);
	p->reading &= (uint8_t)~bit;
	if (bad)
		engine_conn_break(f, -EIO,
				  "rail %s cannot read back what it wrote into "
				  "device memory",
				  mpib_rail_label(f->shard, rail));
	else if (!ok && f->state == ENGINE_CONN_OPEN)
		p->unread |= bit;
	if (p->unread)
		flush_enter(f);
	flush_end(f);
	engine_conn_check_stopped(f);
}

void mpib_flush_lost(struct engine_conn *f, unsigned rail)
{
	struct mpib_flushes *fl = &f->rx.flush;
	uint8_t bit = mpib_rail_bit(rail);

	for (uint32_t i = fl->ended; i != fl->taken; i++) {
		flush_at(f, i)->unread &= (uint8_t)~bit;
		flush_at(f, i)->reading &= (uint8_t)~bit;
	}
	flush_end(f);
}

void mpib_flush_quit(struct engine_conn *f)
{
	struct mpib_flushes *fl = &f->rx.flush;

	flush_leave(f);
	for (uint32_t i = fl->ended; i != fl->taken; i++)
		flush_at(f, i)->unread = 0;
	flush_end(f);
}

bool mpib_flush_idle(const struct engine_conn *f)
{
	for (unsigned i = 0; i < MPIB_FLUSHES; i++) {
		if (f->rx.flush.at[i].reading)
			return false;
	}
	return true;
}

bool mpib_flush_uses(const struct engine_conn *f, const struct mpib_mr *mr)
{
	const struct mpib_flushes *fl = &f->rx.flush;

	for (uint32_t i = fl->ended; i != fl->taken; i++) {
		if (fl->at[i % MPIB_FLUSHES].mr == mr)
			return true;
	}
	return false;
}

void mpib_flush_drop(struct engine_conn *f)
{
	flush_leave(f);
	for (unsigned i = 0; i < MPIB_FLUSHES; i++) {
		struct mpib_flush *p = &f->rx.flush.at[i];

		if (p->mr)
			mpib_mr_unref(p->mr);
		*p = (struct mpib_flush){ 0 };
	}
	f->rx.flush.ended = f->rx.flush.taken;
}
