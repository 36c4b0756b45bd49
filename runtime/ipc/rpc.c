/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include "ipc/client.h"
#include "ipc/message.h"

#define ANSWER_MS 10000
#define LOOK_NS 10000000ull

static int gone(struct mpib_client *c)
{
	atomic_store(&c->dead, -EPIPE);
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
	/* Relaxed: a later look finds it out just as well. */
	if (atomic_load_explicit(&c->dead, memory_order_relaxed))
		return gone(c);
	return 0;
}

int mpib_client_lock(struct mpib_client *c)
{
	if (c->forks != mpib_forks)
		return mpib_client_check(c);
	pthread_mutex_lock(&c->lock);
	return 0;
}

int mpib_client_look(struct mpib_client *c)
{
	struct pollfd p = { .fd = c->sock };
	struct timespec ts;
	uint64_t now, then;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	now = (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
	/* Relaxed: two threads that look at once do no harm. */
	then = atomic_load_explicit(&c->looked, memory_order_relaxed);
	if (now - then < LOOK_NS)
		return 0;
	atomic_store_explicit(&c->looked, now, memory_order_relaxed);
	if (poll(&p, 1, 0) > 0 && p.revents & (POLLHUP | POLLERR | POLLNVAL))
		return gone(c);
	return 0;
}

static int wait_answer(struct mpib_client *c, struct mpib_message *m)
{
	struct pollfd p = { .fd = c->sock, .events = POLLIN };
	int rc;

	for (;;) {
		rc = mpib_message_recv(c->sock, m);
		if (rc == 1)
			return 0;
		if (rc != -EAGAIN)
			return gone(c);
		rc = poll(&p, 1, ANSWER_MS);
		if (rc == 0)
			return mpib_fail(-ETIMEDOUT,
					 "the proxy at %s did not answer "
					 "within %d s (is it stopped?)",
					 c->path, ANSWER_MS / 1000);
		if (rc < 0 && errno != EINTR)
			return mpib_fail(-errno, "poll: %m");
	}
}

/* An answer that came too late for its own call is passed over. */
static int wait_for(struct mpib_client *c, uint32_t id, struct mpib_message *m)
{
	for (;;) {
		int rc = wait_answer(c, m);

		if (rc < 0)
			return rc;
		if (m->h.id == id)
			return 0;
		mpib_message_close_fds(m);
	}
}

int mpib_rpc(struct mpib_client *c, struct mpib_ctl_header *h, const int *fd,
	     unsigned fds, struct mpib_message *m, size_t want)
{
	int rc = mpib_client_check(c);

	if (rc < 0)
		return rc;
	h->id = ++c->next_id;
	rc = mpib_message_send(c->sock, h, fd, fds);
	if (rc < 0)
		return gone(c);
	rc = wait_for(c, h->id, m);
	if (rc < 0)
		return rc;
	if (m->h.status < 0) {
		struct mpib_ctl_error e = { 0 };

		memcpy(&e, m->bytes, m->len < sizeof(e) ? m->len : sizeof(e));
		e.why[sizeof(e.why) - 1] = 0;
		mpib_message_close_fds(m);
		return mpib_fail(e.h.status, "%s",
				 e.why[0] ? e.why : strerror(-e.h.status));
	}
	if (m->len < want) {
		mpib_message_close_fds(m);
		return mpib_fail(-EPROTO, "the proxy's answer is too short");
	}
	return 0;
}
