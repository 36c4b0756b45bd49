/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Per-rail reports for requests submitted with MPIB_OP_REPORT: the shard thread
 * writes into the request's completion what each rail carries of the request, and
 * when it was posted and done. Of any other request they cost a look.
 */
#ifndef MPIB_ENGINE_REPORT_H
#define MPIB_ENGINE_REPORT_H

#include "engine/conn/conn.h"

/* Of a request that has a report: report.c. The first clears what the client would
 * read of an earlier one. */
void mpib_report_begin(struct engine_conn *f, unsigned req);
void mpib_report_posted(struct engine_conn *f, unsigned req, unsigned rail,
			uint32_t qpn, uint32_t bytes);
void mpib_report_completed(struct engine_conn *f, unsigned req, unsigned rail,
			   uint32_t qpn);
/* So many bytes of the slot that ends came by the rail; req has a report. */
void mpib_report_arrived(struct engine_conn *f, unsigned req, unsigned rail,
			 uint64_t bytes);
void mpib_report_finished(struct engine_conn *f, unsigned req);

/* A chain with bytes of req was posted to a rail. */
static inline void mpib_report_post(struct engine_conn *f, unsigned req,
				    unsigned rail, uint32_t qpn, uint32_t bytes)
{
	if (__builtin_expect(f->req[req].report, 0))
		mpib_report_posted(f, req, rail, qpn, bytes);
}

/* One of the chains of req completed on a rail. For a receive qpn is known only
 * now; for a send it is 0, mpib_report_post() has told it. */
static inline void mpib_report_done(struct engine_conn *f, unsigned req,
				    unsigned rail, uint32_t qpn)
{
	if (__builtin_expect(f->req[req].report, 0))
		mpib_report_completed(f, req, rail, qpn);
}

#endif
