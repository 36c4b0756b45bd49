/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the engine: what rails do for requests whose client wants to know it
 * (MPIB_OP_REPORT), told in their completions. Shard thread.
 */
#ifndef MPIB_ENGINE_REPORT_H
#define MPIB_ENGINE_REPORT_H

#include "engine/conn/conn.h"

/* A chain of bytes for req went to a rail. */
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

/* A rail is through with one of the chains of req. A receive learns the QP and
 * the bytes only then; qpn is 0 for a send. */
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
