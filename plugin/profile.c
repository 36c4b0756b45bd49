/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL profiler events from the client library's reports. A comm's requests are
 * posted and tested on its Progress thread, so there is no lock. */
#include "net.h"

#include <mpib/abi.h>
#include <mpib/report.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"

enum {
	START,
	STOP,
	UPDATE,
	UPDATE_AND_STOP
};

#define WRITE_WITH_IMM 1 /* enum ibv_wr_opcode */

/* The events of one request slot of the connection. */
struct watched {
	unsigned n; /* handles, of which some may be NULL; 0: not watched */
	bool send;
	void *phandle[MPIB_GROUP_MAX];
	void *event[MPIB_GROUP_MAX][MPIB_RAILS]; /* per handle and rail */
	bool begun[MPIB_RAILS];
	bool taken; /* a profiler accepted one of the events */
};

struct net_profile {
	struct mpib_conn *conn;
	const struct net_phandle *ph;
	struct watched request[MPIB_REQUEST_SLOTS];
};

static _Atomic(nccl_profiler_fn) callback;

static mpib_watch_fn profile_watch;

void net_profile_set(nccl_profiler_fn fn)
{
	/* Relaxed: the callback is a function in NCCL's code, and this store
	 * publishes no data. */
	atomic_store_explicit(&callback, fn, memory_order_relaxed);
}

static nccl_profiler_fn profile_profiler(void)
{
	return atomic_load_explicit(&callback, memory_order_relaxed);
}

/* `number` distinguishes the outstanding requests of a comm. */
static void profile_begin(struct watched *w, unsigned number, unsigned rail,
			  const struct mpib_rail_report *r)
{
	struct nccl_profiler_ib_v1 data = {
		.type = NCCL_PROFILE_QP,
		.qp = { .device = (int)rail,
			.wr_id = number,
			.opcode = w->send ? WRITE_WITH_IMM : 0,
			.qpNum = (int)r->qpn,
			.length = r->bytes },
	};

	w->begun[rail] = true;
	for (unsigned i = 0; i < w->n; i++) {
		if (!w->phandle[i])
			continue;
		profile_profiler()(&w->event[i][rail], START, w->phandle[i],
				   NCCL_PROFILER_IB_V1, &data);
		w->taken |= w->event[i][rail] != NULL;
	}
}

static void profile_end(struct watched *w, struct mpib_profiled *data)
{
	void **event;

	for (unsigned i = 0; i < w->n; i++) {
		event = &w->event[i][data->rail];
		if (*event)
			profile_profiler()(event, UPDATE_AND_STOP,
					   w->phandle[i], NCCL_PROFILER_IB_V1,
					   data);
		*event = NULL;
	}
}

/* Begin or end a rail's event, depending on the rail's report. */
static void profile_look(struct watched *w, const struct mpib_request *req,
			 unsigned rail, const struct mpib_rail_report *r,
			 bool over)
{
	struct mpib_report_times t;
	struct mpib_profiled data;

	if (r->state == MPIB_RAIL_IDLE)
		return;
	if (!w->begun[rail])
		profile_begin(w, mpib_request_slot(req), rail, r);
	if (!over && r->state != MPIB_RAIL_DONE)
		return;
	mpib_request_times(req, &t);
	data = (struct mpib_profiled){
		.magic = MPIB_PROFILED_MAGIC,
		.size = sizeof(data),
		.rail = rail,
		.bytes = r->bytes,
		.submitted_ns = t.submitted_ns,
		.posted_ns = t.rail[rail].posted_ns,
		.done_ns = t.rail[rail].done_ns,
		.over_ns = t.over_ns,
		.seen_ns = over ? mpib_now_ns() : 0,
	};
	profile_end(w, &data);
}

/* Return true if the profiler has refused all events of this request. If it
 * accepted an event, it still needs the stop of that event. */
static bool is_refused(const struct watched *w)
{
	return !w->taken &&
	       (w->begun[MPIB_RAIL_SOUT] || w->begun[MPIB_RAIL_SUP]);
}

static void on_post(struct net_profile *p, struct watched *w,
		    const struct mpib_request *req)
{
	void *const *each = p->ph->each;
	int n = each ? mpib_request_buffers(req) : 1;

	*w = (struct watched){ .send = !each };
	for (int i = 0; i < n; i++) {
		w->phandle[i] = each ? each[i] : p->ph->one;
		if (w->phandle[i])
			w->n = (unsigned)n;
	}
	if (!w->n) /* no handle: watch a later request */
		mpib_report(p->conn, MPIB_REPORT_LATER, profile_watch, p);
}

static void on_test(struct net_profile *p, struct watched *w,
		    const struct mpib_request *req, bool over)
{
	struct mpib_rail_report report[MPIB_RAILS];

	if (!w->n)
		return;
	mpib_request_rails(req, report);
	for (unsigned r = 0; r < MPIB_RAILS && !is_refused(w); r++)
		profile_look(w, req, r, &report[r], over);
	if (over || is_refused(w))
		w->n = 0;
	if (is_refused(w))
		mpib_report(p->conn, MPIB_REPORT_LATER, profile_watch, p);
	else if (over)
		mpib_report(p->conn, MPIB_REPORT_ALL, profile_watch, p);
}

static void profile_watch(void *user, struct mpib_request *req,
			  enum mpib_watch what)
{
	struct net_profile *p = user;
	struct watched *w = &p->request[mpib_request_slot(req)];

	if (what == MPIB_WATCH_POSTED)
		on_post(p, w, req);
	else
		on_test(p, w, req, what == MPIB_WATCH_OVER);
}

struct net_profile *net_profile_new(struct mpib_conn *conn,
				    const struct net_phandle *ph)
{
	struct net_profile *p =
		profile_profiler() ? calloc(1, sizeof(*p)) : NULL;

	if (!p)
		return NULL;
	p->conn = conn;
	p->ph = ph;
	if (mpib_report(conn, MPIB_REPORT_NEXT, profile_watch, p) == 0)
		return p;
	free(p);
	return NULL;
}

void net_profile_free(struct net_profile *p)
{
	free(p);
}
