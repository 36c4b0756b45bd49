/* SPDX-License-Identifier: Apache-2.0 */
#include "peer/broker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/event.h"
#include "peer/internal.h"

static int random64(uint64_t *v)
{
	return getrandom(v, sizeof(*v), 0) == sizeof(*v) ? 0 : -EIO;
}

uint32_t mpib_broker_new_id(struct mpib_broker *b)
{
	struct mpib_listener_entry *l;
	struct mpib_blane *lane;
	struct mpib_bconn *c;
	uint32_t id;

	do {
		id = ++b->next_id;
		HASH_FIND(hh, b->listeners, &id, sizeof(id), l);
		HASH_FIND(hh, b->lanes, &id, sizeof(id), lane);
		HASH_FIND(hh, b->conns, &id, sizeof(id), c);
	} while (id == 0 || l || lane || c);
	return id;
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
	b->islands = opts->islands;
	b->agent = opts->agent;
	b->private_lanes = opts->private_lanes;
	b->newest = opts->newest ? opts->newest : MPIB_PEER_VERSION;
	b->silence_s = opts->silence_s ? opts->silence_s : MPIB_SILENCE_S;
	TAILQ_INIT(&b->peers);
	TAILQ_INIT(&b->strangers);
	rc = random64(&b->self.boot);
	if (rc < 0)
		goto err_free;
	b->fd = -1;
	rc = opts->idle ? 0 : mpib_hello_listen(b, why, why_len);
	if (rc < 0) {
		free(b);
		return rc;
	}
	rc = mpib_loop_add(b->loop, &b->engine_watch, mpib_engine_fd(b->engine),
			   EPOLLIN, on_engine, b);
	if (rc < 0)
		goto err_peers;
	mpib_broker_patience(b, opts->request_s, opts->connect_s);
	*broker = b;
	return 0;

err_peers:
	mpib_hello_close(b);
err_free:
	free(b);
err_why:
	snprintf(why, why_len, "broker: %s", strerror(-rc));
	return rc;
}

void mpib_broker_close(struct mpib_broker *broker)
{
	struct mpib_listener_entry *l, *next_l;
	struct mpib_bconn *c, *next_c;

	HASH_ITER(hh, broker->listeners, l, next_l)
	{
		struct mpib_waiter *w;

		HASH_DELETE(hh, broker->listeners, l);
		while ((w = TAILQ_FIRST(&l->backlog))) {
			TAILQ_REMOVE(&l->backlog, w, entry);
			free(w);
		}
		free(l);
	}
	HASH_CLEAR(hh_flow, broker->by_flow);
	HASH_ITER(hh, broker->conns, c, next_c)
	{
		HASH_DELETE(hh, broker->conns, c);
		mpib_timer_disarm(broker->loop, &c->timer);
		free(c);
	}
	mpib_blanes_free(broker);
	mpib_timer_disarm(broker->loop, &broker->sweep);
	mpib_loop_del(broker->loop, &broker->engine_watch);
	mpib_hello_close(broker);
	mpib_peers_free(broker);
	free(broker);
}

uint16_t mpib_broker_port(const struct mpib_broker *broker)
{
	return broker->self.port;
}

int mpib_broker_listen(struct mpib_broker *broker, struct mpib_owner *owner,
		       uint32_t *id, struct mpib_handle *handle)
{
	struct mpib_listener_entry *l;
	int rc;

	if (HASH_COUNT(broker->listeners) >= MPIB_LISTENERS_MAX)
		return -ENOSPC;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	rc = random64(&l->nonce);
	if (rc < 0) {
		free(l);
		return rc;
	}
	l->id = mpib_broker_new_id(broker);
	l->owner = owner;
	TAILQ_INIT(&l->accepts);
	TAILQ_INIT(&l->backlog);
	HASH_ADD(hh, broker->listeners, id, sizeof(l->id), l);
	*handle = (struct mpib_handle){
		.magic = MPIB_HANDLE_MAGIC,
		.version = MPIB_ABI_VERSION,
		.addr = broker->self.addr,
		.port = broker->self.port,
		.shard = (uint16_t)owner->shard,
		.listen_id = l->id,
		.nonce = l->nonce,
		.node = broker->self.boot,
	};
	*id = l->id;
	return 0;
}

int mpib_broker_close_listen(struct mpib_broker *broker,
			     struct mpib_owner *owner, uint32_t id)
{
	struct mpib_listener_entry *l;

	HASH_FIND(hh, broker->listeners, &id, sizeof(id), l);
	if (!l || l->owner != owner)
		return -ENOENT;
	mpib_accept_unlisten(broker, l);
	return 0;
}

int mpib_broker_share(struct mpib_broker *broker, struct mpib_owner *owner,
		      uint32_t index, uint32_t weight, uint64_t rate)
{
	const struct mpib_bconn *c =
		index < MPIB_CONNS_MAX ? owner->conn[index] : NULL;

	(void)broker;
	if (!c || !c->flow)
		return -ENOENT;
	mpib_flow_share(c->flow, weight, rate);
	return 0;
}

const char *mpib_broker_why(const struct mpib_owner *owner, uint32_t index)
{
	const struct mpib_bconn *c =
		index < MPIB_CONNS_MAX ? owner->conn[index] : NULL;

	return c ? c->why : "";
}

void mpib_broker_forget(struct mpib_broker *broker, struct mpib_owner *owner,
			mpib_done_fn *done, void *arg)
{
	struct mpib_listener_entry *l, *next;

	owner->leaving = true;
	owner->done = done;
	owner->arg = arg;
	owner->conns++; /* until we are through here */
	HASH_ITER(hh, broker->listeners, l, next)
	{
		if (l->owner == owner)
			mpib_accept_unlisten(broker, l);
	}
	for (uint32_t i = 0; i < MPIB_CONNS_MAX; i++)
		mpib_broker_drop(broker, owner, i);
	if (--owner->conns == 0) {
		owner->done = NULL;
		done(arg, 0);
	}
}

static struct mpib_broker *of(void *ctx)
{
	return *(struct mpib_broker **)ctx;
}

static void on_flow_broken(void *ctx, struct mpib_flow *flow, int error,
			   const char *why)
{
	struct mpib_bconn *c = mpib_bconn_of_flow(of(ctx), flow);

	if (!c || c->state == MPIB_BCONN_OVER)
		return;
	mpib_event(MPIB_LOG_WARN, "connection_broken",
		   &(struct mpib_event_about){ .peer = c->peer->label },
		   "connection %u to %s: %s", c->index, c->peer->label, why);
	mpib_bconn_fail(c, error, "%s", why);
}

static void tell_lane_broken(const struct mpib_blane *l, const char *why)
{
	const struct mpib_event_about about = { .peer = l->peer->label };

	mpib_event(MPIB_LOG_WARN, "lane_broken", &about,
		   "peer %s: lane is broken: %s", l->peer->label, why);
}

/* Where it is up. A rail that fails asks for all of them at once. */
static struct mpib_blane *lane_of(struct mpib_broker *b, struct mpib_lane *lane)
{
	struct mpib_blane *l;

	HASH_FIND(hh_lane, b->by_lane, &lane, sizeof(lane), l);
	return l;
}

static void on_lane_broken(void *ctx, struct mpib_lane *lane, int error,
			   const char *why)
{
	struct mpib_blane *l = lane_of(of(ctx), lane);

	if (!l)
		return;
	tell_lane_broken(l, why);
	mpib_blane_kill(l, error, why);
}

static void on_lane_send(void *ctx, struct mpib_lane *lane,
			 const struct mpib_rail_msg *msg)
{
	struct mpib_peer_msg m = { .type = MPIB_PEER_LANE_RAIL, .rail = *msg };
	struct mpib_blane *l = lane_of(of(ctx), lane);

	if (!l)
		return;
	m.to = l->their_id;
	mpib_blane_tell(l, &m);
}

const struct mpib_engine_events mpib_broker_events = {
	.lane_send = on_lane_send,
	.flow_broken = on_flow_broken,
	.lane_broken = on_lane_broken,
};
