/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL profiler events from the client library's reports. A comm's requests are
 * posted and tested on its Progress thread, so there is no lock. */
#include "profile.h"

#include <mpib/abi.h>
#include <mpib/completion.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

enum {
	START,
	STOP
};

/* A request slot of the connection. */
struct watched {
	void *phandle; /* NULL: not watched */
	void *event[MPIB_RAILS];
	bool begun[MPIB_RAILS];
};

struct net_profile {
	struct mpib_conn *conn;
	const struct net_phandle *ph;
	struct watched request[MPIB_REQUESTS];
};

static _Atomic(nccl_profiler_fn) callback;

static mpib_watch_fn profile_watch;

void net_profile_set(nccl_profiler_fn fn)
{
	/* Relaxed: a function in NCCL's code, no data is published with it. */
	atomic_store_explicit(&callback, fn, memory_order_relaxed);
}

static nccl_profiler_fn profile_profiler(void)
{
	return atomic_load_explicit(&callback, memory_order_relaxed);
}

/* False when no profiler took the event. */
static bool profile_begin(struct watched *w, unsigned rail,
			  const struct mpib_rail_report *r)
{
	struct nccl_profiler_ib_v1 data = {
		.type = NCCL_PROFILE_QP,
		.qp = { .device = (int)rail,
			.qpNum = (int)r->qpn,
			.length = r->bytes },
	};

	w->begun[rail] = true;
	profile_profiler()(&w->event[rail], START, w->phandle,
			   NCCL_PROFILER_IB_V1, &data);
	return w->event[rail] != NULL;
}

static void profile_end(struct watched *w, unsigned rail)
{
	if (w->event[rail])
		profile_profiler()(&w->event[rail], STOP, w->phandle,
				   NCCL_PROFILER_IB_V1, NULL);
	w->event[rail] = NULL;
}

/* Begin or end the event of a rail as its report says. False when no profiler
 * took the event. */
static bool profile_look(struct watched *w, unsigned rail,
			 const struct mpib_rail_report *r, bool over)
{
	if (r->state == MPIB_RAIL_IDLE)
		return true;
	if (!w->begun[rail] && !profile_begin(w, rail, r))
		return false;
	if (over || r->state == MPIB_RAIL_DONE)
		profile_end(w, rail);
	return true;
}

static void on_post(struct net_profile *p, struct watched *w)
{
	void *phandle = p->ph->each ? p->ph->each[0] : p->ph->one;

	*w = (struct watched){ .phandle = phandle };
	if (!phandle) /* a later request may have one: try again then */
		mpib_report(p->conn, MPIB_REPORT_LATER, profile_watch, p);
}

static void on_test(struct net_profile *p, struct watched *w,
		    const struct mpib_request *req, bool over)
{
	struct mpib_rail_report report[MPIB_RAILS];
	bool taken = true;

	if (!w->phandle)
		return;
	mpib_request_rails(req, report);
	for (unsigned r = 0; taken && r < MPIB_RAILS; r++)
		taken = profile_look(w, r, &report[r], over);
	if (over || !taken)
		w->phandle = NULL;
	if (!taken)
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
		on_post(p, w);
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
