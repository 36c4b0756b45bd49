/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection's requests, from the descriptor that begins a request to its
 * completion word in the reply segment. Shard thread.
 */
#include "engine/conn/request.h"

#include "base/clock.h"

int engine_conn_feed_more(struct engine_conn *f, const struct mpib_desc *d)
{
	struct engine_request *r = &f->req[d->req];

	if (!r->active || r->gen != d->gen || r->fed != d->pos ||
	    r->total != d->total || d->len == 0)
		return -EINVAL;
	r->fed += d->len;
	return 0;
}

static struct mpib_stamps *stamps_of(struct engine_conn *f, unsigned req)
{
	if (f->req[req].n <= MPIB_STAMPED_MAX)
		return &f->completion[req].at;
	return &f->client->reply->group_at[f->index][req];
}

uint64_t engine_conn_oldest_ns(const struct engine_conn *f)
{
	uint64_t oldest = f->shard->now;

	for (unsigned i = 0; f->outstanding && i < MPIB_REQUESTS; i++) {
		if (f->req[i].active && f->req[i].since < oldest)
			oldest = f->req[i].since;
	}
	return f->shard->now - oldest;
}

void engine_conn_progress(struct engine_conn *f, unsigned req, uint32_t bytes)
{
	const struct engine_request *r = &f->req[req];

	if (r->active && r->multipart)
		mpib_completion_advance(&f->completion[req], r->gen, bytes);
}

/* Writing of reports (request.h) to the reply segment, which the client can
 * read but not write. Shard thread. */

void mpib_report_begin(struct engine_conn *f, unsigned req)
{
	if (f->req[req].n > MPIB_STAMPED_MAX)
		mpib_stamps_clear(stamps_of(f, req));
	mpib_completion_watch(&f->completion[req], f->req[req].gen);
}

void mpib_report_over(struct engine_conn *f, unsigned req)
{
	mpib_completion_stamp(&stamps_of(f, req)->over, mpib_now_ns());
}

void mpib_report_rail(struct engine_conn *f, unsigned req, unsigned rail,
		      int chains, uint32_t qpn, uint64_t bytes)
{
	struct engine_request *r = &f->req[req];
	struct mpib_completion *c = &f->completion[req];
	struct mpib_stamps *at = stamps_of(f, req);
	struct mpib_rail_report told;

	if (!r->active)
		return;
	told = mpib_completion_rail(c, rail, r->gen);
	told.bytes += bytes;
	if (qpn)
		told.qpn = qpn;
	if (chains > 0) {
		r->chains[rail]++;
		told.state = MPIB_RAIL_POSTED;
		/* Relaxed: only this shard writes it. */
		if (!atomic_load_explicit(&at->posted[rail],
					  memory_order_relaxed))
			mpib_completion_stamp(&at->posted[rail], mpib_now_ns());
	} else if (chains < 0) {
		r->chains[rail] -= r->chains[rail] > 0;
		if (r->chains[rail] == 0) {
			told.state = MPIB_RAIL_DONE;
			mpib_completion_stamp(&at->done[rail], mpib_now_ns());
		}
	}
	mpib_completion_report(c, rail, &told);
}
