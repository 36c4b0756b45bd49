/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control requests to the proxy with a time limit, and how the client notices
 * that the proxy is gone, or that it is itself a forked copy.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "ipc/client.h"
#include "ipc/message.h"

#define LOOK_MS 10

/* The proxy's process has ended, and with it all that it could write. */
bool mpib_client_dead(const struct mpib_client *c, int ms)
{
	struct pollfd p = { .fd = c->at->pidfd, .events = POLLIN };

	return p.fd >= 0 && poll(&p, 1, ms) > 0;
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
				 "attached before fork(); a child attaches "
				 "for itself");
	return mpib_client_ok(c) || mpib_client_again(c) ? 0 : rpc_gone(c);
}

/*
 * What the lock protects belongs to the thread that set `taken`. A thread that
 * may wait takes the mutex first, so that at most one thread waits for `taken`.
 * It stands in for pthread_mutex_trylock(), which older C libraries have
 * elsewhere.
 */
bool mpib_client_try(struct mpib_client *c)
{
	/* Acquire, pairs with mpib_client_leave(). */
	return !atomic_exchange_explicit(&c->taken, true, memory_order_acquire);
}

void mpib_client_leave(struct mpib_client *c)
{
	/* Release, pairs with mpib_client_try(). */
	atomic_store_explicit(&c->taken, false, memory_order_release);
}

/* A thread that only tries may have the lock: for moments, or while it asks the proxy
 * for a staging window. */
static void wait_taken(struct mpib_client *c)
{
	for (unsigned tries = 0; !mpib_client_try(c); tries++) {
		if (tries < 1000)
			sched_yield();
		else
			poll(NULL, 0, 1);
	}
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
				 "the proxy at %s ended, and no other "
				 "accepted this process within %u s (start "
				 "mpib-proxy)",
				 c->path, c->answer_ms / 1000);
	}
	wait_taken(c);
	return 0;
}

void mpib_client_hold(struct mpib_client *c)
{
	pthread_mutex_lock(&c->lock);
	wait_taken(c);
}

void mpib_client_unlock(struct mpib_client *c)
{
	mpib_client_leave(c);
	pthread_mutex_unlock(&c->lock);
}

/* A late answer, or the proxy hung up. */
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
	/* The thread with the lock receives answers, and may wait for one. */
	if (mpib_client_try(c)) {
		look_at_socket(c);
		mpib_client_leave(c);
	}
	return mpib_client_check(c);
}

int mpib_client_look(struct mpib_client *c)
{
	uint64_t now = mpib_now_ms();
	/* Relaxed: two threads polling at the same time do no harm. */
	uint64_t then = atomic_load_explicit(&c->looked, memory_order_relaxed);

	if (now - then < LOOK_MS)
		return 0;
	atomic_store_explicit(&c->looked, now, memory_order_relaxed);
	if (mpib_client_try(c)) {
		mpib_windows_sweep(c, now);
		mpib_client_leave(c);
	}
	return mpib_client_look_now(c);
}

uint64_t mpib_now_ms(void)
{
	return mpib_now_ns() / 1000000;
}

/* Sets the text "did not answer in time" and returns -ETIMEDOUT. */
static int rpc_too_late(const struct mpib_client *c)
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
			return rpc_too_late(c);
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

uint32_t mpib_rpc_id(struct mpib_client *c)
{
	c->next_id += c->next_id == UINT32_MAX ? 2 : 1; /* never 0 */
	return c->next_id;
}

int mpib_rpc_tell(struct mpib_client *c, uint32_t type, uint32_t id,
		  uint32_t *asked)
{
	struct mpib_ctl_id ask = {
		.h = { .type = type, .id = mpib_rpc_id(c), .len = sizeof(ask) },
		.id = id,
	};
	int rc = mpib_message_send(c->at->sock, &ask.h, NULL, 0);

	if (rc == 0)
		*asked = ask.h.id;
	return rc;
}

/* The proxy answered something, now or late. */
static void rpc_heard(struct mpib_client *c)
{
	c->deaf = false;
	c->heard++;
}

/* m is an answer that no caller waits for. */
static void rpc_late(struct mpib_client *c, struct mpib_message *m)
{
	if (m->h.type == MPIB_CTL_LOST)
		mpib_helper_wake(c);
	if (m->h.type == MPIB_CTL_NEXT &&
	    m->len >= sizeof(struct mpib_ctl_next))
		mpib_helper_upgrade(c, (const void *)m->bytes);
	if (m->h.type == MPIB_CTL_WHY)
		mpib_why_answered(c, m);
	mpib_helper_answered(c, m);
	mpib_debt_answered(c, m);
}

/*
 * Wait for the answer to request id; late answers to earlier requests are taken
 * on the way. After 7/8 of the time send a probe: a proxy that answers nothing
 * at all is deaf, one that answers the probe is only long at this request.
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
			rpc_heard(c);
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
			/* The proxy answers a WHY at once even during a long
			 * request. */
			(void)mpib_rpc_tell(c, MPIB_CTL_WHY, 0, &probe);
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
		rpc_heard(c);
		rpc_late(c, &m);
	}
	if (rc != -EAGAIN)
		(void)mpib_client_gone(c);
	else
		mpib_debts_pay(c);
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
		rc = rpc_too_late(c);
	if (rc < 0)
		return rc;
	h->id = mpib_rpc_id(c);
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
				 "no descriptor is left for what the proxy at "
				 "%s answers (raise the limit, ulimit -n)",
				 c->path);
	return rc < 0 ? rc : mpib_rpc_check(m, want);
}
