/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/client.h"
#include "ipc/message.h"

int mpib_listen(struct mpib_client *client, struct mpib_handle *handle,
		struct mpib_listener **listener)
{
	struct mpib_ctl_header ask = { .type = MPIB_CTL_LISTEN,
				       .len = sizeof(ask) };
	struct mpib_listener *l = calloc(1, sizeof(*l));
	const struct mpib_ctl_listening *got;
	struct mpib_message m;
	int rc;

	if (!l)
		return mpib_fail(-ENOMEM, "out of memory");
	rc = mpib_client_lock(client);
	if (rc < 0)
		goto err_free;
	rc = mpib_rpc(client, &ask, NULL, 0, &m, sizeof(*got));
	if (rc < 0)
		goto err_unlock;
	got = (const void *)m.bytes;
	memcpy(handle, &got->handle, sizeof(*handle));
	l->client = client;
	l->id = got->listen_id;
	LIST_INSERT_HEAD(&client->listeners, l, link);
	pthread_mutex_unlock(&client->lock);
	*listener = l;
	return 0;

err_unlock:
	pthread_mutex_unlock(&client->lock);
err_free:
	free(l);
	return rc;
}

static int tell(struct mpib_client *c, enum mpib_control_type type, uint32_t id)
{
	struct mpib_ctl_id ask = {
		.h = { .type = type, .len = sizeof(ask) },
		.id = id,
	};
	struct mpib_message m;

	return mpib_rpc(c, &ask.h, NULL, 0, &m, sizeof(m.h));
}

void mpib_close_listen(struct mpib_listener *listener)
{
	struct mpib_client *c = listener->client;

	if (mpib_client_lock(c) < 0)
		return; /* the parent's */
	tell(c, MPIB_CTL_CLOSE_LISTEN, listener->id);
	LIST_REMOVE(listener, link);
	pthread_mutex_unlock(&c->lock);
	free(listener);
}

static uint32_t state_of(const struct mpib_client *c, uint32_t index)
{
	/* Acquire pairs with the release when the proxy sets it. */
	return atomic_load_explicit(&c->reply->conn[index].state,
				    memory_order_acquire);
}

/* Under the lock. A closed index is free once the proxy says so; what it had
 * of the staging memory is given back then. */
static int take_index(struct mpib_client *c, uint32_t *index)
{
	for (uint32_t i = 0; i < MPIB_CONNS_MAX; i++) {
		struct mpib_index *x = &c->index[i];

		if (x->taken || state_of(c, i) != MPIB_CONN_FREE)
			continue;
		if (x->pool) {
			mpib_window_put(c, x->pool, x->off);
			x->pool = NULL;
		}
		x->taken = true;
		*index = i;
		return 0;
	}
	return mpib_fail(-EMFILE,
			 "this process has %d connections open or closing (no "
			 "more are possible)",
			 MPIB_CONNS_MAX);
}

static struct mpib_conn *new_conn(struct mpib_client *c, bool is_sender)
{
	struct mpib_conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		return NULL;
	conn->client = c;
	conn->is_sender = is_sender;
	conn->free = UINT32_MAX;
	for (unsigned i = 0; i < MPIB_REQUESTS; i++) {
		conn->req[i].conn = conn;
		conn->req[i].index = (uint8_t)i;
	}
	return conn;
}

/*
 * Descriptors that the last connection here pushed and the shard never took
 * must not be taken for this one's. While the state is FREE nobody reads the
 * ring, and its next reader goes on at the published head.
 */
static int clear_ring(struct mpib_client *c, uint32_t i)
{
	struct mpib_index *x = &c->index[i];
	/* Acquire pairs with the release in mpib_ring_publish(). */
	uint64_t head = atomic_load_explicit(&c->reply->conn[i].head,
					     memory_order_acquire);

	if (x->tail - head > MPIB_RING_SLOTS)
		return mpib_fail(-EPROTO,
				 "the proxy's ring head is impossible");
	while (x->tail != head) {
		struct mpib_ring_slot *s =
			&c->submit->ring[i][--x->tail % MPIB_RING_SLOTS];

		/* Relaxed: the request for a connection comes after it. */
		atomic_store_explicit(&s->seq, 0, memory_order_relaxed);
	}
	return 0;
}

static void set_index(struct mpib_conn *conn, uint32_t i)
{
	struct mpib_client *c = conn->client;

	conn->index = i;
	conn->gen = c->index[i].gen;
	conn->reply = &c->reply->conn[i];
	conn->completion = c->reply->completion[i];
	conn->ring = (struct mpib_producer){
		.slot = c->submit->ring[i],
		.head = &c->reply->conn[i].head,
		.tail = c->index[i].tail,
		.head_seen = c->index[i].tail,
		.size = MPIB_RING_SLOTS,
	};
}

/* The proxy answers at once; the state word tells the rest. */
static int begin(struct mpib_client *c, bool is_sender,
		 struct mpib_ctl_header *ask, uint32_t *ask_index,
		 struct mpib_conn **out)
{
	struct mpib_conn *conn = new_conn(c, is_sender);
	struct mpib_message m;
	uint32_t i = 0;
	int rc;

	if (!conn)
		return mpib_fail(-ENOMEM, "out of memory");
	rc = mpib_client_lock(c);
	if (rc < 0)
		goto err_free;
	rc = take_index(c, &i);
	if (rc < 0)
		goto err_unlock;
	*ask_index = i;
	rc = clear_ring(c, i);
	if (rc < 0)
		goto err_untake;
	set_index(conn, i);
	rc = mpib_rpc(c, ask, NULL, 0, &m, sizeof(m.h));
	if (rc < 0)
		goto err_untake;
	LIST_INSERT_HEAD(&c->conns, conn, link);
	pthread_mutex_unlock(&c->lock);
	*out = conn;
	return 0;

err_untake:
	c->index[i].taken = false;
err_unlock:
	pthread_mutex_unlock(&c->lock);
err_free:
	free(conn);
	return rc;
}

int mpib_connect(struct mpib_client *client, const struct mpib_handle *handle,
		 int traffic_class, struct mpib_conn **conn)
{
	struct mpib_ctl_connect ask = {
		.h = { .type = MPIB_CTL_CONNECT, .len = sizeof(ask) },
		.traffic_class = traffic_class,
	};

	if (handle->magic != MPIB_HANDLE_MAGIC)
		return mpib_fail(-EINVAL,
				 "the handle is not one of mpib_listen() (do "
				 "all nodes use mpib?)");
	memcpy(&ask.handle, handle, sizeof(ask.handle));
	return begin(client, true, &ask.h, &ask.conn, conn);
}

int mpib_accept(struct mpib_listener *listener, struct mpib_conn **conn)
{
	struct mpib_ctl_accept ask = {
		.h = { .type = MPIB_CTL_ACCEPT, .len = sizeof(ask) },
		.listen_id = listener->id,
	};

	return begin(listener->client, false, &ask.h, &ask.conn, conn);
}

/* The proxy knows the reason in words. */
static int why(struct mpib_conn *conn)
{
	struct mpib_ctl_id ask = {
		.h = { .type = MPIB_CTL_WHY, .len = sizeof(ask) },
		.id = conn->index,
	};
	struct mpib_client *c = conn->client;
	int rc = conn->reply->error;
	const struct mpib_ctl_text *got;
	struct mpib_message m;

	pthread_mutex_lock(&c->lock);
	if (mpib_rpc(c, &ask.h, NULL, 0, &m, sizeof(*got)) == 0) {
		got = (const void *)m.bytes;
		mpib_fail(rc, "%.*s", (int)sizeof(got->text), got->text);
	}
	pthread_mutex_unlock(&c->lock);
	return rc < 0 ? rc : -EIO;
}

int mpib_ready(struct mpib_conn *conn)
{
	uint32_t state;
	int rc;

	if (conn->client->forks != mpib_forks)
		return mpib_client_check(conn->client);
	state = state_of(conn->client, conn->index);
	if (state == MPIB_CONN_READY) {
		conn->ready = conn->error == 0;
		return 1;
	}
	if (state != MPIB_CONN_PENDING)
		return why(conn);
	if (++conn->idle % 1024)
		return 0;
	rc = mpib_client_look(conn->client);
	return rc;
}

void mpib_close(struct mpib_conn *conn)
{
	struct mpib_client *c = conn->client;
	struct mpib_index *x = &c->index[conn->index];

	if (mpib_client_lock(c) < 0)
		return; /* the parent's */
	tell(c, MPIB_CTL_CLOSE, conn->index);
	LIST_REMOVE(conn, link);
	x->tail = conn->ring.tail;
	x->gen = conn->gen;
	x->pool = conn->window.pool;
	x->off = conn->window.off;
	x->taken = false;
	pthread_mutex_unlock(&c->lock);
	for (unsigned i = 0; i < MPIB_REQUESTS; i++) {
		struct mpib_request *r = &conn->req[i];

		for (unsigned b = 0; r->busy && r->staged && b < r->n; b++) {
			if (r->buf[b].region)
				mpib_region_unref(r->buf[b].region);
		}
	}
	free(conn);
}
