/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client asks: each message checked, handed to its handler, answered.
 */
#include <errno.h>
#include <inttypes.h>
#include <mpib/control.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "session/session.h"

/* Messages of one client in a turn, so that a chatty one delays nobody. */
#define BURST 16

static const struct {
	size_t len;
	unsigned fds;
	mpib_session_fn *fn;
} requests[] = {
	[MPIB_CTL_HELLO] = { sizeof(struct mpib_ctl_hello), 0,
			     mpib_session_hello },
	[MPIB_CTL_POOL] = { sizeof(struct mpib_ctl_pool), 0,
			    mpib_session_pool },
	[MPIB_CTL_REG_FD] = { sizeof(struct mpib_ctl_reg_fd), 1,
			      mpib_session_reg_fd },
	[MPIB_CTL_DEREG] = { sizeof(struct mpib_ctl_id), 0,
			     mpib_session_dereg },
	[MPIB_CTL_LISTEN] = { sizeof(struct mpib_ctl_header), 0,
			      mpib_session_listen },
	[MPIB_CTL_CLOSE_LISTEN] = { sizeof(struct mpib_ctl_id), 0,
				    mpib_session_close_listen },
	[MPIB_CTL_CONNECT] = { sizeof(struct mpib_ctl_connect), 0,
			       mpib_session_connect },
	[MPIB_CTL_ACCEPT] = { sizeof(struct mpib_ctl_accept), 0,
			      mpib_session_accept },
	[MPIB_CTL_CLOSE] = { sizeof(struct mpib_ctl_id), 0,
			     mpib_session_close },
	[MPIB_CTL_WHY] = { sizeof(struct mpib_ctl_id), 0, mpib_session_why },
};

#define REQUESTS (sizeof(requests) / sizeof(requests[0]))

int mpib_session_send(struct mpib_session *s, const struct mpib_ctl_header *h,
		      const int *fd, unsigned fds)
{
	int rc;

	if (s->state > MPIB_SESSION_LIVE)
		return -EPIPE;
	rc = mpib_message_send(s->sock, h, fd, fds);
	if (rc == 0)
		return 0;
	mpib_session_drop(s, rc == -EAGAIN ? "it does not read its answers"
					   : strerror(-rc));
	return -EPIPE;
}

int mpib_session_refuse(struct mpib_session *s,
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
	return mpib_session_send(s, &e.h, NULL, 0);
}

bool mpib_session_may(struct mpib_session *s, const struct mpib_ctl_header *ask,
		      enum mpib_quota q, uint64_t more)
{
	char why[200];
	int rc = mpib_quota_check(s, q, more, why, sizeof(why));

	if (rc < 0)
		mpib_session_refuse(s, ask, rc, "%s", why);
	return rc == 0;
}

int mpib_session_ok(struct mpib_session *s, const struct mpib_ctl_header *ask,
		    uint32_t id)
{
	struct mpib_ctl_id ok = {
		.h = { .type = ask->type, .id = ask->id, .len = sizeof(ok) },
		.id = id,
	};

	return mpib_session_send(s, &ok.h, NULL, 0);
}

/* True when m may be handed to its handler; rc is what receiving it gave. */
static bool check(struct mpib_session *s, const struct mpib_message *m, int rc)
{
	uint32_t type = m->h.type;

	if (type >= REQUESTS || !requests[type].fn) {
		mpib_session_refuse(s, &m->h, -ENOSYS,
				    "this proxy knows no request of type %u",
				    type);
		return false;
	}
	/* A HELLO of another version may have another size, and is to be told
	 * about the version. */
	if (type != MPIB_CTL_HELLO && s->state == MPIB_SESSION_NEW) {
		mpib_session_drop(s, "it spoke before its HELLO");
		return false;
	}
	if (rc == -EMFILE) {
		mpib_session_refuse(s, &m->h, rc,
				    "the proxy has no descriptor left for what "
				    "came with a request of type %u (raise "
				    "LimitNOFILE of mpib-proxy)",
				    type);
		return false;
	}
	if ((type != MPIB_CTL_HELLO && m->len != requests[type].len) ||
	    m->fds != requests[type].fds) {
		mpib_session_refuse(s, &m->h, -EBADMSG,
				    "a request of type %u has %zu bytes and "
				    "%u descriptors, not %zu and %u",
				    type, requests[type].len,
				    requests[type].fds, m->len, m->fds);
		return false;
	}
	return true;
}

static const char *why_ended(int rc)
{
	if (rc == 0)
		return "it hung up";
	return rc == -EPROTO ? "its message is malformed" : strerror(-rc);
}

/* False when it has sent too many lately; s may be gone from its list. */
static bool patient(struct mpib_session *s, const struct mpib_message *m)
{
	int rc = mpib_quota_message(s, mpib_loop_now(s->all->loop));

	if (rc == -EPIPE)
		mpib_session_drop(s, "it sends without end (quota.messages)");
	else if (rc < 0)
		mpib_session_refuse(s, &m->h, rc,
				    "uid %u sends more than quota.messages = "
				    "%" PRIu64 " in a second (send fewer, or "
				    "raise it)",
				    (unsigned)s->uid,
				    s->all->cfg->quota[MPIB_QUOTA_MESSAGES]);
	return rc == 0;
}

void mpib_session_on_message(void *arg, uint32_t events)
{
	struct mpib_session *s = arg;

	(void)events;
	for (int i = 0; i < BURST && s->state <= MPIB_SESSION_LIVE; i++) {
		struct mpib_message m;
		int rc = mpib_message_recv(s->sock, &m);

		if (rc == -EAGAIN)
			return;
		if (rc <= 0 && rc != -EMFILE) {
			mpib_session_drop(s, why_ended(rc));
			return;
		}
		if (patient(s, &m) && check(s, &m, rc))
			requests[m.h.type].fn(s, &m);
		mpib_message_close_fds(&m);
	}
}
