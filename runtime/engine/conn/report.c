/* SPDX-License-Identifier: Apache-2.0 */
/* What a report says: see report.h. It is added to where the client reads it, in
 * the reply segment, which no client can write. Shard thread. */
#include "engine/conn/report.h"

#include "base/clock.h"

static struct mpib_stamps *stamps_of(struct engine_conn *f, unsigned req)
{
	if (f->req[req].n <= MPIB_STAMPED_MAX)
		return &f->completion[req].at;
	return &f->client->reply->group_at[f->index][req];
}

void mpib_report_begin(struct engine_conn *f, unsigned req)
{
	if (f->req[req].n > MPIB_STAMPED_MAX)
		mpib_stamps_clear(stamps_of(f, req));
	mpib_completion_watch(&f->completion[req], f->req[req].gen);
}

void mpib_report_posted(struct engine_conn *f, unsigned req, unsigned rail,
			uint32_t qpn, uint32_t bytes)
{
	struct engine_request *r = &f->req[req];
	struct mpib_completion *c = &f->completion[req];
	struct mpib_rail_report told = mpib_completion_rail(c, rail, r->gen);
	struct mpib_stamps *at = stamps_of(f, req);

	r->chains[rail]++;
	told.state = MPIB_RAIL_POSTED;
	told.qpn = qpn;
	told.bytes += bytes;
	/* Relaxed: this shard wrote it. */
	if (!atomic_load_explicit(&at->posted[rail], memory_order_relaxed))
		mpib_completion_stamp(&at->posted[rail], mpib_now_ns());
	mpib_completion_report(c, rail, &told);
}

void mpib_report_completed(struct engine_conn *f, unsigned req, unsigned rail,
			   uint32_t qpn)
{
	struct engine_request *r = &f->req[req];
	struct mpib_completion *c = &f->completion[req];
	struct mpib_stamps *at = stamps_of(f, req);
	struct mpib_rail_report told;

	if (!r->active)
		return;
	told = mpib_completion_rail(c, rail, r->gen);
	r->chains[rail] -= r->chains[rail] > 0;
	if (r->chains[rail] == 0)
		told.state = MPIB_RAIL_DONE;
	if (qpn)
		told.qpn = qpn;
	if (r->chains[rail] == 0)
		mpib_completion_stamp(&at->done[rail], mpib_now_ns());
	mpib_completion_report(c, rail, &told);
}

void mpib_report_arrived(struct engine_conn *f, unsigned req, unsigned rail,
			 uint64_t bytes)
{
	const struct engine_request *r = &f->req[req];
	struct mpib_completion *c = &f->completion[req];
	struct mpib_rail_report told;

	if (!r->active)
		return;
	told = mpib_completion_rail(c, rail, r->gen);
	told.bytes += bytes;
	mpib_completion_report(c, rail, &told);
}

void mpib_report_finished(struct engine_conn *f, unsigned req)
{
	mpib_completion_stamp(&stamps_of(f, req)->over, mpib_now_ns());
}
