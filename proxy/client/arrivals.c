/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accepting clients on the control socket, the kernel's word on who they are,
 * and noticing their end. Control thread.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <mpib/control.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/closer.h"
#include "base/log.h"
#include "base/users.h"
#include "client/client.h"

#define HELLO_LIMIT (5 * MPIB_SEC)

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

static void on_death(void *arg, uint32_t events)
{
	(void)events;
	proxy_client_drop(arg, "its process ended");
}

static void accept_on_late(void *arg)
{
	proxy_client_drop(arg, "it said no HELLO");
}

/*
 * A pidfd of the client's process, so that its death is seen even while a
 * forked child keeps the socket open. -1 where there is none.
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
	/* Before Linux 6.5. By now another process may have the pid; the check
	 * of its uid finds most such cases. */
	fd = (int)syscall(SYS_pidfd_open, cred->pid, 0);
	snprintf(proc, sizeof(proc), "/proc/%d", cred->pid);
	if (fd >= 0 && stat(proc, &st) == 0 && st.st_uid != cred->uid) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Watch the client's socket, the end of its process, and the time limit for its
 * HELLO. -errno. */
static int accept_watch(struct proxy_client *s)
{
	struct mpib_loop *loop = s->all->loop;
	int rc = mpib_loop_add(loop, &s->sock_watch, s->sock, EPOLLIN,
			       proxy_client_on_message, s);

	if (rc < 0)
		return rc;
	if (s->pidfd >= 0) {
		rc = mpib_loop_add(loop, &s->pid_watch, s->pidfd, EPOLLIN,
				   on_death, s);
		if (rc < 0) {
			mpib_loop_del(loop, &s->sock_watch);
			return rc;
		}
	}
	mpib_timer_arm(loop, &s->hello_timer, HELLO_LIMIT, accept_on_late, s);
	return 0;
}

/* A client over quota.fds is refused at its HELLO. This limits the connections
 * of a user that never say HELLO, which would use up descriptors. */
static bool accept_crowded(const struct proxy_client *s)
{
	uint64_t limit = s->all->most[MPIB_QUOTA_FDS];

	return limit &&
	       mpib_quota_used(s->all, s->uid, MPIB_QUOTA_FDS) >= 2 * limit;
}

/* What it sent may wait already. */
static void accept_hang_up(int sock)
{
	mpib_close_of(mpib_accepted_uid(sock), sock);
}

/* Refuse and close sock without making a client: send an answer to the HELLO
 * that is still to come. */
__attribute__((format(printf, 4, 5))) static void
turn_away(struct proxy_clients *all, int sock, int status, const char *fmt, ...)
{
	struct mpib_ctl_error e = {
		.h = { .type = MPIB_CTL_HELLO,
		       .id = 1,
		       .status = status,
		       .len = sizeof(e) },
	};
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(e.why, sizeof(e.why), fmt, ap);
	va_end(ap);
	mpib_message_send(sock, &e.h, NULL, 0);
	accept_hang_up(sock);
	all->refused++;
}

/* Whether the connection of s gets a place; no user takes those of others by
 * connecting and saying nothing, and some are left for root. */
static bool accept_place(struct proxy_client *s)
{
	struct proxy_clients *all = s->all;
	/* Others of the user that have not said HELLO. */
	uint64_t silent =
		s->user->clients - 1 -
		mpib_quota_used(all, s->uid, MPIB_QUOTA_CLIENTS);

	if (accept_crowded(s))
		turn_away(all, s->sock, -EDQUOT,
			  "uid %u holds %" PRIu64
			  " descriptors, and those that "
			  "connect and say nothing count (quota.fds)",
			  (unsigned)s->uid,
			  mpib_quota_used(all, s->uid, MPIB_QUOTA_FDS));
	else if (all->usage.clients >= 2 * proxy_clients_most(all, s->uid))
		turn_away(all, s->sock, -EDQUOT,
			  "%u connections of clients wait or are "
			  "served (raise limit.clients)",
			  all->usage.clients);
	else if (silent >= mpib_quota_silent_most(all))
		turn_away(all, s->sock, -EDQUOT,
			  "uid %u has %" PRIu64 " connections that said no "
			  "HELLO (close them, or raise quota.clients)",
			  (unsigned)s->uid, silent);
	else
		return true;
	return false;
}

/* Make a client for the accepted sock, or close it. */
static void accept_take(void *arg, int sock)
{
	struct proxy_clients *all = arg;
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred);
	struct proxy_client *s = calloc(1, sizeof(*s));

	if (!s || getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		goto err_close;
	s->all = all;
	s->sock = sock;
	s->pidfd = s->doorbell = -1;
	LIST_INIT(&s->regions);
	TAILQ_INIT(&s->filling);
	s->id = all->next_id++;
	s->pid = cred.pid > 0 ? (uint32_t)cred.pid : 0;
	s->uid = cred.uid;
	if (mpib_quota_begin(s) < 0)
		goto err_close;
	if (!accept_place(s)) {
		mpib_quota_end(s);
		free(s);
		return;
	}
	s->pidfd = open_pidfd(sock, &cred);
	if (accept_watch(s) < 0)
		goto err_end;
	TAILQ_INSERT_TAIL(&all->list, s, link);
	all->usage.clients++;
	all->accepted++;
	return;

err_end:
	if (s->pidfd >= 0)
		close(s->pidfd);
	mpib_quota_end(s);
err_close:
	mpib_warn("client refused: %m");
	all->refused++;
	accept_hang_up(sock);
	free(s);
}

/* No descriptor is left: accept the next client with the spare descriptor, to
 * tell it so instead of letting it wait. False: not even that was possible. */
static bool refuse_next(void *arg)
{
	struct proxy_clients *all = arg;
	int sock;

	if (all->spare < 0)
		all->spare = eventfd(0, EFD_CLOEXEC);
	if (all->spare < 0)
		return false;
	close(all->spare);
	sock = accept4(all->acceptor.fd, NULL, NULL,
		       SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (sock >= 0)
		turn_away(all, sock, -EMFILE,
			  "mpib-proxy has no descriptor left for another "
			  "client (raise its LimitNOFILE)");
	all->spare = eventfd(0, EFD_CLOEXEC);
	return sock >= 0;
}

void proxy_clients_tune(struct proxy_clients *all)
{
	const uint64_t half = (uint64_t)sysconf(_SC_PHYS_PAGES) *
			      (uint64_t)sysconf(_SC_PAGESIZE) / 2;

	all->max_memory = all->cfg->max_memory;
	if (all->max_memory == 0)
		all->max_memory = half;
	mpib_quota_tune(all);
	mpib_broker_limit_lanes(all->broker, all->most[MPIB_QUOTA_LANES]);
}

unsigned proxy_clients_most(const struct proxy_clients *all, uid_t uid)
{
	return mpib_places_for(all->cfg->max_clients, uid);
}

int proxy_clients_init(struct proxy_clients *all, struct mpib_loop *loop,
		       struct mpib_engine *engine, struct mpib_broker *broker,
		       const struct mpib_config *cfg, int fd)
{
	int rc;

	*all = (struct proxy_clients){
		.loop = loop,
		.engine = engine,
		.broker = broker,
		.cfg = cfg,
		.spare = eventfd(0, EFD_CLOEXEC),
		.next_id = 1,
		.acceptor = { .loop = loop,
			      .fd = fd,
			      .a_second = MPIB_ACCEPTS_A_SECOND,
			      .of_users = true,
			      .who = "a client",
			      .fn = accept_take,
			      .full = refuse_next,
			      .arg = all },
	};
	proxy_clients_tune(all);
	TAILQ_INIT(&all->list);
	TAILQ_INIT(&all->filling);
	rc = mpib_acceptor_open(&all->acceptor);
	if (rc == 0)
		rc = mpib_filler_start(all);
	if (rc < 0) {
		mpib_acceptor_close(&all->acceptor);
		if (all->spare >= 0)
			close(all->spare);
	}
	return rc;
}

struct proxy_client *proxy_clients_known(const struct proxy_clients *all,
					 uint64_t id)
{
	struct proxy_client *s;

	TAILQ_FOREACH(s, &all->list, link)
	{
		if (s->id == id && s->peer_client.engine_client)
			return s;
	}
	return NULL;
}

struct proxy_client *proxy_clients_find(struct proxy_clients *all, uint64_t id)
{
	struct proxy_client *s = proxy_clients_known(all, id);

	return s && s->state == PROXY_CLIENT_LIVE ? s : NULL;
}
