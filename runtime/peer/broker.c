/* SPDX-License-Identifier: Apache-2.0 */
#include "peer/broker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/event.h"
#include "base/users.h"
#include "peer/internal.h"

/* Limit on the number of bytes that are queued for all peers together. Beyond
 * this limit, each queue can still grow to MPIB_FIFO_SMALL bytes. While eight
 * peers have queues of MPIB_OUTBOX_MAX bytes, the queue of another peer can
 * grow to 28 MiB. */
#define WAITS_MAX ((size_t)16 * MPIB_OUTBOX_MAX)

static int broker_random64(uint64_t *v)
{
	return getrandom(v, sizeof(*v), 0) == sizeof(*v) ? 0 : -EIO;
}

uint32_t mpib_broker_new_id(struct mpib_broker *b)
{
	struct mpib_listener_entry *l;
	struct peer_lane *lane;
	struct peer_conn *c;
	uint32_t id;

	do {
		id = ++b->next_id;
		HASH_FIND(hh, b->listeners, &id, sizeof(id), l);
		HASH_FIND(hh, b->lanes, &id, sizeof(id), lane);
		HASH_FIND(hh, b->conns, &id, sizeof(id), c);
	} while (id == 0 || l || lane || c);
	return id;
}

struct peer_conn *peer_conn_named(const struct mpib_broker *b,
				  const struct mpib_conn_name *name)
{
	struct peer_conn *c;

	HASH_FIND(hh_name, b->by_name, name, sizeof(*name), c);
	return c;
}

static void on_engine(void *arg, uint32_t events)
{
	struct mpib_broker *b = arg;

	(void)events;
	mpib_engine_dispatch(b->engine);
}

int mpib_broker_open(const struct mpib_broker_opts *opts,
		     struct mpib_broker **broker, char *why, size_t why_len)
{
	struct mpib_broker *b = calloc(1, sizeof(*b));
	int rc = -ENOMEM;

	if (!b)
		goto err_why;
	b->loop = opts->loop;
	b->engine = opts->engine;
	b->self.addr = opts->addr;
	b->self.port = opts->port;
	if (opts->key)
		b->key = *opts->key;
	b->self.sout = opts->sout;
	b->self.second = opts->second;
	b->networks = opts->networks;
	b->islands = opts->islands;
	b->private_lanes = opts->private_lanes;
	b->silence_s = opts->silence_s ? opts->silence_s : MPIB_SILENCE_S;
	b->grace_ns = opts->grace_s * MPIB_SEC;
	b->waits.most = WAITS_MAX;
	TAILQ_INIT(&b->peers);
	TAILQ_INIT(&b->pending_peers);
	rc = broker_random64(&b->self.boot);
	if (rc < 0)
		goto err_free;
	for (unsigned i = 0; i < MPIB_DOORS; i++)
		b->door[i] = (struct mpib_door){ .broker = b, .fd = -1 };
	rc = mpib_loop_add(b->loop, &b->engine_watch, mpib_engine_fd(b->engine),
			   EPOLLIN, on_engine, b);
	if (rc < 0)
		goto err_free;
	mpib_broker_patience(b, opts->request_s, opts->connect_s);
	*broker = b;
	return 0;

err_free:
	free(b);
err_why:
	snprintf(why, why_len, "broker: %s", strerror(-rc));
	return rc;
}

int mpib_broker_serve(struct mpib_broker *broker, struct mpib_agent_link *agent,
		      char *why, size_t why_len)
{
	broker->agent = agent;
	broker->young_until = mpib_loop_now(broker->loop) + broker->grace_ns;
	return mpib_hello_listen(broker, why, why_len);
}

bool mpib_broker_young(const struct mpib_broker *broker)
{
	return mpib_loop_now(broker->loop) < broker->young_until;
}

void mpib_broker_grown(struct mpib_broker *broker)
{
	broker->young_until = 0;
}

void mpib_broker_close(struct mpib_broker *broker)
{
	struct mpib_listener_entry *l, *next_l;
	struct peer_conn *c, *next_c;

	/* Free the lanes before the CONN_OPENs and connections that are in the
	 * lists of the lanes. */
	peer_lanes_free(broker);
	HASH_ITER(hh, broker->listeners, l, next_l)
	{
		struct mpib_pending_connect *w;

		mpib_broker_del_listener(broker, l);
		mpib_timer_disarm(broker->loop, &l->match);
		while ((w = TAILQ_FIRST(&l->backlog))) {
			TAILQ_REMOVE(&l->backlog, w, entry);
			HASH_DELETE(hh, broker->offers, w);
			free(w);
		}
		free(l);
	}
	HASH_CLEAR(hh_engine, broker->by_engine);
	HASH_CLEAR(hh_name, broker->by_name);
	HASH_ITER(hh, broker->conns, c, next_c)
	{
		HASH_DELETE(hh, broker->conns, c);
		mpib_timer_disarm(broker->loop, &c->timer);
		free(c);
	}
	mpib_timer_disarm(broker->loop, &broker->sweep);
	mpib_timer_disarm(broker->loop, &broker->asker.work);
	mpib_loop_del(broker->loop, &broker->engine_watch);
	mpib_hello_close(broker);
	mpib_peers_free(broker);
	free(broker);
}

void mpib_broker_limit_lanes(struct mpib_broker *broker, uint64_t most)
{
	broker->lanes_of_one = most;
}

uint16_t mpib_broker_port(const struct mpib_broker *broker)
{
	return broker->self.port;
}

const struct in6_addr *mpib_broker_second(const struct mpib_broker *broker)
{
	return &broker->self.second;
}

void mpib_broker_del_listener(struct mpib_broker *b,
			      struct mpib_listener_entry *l)
{
	HASH_DELETE(hh, b->listeners, l);
	HASH_DELETE(hh_name, b->listeners_by_name, l);
}

int mpib_broker_listen(struct mpib_broker *broker, struct peer_client *client,
		       uint64_t nonce, uint32_t *id, struct mpib_handle *handle)
{
	struct mpib_listener_name name = { nonce, client->uid };
	struct mpib_listener_entry *l;
	int rc = 0;

	HASH_FIND(hh_name, broker->listeners_by_name, &name, sizeof(name), l);
	if (l)
		return -EEXIST;

	if (HASH_COUNT(broker->listeners) >=
	    mpib_places_for(MPIB_LISTENERS_MAX, client->uid))
		return -ENOSPC;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	if (nonce == 0)
		rc = broker_random64(&name.nonce);
	l->name = name;
	if (rc < 0) {
		free(l);
		return rc;
	}
	l->id = mpib_broker_new_id(broker);
	l->client = client;
	TAILQ_INIT(&l->accepts);
	TAILQ_INIT(&l->backlog);
	HASH_ADD(hh, broker->listeners, id, sizeof(l->id), l);
	HASH_ADD(hh_name, broker->listeners_by_name, name, sizeof(l->name), l);
	*handle = (struct mpib_handle){
		.magic = MPIB_HANDLE_MAGIC,
		.version = MPIB_ABI_VERSION,
		.addr = mpib_address_ip(&broker->self.addr),
		.port = broker->self.port,
		.shard = (uint16_t)client->shard,
		.nonce = name.nonce,
	};
	if (handle->addr == 0)
		memcpy(handle->addr6, &broker->self.addr,
		       sizeof(handle->addr6));
	memcpy(handle->second, &broker->self.second, sizeof(handle->second));
	*id = l->id;
	return 0;
}

int mpib_broker_close_listen(struct mpib_broker *broker,
			     struct peer_client *client, uint32_t id)
{
	struct mpib_listener_entry *l;

	HASH_FIND(hh, broker->listeners, &id, sizeof(id), l);
	if (!l || l->client != client)
		return -ENOENT;
	mpib_accept_unlisten(broker, l);
	return 0;
}

void mpib_broker_forget(struct mpib_broker *broker, struct peer_client *client,
			mpib_done_fn *done, void *arg)
{
	struct mpib_listener_entry *l, *next;

	client->leaving = true;
	client->arg = arg;
	HASH_ITER(hh, broker->listeners, l, next)
	{
		if (l->client == client)
			mpib_accept_unlisten(broker, l);
	}
	for (uint32_t i = 0; i < MPIB_INDEXES_MAX; i++)
		mpib_broker_drop(broker, client, i);
	/* Set `done` after all connections were dropped: otherwise a connection
	 * that ends immediately would call `done` too early. */
	if (client->conns == 0)
		done(arg, 0);
	else
		client->done = done;
}

static struct mpib_broker *broker_of(void *ctx)
{
	return *(struct mpib_broker **)ctx;
}

static void on_conn_broken(void *ctx, struct engine_conn *conn, int error,
			   const char *why)
{
	struct peer_conn *c;

	HASH_FIND(hh_engine, broker_of(ctx)->by_engine, &conn, sizeof(conn), c);
	/* Ignore this error: the connection's lane broke, and the engine
	 * reports the broken lane next. */
	if (error == MPIB_BROKEN_LOST)
		return;
	if (!c || c->state >= PEER_CONN_OVER)
		return;
	mpib_event(MPIB_LOG_WARN, "connection_broken",
		   &(struct mpib_event_about){ .peer = c->peer->label,
					       .of_user = true,
					       .uid = c->client->uid },
		   "connection %u to %s: %s", c->index, c->peer->label, why);
	peer_conn_fail(c, error, "%s", why);
}

/* Return the broker's entry for a lane of the engine, or NULL if the lane is
 * not up. Use a hash table, because all lanes are looked up when a rail
 * fails. */
static struct peer_lane *broker_lane_of(struct mpib_broker *b,
					struct mpib_lane *lane)
{
	struct peer_lane *l;

	HASH_FIND(hh_lane, b->by_lane, &lane, sizeof(lane), l);
	return l;
}

static void on_lane_broken(void *ctx, struct mpib_lane *lane, int error,
			   const char *why)
{
	struct peer_lane *l = broker_lane_of(broker_of(ctx), lane);

	if (!l)
		return;
	mpib_event(MPIB_LOG_WARN, "lane_broken",
		   &(struct mpib_event_about){ .peer = l->peer->label },
		   "peer %s: lane is broken: %s", l->peer->label, why);
	/* Do not retry: a peer that broke the protocol would break it again. */
	if (error == -EPROTO)
		peer_lane_kill(l, error, why);
	else
		peer_lane_lose(l, why);
}

static void on_lane_send(void *ctx, struct mpib_lane *lane,
			 const struct mpib_rail_msg *msg)
{
	struct mpib_peer_msg m = { .type = MPIB_PEER_LANE_RAIL, .rail = *msg };
	struct peer_lane *l = broker_lane_of(broker_of(ctx), lane);

	if (!l)
		return;
	m.to = l->their_id;
	peer_lane_tell(l, &m);
}

const struct mpib_engine_events mpib_broker_events = {
	.lane_send = on_lane_send,
	.conn_broken = on_conn_broken,
	.lane_broken = on_lane_broken,
};

/*
 * Tell tools which connections are not ready yet, and why. Control thread.
 */

const char *peer_conn_last_error(const struct peer_conn *c)
{
	if (c->why[0]) /* an earlier attempt failed */
		return c->why;
	switch (c->state) {
	case PEER_CONN_LINK:
		return c->peer->last_error[0] ? c->peer->last_error
					      : "no answer";
	case PEER_CONN_LANE:
		return "the peer answers, but has not accepted a lane";
	case PEER_CONN_WAIT:
		return "the sender has not requested the connection again";
	case PEER_CONN_ACCEPT:
		return "no connect has arrived";
	default:
		return "no accept at the other end";
	}
}

void mpib_broker_pending(const struct peer_client *client, uint64_t older_ns,
			 mpib_pending_fn *fn, void *arg)
{
	unsigned left = client->conns;

	for (unsigned i = 0; left > 0 && i < MPIB_INDEXES_MAX; i++) {
		const struct peer_conn *c = client->conn[i];
		struct mpib_pending p;

		if (!c)
			continue;
		left--;
		p = (struct mpib_pending){
			.index = c->index,
			.sender = c->sender,
			.peer = c->peer ? c->peer->label : "",
			.why = peer_conn_last_error(c),
			.age_ns = mpib_loop_now(c->broker->loop) - c->since,
		};
		if (c->state < PEER_CONN_READY && p.age_ns >= older_ns)
			fn(arg, &p);
	}
}

/*
 * Find requests that are older than client.request_timeout, and fail their
 * connections at both ends, with a text about the request. on_sweep() regularly
 * takes an engine snapshot that lists such requests. In this way, the data path
 * does not have to store deadlines.
 */

/* Return the time between two searches. A late request is found at most this
 * long after its deadline. */
static uint64_t pause_ns(const struct mpib_broker *b)
{
	uint64_t ns = b->request_ns / 4;

	return ns < MPIB_SEC ? ns : MPIB_SEC;
}

/* Find the connection of a request by client and index. Return NULL if the
 * connection at this index is younger than the request: then the request's
 * connection has ended, and a new connection uses the index. */
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

/* Write the word `before` and a rank to `buf`, for example " from rank 3".
 * Write "" if the rank is unknown. */
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

		/* The limit may have been raised or removed since the timer was
		 * armed. */
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
