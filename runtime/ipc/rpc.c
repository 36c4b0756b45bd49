/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "ipc/client.h"
#include "ipc/message.h"

#define LOOK_MS 10

static int gone(struct mpib_client *c)
{
	atomic_store(&c->living, MPIB_GONE);
	return mpib_fail(-EPIPE,
			 "the proxy at %s is gone (restart mpib-proxy, then "
			 "the job)",
			 c->path);
}

int mpib_client_check(struct mpib_client *c)
{
	if (c->forks != mpib_forks)
		return mpib_fail(-EOWNERDEAD,
				 "attached before fork(); a child attaches "
				 "for itself");
	return mpib_client_ok(c) ? 0 : gone(c);
}

int mpib_client_lock(struct mpib_client *c)
{
	if (c->forks != mpib_forks)
		return mpib_client_check(c);
	pthread_mutex_lock(&c->lock);
	return 0;
}

int mpib_client_look_now(struct mpib_client *c)
{
	struct pollfd p = { .fd = c->sock };

	if (poll(&p, 1, 0) > 0 && p.revents & (POLLHUP | POLLERR | POLLNVAL))
		return gone(c);
	return 0;
}

int mpib_client_look(struct mpib_client *c)
{
	uint64_t now = mpib_now_ms();
	/* Relaxed: two threads that look at once do no harm. */
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

int mpib_wait_socket(struct mpib_client *c, short events, uint64_t deadline)
{
	struct pollfd p = { .fd = c->sock, .events = events };

	for (;;) {
		uint64_t now = mpib_now_ms();
		int rc =
			now < deadline ? poll(&p, 1, (int)(deadline - now)) : 0;

		if (rc > 0)
			return 0;
		if (rc == 0)
			return mpib_fail(-ETIMEDOUT,
					 "the proxy at %s did not answer "
					 "within %u s (is it stopped? "
					 "client.answer is its patience)",
					 c->path, c->answer_ms / 1000);
		if (errno != EINTR)
			return mpib_fail(-errno, "poll: %m");
	}
}

static int ask(struct mpib_client *c, const struct mpib_ctl_header *h,
	       const int *fd, unsigned fds, uint64_t deadline)
{
	for (;;) {
		int rc = mpib_message_send(c->sock, h, fd, fds);

		if (rc == 0)
			return 0;
		if (rc == -EPIPE || rc == -ECONNRESET || rc == -ENOTCONN)
			return gone(c);
		if (rc != -EAGAIN)
			return mpib_fail(rc, "asking the proxy at %s: %s",
					 c->path, mpib_errtext(rc));
		rc = mpib_wait_socket(c, POLLOUT, deadline);
		if (rc < 0)
			return rc;
	}
}

/* An answer that came too late for its own call is passed over. */
static int answer(struct mpib_client *c, uint32_t id, struct mpib_message *m,
		  uint64_t deadline)
{
	for (;;) {
		int rc = mpib_message_recv(c->sock, m);

		if (rc == 1 && m->h.id == id)
			return 0;
		if (rc == 1)
			mpib_message_close_fds(m);
		else if (rc != -EAGAIN)
			return gone(c);
		else if ((rc = mpib_wait_socket(c, POLLIN, deadline)) < 0)
			return rc;
	}
}

int mpib_rpc(struct mpib_client *c, struct mpib_ctl_header *h, const int *fd,
	     unsigned fds, struct mpib_message *m, size_t want)
{
	uint64_t deadline = mpib_now_ms() + c->answer_ms;
	int rc = mpib_client_check(c);

	if (rc < 0)
		return rc;
	h->id = ++c->next_id;
	rc = ask(c, h, fd, fds, deadline);
	if (rc == 0)
		rc = answer(c, h->id, m, deadline);
	if (rc < 0)
		return rc;
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
