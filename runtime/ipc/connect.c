/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listeners and connections of the client library: how a connection is opened,
 * becomes ready, fails and is closed. The proxy answers CONNECT and ACCEPT
 * before it has set up the connection. After this answer, the library reads the
 * connection's state from the reply segment.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ipc/client.h"
#include "ipc/message.h"

int mpib_listen(struct mpib_client *client, struct mpib_handle *handle,
		struct mpib_listener **listener)
{
	struct mpib_ctl_listen ask = {
		.h = { .type = MPIB_CTL_LISTEN, .len = sizeof(ask) },
	};
	const struct mpib_ctl_listening *got;
	struct mpib_listener *l = calloc(1, sizeof(*l));
	struct mpib_message m;
	int rc;

	if (!l)
		return mpib_fail(-ENOMEM, "out of memory");
	l->client = client;
	l->debt.undo = MPIB_CTL_CLOSE_LISTEN;
	rc = mpib_client_lock(client);
	if (rc < 0) {
		free(l);
		return rc;
	}
	rc = mpib_rpc_make(client, &ask.h, NULL, 0, &l->debt, &m, sizeof(*got));
	if (rc == 0) {
		mpib_message_close_fds(&m);
		got = (const void *)m.bytes;
		memcpy(handle, &got->handle, sizeof(*handle));
		l->nonce = got->handle.nonce;
		LIST_INSERT_HEAD(&client->listeners, l, link);
		*listener = l;
	}
	mpib_client_unlock(client);
	return rc == -EPIPE && mpib_client_again(client)
		       ? mpib_listen(client, handle, listener)
		       : rc;
}

void mpib_close_listen(struct mpib_listener *listener)
{
	struct mpib_client *c;
	struct mpib_conn *conn;

	if (!listener)
		return;
	c = listener->client;
	if (c->forks != mpib_forks)
		/* a forked child must not close its parent's listener */
		return;
	mpib_client_hold(c);
	LIST_FOREACH(conn, &c->conns, link)
	{
		if (conn->listener == listener)
			conn->listener = NULL;
	}
	LIST_REMOVE(listener, link);
	mpib_rpc_undo(c, &listener->debt);
	mpib_client_unlock(c);
}

/*
 * Prepare the ring of a connection index for the next connection at this index.
 * The new connection pushes its first descriptor where the shard stopped
 * reading. Erase the descriptors that the previous connection pushed beyond
 * that point. Otherwise the shard would treat them as descriptors of the new
 * connection.
 */
static void rewind_ring(struct mpib_attached *at, uint32_t index)
{
	struct mpib_index *x = &at->index[index];
	struct mpib_ring_slot *ring = at->submit->ring[index];
	/* Relaxed: the shard does not use the ring of a FREE index. */
	uint64_t head = atomic_load_explicit(&at->reply->conn[index].head,
					     memory_order_relaxed);

	for (uint64_t i = 0; x->tail != head && i < MPIB_RING_SLOTS; i++)
		atomic_store_explicit(&ring[i].seq, 0, memory_order_relaxed);
	x->tail = head;
}

static void index_paid(struct mpib_debt *d)
{
	((struct mpib_index *)d)->taken = false;
}

static bool index_is_free(const struct mpib_client *c, uint32_t index)
{
	return index >= c->at->used ||
	       (!c->at->index[index].taken &&
		mpib_index_state(c->at, index) == MPIB_CONN_FREE);
}

/* Count the connections that are open or closing. This is not the number of
 * used indexes, because a connection that moves to another instance has two
 * indexes. */
static unsigned count_conns(const struct mpib_client *c)
{
	const struct mpib_conn *conn;
	unsigned n = 0;

	for (uint32_t i = 0; i < c->at->used; i++)
		n += !index_is_free(c, i);
	LIST_FOREACH(conn, &c->conns, link)
	{
		n -= conn->at == c->at && atomic_load(&conn->next_state);
	}
	return n;
}

/* Under the lock. Reserve a FREE index for a new connection. Release the window
 * that the previous connection left at this index. */
static int take_index(struct mpib_client *c, bool resumes, uint32_t *index)
{
	uint32_t i = 0;
	struct mpib_index *x;

	while (i < MPIB_INDEXES_MAX && !index_is_free(c, i))
		i++;
	if (i == MPIB_INDEXES_MAX ||
	    (!resumes && count_conns(c) >= MPIB_CONNS_MAX))
		return mpib_fail(-EMFILE,
				 "this process has %d connections open or "
				 "closing (close some)",
				 MPIB_CONNS_MAX);
	if (i == c->at->used)
		c->at->used++;
	x = &c->at->index[i];
	mpib_window_put(c, x);
	rewind_ring(c->at, i);
	x->taken = true;
	x->key = c->at->reply->end[i].key;
	x->debt = (struct mpib_debt){ .undo = MPIB_CTL_CLOSE,
				      .id = i,
				      .paid = index_paid };
	*index = i;
	return 0;
}

static struct mpib_conn *new_conn(struct mpib_client *c, bool is_sender)
{
	struct mpib_conn *conn =
		aligned_alloc(_Alignof(struct mpib_conn), sizeof(*conn));
	size_t room =
		is_sender ? MPIB_SENDS_MAX - MPIB_REQUESTS : MPIB_FLUSHES_MAX;

	if (!conn)
		return NULL;
	memset(conn, 0, sizeof(*conn));
	conn->client = c;
	conn->work = 1; /* because `error` is not 0 */
	conn->is_sender = is_sender;
	conn->sends = is_sender ? c : NULL;
	conn->receives = is_sender ? NULL : c;
	conn->error = -ENOTCONN;
	for (unsigned i = 0; i < MPIB_REQUESTS; i++) {
		struct mpib_request *r = &conn->req[i];

		r->conn = conn;
		r->number = (uint16_t)i;
		r->plain[0] = is_sender ? MPIB_OP_SEND : MPIB_OP_RECV;
		r->plain[1] = (uint8_t)i;
		r->plain[3] = 1;
		conn->placed[i] = r;
	}
	/* Do not write to this memory here. Most of these requests are never
	 * used, and the kernel allocates no page that was never written. */
	*(is_sender ? &conn->feed.room : &conn->flush.room) =
		aligned_alloc(_Alignof(struct mpib_request),
			      room * sizeof(struct mpib_request));
	if (conn->feed.room || conn->flush.room)
		return conn;
	free(conn);
	return NULL;
}

void mpib_conn_free(struct mpib_conn *conn)
{
	mpib_flush_close(conn);
	free(conn->feed.room);
	free(conn);
}

/* Give each request of conn->req its completion entry, and put it on a list of
 * unused requests. The loop begins with the request that is to be used last,
 * because each request is put at the front of its list. */
static void set_places(struct mpib_conn *conn)
{
	for (unsigned n = MPIB_REQUESTS; n-- > 0;) {
		struct mpib_request *r =
			&conn->req[(conn->turn + n) % MPIB_REQUESTS];

		r->completion = &conn->completion[r->number];
		mpib_place_rest(r);
		mpib_request_give(conn, r);
	}
}

void mpib_conn_enter(struct mpib_conn *conn, struct mpib_attached *at,
		     uint32_t i)
{
	conn->at = at;
	conn->index = i;
	conn->place = &at->index[i];
	/* the proxy has made the connection, even if its answer has not arrived
	 * yet */
	conn->place->debt.asked = 0;
	conn->sleeping = &at->status->shard[at->welcome.shard].sleeping;
	conn->lived = MPIB_ATTACHED(at->number);
	conn->first_gen = conn->place->gen + 1;
	conn->gen = conn->first_gen - 2;
	conn->turn = conn->first_gen / MPIB_TURN;
	/* Relaxed: other threads read `posts` only after this instance has
	 * ended. */
	atomic_store_explicit(&conn->posts, 0, memory_order_relaxed);
	conn->reply = &at->reply->conn[i];
	conn->completion = at->reply->completion[i];
	conn->word = &at->submit->summary.word[i / 64];
	conn->word_bit = 1ull << i % 64;
	conn->top = &at->submit->summary.top;
	conn->top_bit = 1ull << i / 64;
	/* Relaxed: no other data is published with `refused`. */
	atomic_store_explicit(&at->submit->refused[i], 0, memory_order_relaxed);
	conn->ring = (struct mpib_producer){
		.slot = at->submit->ring[i],
		.head = &conn->reply->head,
		.tail = conn->place->tail,
		.head_seen = conn->place->tail,
		.mask = MPIB_RING_SLOTS - 1,
	};
}

/* Send CONNECT or ACCEPT. The proxy answers at once, before the connection is
 * ready. After the answer, mpib_ready() polls the connection's state in the
 * reply segment. */
static int connect_begin(struct mpib_conn *conn)
{
	struct mpib_client *c = conn->client;
	uint32_t i = 0;
	int rc;

	do {
		rc = mpib_client_lock(c);
		if (rc < 0)
			break;
		rc = mpib_conn_ask(conn, 0, &i);
		if (rc == 0) {
			c->at->users++;
			mpib_conn_enter(conn, c->at, i);
			set_places(conn);
			LIST_INSERT_HEAD(&c->conns, conn, link);
		}
		mpib_client_unlock(c);
	} while (rc == -EPIPE && mpib_client_again(c));
	if (rc < 0)
		mpib_conn_free(conn);
	return rc;
}

void mpib_conn_learn(struct mpib_conn *conn, const struct mpib_attached *at,
		     uint32_t index)
{
	const struct mpib_reply_end *end = &at->reply->end[index];
	/* Acquire pairs with the release in the proxy's conn_tell_rank(). */
	uint64_t key = atomic_load_explicit(&end->key, memory_order_acquire);

	if (conn->is_sender && key == conn->ask.key && end->peer_number)
		conn->ask.peer_number = end->peer_number;
	/* If the key has not changed since the index was taken, the key belongs
	 * to an earlier connection. */
	if (!conn->is_sender && key && key != at->index[index].key) {
		struct mpib_handle *peer = &conn->ask.handle;

		conn->ask.key = key;
		memcpy(peer->addr6, end->addr, sizeof(peer->addr6));
		memcpy(peer->second, end->second, sizeof(peer->second));
		peer->port = end->port;
	}
}

bool mpib_conn_was_ready(const struct mpib_conn *conn,
			 const struct mpib_attached *at, uint32_t index)
{
	const struct mpib_reply_end *end = &at->reply->end[index];
	/* Acquire pairs with the release in the proxy's conn_tell_rank(). */
	uint64_t key = atomic_load_explicit(&end->key, memory_order_acquire);

	return key == conn->ask.key && end->number == conn->ask.number;
}

static int ask_accept(struct mpib_conn *conn, uint32_t index,
		      struct mpib_message *m)
{
	struct mpib_client *c = conn->client;
	struct mpib_ctl_accept ask = {
		.h = { .type = MPIB_CTL_ACCEPT, .len = sizeof(ask) },
		.listen_id = conn->listener->debt.id,
		.conn = index,
	};

	conn->ask.number = 1;
	return mpib_rpc_make(c, &ask.h, NULL, 0, &c->at->index[index].debt, m,
			     sizeof(m->h));
}

/* Send CONNECT or RESUME. */
static int ask_connect(struct mpib_conn *conn, uint64_t base, uint32_t index,
		       struct mpib_message *m)
{
	struct mpib_client *c = conn->client;

	conn->ask.conn = index;
	conn->ask.number++;
	conn->ask.base = base;
	return mpib_rpc_make(c, &conn->ask.h, NULL, 0,
			     &c->at->index[index].debt, m, sizeof(m->h));
}

bool mpib_accept_is_early(struct mpib_conn *conn)
{
	const struct mpib_listener *listener = conn->listener;
	struct mpib_client *c = conn->client;

	if (conn->ask.key || !listener)
		return false;
	if (listener->debt.asked && mpib_client_ok(c))
		mpib_rpc_settle(c);
	return listener->debt.asked;
}

int mpib_conn_ask(struct mpib_conn *conn, uint64_t base, uint32_t *index)
{
	struct mpib_message m;
	int rc;

	if (mpib_accept_is_early(conn)) {
		conn->client->asked = MPIB_ASKED_NOT;
		return mpib_rpc_too_late(conn->client);
	}
	rc = take_index(conn->client, conn->ask.number > 0, index);
	if (rc < 0)
		return rc;
	/* A closed connection that is still on client->conns may have the same
	 * index. Free that connection while the state of the index is FREE. */
	mpib_closed_sweep(conn->client);
	if (conn->ask.key)
		rc = ask_connect(conn, base, *index, &m);
	else
		rc = ask_accept(conn, *index, &m);
	if (rc == 0)
		mpib_message_close_fds(&m);
	return rc;
}

int mpib_connect(struct mpib_client *client, const struct mpib_handle *handle,
		 int traffic_class, struct mpib_conn **conn)
{
	struct mpib_ctl_connect ask = {
		.h = { .type = MPIB_CTL_CONNECT, .len = sizeof(ask) },
		.traffic_class = traffic_class,
	};
	struct mpib_conn *made;
	int rc;

	/* The caller's copy of the handle need not be aligned. */
	memcpy(&ask.handle, (const void *)handle, sizeof(ask.handle));
	if (ask.handle.magic != MPIB_HANDLE_MAGIC)
		return mpib_fail(-EINVAL,
				 "the handle does not come from mpib_listen() "
				 "(do all nodes use mpib?)");
	/* Older C libraries have no getrandom(), so use the system call. */
	if (syscall(SYS_getrandom, &ask.key, sizeof(ask.key), 0) !=
	    sizeof(ask.key))
		return mpib_fail(-EIO, "the kernel gives no random bits");
	made = new_conn(client, true);
	if (!made)
		return mpib_fail(-ENOMEM, "out of memory");
	made->ask = ask;
	rc = connect_begin(made);
	if (rc == 0)
		*conn = made;
	return rc;
}

int mpib_accept(struct mpib_listener *listener, struct mpib_conn **conn)
{
	struct mpib_conn *made = new_conn(listener->client, false);
	int rc;

	if (!made)
		return mpib_fail(-ENOMEM, "out of memory");
	made->listener = listener;
	made->ask = (struct mpib_ctl_connect){
		.h = { .type = MPIB_CTL_RESUME, .len = sizeof(made->ask) },
		.handle.magic = MPIB_HANDLE_MAGIC,
	};
	rc = connect_begin(made);
	if (rc == 0)
		*conn = made;
	return rc;
}

/* Get the reason why the connection has failed with the error `rc`. Returns
 * true if conn->why contains the reason. Returns false if the proxy has not
 * published the reason yet, because the shard reports a failure earlier than
 * the control thread: then the caller must call again. Never waits. */
static bool why_known(struct mpib_conn *conn, int rc)
{
	struct mpib_client *c = conn->client;
	const char *why = "";

	if (conn->why_until == 0)
		conn->why_until = mpib_now_ms() + c->answer_ms;
	if (mpib_conn_lost(conn))
		why = conn->lost_why;
	else if (mpib_index_state(conn->at, conn->index) == MPIB_CONN_FAILED)
		why = conn->at->reply->why[conn->index];
	else if (mpib_conn_lives(conn, c) && mpib_client_look(c) == 0 &&
		 mpib_now_ms() < conn->why_until)
		return false;
	if (why[0])
		snprintf(conn->why, sizeof(conn->why), "%.*s",
			 (int)sizeof(conn->lost_why) - 1, why);
	else
		snprintf(conn->why, sizeof(conn->why),
			 "connection %u is broken: %s (see mpib-proxy's log)",
			 conn->index, mpib_errtext(rc));
	return true;
}

int mpib_conn_fail(struct mpib_conn *conn, int rc, const char *why)
{
	if (conn->error == 0 || conn->error == -ENOTCONN) {
		if (!why && !why_known(conn, rc))
			return 0;
		mpib_window_drain(conn);
		if (why)
			snprintf(conn->why, sizeof(conn->why), "%s", why);
		conn->work += conn->error == 0;
		conn->error = rc;
	}
	return mpib_fail(conn->error, "%s", conn->why);
}

int mpib_conn_usable(struct mpib_conn *conn)
{
	int rc = mpib_conn_goes_on(conn);

	if (rc <= 0)
		return rc;
	if (conn->error == -ENOTCONN)
		return mpib_fail(-ENOTCONN,
				 "connection %u is not ready (poll "
				 "mpib_ready() first)",
				 conn->index);
	rc = mpib_conn_broken(conn);
	/* the connection was lost after mpib_conn_goes_on() had checked it */
	if (rc == MPIB_BROKEN_LOST)
		return 0;
	return conn->error || rc ? mpib_conn_fail(conn, rc, NULL) : 1;
}

int mpib_ready(struct mpib_conn *conn)
{
	struct mpib_client *c = conn->client;
	uint32_t state;
	int rc;

	if (c->forks != mpib_forks)
		return mpib_client_check(c);
	if (mpib_client_again(c) || c->helper.why[0]) {
		rc = mpib_conn_goes_on(conn);
		if (rc <= 0)
			return rc;
	}
	state = mpib_index_state(conn->at, conn->index);
	if (state == MPIB_CONN_LOST)
		return 0;
	/* The receiver may close the connection before the sender calls
	 * mpib_ready() for the first time. Report such a connection as ready.
	 * Its first send will fail. */
	if (state == MPIB_CONN_READY ||
	    (state == MPIB_CONN_FAILED && conn->error == -ENOTCONN &&
	     conn->is_sender &&
	     mpib_conn_was_ready(conn, conn->at, conn->index))) {
		if (conn->error == -ENOTCONN) {
			conn->error = 0;
			conn->work = 0;
		}
		/* The state that the proxy publishes does not show failures
		 * that this process has detected itself. */
		return conn->error < 0 ? mpib_conn_fail(conn, conn->error, NULL)
				       : 1;
	}
	if (state != MPIB_CONN_PENDING) {
		rc = conn->reply->error;
		return mpib_conn_fail(conn, rc < 0 ? rc : -EIO, NULL);
	}
	rc = mpib_client_check(c);
	if (rc == 0 && ++conn->idle % MPIB_LOOK_EVERY == 0)
		rc = mpib_client_look(c);
	return rc;
}

struct mpib_debt *mpib_conn_leave(struct mpib_conn *conn)
{
	struct mpib_index *x = conn->place;

	x->tail = conn->ring.tail;
	x->gen = conn->gen + 1;
	return &x->debt;
}

/* The current proxy may end before the peer knows that this connection is
 * closed. Return whether the next proxy must then close the connection. Returns
 * false if the connection was never ready: in this case it has no peer, and
 * only the current proxy knows it. */
static bool close_outlives(struct mpib_client *c, struct mpib_conn *conn)
{
	unsigned state = mpib_index_state(conn->at, conn->index);

	mpib_conn_learn(conn, conn->at, conn->index);
	if (!mpib_client_again(c) || mpib_conn_lost(conn) || !conn->ask.key ||
	    (state != MPIB_CONN_READY && state != MPIB_CONN_LOST))
		return false;
	conn->closing = conn->at == c->at && state == MPIB_CONN_READY
				? MPIB_CLOSING_TOLD
				: MPIB_CLOSING_OWED;
	return true;
}

static void close_end(struct mpib_client *c, struct mpib_conn *conn)
{
	bool outlives = close_outlives(c, conn);
	struct mpib_debt *debt = mpib_conn_leave(conn);

	/* Close a lost connection only after it has continued in another
	 * instance. Otherwise the proxy would have no instance of the
	 * connection. It would then report the close to the peer at once, and
	 * data that has arrived would be lost. */
	if (conn->at == c->at && mpib_client_ok(c) &&
	    !(outlives && conn->closing == MPIB_CLOSING_OWED))
		mpib_rpc_undo(c, debt);
	if (outlives) {
		mpib_helper_wake(c);
		return;
	}
	LIST_REMOVE(conn, link);
	mpib_next_drop(c, conn);
	mpib_attached_put(conn->at);
	mpib_conn_free(conn);
}

void mpib_close(struct mpib_conn *conn)
{
	struct mpib_client *c = conn ? conn->client : NULL;

	if (!c || c->forks != mpib_forks)
		return;
	for (unsigned i = 0; i < MPIB_REQUESTS + conn->feed.used; i++) {
		struct mpib_request *r = mpib_request_of(conn, i);

		if (r->held)
			mpib_regions_unref(r);
	}
	mpib_client_hold(c);
	close_end(c, conn);
	mpib_closed_sweep(c);
	mpib_windows_trim(c);
	mpib_client_unlock(c);
}
