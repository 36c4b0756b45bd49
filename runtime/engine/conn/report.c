/* SPDX-License-Identifier: Apache-2.0 */
/* What a report says: see report.h. Shard thread. */
#include "engine/conn/report.h"

#include "base/clock.h"

static bool has_stamps(const struct engine_request *r)
{
	return r->n <= MPIB_STAMPED_MAX;
}

void mpib_report_posted(struct engine_conn *f, unsigned req, unsigned rail,
			uint32_t qpn, uint32_t bytes)
{
	struct engine_request *r = &f->req[req];
	struct mpib_completion *c = &f->completion[req];

	r->chains[rail]++;
	r->rail[rail].state = MPIB_RAIL_POSTED;
	r->rail[rail].qpn = qpn;
	r->rail[rail].bytes += bytes;
	/* Relaxed: this shard wrote it. */
	if (has_stamps(r) &&
	    !atomic_load_explicit(&c->at.posted[rail], memory_order_relaxed))
		mpib_completion_stamp(&c->at.posted[rail], mpib_now_ns());
	mpib_completion_report(c, rail, &r->rail[rail]);
}

void mpib_report_completed(struct engine_conn *f, unsigned req, unsigned rail,
			   uint32_t qpn, uint32_t bytes)
{
	struct engine_request *r = &f->req[req];
	struct mpib_completion *c = &f->completion[req];

	if (!r->active)
		return;
	r->chains[rail] -= r->chains[rail] > 0;
	if (r->chains[rail] == 0)
		r->rail[rail].state = MPIB_RAIL_DONE;
	if (qpn)
		r->rail[rail].qpn = qpn;
	r->rail[rail].bytes += bytes;
	if (has_stamps(r) && r->chains[rail] == 0)
		mpib_completion_stamp(&c->at.done[rail], mpib_now_ns());
	mpib_completion_report(c, rail, &r->rail[rail]);
}

void mpib_report_finished(struct engine_conn *f, unsigned req)
{
	if (has_stamps(&f->req[req]))
		mpib_completion_stamp(&f->completion[req].at.over,
				      mpib_now_ns());
}
