/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Per-rail reports for requests submitted with MPIB_OP_REPORT: the shard thread
 * writes into the request's completion what each rail carries of the request.
 */
#ifndef MPIB_ENGINE_REPORT_H
#define MPIB_ENGINE_REPORT_H

#include "engine/conn/conn.h"

/* A chain with bytes of req was posted to a rail. */
static inline void mpib_report_post(struct engine_conn *f, unsigned req,
				    unsigned rail, uint32_t qpn, uint32_t bytes)
{
	struct engine_request *r = &f->req[req];

	if (__builtin_expect(!r->report, 1))
		return;
	r->chains[rail]++;
	r->rail[rail].state = MPIB_RAIL_POSTED;
	r->rail[rail].qpn = qpn;
	r->rail[rail].bytes += bytes;
	mpib_completion_report(&f->completion[req], rail, &r->rail[rail]);
}

/* One of the chains of req completed on a rail. For a receive qpn and bytes are
 * known only now; for a send both are 0, mpib_report_post() has told them. */
static inline void mpib_report_done(struct engine_conn *f, unsigned req,
				    unsigned rail, uint32_t qpn, uint32_t bytes)
{
	struct engine_request *r = &f->req[req];

	if (__builtin_expect(!r->report, 1) || !r->active)
		return;
	r->chains[rail] -= r->chains[rail] > 0;
	if (r->chains[rail] == 0)
		r->rail[rail].state = MPIB_RAIL_DONE;
	if (qpn)
		r->rail[rail].qpn = qpn;
	r->rail[rail].bytes += bytes;
	mpib_completion_report(&f->completion[req], rail, &r->rail[rail]);
}

#endif
