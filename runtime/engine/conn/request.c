/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection's requests, from the descriptor that opens one to its completion
 * word in the reply segment. Shard thread.
 */
#include <errno.h>

#include "engine/conn/conn.h"
#include "engine/conn/report.h"
#include "engine/measure/count.h"

int engine_conn_hold(struct engine_conn *f, const struct mpib_desc *d,
		     struct mpib_mr **mr, uint64_t *addr)
{
	struct mpib_mr *m;

	*mr = NULL;
	*addr = 0;
	if (d->len == 0)
		return 0;
	if (d->mr >= MPIB_MRS_MAX)
		return -EFAULT;
	m = f->client->mr[d->mr];
	if (!m || d->off > m->len || d->len > m->len - d->off)
		return -EFAULT;
	mpib_mr_ref(m);
	*mr = m;
	*addr = m->addr + d->off;
	return 0;
}

/* It is a question (ring.h) whose receive is not there. Nothing may mark its
 * completion, not even that its rails are reported. */
static bool is_unanswered(const struct engine_request *r)
{
	return r->multipart && r->fed == 0;
}

int engine_conn_feed(struct engine_conn *f, const struct mpib_desc *d)
{
	struct engine_request *r = &f->req[d->req];

	/* A later part, or the first bytes of a send that began with a
	 * question, whose request is active already. */
	if (d->pos > 0 || r->active) {
		if (!r->active || r->gen != d->gen || r->fed != d->pos ||
		    r->total != d->total || d->len == 0)
			return -EINVAL;
		r->fed += d->len;
		return 0;
	}
	*r = (struct engine_request){
		.gen = d->gen,
		.active = true,
		.multipart = d->len != d->total,
		.n = d->n,
		.msg = f->is_sender ? 0 : f->rx.msg++,
		.total = d->total,
		.fed = d->len,
		.since = f->shard->now,
		.report = d->op & MPIB_OP_REPORT,
	};
	if (r->report && !is_unanswered(r))
		mpib_report_begin(f, d->req);
	f->outstanding++;
	MPIB_TRACE(enqueue, f->client->id, f->index, d->req, d->total,
		   f->is_sender);
	return 0;
}

void engine_conn_finish(struct engine_conn *f, unsigned req, int32_t result,
			const uint32_t *sizes, unsigned n)
{
	struct engine_request *r = &f->req[req];

	if (!r->active)
		return;
	r->active = false;
	f->outstanding--;
	if (result >= 0)
		mpib_record(f, MPIB_TIME_SUBMIT_DONE, f->shard->now - r->since);
	for (unsigned i = 0; i < n; i++)
		f->completion[req].size[i] = sizes[i];
	mpib_report_over(f, req);
	mpib_completion_finish(&f->completion[req], r->gen, result);
	MPIB_TRACE(complete, f->client->id, f->index, req, result,
		   f->shard->now - r->since);
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

	if (!r->active || !r->multipart)
		return;
	if (r->report && is_unanswered(r))
		mpib_report_begin(f, req);
	else
		mpib_completion_advance(&f->completion[req], r->gen, bytes);
}
