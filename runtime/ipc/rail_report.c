/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Per-rail reports on requests, for NCCL's profiler. While a connection is
 * "armed", each request that is posted on it becomes "watched". For a watched
 * request, the shard reports what each rail does.
 *
 * The fast path has no code for reports. An armed connection has a value of
 * conn->work above 0, so its posts take the slow path. A watched request has
 * r->slow set, so its tests take the slow path.
 */

#include "base/clock.h"
#include "ipc/client.h"

/* With MPIB_REPORT_LATER, the connection is armed after this many mpib_test()
 * calls that found a request incomplete. */
#define LATER 1024

static void report_arm(struct mpib_conn *conn, bool on)
{
	if (conn->armed == on)
		return;
	conn->armed = on;
	conn->work += on ? 1u : -1u;
}

int mpib_report(struct mpib_conn *conn, enum mpib_report how, mpib_watch_fn *fn,
		void *user)
{
	if (conn->client->forks != mpib_forks)
		return mpib_client_check(conn->client);
	conn->report = how;
	conn->later = LATER;
	conn->watch = fn;
	conn->user = user;
	report_arm(conn, how == MPIB_REPORT_ALL || how == MPIB_REPORT_NEXT);
	return 0;
}

void mpib_report_ask(struct mpib_conn *conn, struct mpib_request *r)
{
	if (!conn->armed)
		return;
	r->plain[0] |= MPIB_OP_REPORT;
	r->watched = r->slow = true;
	r->submitted = mpib_now_ns();
}

void mpib_report_drop(struct mpib_request *r)
{
	r->watched = false;
	r->plain[0] &= (uint8_t)~MPIB_OP_REPORT;
}

void mpib_report_asked(struct mpib_conn *conn, struct mpib_request *r)
{
	if (!r->watched)
		return;
	if (conn->report == MPIB_REPORT_NEXT) {
		conn->report = MPIB_REPORT_OFF;
		report_arm(conn, false);
	}
	conn->watch(conn->user, r, MPIB_WATCH_POSTED);
}

void mpib_report_look(struct mpib_conn *conn, struct mpib_request *r, bool over)
{
	if (conn->report == MPIB_REPORT_LATER && !over && --conn->later == 0) {
		conn->report = MPIB_REPORT_NEXT;
		report_arm(conn, true);
	}
	if (!r->watched)
		return;
	conn->watch(conn->user, r, over ? MPIB_WATCH_OVER : MPIB_WATCH_TESTED);
	if (over)
		mpib_report_drop(r);
}

/* Return whether the rails were given all bytes of the message. If not, a rail
 * without bytes in flight is not done, because it may be given more bytes. Only
 * the sender knows the size of the message. So a receiver must wait for the
 * completion of the request. */
static bool rails_have_all(const struct mpib_request *req,
			   const struct mpib_rail_report *report)
{
	uint64_t bytes = 0;
	int32_t res;

	if (!req->conn->is_sender)
		return mpib_completion_poll(req->completion, req->gen, &res);
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		bytes += report[r].bytes;
	return bytes >= req->buf[0].size;
}

void mpib_request_rails(const struct mpib_request *req,
			struct mpib_rail_report *report)
{
	/* A queued send may have no completion entry (feed.h). */
	bool mapped = req->completion && req->conn->client->forks == mpib_forks;

	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		report[r] = (struct mpib_rail_report){ MPIB_RAIL_IDLE, 0, 0 };
		if (mapped && !req->flush)
			report[r] = mpib_completion_rail(req->completion, r,
							 req->gen);
	}
	if (!mapped || req->flush || rails_have_all(req, report))
		return;
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		if (report[r].state == MPIB_RAIL_DONE)
			report[r].state = MPIB_RAIL_POSTED;
	}
}

static void read_stamps(const struct mpib_stamps *at,
			struct mpib_report_times *t)
{
	uint64_t now = mpib_now_ns();

	t->over_ns = mpib_completion_time(&at->over, now);
	for (unsigned i = 0; i < MPIB_RAILS; i++) {
		t->rail[i].posted_ns =
			mpib_completion_time(&at->posted[i], now);
		t->rail[i].done_ns = mpib_completion_time(&at->done[i], now);
	}
}

void mpib_request_times(const struct mpib_request *req,
			struct mpib_report_times *times)
{
	const struct mpib_conn *c = req->conn;

	*times = (struct mpib_report_times){ 0 };
	if (req->flush || !req->watched)
		return;
	times->submitted_ns = req->submitted;
	if (req->completion && c->client->forks == mpib_forks &&
	    mpib_completion_reported(req->completion, req->gen))
		read_stamps(
			req->n <= MPIB_STAMPED_MAX
				? &req->completion->at
				: &c->at->reply
					   ->group_at[c->index]
						     [mpib_request_index(req)],
			times);
}

unsigned mpib_request_slot(const struct mpib_request *req)
{
	return req->number;
}
