/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"

#include <errno.h>
#include <inttypes.h>
#include <mpib/control.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/event.h"

/* Messages of one client in a turn, so that a chatty one delays nobody. */
#define BURST 16
#define HELLO_LIMIT (5 * MPIB_SEC)

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

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

/* True when m may be handed to its handler. */
static bool check(struct mpib_session *s, const struct mpib_message *m)
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

static void on_message(void *arg, uint32_t events)
{
	struct mpib_session *s = arg;

	(void)events;
	for (int i = 0; i < BURST && s->state <= MPIB_SESSION_LIVE; i++) {
		struct mpib_message m;
		int rc = mpib_message_recv(s->sock, &m);

		if (rc == -EAGAIN)
			return;
		if (rc <= 0) {
			mpib_session_drop(s, why_ended(rc));
			return;
		}
		if (patient(s, &m) && check(s, &m))
			requests[m.h.type].fn(s, &m);
		mpib_message_close_fds(&m);
	}
}

static void on_death(void *arg, uint32_t events)
{
	(void)events;
	mpib_session_drop(arg, "its process ended");
}

static void on_late(void *arg)
{
	mpib_session_drop(arg, "it said no HELLO");
}

static void free_session(void *arg)
{
	struct mpib_session *s = arg;
	struct mpib_sessions *all = s->all;

	mpib_session_free_regions(s);
	all->ledger.mapped -= s->submit.size + s->reply.size;
	mpib_memseg_fini(&s->submit);
	mpib_memseg_fini(&s->reply);
	TAILQ_REMOVE(&all->list, s, link);
	mpib_quota_end(s);
	all->ledger.sessions--;
	free(s->by_handle);
	free(s);
}

static void hang_up(struct mpib_session *s)
{
	mpib_timer_disarm(s->all->loop, &s->hello_timer);
	mpib_loop_del(s->all->loop, &s->sock_watch);
	close(s->sock);
	s->sock = -1;
	if (s->pidfd >= 0) {
		mpib_loop_del(s->all->loop, &s->pid_watch);
		close(s->pidfd);
		s->pidfd = -1;
	}
}

void mpib_session_drop(struct mpib_session *s, const char *why)
{
	if (s->state > MPIB_SESSION_LIVE)
		return;
	hang_up(s);
	if (s->state == MPIB_SESSION_NEW) {
		mpib_debug("a connection of pid %u ended before it attached: "
			   "%s",
			   s->pid, why);
		s->state = MPIB_SESSION_CLOSING;
		/* Later: our callers still look at it. */
		mpib_timer_arm(s->all->loop, &s->hello_timer, 0, free_session,
			       s);
		return;
	}
	mpib_event(MPIB_LOG_INFO, "client_leaves",
		   &(struct mpib_event_about){ .client = s->id },
		   "client %u (%s, pid %u) leaves: %s", s->id, s->name, s->pid,
		   why);
	s->all->ledger.leaving++;
	s->state = MPIB_SESSION_CONNS;
	mpib_session_drop_conns(s);
}

static void on_closed(void *arg, int status)
{
	struct mpib_session *s = arg;
	struct mpib_sessions *all = s->all;

	(void)status;
	mpib_tenant_put(s->owner.tenant);
	all->on_shard[s->owner.shard]--;
	all->ledger.attached--;
	all->ledger.leaving--;
	mpib_debug("client %u (%s, pid %u) has left", s->id, s->name, s->pid);
	free_session(s);
}

void mpib_session_advance(struct mpib_session *s)
{
	/* A region being added must be known to be fenced. */
	if (s->state != MPIB_SESSION_REGIONS || s->adding > 0)
		return;
	mpib_session_drop_regions(s);
	if (s->region_count > 0)
		return;
	s->state = MPIB_SESSION_CLOSING;
	mpib_attachment_close(s->owner.attachment, on_closed, s);
}

/*
 * A descriptor of the process at the other end, so that its death is seen
 * while a forked child keeps the socket open. -1 where that cannot be had.
 */
static int open_pidfd(int sock, const struct ucred *cred)
{
	int fd = -1;
	socklen_t len = sizeof(fd);
	char proc[32];
	struct stat st;

	if (getsockopt(sock, SOL_SOCKET, SO_PEERPIDFD, &fd, &len) == 0)
		return fd;
	if (cred->pid <= 0)
		return -1;
	/* Before Linux 6.5. The pid may be somebody else's by now; then it is
	 * most likely not the user's who connected. */
	fd = (int)syscall(SYS_pidfd_open, cred->pid, 0);
	snprintf(proc, sizeof(proc), "/proc/%d", cred->pid);
	if (fd >= 0 && stat(proc, &st) == 0 && st.st_uid != cred->uid) {
		close(fd);
		return -1;
	}
	return fd;
}

static int watch_session(struct mpib_session *s, const struct ucred *cred)
{
	struct mpib_loop *loop = s->all->loop;
	int rc = mpib_loop_add(loop, &s->sock_watch, s->sock, EPOLLIN,
			       on_message, s);

	if (rc < 0)
		return rc;
	s->pidfd = open_pidfd(s->sock, cred);
	if (s->pidfd >= 0) {
		rc = mpib_loop_add(loop, &s->pid_watch, s->pidfd, EPOLLIN,
				   on_death, s);
		if (rc < 0) {
			mpib_loop_del(loop, &s->sock_watch);
			close(s->pidfd);
			return rc;
		}
	}
	mpib_timer_arm(loop, &s->hello_timer, HELLO_LIMIT, on_late, s);
	return 0;
}

/* One over the quota is told so when it says HELLO; but those that never do
 * must not use up descriptors either. */
static bool crowded(const struct mpib_session *s)
{
	uint64_t limit = s->all->cfg->quota[MPIB_QUOTA_FDS];

	return limit &&
	       mpib_quota_used(s->all, s->uid, MPIB_QUOTA_FDS) >= 2 * limit;
}

/* sock is ours from now on. */
static void take(struct mpib_sessions *all, int sock)
{
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred);
	struct mpib_session *s = calloc(1, sizeof(*s));

	if (!s || getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		goto err_close;
	s->all = all;
	s->sock = sock;
	s->pidfd = -1;
	s->id = all->next_id++;
	s->pid = cred.pid > 0 ? (uint32_t)cred.pid : 0;
	s->uid = cred.uid;
	s->gid = cred.gid;
	LIST_INIT(&s->regions);
	if (crowded(s)) {
		all->refused++;
		close(sock);
		free(s);
		return;
	}
	if (mpib_quota_begin(s) < 0)
		goto err_close;
	if (watch_session(s, &cred) < 0)
		goto err_end;
	TAILQ_INSERT_TAIL(&all->list, s, link);
	all->ledger.sessions++;
	all->accepted++;
	return;

err_end:
	mpib_quota_end(s);
err_close:
	mpib_warn("client refused: %m");
	all->refused++;
	close(sock);
	free(s);
}

static void on_client(void *arg, uint32_t events);

static void on_resume(void *arg)
{
	struct mpib_sessions *all = arg;

	mpib_loop_add(all->loop, &all->watch, all->fd, EPOLLIN, on_client, all);
}

static void on_client(void *arg, uint32_t events)
{
	struct mpib_sessions *all = arg;
	int sock = accept4(all->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)events;
	if (sock >= 0) {
		/* Those that never say HELLO must not use up descriptors. */
		if (all->ledger.sessions < 2 * all->cfg->max_clients) {
			take(all, sock);
		} else {
			all->refused++;
			close(sock);
		}
	} else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
		/* It stays readable; looking again at once would spin. */
		mpib_warn("a client waits: accept: %m (raise LimitNOFILE)");
		mpib_loop_del(all->loop, &all->watch);
		mpib_timer_arm(all->loop, &all->pause, MPIB_SEC / 10, on_resume,
			       all);
	}
}

void mpib_sessions_tune(struct mpib_sessions *all)
{
	const uint64_t half = (uint64_t)sysconf(_SC_PHYS_PAGES) *
			      (uint64_t)sysconf(_SC_PAGESIZE) / 2;

	all->max_memory = all->cfg->max_memory;
	if (all->max_memory == 0)
		all->max_memory = half;
	all->max_pool = all->cfg->quota[MPIB_QUOTA_POOL];
	if (all->max_pool == 0)
		all->max_pool = half;
}

int mpib_sessions_init(struct mpib_sessions *all, struct mpib_loop *loop,
		       struct mpib_engine *engine, struct mpib_broker *broker,
		       const struct mpib_config *cfg, int fd)
{
	*all = (struct mpib_sessions){
		.loop = loop,
		.engine = engine,
		.broker = broker,
		.cfg = cfg,
		.fd = fd,
		.next_id = 1,
	};
	mpib_sessions_tune(all);
	TAILQ_INIT(&all->list);
	return mpib_loop_add(loop, &all->watch, fd, EPOLLIN, on_client, all);
}

void mpib_sessions_stop(struct mpib_sessions *all)
{
	struct mpib_session *s;

	mpib_timer_disarm(all->loop, &all->pause);
	mpib_loop_del(all->loop, &all->watch);
	TAILQ_FOREACH(s, &all->list, link)
	mpib_session_drop(s, "the proxy stops");
}

void mpib_sessions_fini(struct mpib_sessions *all)
{
	struct mpib_session *s;

	while ((s = TAILQ_FIRST(&all->list))) {
		mpib_timer_disarm(all->loop, &s->hello_timer);
		free_session(s);
	}
}
