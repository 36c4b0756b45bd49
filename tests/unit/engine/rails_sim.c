/* SPDX-License-Identifier: Apache-2.0 */
/* Two rails in simulated time: see rails_sim.h. */
#include "rails_sim.h"

#include <string.h>

#include "draw.h"
#include "engine/split/mode.h"

#define STEP (10 * SIM_US)
/* maximum number of bytes that the processor passes to a rail at once */
#define QUANTUM (64u << 10)

uint64_t sim_draw(struct rails_sim *s, uint64_t n)
{
	return draw(&s->seed, n);
}

void sim_start(struct rails_sim *s, uint64_t seed, uint64_t sout, uint64_t sup)
{
	memset(s, 0, sizeof(*s));
	s->seed = seed;
	s->now = SIM_SEC;
	s->rail[MPIB_RAIL_SOUT].rate = sout;
	s->rail[MPIB_RAIL_SUP].rate = sup;
	s->rail[0].delay = s->rail[1].delay = 50 * SIM_US;
	s->share = SIM_ADAPTIVE;
}

static void add_lane(struct rails_sim *s)
{
	unsigned lane = s->lanes++;

	for (unsigned r = 0; r < MPIB_RAILS; r++)
		mpib_tracker_init(
			&s->track[lane][r],
			&s->rail[r].bytes[s->shards ? lane % s->shards : 0]);
	mpib_adapt_init(&s->adapt[lane], s->track[lane], s->now);
}

void sim_add(struct rails_sim *s, unsigned lane, unsigned depth, uint32_t len)
{
	if (lane == s->lanes)
		add_lane(s);
	s->conn[s->conns++] =
		(struct sim_conn){ .lane = lane, .depth = depth, .len = len };
}

/* Split a message, and set `rail` to the bytes of each rail. Return the result
 * of mpib_adapt_posted(), or -1 with a static split. */
static int64_t sim_split(struct rails_sim *s, struct sim_conn *c,
			 struct sim_message *m, uint32_t *rail, bool more)
{
	struct mpib_adapt *a = &s->adapt[c->lane];
	enum mpib_adapt_op op = m->len <= MPIB_ADAPT_SMALL ? MPIB_ADAPT_SHORT
				: more			   ? MPIB_ADAPT_FOLLOWED
							   : MPIB_ADAPT_ALONE;

	rail[MPIB_RAIL_SUP] =
		s->share == SIM_ADAPTIVE
			? mpib_adapt_split(a, s->track[c->lane], op, m->len,
					   NULL, s->now)
			: mpib_sup_bytes(s->share, m->len);
	rail[MPIB_RAIL_SOUT] = m->len - rail[MPIB_RAIL_SUP];
	return s->share == SIM_ADAPTIVE ? mpib_adapt_posted(a, rail[0], rail[1])
					: -1;
}

static void sim_post(struct rails_sim *s, struct sim_conn *c, bool more)
{
	struct sim_message *m = &c->message[c->head++ % SIM_DEPTH];
	uint32_t rail[MPIB_RAILS];

	*m = (struct sim_message){ .len = c->len, .posted = s->now };
	m->before = sim_split(s, c, m, rail, more);
	m->cut = rail[0] && rail[1];
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		struct sim_rail *q = &s->rail[r];

		if (!rail[r])
			continue;
		m->left[r] = rail[r];
		m->cost[r] = s->wr_cost;
		m->ack[r] = UINT64_MAX;
		q->queue[q->head++ % SIM_QUEUE] = m;
		q->sent += rail[r];
		s->stripes++;
		mpib_tracker_post(&s->track[c->lane][r], &m->stripe[r], rail[r],
				  s->now);
	}
}

/* Return the message to serve next. A rail with n QPs serves its n oldest
 * messages in turn. */
static struct sim_message **next_of(struct sim_rail *q, unsigned qps)
{
	unsigned n = q->head - q->tail;

	n = n < qps ? n : qps;
	return &q->queue[(q->tail + (n > 1 ? q->turn++ % n : 0)) % SIM_QUEUE];
}

/* Let rail `r` carry at most this many bytes. Return the number of bytes that
 * the rail did not carry. */
static uint64_t carry(struct rails_sim *s, unsigned r, uint64_t bytes)
{
	struct sim_rail *q = &s->rail[r];

	while (bytes && q->tail != q->head) {
		struct sim_message **at = next_of(q, s->qps), *m = *at;
		uint64_t cost = m->cost[r] < bytes ? m->cost[r] : bytes;
		uint64_t n;

		m->cost[r] -= (uint32_t)cost;
		bytes -= cost;
		n = m->left[r] < bytes ? m->left[r] : bytes;
		if (s->processor && n > QUANTUM)
			n = QUANTUM;
		if (n > q->credit >> 10)
			n = q->credit >> 10;
		m->left[r] -= (uint32_t)n;
		q->credit -= n << 10;
		bytes -= n;
		if (m->left[r])
			return bytes;
		m->ack[r] = s->now + q->delay;
		*at = q->queue[q->tail++ % SIM_QUEUE];
	}
	return bytes;
}

/* Add the bytes that the rail may carry in this step to its credit. */
static void give_credit(struct rails_sim *s, struct sim_rail *q)
{
	uint64_t fresh = (q->rate << 10) / (SIM_SEC / STEP);

	if (s->every && sim_draw(s, s->every / STEP) == 0)
		q->stands = s->now + s->stands;
	if (s->noise)
		fresh = fresh * (100 - s->noise + sim_draw(s, 2 * s->noise)) /
			100;
	if (q->tail == q->head || q->stands > s->now)
		q->credit = 0;
	else
		q->credit += fresh;
}

static void feed_rails(struct rails_sim *s)
{
	uint64_t bytes =
		s->processor ? s->processor / (SIM_SEC / STEP) : UINT64_MAX;
	uint64_t before = 0;

	for (unsigned r = 0; r < MPIB_RAILS; r++)
		give_credit(s, &s->rail[r]);
	/* Feed the rails in turn until the processor or both rails have reached
	 * their limits. */
	for (unsigned idle = 0; idle < 2 && bytes; s->turn++) {
		before = bytes;
		bytes = carry(s, s->turn % MPIB_RAILS, bytes);
		idle = before == bytes ? idle + 1 : 0;
	}
}

static void ack_message(struct rails_sim *s, struct sim_conn *c,
			struct sim_message *m)
{
	struct mpib_adapt_end end;

	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		if (!m->ack[r] || m->ack[r] > s->now)
			continue;
		m->ack[r] = 0;
		mpib_tracker_ack(&s->track[c->lane][r], &m->stripe[r], s->now);
		if (m->before < 0 || m->ack[!r])
			continue;
		end = (struct mpib_adapt_end){ m->len, m->cut,
					       s->now - m->posted,
					       (uint64_t)m->before };
		mpib_adapt_ended(&s->adapt[c->lane], s->track[c->lane], &end);
	}
}

static void poll_conn(struct rails_sim *s, struct sim_conn *c)
{
	for (unsigned i = c->tail; i != c->head; i++)
		ack_message(s, c, &c->message[i % SIM_DEPTH]);
	while (c->tail != c->head) {
		struct sim_message *m = &c->message[c->tail % SIM_DEPTH];

		if (m->ack[0] || m->ack[1])
			break;
		s->took = s->now - m->posted;
		s->slowest = s->took > s->slowest ? s->took : s->slowest;
		s->done += m->len;
		c->done += m->len;
		s->messages++;
		c->tail++;
	}
}

static void sim_step(struct rails_sim *s)
{
	s->now += STEP;
	feed_rails(s);
	if (s->now < s->polls_at)
		return;
	s->polls_at = s->now + (s->poll ? sim_draw(s, s->poll) : 0);
	for (unsigned i = 0; i < s->conns; i++)
		poll_conn(s, &s->conn[i]);
	for (unsigned i = 0; i < s->conns; i++) {
		struct sim_conn *c = &s->conn[i];

		while (c->head - c->tail < c->depth)
			sim_post(s, c, c->depth - (c->head - c->tail) > 1);
	}
}

uint64_t sim_run(struct rails_sim *s, uint64_t ns)
{
	uint64_t before = s->done, until = s->now + ns;

	while (s->now < until)
		sim_step(s);
	return (s->done - before) * (SIM_SEC / SIM_US) / (ns / SIM_US);
}

unsigned sim_part(struct rails_sim *s, uint64_t ns)
{
	uint64_t sout = s->rail[MPIB_RAIL_SOUT].sent;
	uint64_t sup = s->rail[MPIB_RAIL_SUP].sent;

	sim_run(s, ns);
	sout = s->rail[MPIB_RAIL_SOUT].sent - sout;
	sup = s->rail[MPIB_RAIL_SUP].sent - sup;
	return sout + sup ? (unsigned)(sup * 1000 / (sout + sup)) : 500;
}
