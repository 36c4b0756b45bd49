/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Send control requests to the proxy, and wait for the answers with a time
 * limit. If a request takes too long, undo its effect later. Lock and unlock
 * the client. Detect that the proxy is gone, or that this process is a forked
 * child.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "ipc/client.h"
#include "ipc/message.h"

#define LOOK_MS 10

bool mpib_client_dead(const struct mpib_client *c, int ms)
{
	struct pollfd p = { .fd = c->at->pidfd, .events = POLLIN };
	uint64_t until = mpib_now_ms() + (uint64_t)ms;

	while (p.fd >= 0) {
		int rc = poll(&p, 1, ms);
		uint64_t now = mpib_now_ms();

		if (rc >= 0 || errno != EINTR || now >= until)
			return rc > 0;
		ms = (int)(until - now);
	}
	return false;
}

static int rpc_gone(const struct mpib_client *c)
{
	if (c->helper.why[0] && !mpib_client_resumes(c))
		return mpib_fail(-EPIPE, "%s", c->helper.why);
	if (mpib_client_dead(c, 0))
		return mpib_fail(
			-EPIPE,
			"the process of the proxy at %s ended (restart "
			"mpib-proxy, then the job)",
			c->path);
	return mpib_fail(-EPIPE,
			 "the proxy at %s is gone (restart mpib-proxy, then "
			 "the job)",
			 c->path);
}

int mpib_client_gone(struct mpib_client *c)
{
	atomic_store(&c->living, MPIB_GONE);
	mpib_helper_wake(c);
	return rpc_gone(c);
}

int mpib_client_check(struct mpib_client *c)
{
	if (c->forks != mpib_forks)
		return mpib_fail(-EOWNERDEAD,
				 "this client was attached before fork(); a "
				 "child process must attach its own client");
	return mpib_client_ok(c) || mpib_client_again(c) ? 0 : rpc_gone(c);
}

int mpib_client_lock(struct mpib_client *c)
{
	uint64_t until = mpib_now_ms() + c->answer_ms;

	if (c->forks != mpib_forks)
		return mpib_client_check(c);
	pthread_mutex_lock(&c->lock);
	while (mpib_client_resumes(c) && mpib_now_ms() < until) {
		pthread_mutex_unlock(&c->lock);
		poll(NULL, 0, 1);
		pthread_mutex_lock(&c->lock);
	}
	if (mpib_client_resumes(c)) {
		pthread_mutex_unlock(&c->lock);
		return mpib_fail(-ETIMEDOUT,
				 "the proxy at %s ended, and no other proxy "
				 "accepted this process within %u s (start "
				 "mpib-proxy)",
				 c->path, c->answer_ms / 1000);
	}
	return 0;
}

void mpib_client_hold(struct mpib_client *c)
{
	pthread_mutex_lock(&c->lock);
}

bool mpib_client_try(struct mpib_client *c)
{
	return mpib_mutex_try(&c->lock);
}

void mpib_client_unlock(struct mpib_client *c)
{
	pthread_mutex_unlock(&c->lock);
}

/* Read late answers, and check whether the proxy hung up. Never waits. */
static void look_at_socket(struct mpib_client *c)
{
	struct pollfd p = { .fd = c->at->sock, .events = POLLIN };

	if (!mpib_client_ok(c) || poll(&p, 1, 0) <= 0)
		return;
	if (p.revents & (POLLHUP | POLLERR | POLLNVAL))
		(void)mpib_client_gone(c);
	else
		mpib_rpc_settle(c);
}

int mpib_client_look_now(struct mpib_client *c)
{
	/* If another thread holds the lock, that thread receives the
	 * answers. */
	if (mpib_client_try(c)) {
		mpib_windows_sweep(c, mpib_now_ms());
		look_at_socket(c);
		mpib_client_unlock(c);
	}
	return mpib_client_check(c);
}

int mpib_client_look(struct mpib_client *c)
{
	uint64_t now = mpib_now_ms();
	/* Relaxed: two threads may poll at the same time, which does no
	 * harm. */
	uint64_t then = atomic_load_explicit(&c->looked, memory_order_relaxed);

	if (now - then < LOOK_MS)
		return 0;
	atomic_store_explicit(&c->looked, now, memory_order_relaxed);
	return mpib_client_look_now(c);
}

uint64_t mpib_now_ms(void)
{
	return mpib_now_ns() / 1000000;
}

int mpib_rpc_too_late(const struct mpib_client *c)
{
	return mpib_fail(-ETIMEDOUT,
			 "the proxy at %s did not answer within %u s (is it "
			 "stopped? see client.answer)",
			 c->path, c->answer_ms / 1000);
}

int mpib_wait_socket(struct mpib_client *c, int sock, short events,
		     uint64_t deadline)
{
	struct pollfd p[2] = { { .fd = sock, .events = events },
			       { .fd = c->helper.stop, .events = POLLIN } };
	const nfds_t n = c->helper.runs ? 2 : 1;

	for (;;) {
		uint64_t now = mpib_now_ms();
		int rc = now < deadline ? poll(p, n, (int)(deadline - now)) : 0;

		if (rc > 0)
			return n > 1 && p[1].revents ? -ECANCELED : 0;
		if (rc == 0)
			return mpib_rpc_too_late(c);
		if (errno != EINTR)
			return mpib_fail(-errno, "poll: %m");
	}
}

static int rpc_ask(struct mpib_client *c, const struct mpib_ctl_header *h,
		   const int *fd, unsigned fds, uint64_t deadline)
{
	for (;;) {
		int rc = mpib_message_send(c->at->sock, h, fd, fds);

		if (rc == 0)
			return 0;
		if (rc == -EPIPE || rc == -ECONNRESET || rc == -ENOTCONN)
			return mpib_client_gone(c);
		if (rc != -EAGAIN)
			return mpib_fail(rc, "asking the proxy at %s: %s",
					 c->path, mpib_errtext(rc));
		rc = mpib_wait_socket(c, c->at->sock, POLLOUT, deadline);
		if (rc < 0)
			return rc;
	}
}

static uint32_t next_id(struct mpib_client *c)
{
	c->next_id += c->next_id == UINT32_MAX ? 2 : 1; /* never 0 */
	return c->next_id;
}

int mpib_rpc_send(struct mpib_client *c, const struct mpib_attached *at,
		  struct mpib_ctl_header *h, const int *fd, unsigned fds)
{
	h->id = next_id(c);
	return mpib_message_send(at->sock, h, fd, fds);
}

int mpib_rpc_tell(struct mpib_client *c, const struct mpib_attached *at,
		  uint32_t type, uint32_t id, uint32_t *asked)
{
	struct mpib_ctl_id ask = {
		.h = { .type = type, .len = sizeof(ask) },
		.id = id,
	};
	int rc = mpib_rpc_send(c, at, &ask.h, NULL, 0);

	if (rc == 0)
		*asked = ask.h.id;
	return rc;
}

/*
 * Undo records (struct mpib_debt). The list c->debts contains the undo records
 * of objects that the client does not use any more. The proxy still has such an
 * object, or will make it later because of a request that timed out. The client
 * sends the undo request as soon as the socket has room. No caller waits for
 * the answer.
 */

static void debt_over(struct mpib_debt *d)
{
	if (d->paid)
		d->paid(d);
	else
		free(d);
}

static void debt_pay(struct mpib_debt *d)
{
	LIST_REMOVE(d, link);
	debt_over(d);
}

/* Read the id of the new object from the answer `m`. Returns false if the
 * answer is too short. */
static bool debt_learn(struct mpib_debt *d, const struct mpib_message *m)
{
	const struct mpib_ctl_listening *l = (const void *)m->bytes;
	const struct mpib_ctl_region *r = (const void *)m->bytes;

	switch (d->undo) {
	case MPIB_CTL_CLOSE_LISTEN:
		d->id = l->listen_id;
		return m->len >= sizeof(*l);
	case MPIB_CTL_DEREG:
		d->id = r->mr;
		return m->len >= sizeof(*r);
	default: /* a connection, whose index the client has chosen */
		return true;
	}
}

static void debt_answered(struct mpib_client *c, struct mpib_message *m)
{
	struct mpib_debt *d;

	LIST_FOREACH(d, &c->debts, link)
	{
		if (d->asked && d->asked == m->h.id)
			break;
	}
	mpib_message_close_fds(m);
	if (!d)
		return;
	d->asked = 0;
	if (m->h.status < 0 || !debt_learn(d, m))
		debt_pay(d);
}

void mpib_debt_keep(struct mpib_debt *d)
{
	LIST_REMOVE(d, link);
}

static void debts_pay(struct mpib_client *c)
{
	struct mpib_debt *d, *next;
	uint32_t id;

	for (d = LIST_FIRST(&c->debts); d; d = next) {
		next = LIST_NEXT(d, link);
		if (d->asked)
			continue;
		if (mpib_rpc_tell(c, c->at, d->undo, d->id, &id) < 0)
			return;
		debt_pay(d);
	}
}

void mpib_debts_forget(struct mpib_client *c)
{
	while (!LIST_EMPTY(&c->debts))
		debt_pay(LIST_FIRST(&c->debts));
}

/* Handle a message that no caller waits for. */
static void rpc_late(struct mpib_client *c, struct mpib_message *m)
{
	if (m->h.type == MPIB_CTL_LOST)
		mpib_helper_wake(c);
	if (m->h.type == MPIB_CTL_NEXT &&
	    m->len >= sizeof(struct mpib_ctl_next))
		mpib_helper_upgrade(c, (const void *)m->bytes);
	mpib_helper_answered(c, m);
	debt_answered(c, m);
}

/*
 * Wait for the answer to the request with this id. While waiting, handle late
 * answers to earlier requests. After 7/8 of the time limit, send a probe. An
 * answer to the probe shows that the proxy still works, and that only this
 * request is slow.
 */
static int rpc_answer(struct mpib_client *c, uint32_t id,
		      struct mpib_message *m, uint64_t deadline)
{
	uint64_t until = deadline - c->answer_ms / 8;
	uint32_t probe;

	c->deaf = true;
	for (;;) {
		int rc = mpib_message_recv(c->at->sock, m);

		if (rc == 1 || rc == -EMFILE) {
			c->deaf = false;
			if (m->h.id == id) {
				c->asked = MPIB_ASKED_ANSWERED;
				return rc == 1 ? 0 : rc;
			}
			rpc_late(c, m);
			continue;
		}
		if (rc != -EAGAIN)
			return mpib_client_gone(c);
		rc = mpib_wait_socket(c, c->at->sock, POLLIN, until);
		if (rc == -ETIMEDOUT && until < deadline) {
			until = deadline;
			/* The proxy answers this request at once, even while
			 * another request takes long. */
			(void)mpib_rpc_tell(c, c->at, MPIB_CTL_DEVICE, 0,
					    &probe);
		} else if (rc < 0) {
			return rc;
		}
	}
}

void mpib_rpc_settle(struct mpib_client *c)
{
	struct mpib_message m;
	int rc;

	while ((rc = mpib_message_recv(c->at->sock, &m)) == 1 ||
	       rc == -EMFILE) {
		c->deaf = false;
		rpc_late(c, &m);
	}
	if (rc != -EAGAIN)
		(void)mpib_client_gone(c);
	else
		debts_pay(c);
}

static int rpc_talk(struct mpib_client *c, struct mpib_ctl_header *h,
		    const int *fd, unsigned fds, struct mpib_message *m)
{
	uint64_t deadline = mpib_now_ms() + c->answer_ms;
	int rc;

	c->asked = MPIB_ASKED_NOT;
	if (mpib_client_ok(c))
		mpib_rpc_settle(c);
	rc = mpib_client_ok(c) ? 0 : rpc_gone(c);
	if (rc == 0 && c->deaf)
		rc = mpib_rpc_too_late(c);
	if (rc < 0)
		return rc;
	h->id = next_id(c);
	rc = rpc_ask(c, h, fd, fds, deadline);
	if (rc < 0) {
		c->deaf = rc == -ETIMEDOUT;
		return rc;
	}
	c->asked = MPIB_ASKED_LATE;
	return rpc_answer(c, h->id, m, deadline);
}

int mpib_rpc_check(struct mpib_message *m, size_t want)
{
	if (m->h.status < 0) {
		struct mpib_ctl_error e = { 0 };

		memcpy(&e, m->bytes, m->len < sizeof(e) ? m->len : sizeof(e));
		e.why[sizeof(e.why) - 1] = 0;
		mpib_message_close_fds(m);
		return mpib_fail(e.h.status, "%s",
				 e.why[0] ? e.why : mpib_errtext(e.h.status));
	}
	if (m->len < want) {
		mpib_message_close_fds(m);
		return mpib_fail(-EPROTO, "the proxy's answer is too short");
	}
	return 0;
}

int mpib_rpc(struct mpib_client *c, struct mpib_ctl_header *h, const int *fd,
	     unsigned fds, struct mpib_message *m, size_t want)
{
	int rc = rpc_talk(c, h, fd, fds, m);

	if (rc == -EMFILE)
		return mpib_fail(rc,
				 "no file descriptor is left to receive the "
				 "answer of the proxy at %s (raise the limit, "
				 "ulimit -n)",
				 c->path);
	return rc < 0 ? rc : mpib_rpc_check(m, want);
}

int mpib_rpc_of(struct mpib_client *c, uint32_t type, uint32_t id,
		struct mpib_message *m, size_t want)
{
	struct mpib_ctl_id ask = {
		.h = { .type = type, .len = sizeof(ask) },
		.id = id,
	};

	return mpib_rpc(c, &ask.h, NULL, 0, m, want);
}

int mpib_rpc_make(struct mpib_client *c, struct mpib_ctl_header *h,
		  const int *fd, unsigned fds, struct mpib_debt *d,
		  struct mpib_message *m, size_t want)
{
	int rc = mpib_rpc(c, h, fd, fds, m, want);

	if (rc == 0) {
		debt_learn(d, m);
	} else if (c->asked == MPIB_ASKED_LATE) {
		d->asked = h->id;
		mpib_rpc_undo_later(c, d);
	} else if (c->asked == MPIB_ASKED_ANSWERED && m->h.status == 0 &&
		   debt_learn(d, m)) {
		mpib_rpc_undo_later(c, d);
	} else {
		debt_over(d);
	}
	return rc;
}

int mpib_rpc_undo(struct mpib_client *c, struct mpib_debt *d)
{
	struct mpib_message m;
	int rc;

	if (d->asked) {
		mpib_rpc_undo_later(c, d);
		return mpib_rpc_too_late(c);
	}
	rc = mpib_rpc_of(c, d->undo, d->id, &m, sizeof(m.h));
	if (rc == 0)
		mpib_message_close_fds(&m);
	if (rc < 0 && rc != -EPIPE && c->asked == MPIB_ASKED_NOT)
		mpib_rpc_undo_later(c, d);
	else
		debt_over(d);
	return rc;
}

void mpib_rpc_undo_later(struct mpib_client *c, struct mpib_debt *d)
{
	LIST_INSERT_HEAD(&c->debts, d, link);
	debts_pay(c);
}
