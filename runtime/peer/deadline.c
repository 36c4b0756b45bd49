/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fails requests that are older than client.request_timeout. Control thread. A
 * timer searches for such requests now and then, using the snapshot that also
 * reports stuck requests, so that the hot path keeps no deadlines. The
 * connection of a late request fails at both ends, with a text about that
 * request.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/event.h"
#include "peer/internal.h"

/* Return how long after its deadline a late request may be found. */
static uint64_t pause_ns(const struct mpib_broker *b)
{
	uint64_t ns = b->request_ns / 4;

	return ns < MPIB_SEC ? ns : MPIB_SEC;
}

/* Find the connection of a request by client and index. If that connection has
 * ended and a new one has its index, the new one is younger than the request:
 * return NULL. */
static struct peer_conn *deadline_conn_of(const struct mpib_broker *b,
					  const struct mpib_snap_conn *f,
					  uint64_t age)
{
	uint64_t now = mpib_loop_now(b->loop);
	struct peer_conn *c;

	for (c = b->conns; c; c = c->hh.next) {
		if (c->state == PEER_CONN_READY && c->index == f->index &&
		    engine_client_id(c->client->engine_client) == f->client)
			return now - c->since >= age ? c : NULL;
	}
	return NULL;
}

/* Write " from rank 3", or "" if the rank is unknown. */
static const char *deadline_rank(char *buf, size_t len, const char *before,
				 int32_t n)
{
	buf[0] = 0;
	if (n >= 0)
		snprintf(buf, len, " %s rank %d", before, n);
	return buf;
}

static const char *deadline_rails(uint8_t mask)
{
	static const char *const name[] = { "no rail", "rail SOUT", "rail SUP",
					    "rails SOUT and SUP" };

	return name[mask & 3];
}

static void deadline_fail(struct peer_conn *c, const struct mpib_snap_conn *f,
			  const struct mpib_snap_request *q)
{
	const struct mpib_event_about about = { .client = f->client,
						.peer = c->peer->label,
						.rails = q->rails,
						.of_user = true,
						.uid = c->client->uid };
	char here[32], there[32], why[2 * sizeof(c->why)];

	deadline_rank(here, sizeof(here), f->sender ? "from" : "by",
		      f->local_rank);
	deadline_rank(there, sizeof(there), f->sender ? "to" : "from",
		      f->remote_rank);
	snprintf(why, sizeof(why),
		 "%s of %u bytes%s%s at %s not complete after %llu s: "
		 "%s, waits for %s (client.request_timeout = %llu)",
		 f->sender ? "send" : "receive", q->bytes, here, there,
		 c->peer->label, (unsigned long long)(q->age_ns / MPIB_SEC),
		 mpib_last_text(q->last), deadline_rails(q->rails),
		 (unsigned long long)(c->broker->request_ns / MPIB_SEC));
	mpib_event(MPIB_LOG_WARN, "connection_broken", &about,
		   "connection %u: %s", c->index, why);
	peer_conn_fail(c, -ETIMEDOUT, "%s", why);
}

static int oldest_first(const void *a, const void *b)
{
	const struct mpib_snap_request *x = a, *y = b;

	return (x->age_ns < y->age_ns) - (x->age_ns > y->age_ns);
}

static void on_sweep(void *arg);

static void deadline_arm(struct mpib_broker *b)
{
	if (b->request_ns)
		mpib_timer_arm(b->loop, &b->sweep, pause_ns(b), on_sweep, b);
	else
		mpib_timer_disarm(b->loop, &b->sweep);
}

static void on_old(void *arg, struct mpib_snapshot *snap)
{
	struct mpib_broker *b = arg;

	b->sweeping = false;
	deadline_arm(b);
	qsort(snap->request, snap->requests, sizeof(*snap->request),
	      oldest_first);
	for (uint32_t i = 0; i < snap->requests; i++) {
		const struct mpib_snap_request *q = &snap->request[i];
		const struct mpib_snap_conn *f = &snap->conn[q->conn];
		struct peer_conn *c;

		/* The limit may have been raised or removed meanwhile. */
		if (!b->request_ns || q->age_ns < b->request_ns)
			break;
		c = deadline_conn_of(b, f, q->age_ns);
		if (c)
			deadline_fail(c, f, q);
	}
	mpib_snapshot_free(snap);
}

static void on_sweep(void *arg)
{
	struct mpib_broker *b = arg;

	b->sweeping = mpib_engine_snapshot_requests(b->engine, b->request_ns,
						    on_old, b) == 0;
	if (!b->sweeping)
		deadline_arm(b); /* no memory: try later */
}

void mpib_broker_patience(struct mpib_broker *b, unsigned request_s,
			  unsigned connect_s)
{
	b->request_ns = request_s * MPIB_SEC;
	b->connect_ns = (connect_s ? connect_s : MPIB_CONNECT_S) * MPIB_SEC;
	if (!b->sweeping)
		deadline_arm(b);
}
