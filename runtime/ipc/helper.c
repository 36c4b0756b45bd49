/* SPDX-License-Identifier: Apache-2.0 */
/* The helper thread of a client: see struct mpib_helper in client.h. The helper
 * waits until the proxy ends, attaches to the next proxy, and requests the
 * client's objects from that proxy. client.h defines "session" and
 * "instance". All static functions except helper_run() run under the client's
 * lock. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ipc/client.h"
#include "ipc/message.h"

#define PAUSE_MIN_MS 10
#define PAUSE_MAX_MS 250

static unsigned next_state(const struct mpib_conn *conn)
{
	return atomic_load_explicit(&conn->next_state, memory_order_relaxed);
}

static void next_set(struct mpib_conn *conn, enum mpib_next state)
{
	/* Release pairs with the acquire in is_ready() of resume.c. */
	atomic_store_explicit(&conn->next_state, state, memory_order_release);
}

static void conn_lose(struct mpib_conn *conn, int rc, const char *why)
{
	/* Keep the first reason, because the connection's thread may be reading
	 * it. */
	if (mpib_conn_lost(conn))
		return;
	snprintf(conn->lost_why, sizeof(conn->lost_why), "%.*s",
		 (int)sizeof(conn->lost_why) - 1, why);
	/* Release pairs with the acquire in mpib_conn_lost(). */
	atomic_store_explicit(&conn->lost, rc, memory_order_release);
}

static void instance_drop(struct mpib_client *c, struct mpib_instance *one)
{
	/* Send the undo request even if the client has not requested all its
	 * objects yet. If this proxy has ended, the next session drops the
	 * undo request. */
	if (one->at == c->at)
		mpib_rpc_undo_later(c, &one->at->index[one->index].debt);
	mpib_attached_put(one->at);
}

void mpib_next_drop(struct mpib_client *c, struct mpib_conn *conn)
{
	struct mpib_instance *next = &conn->next;

	if (next_state(conn) == MPIB_NEXT_NONE)
		return;
	mpib_conn_learn(conn, next->at, next->index);
	next_set(conn, MPIB_NEXT_NONE);
	instance_drop(c, next);
}

/* Request the connection from the proxy. Returns 0 if the proxy accepted or
 * refused the connection, or if no connection index is free yet. Returns -EPIPE
 * if the proxy is gone, or -ETIMEDOUT if it did not answer in time. */
static int conn_ask(struct mpib_client *c, struct mpib_conn *conn)
{
	uint64_t base = conn->is_sender ? 0 : mpib_conn_over(conn);
	bool had = next_state(conn) != MPIB_NEXT_NONE;
	struct mpib_instance before = conn->next;
	bool late = false;
	uint32_t index;
	int rc;

	if (had)
		mpib_conn_learn(conn, before.at, before.index);
	if (!conn->ask.key && !conn->listener) {
		mpib_next_drop(c, conn);
		conn_lose(conn, -ECONNABORTED,
			  "its listener was closed before the proxy ended");
		return 0;
	}
	if (mpib_accept_is_early(conn))
		return 0; /* conn_look() tries again */
	rc = mpib_conn_ask(conn, base, &index);
	if (rc == -EMFILE)
		return 0; /* other connections will release an index soon */
	/* If the answer is late, keep the requested connection, because an undo
	 * request would close the connection at the peer. */
	late = rc == -ETIMEDOUT && c->asked == MPIB_ASKED_LATE;
	if (late)
		mpib_debt_keep(&c->at->index[index].debt);
	else if (rc == -EPIPE || rc == -ETIMEDOUT)
		return rc;
	next_set(conn, MPIB_NEXT_NONE);
	/* Close the earlier instance only after the new instance was requested.
	 * Otherwise the proxy would have no instance of the connection, and
	 * would tell the peer that the connection is closed. */
	if (had)
		instance_drop(c, &before);
	if (rc < 0 && !late) {
		conn_lose(conn, rc, mpib_strerror());
		return 0;
	}
	conn->next = (struct mpib_instance){ c->at, index, base, 0 };
	c->at->users++;
	next_set(conn, MPIB_NEXT_ASKED);
	return rc;
}

static bool conn_answered(struct mpib_client *c, struct mpib_conn *conn,
			  struct mpib_message *m)
{
	struct mpib_debt *debt;
	int rc;

	if (next_state(conn) == MPIB_NEXT_NONE || conn->next.at != c->at)
		return false;
	debt = &c->at->index[conn->next.index].debt;
	if (!debt->asked || debt->asked != m->h.id)
		return false;
	debt->asked = 0;
	rc = mpib_rpc_check(m, 0);
	if (rc < 0) {
		conn_lose(conn, rc, mpib_strerror());
		mpib_next_drop(c, conn);
	}
	return true;
}

void mpib_helper_answered(struct mpib_client *c, struct mpib_message *m)
{
	const struct mpib_ctl_listening *got = (const void *)m->bytes;
	struct mpib_listener *listener;
	struct mpib_conn *conn;

	LIST_FOREACH(conn, &c->conns, link)
	{
		if (conn_answered(c, conn, m))
			return;
	}
	LIST_FOREACH(listener, &c->listeners, link)
	{
		if (!listener->debt.asked || listener->debt.asked != m->h.id)
			continue;
		listener->debt.asked = 0;
		if (m->h.status == 0 && m->len >= sizeof(*got))
			listener->debt.id = got->listen_id;
	}
}

/* The connection has failed at `index` of the current proxy: give it up. */
static void conn_failed(struct mpib_client *c, struct mpib_conn *conn,
			uint32_t index)
{
	const struct mpib_reply *reply = c->at->reply;
	int error = reply->conn[index].error;

	error = error < 0 ? error : -EIO;
	conn_lose(conn, error,
		  reply->why[index][0] ? reply->why[index]
				       : mpib_errtext(error));
	mpib_next_drop(c, conn);
}

/* If the current instance has a staging window, get a window for the next
 * instance, too. mpib_test() needs that window to continue requests, but does
 * not ask for windows; mpib_isend() and mpib_irecv() do. Return whether the
 * next instance still has no window. For example, a quota or the memory may be
 * used up until other connections release their windows. */
static bool next_lacks_window(struct mpib_client *c, struct mpib_conn *conn)
{
	struct mpib_instance *next = &conn->next;
	uint64_t now = mpib_now_ms();
	int rc;

	if (conn->closing || !mpib_conn_lacks_window(conn))
		return false;
	rc = mpib_window_get(c, &next->at->index[next->index],
			     mpib_window_size(conn->place->window), false);
	if (rc == 0)
		return false;
	if (!next->no_window)
		next->no_window = now;
	if (rc == -EPIPE || now - next->no_window < c->helper.grace_ms)
		return true;
	conn_lose(conn, rc, mpib_strerror());
	mpib_next_drop(c, conn);
	return true;
}

/* Allow the connection's thread to continue in the next instance. Returns false
 * if this is not possible yet. Then call again. */
static bool next_ready(struct mpib_client *c, struct mpib_conn *conn)
{
	struct mpib_instance *next = &conn->next;

	if (next_lacks_window(c, conn))
		return false;
	if (conn->is_sender)
		next->base = next->at->reply->end[next->index].base;
	next_set(conn, MPIB_NEXT_READY);
	return true;
}

/* Check the state of the connection's next instance at the current proxy, and
 * act on this state. Returns true if the caller must call again soon. */
static bool next_look(struct mpib_client *c, struct mpib_conn *conn)
{
	switch (mpib_index_state(c->at, conn->next.index)) {
	case MPIB_CONN_READY:
		return !next_ready(c, conn);
	case MPIB_CONN_LOST:
		(void)conn_ask(c, conn);
		return true;
	case MPIB_CONN_FAILED:
		/* If the next instance was ready before it failed, the peer has
		 * closed the connection. The instance's count of completed
		 * receives is valid, so the connection can still continue in
		 * this instance. */
		if (mpib_conn_was_ready(conn, conn->next.at, conn->next.index))
			return !next_ready(c, conn);
		conn_failed(c, conn, conn->next.index);
		return false;
	default:
		return true;
	}
}

/* Call this only while a proxy runs. If the connection was lost or belongs to
 * an earlier proxy, request it from the current proxy. If it was already
 * requested, check its next instance. Returns true if the caller must call
 * again soon. */
static bool conn_look(struct mpib_client *c, struct mpib_conn *conn)
{
	unsigned state = mpib_index_state(c->at, conn->index);

	if (mpib_conn_lost(conn) || conn->closing == MPIB_CLOSING_TOLD)
		return false;
	if (next_state(conn) != MPIB_NEXT_NONE)
		return next_look(c, conn);
	/* The shard reported the connection as lost, and after that the proxy
	 * set the state FAILED: the peer has closed the connection or has
	 * broken the protocol. */
	if (conn->at == c->at && state == MPIB_CONN_FAILED &&
	    mpib_conn_broken(conn) == MPIB_BROKEN_LOST)
		conn_failed(c, conn, conn->index);
	if (conn->at == c->at && state != MPIB_CONN_LOST)
		return false;
	mpib_conn_learn(conn, conn->at, conn->index);
	(void)conn_ask(c, conn);
	return true;
}

static bool closed_is_over(const struct mpib_client *c,
			   const struct mpib_conn *conn)
{
	const struct mpib_instance *next = &conn->next;

	if (mpib_conn_lost(conn))
		return true;
	if (conn->closing == MPIB_CLOSING_TOLD)
		return mpib_index_state(conn->at, conn->index) ==
		       MPIB_CONN_FREE;
	return next_state(conn) != MPIB_NEXT_NONE && next->at == c->at &&
	       (next_state(conn) == MPIB_NEXT_READY ||
		mpib_index_state(c->at, next->index) == MPIB_CONN_READY);
}

void mpib_closed_sweep(struct mpib_client *c)
{
	struct mpib_conn *conn, *following;

	for (conn = LIST_FIRST(&c->conns); conn; conn = following) {
		following = LIST_NEXT(conn, link);
		if (!conn->closing || !closed_is_over(c, conn))
			continue;
		LIST_REMOVE(conn, link);
		mpib_next_drop(c, conn); /* closes the next instance */
		if (conn->closing == MPIB_CLOSING_OWED && conn->at == c->at &&
		    mpib_client_ok(c))
			mpib_rpc_undo_later(c, &conn->place->debt);
		mpib_attached_put(conn->at);
		mpib_conn_free(conn);
	}
}

static bool was_asked(const struct mpib_client *c, const struct mpib_conn *conn)
{
	return next_state(conn) != MPIB_NEXT_NONE && conn->next.at == c->at;
}

/* Request the connections from a new proxy. If `accepts` is true, request only
 * the receiving connections to which no sender has connected yet. If `accepts`
 * is false, request all other connections. Returns 0, -EPIPE or -ETIMEDOUT. */
static int conns_again(struct mpib_client *c, bool accepts)
{
	struct mpib_conn *conn;
	int rc = 0;

	LIST_FOREACH(conn, &c->conns, link)
	{
		bool is_accept = !conn->ask.key;

		if (is_accept != accepts || was_asked(c, conn) ||
		    conn->closing == MPIB_CLOSING_TOLD || mpib_conn_lost(conn))
			continue;
		rc = conn_ask(c, conn);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Request the listener from a new proxy. If the proxy refuses the listener,
 * only the calls of mpib_accept() for this listener fail. Returns 0, -EPIPE or
 * -ETIMEDOUT. */
static int listener_again(struct mpib_client *c, struct mpib_listener *listener)
{
	struct mpib_ctl_listen ask = {
		.h = { .type = MPIB_CTL_LISTEN, .len = sizeof(ask) },
		.nonce = listener->nonce,
	};
	const struct mpib_ctl_listening *got;
	struct mpib_message m;
	int rc = mpib_rpc(c, &ask.h, NULL, 0, &m, sizeof(*got));

	if (rc == -EPIPE || (rc == -ETIMEDOUT && c->asked == MPIB_ASKED_NOT))
		return rc;
	listener->at = c->at->number;
	listener->debt.asked = rc == -ETIMEDOUT ? ask.h.id : 0;
	listener->debt.id = 0;
	if (rc == 0) {
		got = (const void *)m.bytes;
		listener->debt.id = got->listen_id;
		mpib_message_close_fds(&m);
	}
	return listener->debt.asked ? rc : 0;
}

static int listeners_again(struct mpib_client *c)
{
	struct mpib_listener *listener;
	int rc = 0;

	LIST_FOREACH(listener, &c->listeners, link)
	{
		if (rc == 0 && listener->at != c->at->number)
			rc = listener_again(c, listener);
	}
	return rc;
}

/* Request the client's objects from the new proxy, except the objects that were
 * already requested. Request the listeners after the senders and the accepted
 * receivers. Otherwise a repeated connect could use up the accept that belongs
 * to another connect (docs/recovery.md, LISTEN_FIRST). */
static int all_again(struct mpib_client *c)
{
	int rc = 0;

	if (c->at->state == MPIB_ATTACH_NEW) {
		rc = mpib_memory_register(c, c->at);
		if (rc < 0)
			return rc;
		mpib_regions_renew(c);
		c->at->state = MPIB_ATTACH_REGISTERED;
	}
	rc = conns_again(c, false);
	if (rc == 0)
		rc = listeners_again(c);
	if (rc == 0)
		rc = conns_again(c, true);
	return rc;
}

/* The ended proxy has published data about the connections. Copy the fields
 * that later requests need. Then drop the instances that were requested from
 * that proxy. */
static void conns_learn(struct mpib_client *c)
{
	struct mpib_conn *conn;

	LIST_FOREACH(conn, &c->conns, link)
	{
		mpib_conn_learn(conn, conn->at, conn->index);
		mpib_next_drop(c, conn);
		if (conn->closing &&
		    mpib_index_state(conn->at, conn->index) != MPIB_CONN_FREE)
			conn->closing = MPIB_CLOSING_OWED;
	}
}

void mpib_successor_drop(struct mpib_client *c)
{
	if (!c->successor)
		return;
	/* The shutdown makes the successor drop the client. */
	shutdown(c->successor->sock, SHUT_RDWR);
	mpib_attached_put(c->successor);
	c->successor = NULL;
}

void mpib_helper_upgrade(struct mpib_client *c,
			 const struct mpib_ctl_next *next)
{
	c->helper.upgrade = next->number;
	c->helper.attach = true;
	mpib_helper_wake(c);
}

/* Tell the proxy whether the attach to its successor succeeded. */
static void successor_tell(struct mpib_client *c, int rc)
{
	struct mpib_ctl_next say = {
		.h = { .type = MPIB_CTL_NEXT,
		       .status = rc,
		       .len = sizeof(say) },
		.number = c->helper.upgrade,
	};

	if (rc < 0)
		snprintf(say.why, sizeof(say.why), "%s", mpib_strerror());
	/* If this send fails, the proxy cancels the upgrade. */
	(void)mpib_message_send(c->at->sock, &say.h, NULL, 0);
}

/* Attach to the proxy that listens at the socket. If no proxy runs and
 * `start_until` is not 0, start a proxy and wait for this proxy until that time
 * (ms). Other threads may take the lock during the attach. Returns -EPERM if
 * the proxy does not resume connections. */
static int attach_unlocked(struct mpib_client *c, uint64_t start_until,
			   struct mpib_attached **attached)
{
	struct mpib_attached *at;
	int rc;

	mpib_client_unlock(c);
	rc = start_until ? mpib_attach_once(c, start_until, &at)
			 : mpib_attach_there(c, &at);
	mpib_client_hold(c);
	if (rc < 0)
		return rc;
	at->number = ++c->attaches;
	*attached = at;
	if (at->welcome.grace_ms && at->pidfd >= 0)
		return 0;
	mpib_attached_put(at);
	return mpib_fail(-EPERM,
			 "the next proxy at %s resumes no connection (set its "
			 "resume.grace, and failover.completion to delivered)",
			 c->path);
}

static int successor_attach(struct mpib_client *c)
{
	struct mpib_attached *at;
	int rc = attach_unlocked(c, 0, &at);

	if (rc < 0)
		return rc;
	at->serves = false;
	c->successor = at;
	return 0;
}

/* Prepare for an announced upgrade: attach to the successor proxy, and register
 * the client's memory at that proxy. */
static void successor_look(struct mpib_client *c)
{
	int rc = 0;

	if (c->helper.attach) {
		c->helper.attach = false;
		mpib_successor_drop(c);
		rc = c->helper.upgrade ? successor_attach(c) : 0;
	}
	if (rc == 0 && c->successor)
		rc = mpib_memory_step(c, c->successor);
	if (rc < 0)
		mpib_successor_drop(c);
	/* Report the result to the proxy only once. If the successor ends
	 * later, the client attaches again when its current proxy ends. */
	if (rc <= 0 && c->helper.upgrade && !c->helper.attach) {
		successor_tell(c, rc);
		c->helper.upgrade = 0;
	}
}

static int attach_another(struct mpib_client *c)
{
	struct mpib_attached *next = c->successor;
	int rc = 0;

	c->successor = NULL;
	if (!next)
		rc = attach_unlocked(c, c->helper.until, &next);
	if (rc < 0)
		return rc;
	conns_learn(c);
	mpib_debts_forget(c);
	mpib_attached_put(c->at);
	c->at = next;
	c->deaf = false;
	return 0;
}

/* Tell the proxy the id of the thread that will attach to the next proxy. */
static void thread_tell(struct mpib_client *c)
{
	const struct mpib_ctl_id resumed = {
		.h = { .type = MPIB_CTL_RESUMED, .len = sizeof(resumed) },
		.id = c->hello.thread,
	};

	(void)mpib_message_send(c->at->sock, &resumed.h, NULL, 0);
}

/* Tell the proxy that the client has requested all its objects. Do not send
 * this message while a connection still waits for an index. Without the
 * message, peers wait until their grace period ends. */
static void resumed_tell(struct mpib_client *c)
{
	struct mpib_conn *conn;

	LIST_FOREACH(conn, &c->conns, link)
	{
		if (!was_asked(c, conn) && !mpib_conn_lost(conn))
			return;
	}
	thread_tell(c);
}

/* Attach to another proxy, unless the client has already done so. Then request
 * all objects from that proxy. Returns 0 when all is done. If it returns
 * -errno, the error text is set, and the caller must call again. */
static int attach_again(struct mpib_client *c)
{
	int rc = c->at->state >= MPIB_ATTACH_WHOLE ? attach_another(c) : 0;

	if (rc < 0)
		return rc;
	atomic_store(&c->living, MPIB_ATTACHED(c->at->number) | c->forks);
	rc = all_again(c);
	if (rc < 0) {
		/* If connections may have been requested already, keep the
		 * socket. A shutdown would close these connections at their
		 * peers. */
		if (rc == -EPIPE || c->at->state == MPIB_ATTACH_NEW) {
			shutdown(c->at->sock, SHUT_RDWR);
			c->at->state = MPIB_ATTACH_CUT;
		}
		atomic_store(&c->living, MPIB_GONE);
		return rc;
	}
	resumed_tell(c);
	c->at->state = MPIB_ATTACH_WHOLE;
	c->hello.shard = c->at->welcome.shard + 1;
	c->helper.grace_ms = c->at->welcome.grace_ms;
	return 0;
}

/* Give up: the client will not continue at another proxy. Returns -1, the value
 * that helper_turn() returns in this case. */
__attribute__((format(printf, 2, 3))) static int
helper_fail(struct mpib_client *c, const char *fmt, ...)
{
	struct mpib_conn *conn;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(c->helper.why, sizeof(c->helper.why), fmt, ap);
	va_end(ap);
	LIST_FOREACH(conn, &c->conns, link)
	{
		mpib_next_drop(c, conn);
	}
	/* Store `resumes` after `why`, so that a thread that reads false from
	 * `resumes` may read `why`. */
	atomic_store(&c->helper.resumes, false);
	return -1;
}

/* Try to continue at another proxy. Returns the time until the next attempt in
 * ms, 0 if the client has continued at another proxy, or -1 if there will be no
 * further attempt. */
static int resume(struct mpib_client *c)
{
	struct mpib_helper *helper = &c->helper;
	uint64_t now = mpib_now_ms();
	int rc = attach_again(c);

	if (rc == 0) {
		helper->until = 0;
		helper->ended = false;
		return 0;
	}
	snprintf(helper->tried, sizeof(helper->tried), "%s", mpib_strerror());
	if (rc == -EPERM)
		return helper_fail(c, "%s", helper->tried);
	if (now >= helper->until)
		return helper_fail(
			c,
			"the proxy at %s ended, and no other accepted this "
			"process within %u s: %s (start mpib-proxy, then the "
			"job)",
			c->path, helper->grace_ms / 1000, helper->tried);
	helper->pause_ms = 2 * helper->pause_ms < PAUSE_MAX_MS
				   ? 2 * helper->pause_ms
				   : PAUSE_MAX_MS;
	return (int)helper->pause_ms;
}

static int proxy_gone(struct mpib_client *c)
{
	struct mpib_helper *helper = &c->helper;
	uint64_t now = mpib_now_ms();

	if (!helper->until) {
		helper->until = now + helper->grace_ms;
		helper->pause_ms = PAUSE_MIN_MS;
	}
	/* If the state is not MPIB_ATTACH_WHOLE, this library itself may have
	 * shut the socket down. In this case the proxy did not hang up. */
	if (c->at->state == MPIB_ATTACH_WHOLE &&
	    atomic_load(&c->at->reply->ended))
		return helper_fail(
			c,
			"the proxy at %s has ended the session of this "
			"process (see the proxy's log)",
			c->path);
	/* Wait until the proxy's process has ended, because it may still write
	 * to the client's memory. */
	helper->ended = mpib_client_dead(c, 0);
	if (c->at->state != MPIB_ATTACH_WHOLE || helper->ended)
		return resume(c);
	if (now < helper->until)
		return (int)(helper->until - now);
	return helper_fail(
		c,
		"the proxy at %s hung up, and its process did not end within "
		"%u s (end that process, then start the job again)",
		c->path, helper->grace_ms / 1000);
}

/* Do the work that is due. Returns the time until the next turn in ms, or -1 if
 * the helper must wait for an event. */
static int helper_turn(struct mpib_client *c)
{
	struct mpib_conn *conn;
	bool soon = false;

	if (!mpib_client_again(c)) {
		mpib_successor_drop(c);
		return -1;
	}
	if (mpib_client_ok(c))
		mpib_rpc_settle(c);
	if (mpib_client_ok(c) && mpib_client_dead(c, 0))
		(void)mpib_client_gone(c);
	if (!mpib_client_ok(c))
		return proxy_gone(c);
	successor_look(c);
	mpib_closed_sweep(c);
	LIST_FOREACH(conn, &c->conns, link)
	{
		soon |= conn_look(c, conn);
		soon |= conn->closing == MPIB_CLOSING_OWED;
	}
	return soon ? PAUSE_MIN_MS : -1;
}

static void *helper_run(void *arg)
{
	struct mpib_client *c = arg;
	struct mpib_helper *helper = &c->helper;
	uint64_t wakes;
	int ms = -1, rc;

	mpib_client_hold(c);
	c->hello.thread = (uint32_t)syscall(SYS_gettid);
	thread_tell(c);
	mpib_client_unlock(c);
	for (;;) {
		bool resumes = atomic_load(&helper->resumes);
		bool lives = mpib_client_ok(c);
		struct pollfd p[5] = {
			{ .fd = helper->stop, .events = POLLIN },
			{ .fd = helper->wake, .events = POLLIN },
			{ .fd = -1, .events = POLLIN },
			{ .fd = -1, .events = POLLIN },
			{ .fd = -1, .events = POLLIN },
		};

		/* No lock is needed: only this thread changes c->at and
		 * `ended`. */
		if (resumes && !helper->ended &&
		    c->at->state == MPIB_ATTACH_WHOLE)
			p[2].fd = c->at->pidfd;
		if (resumes && lives)
			p[3].fd = c->at->sock;
		if (resumes && lives && c->successor)
			p[4].fd = c->successor->sock;
		if (poll(p, 5, ms) < 0 && errno != EINTR)
			break;
		if (p[0].revents)
			return NULL;
		if (p[1].revents &&
		    read(helper->wake, &wakes, sizeof(wakes)) < 0 &&
		    errno != EAGAIN)
			break;
		mpib_client_hold(c);
		ms = helper_turn(c);
		mpib_client_unlock(c);
	}
	/* After this thread has ended, the client cannot attach to another
	 * proxy. So no connection may wait for another proxy. */
	rc = -errno;
	mpib_client_hold(c);
	helper_fail(c,
		    "this process cannot wait for another proxy at %s: %s "
		    "(restart mpib-proxy, then the job)",
		    c->path, mpib_errtext(rc));
	mpib_client_unlock(c);
	return NULL;
}

void mpib_helper_wake(struct mpib_client *c)
{
	static const uint64_t one = 1;

	/* The write never blocks. If the eventfd is full, the write fails, and
	 * the helper wakes up anyway. */
	if (c->helper.runs && write(c->helper.wake, &one, sizeof(one)) < 0)
		return;
}

void mpib_helper_gives_up(struct mpib_client *c, int rc)
{
	if (!atomic_exchange(&c->helper.resumes, false))
		return;
	mpib_helper_wake(c); /* so that it drops the successor */
	fprintf(stderr,
		"mpib: no descriptor of registered memory can be kept: %s, so "
		"this process cannot continue after the proxy at %s ends "
		"(raise the limit, ulimit -n; Linux before 5.9 cannot keep "
		"any)\n",
		mpib_errtext(rc), c->path);
}

void mpib_helper_start(struct mpib_client *c)
{
	struct mpib_helper *helper = &c->helper;

	helper->grace_ms = c->at->welcome.grace_ms;
	if (!helper->grace_ms || c->at->pidfd < 0)
		return;
	helper->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	helper->stop = eventfd(0, EFD_CLOEXEC);
	helper->runs = helper->wake >= 0 && helper->stop >= 0;
	atomic_store(&helper->resumes, helper->runs);
	if (helper->runs &&
	    mpib_thread_start(&helper->thread, helper_run, c) < 0) {
		helper->runs = false;
		atomic_store(&helper->resumes, false);
	}
}

void mpib_helper_stop(struct mpib_client *c)
{
	static const uint64_t one = 1;

	if (c->helper.runs &&
	    write(c->helper.stop, &one, sizeof(one)) == sizeof(one))
		mpib_thread_join(c->helper.thread);
	c->helper.runs = false;
}
