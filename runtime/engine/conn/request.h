/* SPDX-License-Identifier: Apache-2.0 */
/* A connection's requests: the effect of each descriptor and each completion.
 * Functions that are not inline are in request.c. Shard thread. */
#ifndef MPIB_ENGINE_CONN_REQUEST_H
#define MPIB_ENGINE_CONN_REQUEST_H

#include <errno.h>

#include "engine/conn/conn.h"
#include "engine/measure/count.h"

/* Per-rail reports, for requests submitted with MPIB_OP_REPORT. Into the
 * completion of such a request, the shard thread writes the number of bytes on
 * each rail and the times of post and completion. For a request without a
 * report, the only cost is the test of its flag. */

/* Functions for a request with a report, in request.c. mpib_report_begin()
 * clears an earlier report. */
void mpib_report_begin(struct engine_conn *f, unsigned req);
/* Update the report of a rail. If `chains` is 1, a chain of the request with
 * these bytes was posted to the rail, on the QP with number `qpn`. If `chains`
 * is -1, a chain has completed. If `chains` is 0, a slot that got these bytes
 * on the rail has ended. `qpn` is 0 if the QP's number was already reported or
 * is unknown. */
void mpib_report_rail(struct engine_conn *f, unsigned req, unsigned rail,
		      int chains, uint32_t qpn, uint64_t bytes);
/* Report that the request ends. */
void mpib_report_over(struct engine_conn *f, unsigned req);

/* Check that the descriptor's bytes lie in its region, and take a reference to
 * the region. Set *mr to NULL for an empty part. An error leaves *mr unchanged.
 * -EFAULT: the bytes are not inside the region. -ECANCELED: the region does not
 * exist any more. */
static inline int engine_conn_hold(struct engine_conn *f,
				   const struct mpib_desc *d,
				   struct mpib_mr **mr, uint64_t *addr)
{
	struct mpib_mr *m;

	if (d->len == 0) {
		*mr = NULL;
		*addr = 0;
		return 0;
	}
	if (d->mr >= MPIB_MRS_MAX)
		return -EFAULT;
	m = f->client->mr[d->mr];
	if (!m)
		return -ECANCELED;
	if (d->off > m->len || d->len > m->len - d->off)
		return -EFAULT;
	mpib_mr_ref(m);
	*mr = m;
	*addr = m->addr + d->off;
	return 0;
}

/* Add a later part to a request. -EINVAL: the part does not follow the previous
 * one. */
int engine_conn_feed_more(struct engine_conn *f, const struct mpib_desc *d);

/* Begin or continue the request of a descriptor. A new receive gets its number
 * from *msg. `msg` is NULL for sends. Returns the values of
 * engine_conn_feed_more(). */
static inline int engine_conn_feed(struct engine_conn *f,
				   const struct mpib_desc *d, uint32_t *msg)
{
	struct engine_request *r = mpib_kept(&f->req[d->req]);

	if (d->pos > 0 || r->active)
		return engine_conn_feed_more(f, d);
	r->gen = d->gen;
	r->active = true;
	r->multipart = d->len != d->total || d->op & MPIB_OP_AT_ONCE;
	r->posted = r->refused = false;
	r->report = d->op & MPIB_OP_REPORT;
	r->n = d->n;
	r->msg = msg ? (*msg)++ : 0;
	r->total = d->total;
	r->fed = d->len;
	r->done = 0;
	r->since = f->shard->now;
	f->outstanding++;
	if (r->report) {
		for (unsigned i = 0; i < MPIB_RAILS; i++)
			r->chains[i] = 0;
		mpib_report_begin(f, d->req);
	}
	MPIB_TRACE(enqueue, f->client->id, f->index, d->req, d->total,
		   f->is_sender);
	return 0;
}

/* Write the request's completion word. `sizes` may be NULL if `n` is 0. No
 * effect if the request is not active. */
__attribute__((always_inline)) static inline void
engine_conn_finish(struct engine_conn *f, unsigned req, int32_t result,
		   const uint32_t *sizes, unsigned n)
{
	struct engine_request *r = mpib_kept(&f->req[req]);
	uint64_t ns = f->shard->now - r->since;

	if (!r->active)
		return;
	for (unsigned i = 0; i < n; i++)
		f->completion[req].size[i] = sizes[i];
	r->active = false;
	f->outstanding--;
	if (result >= 0)
		mpib_record(f, MPIB_TIME_SUBMIT_DONE, ns);
	if (r->report)
		mpib_report_over(f, req);
	mpib_completion_finish(&f->completion[req], r->gen, result);
	MPIB_TRACE(complete, f->client->id, f->index, req, result, ns);
}

#endif
