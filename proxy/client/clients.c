/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Make a client, and close it: first its connections, then its regions, then
 * its segments. Control thread.
 */
#include "client/client.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <mpib/control.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/closer.h"
#include "base/crash.h"
#include "base/event.h"
#include "base/log.h"
#include "base/xalloc.h"

/* How long device memory stays registered after its client ended: peers may
 * still write to it. The time is short, because the next job needs the memory,
 * and a GPU in use cannot be reset. The memory is free 100 ms after a rank's
 * death. */
#define LET_GO (50 * MPIB_MSEC)

/* Free the client `arg`. No callback of the client may be pending. This is also
 * the callback of a timer. */
static void proxy_client_free(void *arg)
{
	struct proxy_client *s = arg;
	struct proxy_clients *all = s->all;

	mpib_timer_disarm(all->loop, &s->hello_timer);
	while (!LIST_EMPTY(&s->regions))
		mpib_region_free(LIST_FIRST(&s->regions));
	assert(s->region_count == 0 && s->region_fds == 0);
	assert(s->registered == 0);
	mpib_sum_take(&all->usage.mapped, s->segments);
	mpib_memseg_fini(&s->submit);
	mpib_memseg_fini(&s->reply);
	if (s->doorbell >= 0)
		close(s->doorbell);
	TAILQ_REMOVE(&all->list, s, link);
	mpib_quota_end(s);
	mpib_sum_less(&all->usage.clients);
	free(s);
}

static void client_hang_up(struct proxy_client *s)
{
	mpib_timer_disarm(s->all->loop, &s->hello_timer);
	mpib_loop_del(s->all->loop, &s->sock_watch);
	mpib_close_of(s->uid, s->sock);
	s->sock = -1;
	if (s->pidfd >= 0) {
		mpib_loop_del(s->all->loop, &s->pid_watch);
		close(s->pidfd);
		s->pidfd = -1;
	}
}

static void on_forgotten(void *arg, int status)
{
	struct proxy_client *s = arg;

	(void)status;
	s->state = PROXY_CLIENT_REGIONS;
	proxy_client_advance(s);
}

void proxy_client_drop(struct proxy_client *s, const char *why)
{
	struct mpib_reply *reply = s->peer_client.reply;

	if (s->state > PROXY_CLIENT_LIVE)
		return;
	/* Release: pairs with the acquire of a client that sees the hang-up. */
	if (reply)
		atomic_store_explicit(&reply->ended, 1, memory_order_release);
	client_hang_up(s);
	if (s->state == PROXY_CLIENT_NEW) {
		mpib_debug("a connection of pid %u ended before it attached: "
			   "%s",
			   s->pid, why);
		s->state = PROXY_CLIENT_CLOSING;
		/* Free s in the next turn: the callers still use it. */
		mpib_timer_arm(s->all->loop, &s->hello_timer, 0,
			       proxy_client_free, s);
		return;
	}
	mpib_event(MPIB_LOG_INFO, "client_leaves",
		   &(struct mpib_event_about){
			   .client = s->id, .of_user = true, .uid = s->uid },
		   "client %u (%s, pid %u) leaves: %s", s->id, s->name, s->pid,
		   why);
	s->all->usage.leaving++;
	mpib_survivors_leave(s->record);
	s->record = NULL;
	s->state = PROXY_CLIENT_CONNS;
	if (s->of_kind[MPIB_REGION_DMABUF] > 0)
		mpib_timer_arm(s->all->loop, &s->hello_timer, LET_GO,
			       proxy_client_let_go, s);
	mpib_fill_stop(s);
	mpib_broker_forget(s->all->broker, &s->peer_client, on_forgotten, s);
}

static void client_on_closed(void *arg, int status)
{
	struct proxy_client *s = arg;
	struct proxy_clients *all = s->all;

	(void)status;
	mpib_tenant_put(s->peer_client.tenant);
	mpib_sum_less(&all->on_shard[s->peer_client.shard]);
	mpib_sum_less(&all->usage.attached);
	mpib_sum_less(&all->usage.leaving);
	mpib_shares_apply_user(all, s->uid);
	mpib_job_leave(&all->jobs, s);
	mpib_debug("client %u (%s, pid %u) has left", s->id, s->name, s->pid);
	proxy_client_free(s);
}

void proxy_client_advance(struct proxy_client *s)
{
	/* Wait until the filler has released the client's regions. Wait for
	 * regions in ADDING, too: they can be fenced only when the shard knows
	 * them. */
	if (s->state != PROXY_CLIENT_REGIONS || s->adding > 0 ||
	    !TAILQ_EMPTY(&s->filling))
		return;
	proxy_client_drop_regions(s);
	if (s->region_count > 0)
		return;
	s->state = PROXY_CLIENT_CLOSING;
	engine_client_close(s->peer_client.engine_client, &s->moved,
			    client_on_closed, s);
}

/*
 * Requests on the control socket: check each message, call its handler, answer.
 */

/* Messages handled per client and turn, so that a client that sends many does
 * not delay others. */
#define BURST 16
#define CROWD "too many tasks wait at its socket, and each answer wakes all"

static const struct {
	size_t len;
	unsigned fds;
	proxy_client_fn *fn;
} requests[] = {
	[MPIB_CTL_HELLO] = { sizeof(struct mpib_ctl_hello), 0,
			     proxy_client_hello },
	[MPIB_CTL_POOL] = { sizeof(struct mpib_ctl_pool), 0,
			    proxy_client_pool },
	[MPIB_CTL_REG_FD] = { sizeof(struct mpib_ctl_reg_fd), 1,
			      proxy_client_reg_fd },
	[MPIB_CTL_DEREG] = { sizeof(struct mpib_ctl_id), 0,
			     proxy_client_dereg },
	[MPIB_CTL_LISTEN] = { sizeof(struct mpib_ctl_listen), 0,
			      proxy_client_listen },
	[MPIB_CTL_CLOSE_LISTEN] = { sizeof(struct mpib_ctl_id), 0,
				    proxy_client_close_listen },
	[MPIB_CTL_CONNECT] = { sizeof(struct mpib_ctl_connect), 0,
			       proxy_client_connect },
	[MPIB_CTL_ACCEPT] = { sizeof(struct mpib_ctl_accept), 0,
			      proxy_client_accept },
	[MPIB_CTL_RESUME] = { sizeof(struct mpib_ctl_connect), 0,
			      proxy_client_connect },
	[MPIB_CTL_CLOSE] = { sizeof(struct mpib_ctl_id), 0,
			     proxy_client_close },
	[MPIB_CTL_DEVICE] = { sizeof(struct mpib_ctl_id), 0,
			      proxy_client_device },
	[MPIB_CTL_NEXT] = { sizeof(struct mpib_ctl_next), 0,
			    proxy_client_next },
	[MPIB_CTL_RESUMED] = { sizeof(struct mpib_ctl_id), 0,
			       proxy_client_resumed },
};

#define REQUESTS (sizeof(requests) / sizeof(requests[0]))

/* Return why the client leaves, from the result of mpib_message_take(). The
 * kernel reports the end of a process by its pidfd (see arrivals.c), as EOF or
 * as an error, depending on chance; the reason is the same. */
static const char *why_ended(int rc)
{
	if (rc == 0 || rc == -ECONNRESET)
		return "it hung up";
	if (rc == -EPIPE)
		return "descriptors that its user sent cannot be closed";
	return rc == -EPROTO ? "its message is malformed" : strerror(-rc);
}

int proxy_client_send(struct proxy_client *s, const struct mpib_ctl_header *h,
		      const int *fd, unsigned fds)
{
	uint64_t began;
	int rc;

	if (s->state > PROXY_CLIENT_LIVE)
		return -EPIPE;
	began = mpib_waking_begin();
	rc = mpib_message_send(s->sock, h, fd, fds);
	if (!mpib_waking_end(&s->waking, began)) {
		proxy_client_drop(s, CROWD);
		return -EPIPE;
	}
	if (rc == 0)
		return 0;
	/* Here EPIPE means that the client's end is closed. */
	proxy_client_drop(s, rc == -EAGAIN ? "it does not read its answers"
					   : why_ended(rc == -EPIPE ? 0 : rc));
	return -EPIPE;
}

int proxy_client_refuse(struct proxy_client *s,
			const struct mpib_ctl_header *ask, int status,
			const char *fmt, ...)
{
	struct mpib_ctl_error e = {
		.h = { .type = ask->type,
		       .id = ask->id,
		       .status = status,
		       .len = sizeof(e) },
	};
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(e.why, sizeof(e.why), fmt, ap);
	va_end(ap);
	s->all->rejected++;
	mpib_debug("client %u (%s, pid %u): request %u refused: %s", s->id,
		   s->name, s->pid, ask->type, e.why);
	return proxy_client_send(s, &e.h, NULL, 0);
}

bool proxy_client_may(struct proxy_client *s, const struct mpib_ctl_header *ask,
		      enum mpib_quota q, uint64_t more)
{
	char why[200];
	int rc = mpib_quota_check(s, q, more, why, sizeof(why));

	if (rc < 0)
		proxy_client_refuse(s, ask, rc, "%s", why);
	return rc == 0;
}

int proxy_client_ok(struct proxy_client *s, const struct mpib_ctl_header *ask,
		    uint32_t id)
{
	struct mpib_ctl_id ok = {
		.h = { .type = ask->type, .id = ask->id, .len = sizeof(ok) },
		.id = id,
	};

	return proxy_client_send(s, &ok.h, NULL, 0);
}

/* Return whether m may go to its handler; rc is the result of
 * mpib_message_take(). */
static bool request_check(struct proxy_client *s, const struct mpib_message *m,
			  int rc)
{
	uint32_t type = m->h.type;

	if (type >= REQUESTS || !requests[type].fn) {
		proxy_client_refuse(s, &m->h, -ENOSYS,
				    "this proxy knows no request of type %u",
				    type);
		return false;
	}
	/* A HELLO of another version may have another size. Do not check it
	 * here, so that proxy_client_hello() can answer with the version. */
	if (type != MPIB_CTL_HELLO && s->state == PROXY_CLIENT_NEW) {
		proxy_client_drop(s, "it sent a request before its HELLO");
		return false;
	}
	if (s->all->awaits && type != MPIB_CTL_HELLO &&
	    type != MPIB_CTL_REG_FD && type != MPIB_CTL_POOL &&
	    type != MPIB_CTL_DEREG) {
		proxy_client_refuse(s, &m->h, -EAGAIN,
				    "this mpib-proxy does not serve yet, but "
				    "its predecessor still does (wait)");
		return false;
	}
	if (rc == -EMFILE) {
		proxy_client_refuse(s, &m->h, rc,
				    "the proxy has no descriptors left, and a "
				    "request of type %u carries some (raise "
				    "LimitNOFILE of mpib-proxy)",
				    type);
		return false;
	}
	if ((type != MPIB_CTL_HELLO && m->len != requests[type].len) ||
	    m->fds != requests[type].fds) {
		proxy_client_refuse(s, &m->h, -EBADMSG,
				    "a request of type %u has %zu bytes and "
				    "%u descriptors, not %zu and %u",
				    type, requests[type].len,
				    requests[type].fds, m->len, m->fds);
		return false;
	}
	return true;
}

/* Return whether messages of the type release a resource. A client sends such a
 * message only once. */
static bool gives_back(uint32_t type)
{
	return type == MPIB_CTL_DEREG || type == MPIB_CTL_CLOSE_LISTEN ||
	       type == MPIB_CTL_CLOSE;
}

/* Check the rate of messages. If s has sent too many, refuse m or drop s, and
 * return false. Messages that release a resource count, but are not refused.
 * Otherwise the resource would leak, and a peer could wait for a connection
 * that no process has any more. */
static bool request_patient(struct proxy_client *s,
			    const struct mpib_message *m)
{
	int rc = mpib_quota_message(s, mpib_loop_now(s->all->loop));

	if (rc == -EPIPE)
		proxy_client_drop(s, "it sends without end (quota.messages)");
	else if (rc < 0 && gives_back(m->h.type))
		return true;
	else if (rc < 0)
		proxy_client_refuse(s, &m->h, rc,
				    "uid %u sends more than quota.messages = "
				    "%" PRIu64 " in a second (send fewer, or "
				    "raise it)",
				    (unsigned)s->uid,
				    s->all->cfg->quota[MPIB_QUOTA_MESSAGES]);
	return rc == 0;
}

/* Close the descriptors that no handler has taken. */
static void request_end(const struct proxy_client *s, struct mpib_message *m)
{
	while (m->fds > 0)
		mpib_close_received(s->uid, m->fd[--m->fds]);
}

void proxy_client_on_message(void *arg, uint32_t events)
{
	struct proxy_client *s = arg;

	(void)events;
	mpib_works_for = s->id;
	for (int i = 0; i < BURST && s->state <= PROXY_CLIENT_LIVE; i++) {
		struct mpib_message m;
		int rc = mpib_may_receive(s->uid);
		uint64_t began = mpib_waking_begin();

		m.fds = 0;
		if (rc == 0)
			rc = mpib_message_take(s->sock, &m);
		if (rc == -EAGAIN)
			break;
		if (!mpib_waking_end(&s->waking, began))
			proxy_client_drop(s, CROWD);
		else if (rc <= 0 && rc != -EMFILE)
			proxy_client_drop(s, why_ended(rc));
		else if (request_patient(s, &m) && request_check(s, &m, rc))
			requests[m.h.type].fn(s, &m);
		request_end(s, &m);
	}
	mpib_works_for = 0;
}

/* Pass a client's requests for listeners and connections to the broker of the
 * peer link. */

static const char *listen_error(int rc)
{
	switch (rc) {
	case -ENOSPC:
		return "all listeners of this node are in use (close some)";
	case -EEXIST:
		return "another listener has its nonce";
	default:
		return strerror(-rc);
	}
}

void proxy_client_listen(struct proxy_client *s, struct mpib_message *m)
{
	const struct mpib_ctl_listen *ask = (const void *)m->bytes;
	struct mpib_ctl_listening answer = {
		.h = { .type = m->h.type,
		       .id = m->h.id,
		       .len = sizeof(answer) },
	};
	int rc;

	if (!proxy_client_may(s, &m->h, MPIB_QUOTA_LISTENERS, 1))
		return;
	rc = mpib_broker_listen(s->all->broker, &s->peer_client, ask->nonce,
				&answer.listen_id, &answer.handle);
	if (rc < 0) {
		proxy_client_refuse(s, &m->h, rc, "no further listener: %s",
				    listen_error(rc));
		return;
	}
	s->listeners++;
	proxy_client_send(s, &answer.h, NULL, 0);
}

void proxy_client_close_listen(struct proxy_client *s, struct mpib_message *m)
{
	const struct mpib_ctl_id *ask = (const void *)m->bytes;
	int rc = mpib_broker_close_listen(s->all->broker, &s->peer_client,
					  ask->id);

	if (rc < 0) {
		proxy_client_refuse(s, &m->h, rc,
				    "this client has no listener %u", ask->id);
		return;
	}
	mpib_sum_less(&s->listeners);
	proxy_client_ok(s, &m->h, ask->id);
}

static const char *conn_error(int rc)
{
	switch (rc) {
	case -EINVAL:
		return "the index is invalid or in use, or the handle, key or "
		       "number is invalid";
	case -EEXIST:
		return "another connection of this user has its key";
	case -EACCES:
		return "the peer's address is in none of the networks of the "
		       "proxies (the operator sets them in peer.networks)";
	case -EDQUOT:
		return "too many peers of this user do not answer (close the "
		       "connections that wait for them)";
	case -ENOSPC:
		return "the proxy has too many peers (close connections that "
		       "wait for one)";
	default:
		return strerror(-rc);
	}
}

static void conn_answer(struct proxy_client *s,
			const struct mpib_ctl_header *ask, uint32_t conn,
			int rc)
{
	if (rc < 0)
		proxy_client_refuse(s, ask, rc, "connection %u: %s", conn,
				    conn_error(rc));
	else
		proxy_client_ok(s, ask, conn);
}

void proxy_client_connect(struct proxy_client *s, struct mpib_message *m)
{
	const struct mpib_ctl_connect *ask = (const void *)m->bytes;
	int rc;

	if (ask->traffic_class > 0 && ask->traffic_class <= UINT8_MAX &&
	    !mpib_config_class(s->all->cfg, (unsigned)ask->traffic_class)) {
		proxy_client_refuse(s, &m->h, -EPERM,
				    "traffic class %d is not allowed (the "
				    "operator lists the allowed ones in "
				    "qp.traffic_classes)",
				    ask->traffic_class);
		return;
	}
	if (!proxy_client_may(s, &m->h, MPIB_QUOTA_CONNECTIONS, 1))
		return;
	rc = mpib_broker_connect(s->all->broker, &s->peer_client, ask,
				 m->h.type == MPIB_CTL_CONNECT);
	conn_answer(s, &m->h, ask->conn, rc);
}

void proxy_client_accept(struct proxy_client *s, struct mpib_message *m)
{
	const struct mpib_ctl_accept *ask = (const void *)m->bytes;
	int rc;

	if (!proxy_client_may(s, &m->h, MPIB_QUOTA_CONNECTIONS, 1))
		return;
	rc = mpib_broker_accept(s->all->broker, &s->peer_client, ask->listen_id,
				ask->conn);
	if (rc == -ENOENT)
		proxy_client_refuse(s, &m->h, rc,
				    "this client has no listener %u",
				    ask->listen_id);
	else
		conn_answer(s, &m->h, ask->conn, rc);
}

/* A client that does not read this message finds the loss by polling. */
void proxy_client_conns_lost(struct peer_client *client)
{
	struct proxy_client *s =
		container_of(client, struct proxy_client, peer_client);
	const struct mpib_ctl_header lost = { .type = MPIB_CTL_LOST,
					      .len = sizeof(lost) };

	if (s->state == PROXY_CLIENT_LIVE)
		mpib_message_send(s->sock, &lost, NULL, 0);
}

void proxy_client_close(struct proxy_client *s, struct mpib_message *m)
{
	const struct mpib_ctl_id *ask = (const void *)m->bytes;
	int rc = mpib_broker_drop(s->all->broker, &s->peer_client, ask->id);

	if (rc < 0)
		proxy_client_refuse(s, &m->h, rc,
				    "this client has no connection %u",
				    ask->id);
	else
		proxy_client_ok(s, &m->h, ask->id);
}

/*
 * Clients during an upgrade (MPIB_CTL_NEXT): each client attaches to the
 * successor and registers its memory there. The running proxy still serves the
 * client.
 */

/* Announce the upgrade to a client. If a client never reads the message, the
 * upgrade fails. */
static bool next_tell(const struct proxy_client *s, uint32_t number)
{
	const struct mpib_ctl_next next = {
		.h = { .type = MPIB_CTL_NEXT, .len = sizeof(next) },
		.number = number,
	};

	return mpib_message_send(s->sock, &next.h, NULL, 0) == 0;
}

void proxy_client_next(struct proxy_client *s, struct mpib_message *m)
{
	const struct mpib_ctl_next *got = (const void *)m->bytes;
	struct proxy_clients *all = s->all;

	if (got->number != s->told || !s->told || s->prepared == s->told)
		return; /* the answer is for an upgrade that failed */
	if (got->h.status == 0) {
		s->prepared = s->told;
		return;
	}
	if (all->next_why[0])
		return;
	snprintf(all->next_why, sizeof(all->next_why),
		 "client %u (%s, pid %u): %.*s", s->id, s->name, s->pid,
		 (int)sizeof(got->why) - 1, got->why);
}

unsigned proxy_clients_prepare(struct proxy_clients *all, uint32_t number,
			       char *why, size_t len)
{
	struct proxy_client *s;
	unsigned waits = 0;

	TAILQ_FOREACH(s, &all->list, link)
	{
		if (s->state != PROXY_CLIENT_LIVE || s->prepared == number)
			continue;
		if (s->told != number && next_tell(s, number))
			s->told = number;
		if (waits++ == 0)
			snprintf(why, len, "client %u (%s, pid %u)", s->id,
				 s->name, s->pid);
	}
	if (all->next_why[0])
		snprintf(why, len, "%s", all->next_why);
	return waits;
}

void proxy_clients_stay(struct proxy_clients *all)
{
	struct proxy_client *s;

	TAILQ_FOREACH(s, &all->list, link)
	{
		if (s->state == PROXY_CLIENT_LIVE && s->told)
			(void)next_tell(s, 0);
		s->told = s->prepared = 0;
	}
	all->next_why[0] = '\0';
}

void proxy_client_resumed(struct proxy_client *s, struct mpib_message *m)
{
	const struct mpib_ctl_id *of = (const void *)m->bytes;

	mpib_survivors_resumed(s->record, of->id, s->returned);
}

/* Once a second: if all clients of the last proxy are back, tell the peers not
 * to wait any more. */
static void clients_on_look(void *arg)
{
	struct proxy_clients *all = arg;

	if (mpib_survivors_are_back(&all->survivors))
		mpib_broker_grown(all->broker);
	if (mpib_broker_young(all->broker))
		mpib_timer_arm(all->loop, &all->look, MPIB_SEC, clients_on_look,
			       all);
}

void proxy_clients_serve(struct proxy_clients *all)
{
	struct proxy_client *s;

	all->awaits = false;
	TAILQ_FOREACH(s, &all->list, link)
	{
		if (s->state != PROXY_CLIENT_LIVE)
			continue;
		proxy_client_served(s);
		if (!next_tell(s, 0))
			mpib_warn("client %u (%s, pid %u) does not read that "
				  "the upgrade is complete",
				  s->id, s->name, s->pid);
	}
	clients_on_look(all);
}
