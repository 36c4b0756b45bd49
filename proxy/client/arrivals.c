/* SPDX-License-Identifier: Apache-2.0 */
/*
 * New clients: accept them on the control socket, get their identity from the
 * kernel, and watch for their end. The answer to a client's HELLO has the
 * client's segments. Control thread.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <mpib/control.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/closer.h"
#include "base/event.h"
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
	proxy_client_drop(arg, "it hung up");
}

static void accept_on_late(void *arg)
{
	proxy_client_drop(arg, "it sent no HELLO");
}

/*
 * Open a pidfd of the client's process, which reports its death even if a
 * forked child keeps the socket open. Return -1 if pidfds are not available.
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
	/* Before Linux 6.5, the pid may already belong to another process. The
	 * check of that process's uid finds most such cases. */
	fd = (int)syscall(SYS_pidfd_open, cred->pid, 0);
	snprintf(proc, sizeof(proc), "/proc/%d", cred->pid);
	if (fd >= 0 && stat(proc, &st) == 0 && st.st_uid != cred->uid) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Watch the client's socket, the end of its process, and the time limit for its
 * HELLO. Returns 0 or -errno. */
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

/* Return whether the user holds twice as many descriptors as quota.fds allows.
 * Connections without a HELLO hold descriptors, too, and clients that exceed
 * quota.fds are refused only at their HELLO. */
static bool accept_crowded(const struct proxy_client *s)
{
	uint64_t limit = s->all->most[MPIB_QUOTA_FDS];

	return limit &&
	       mpib_quota_used(s->all, s->uid, MPIB_QUOTA_FDS) >= 2 * limit;
}

/* Read messages that the client may have sent already, then close. */
static void accept_hang_up(int sock)
{
	mpib_close_of(mpib_accepted_uid(sock), sock);
}

/* Refuse the process at the other end of sock: send the answer to its HELLO in
 * advance, and close sock. */
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

/* Return how many clients may be attached before a client of this user is
 * refused: limit.clients, minus a few that are reserved for root. */
static unsigned clients_most(const struct proxy_clients *all, uid_t uid)
{
	return mpib_places_for(all->cfg->max_clients, uid);
}

/* Return whether the limits allow the connection of s; if not, refuse the
 * connection. One user's connections without a HELLO must not use up the
 * connections of other users. A few connections are reserved for root. */
static bool accept_place(struct proxy_client *s)
{
	struct proxy_clients *all = s->all;
	/* Other connections of the user without a HELLO. */
	uint64_t silent = s->user->clients - 1 -
			  mpib_quota_used(all, s->uid, MPIB_QUOTA_CLIENTS);

	if (accept_crowded(s))
		turn_away(all, s->sock, -EDQUOT,
			  "uid %u holds %" PRIu64 " descriptors, including its "
			  "connections without a HELLO (raise quota.fds)",
			  (unsigned)s->uid,
			  mpib_quota_used(all, s->uid, MPIB_QUOTA_FDS));
	else if (all->usage.clients >= 2 * clients_most(all, s->uid))
		turn_away(all, s->sock, -EDQUOT,
			  "%u connections of clients wait or are "
			  "served (raise limit.clients)",
			  all->usage.clients);
	else if (silent >= mpib_quota_silent_most(all))
		turn_away(all, s->sock, -EDQUOT,
			  "uid %u has %" PRIu64 " connections that sent no "
			  "HELLO (close them, or raise quota.clients)",
			  (unsigned)s->uid, silent);
	else
		return true;
	return false;
}

/* Make a client for the accepted socket `sock`, or close `sock`. */
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

/* All descriptors are in use: accept the next client with the spare descriptor,
 * tell the client why it is refused, and hang up. Return false if there was no
 * client or no spare descriptor. */
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
	mpib_quota_tune(all);
	mpib_broker_limit_lanes(all->broker, all->most[MPIB_QUOTA_LANES]);
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

/* The HELLO: it turns a connected process into a client with segments. */

/* Copy a client's text of 64 bytes. Replace all characters that are less than
 * `least` or not printable ASCII, because the text may be written to terminals
 * and logs. */
static void take_text(char to[64], const char from[64], char least)
{
	size_t i;

	for (i = 0; i < 63 && from[i]; i++)
		to[i] = (char)(from[i] >= least && from[i] < 0x7f ? from[i]
								  : '_');
	to[i] = '\0';
}

/* Return the shard for a new client. `wish` is 1 + the shard that the client
 * had at the last proxy, or 0. */
static unsigned shard_for(const struct proxy_clients *all, uid_t uid,
			  unsigned device, uint32_t wish)
{
	unsigned shards = all->cfg->engine.shards, first = device * shards;
	uint32_t of_user[MPIB_SHARDS_MAX] = { 0 };
	const struct proxy_client *s;

	if (wish > first && wish <= first + shards)
		return wish - 1;
	TAILQ_FOREACH(s, &all->list, link)
	{
		if (s->uid == uid && s->state == PROXY_CLIENT_LIVE)
			of_user[s->peer_client.shard]++;
	}
	return first + mpib_place(all->cfg->share_threads, of_user + first,
				  all->on_shard + first, shards);
}

static int make_segments(struct proxy_client *s)
{
	int rc = mpib_memseg_create(&s->submit, "mpib-submit",
				    sizeof(struct mpib_submit), false);

	if (rc < 0)
		return rc;
	rc = mpib_memseg_create(&s->reply, "mpib-reply",
				sizeof(struct mpib_reply), true);
	if (rc < 0) {
		mpib_memseg_fini(&s->submit);
		s->submit = (struct mpib_memseg){ .fd = -1 };
		return rc;
	}
	s->segments = s->submit.size + s->reply.size;
	s->all->usage.mapped += s->segments;
	return 0;
}

/* Make s a client of the shard, and count it as attached. After a failure
 * (-errno), the segments that were made stay until s is dropped. */
static int hello_join(struct proxy_client *s, unsigned shard)
{
	struct proxy_clients *all = s->all;
	int rc;

	s->peer_client.shard = shard;
	rc = mpib_tenant_get(all->engine, shard, s->uid,
			     &s->peer_client.tenant);
	if (rc < 0)
		return rc;
	rc = engine_client_open(s->peer_client.tenant, s->id, s->submit.addr,
				s->reply.addr, s->doorbell,
				&s->peer_client.engine_client);
	if (rc < 0) {
		mpib_tenant_put(s->peer_client.tenant);
		return rc;
	}
	s->peer_client.uid = s->uid;
	s->peer_client.reply = s->reply.addr;
	s->peer_client.lost = proxy_client_conns_lost;
	all->on_shard[shard]++;
	all->usage.attached++;
	s->state = PROXY_CLIENT_LIVE;
	return 0;
}

/* Attach s. On failure s stays NEW, and proxy_client_drop() undoes all
 * steps. */
static int hello_attach(struct proxy_client *s, unsigned device, uint32_t wish)
{
	struct proxy_clients *all = s->all;
	int rc = make_segments(s);

	if (rc < 0)
		return rc;
	s->doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->doorbell < 0)
		return -errno;
	rc = hello_join(s, shard_for(all, s->uid, device, wish));
	if (rc < 0)
		return rc;
	mpib_job_join(&all->jobs, s);
	mpib_shares_apply_user(all, s->uid);
	mpib_timer_disarm(all->loop, &s->hello_timer);
	return 0;
}

/* Describe a rail to the client. i is its index among the rails of all
 * devices. */
static void describe_rail(struct proxy_clients *all, unsigned i,
			  struct mpib_rail_info *rail)
{
	const struct mpib_config *cfg = all->cfg;
	struct mpib_port_info port;

	mpib_config_rail_name(cfg, i, rail->name, sizeof(rail->name));
	snprintf(rail->pci_path, sizeof(rail->pci_path), "%.127s",
		 mpib_engine_place(all->engine, i));
	if (mpib_engine_port(all->engine, i, &port) < 0)
		return;
	rail->speed_mbps = (uint32_t)port.speed_mbps;
	rail->up = port.state == IBV_PORT_ACTIVE;
}

static void hello_no_device(struct proxy_client *s,
			    const struct mpib_ctl_header *ask, uint32_t device)
{
	proxy_client_refuse(s, ask, -ENODEV,
			    "there is no device %u, mpib-proxy has %u (mpibctl "
			    "devices lists them)",
			    device, s->all->cfg->engine.devices);
}

void proxy_client_served(struct proxy_client *s)
{
	s->record = mpib_survivors_take(&s->all->survivors, &s->process, s->id);
	mpib_event(MPIB_LOG_INFO, "client_attaches",
		   &(struct mpib_event_about){
			   .client = s->id, .of_user = true, .uid = s->uid },
		   "client %u (%s, pid %u, uid %u) attached to shard %u", s->id,
		   s->name, s->pid, s->uid, s->peer_client.shard);
}

static void hello_welcome(struct proxy_client *s,
			  const struct mpib_ctl_header *ask, uint32_t device)
{
	struct proxy_clients *all = s->all;
	struct mpib_ctl_welcome w = {
		.h = { .type = ask->type, .id = ask->id, .len = sizeof(w) },
		.version = MPIB_ABI_VERSION,
		.client = s->id,
		.shard = s->peer_client.shard,
		.dmabuf = mpib_engine_dmabuf(all->engine),
		.window = all->cfg->window,
		.part = all->cfg->part,
		.answer_ms = all->cfg->answer * 1000,
		.devices = all->cfg->engine.devices,
		.device = device,
		.grace_ms = all->cfg->engine.resume
				    ? all->cfg->resume_grace * 1000
				    : 0,
	};
	const int fd[MPIB_CTL_FDS_MAX] = {
		mpib_engine_status_fd(all->engine),
		s->submit.fd,
		s->reply.fd,
		s->doorbell,
		/* The client could not open this pidfd itself: in the client's
		 * pid namespace the proxy may have no pid. */
		(int)syscall(SYS_pidfd_open, getpid(), 0),
	};
	unsigned fds = fd[MPIB_WELCOME_PIDFD] < 0 ? MPIB_WELCOME_PIDFD
						  : MPIB_CTL_FDS_MAX;

	/* Record the process before the answer is sent, because the proxy may
	 * end right after that. */
	if (!all->awaits)
		proxy_client_served(s);
	proxy_client_send(s, &w.h, fd, fds);
	if (fds == MPIB_CTL_FDS_MAX)
		close(fd[MPIB_WELCOME_PIDFD]);
}

/* Return the mask of the rails that carry payload while all are up. */
static uint32_t hello_carries(const struct mpib_engine_config *e)
{
	if (e->rails > 1 && e->mode == MPIB_MODE_STATIC && e->sup_bw == 0)
		return 1u << MPIB_RAIL_SOUT;
	return (1u << e->rails) - 1;
}

void proxy_client_device(struct proxy_client *s, struct mpib_message *m)
{
	const struct mpib_ctl_id *ask = (const void *)m->bytes;
	const struct mpib_engine_config *e = &s->all->cfg->engine;
	struct mpib_ctl_device answer = {
		.h = { .type = m->h.type,
		       .id = m->h.id,
		       .len = sizeof(answer) },
		.info = { .rails = (int)e->rails, .carries = hello_carries(e) },
	};

	if (ask->id >= e->devices) {
		hello_no_device(s, &m->h, ask->id);
		return;
	}
	snprintf(answer.info.name, sizeof(answer.info.name), "%s",
		 s->all->cfg->device[ask->id].name);
	for (unsigned i = 0; i < e->rails; i++)
		describe_rail(s->all, ask->id * e->rails + i,
			      &answer.info.rail[i]);
	proxy_client_send(s, &answer.h, NULL, 0);
}

/* Return whether the limits allow s to attach; if not, refuse its HELLO. */
static bool hello_admit(struct proxy_client *s, const struct mpib_message *m,
			uint32_t device)
{
	struct proxy_clients *all = s->all;

	if (device >= all->cfg->engine.devices) {
		hello_no_device(s, &m->h, device);
		return false;
	}
	if (all->usage.attached >= clients_most(all, s->uid)) {
		proxy_client_refuse(s, &m->h, -EDQUOT,
				    "%u clients are attached already (raise "
				    "limit.clients)",
				    all->usage.attached);
		return false;
	}
	return proxy_client_may(s, &m->h, MPIB_QUOTA_CLIENTS, 1) &&
	       proxy_client_may(s, &m->h, MPIB_QUOTA_FDS, 0);
}

/* Return whether the process may attach now; if not, refuse its HELLO. Clients
 * of the last proxy come first. A process is refused if the proxy crashed twice
 * while it worked for that process. */
static bool hello_in_turn(struct proxy_client *s,
			  const struct mpib_ctl_header *ask, uint32_t wish)
{
	struct mpib_survivors *v = &s->all->survivors;
	unsigned others, ms;
	int rc;

	if (s->all->awaits) {
		if (wish)
			return true;
		proxy_client_refuse(s, ask, -EINPROGRESS,
				    "an upgrade of mpib-proxy is in progress "
				    "(wait)");
		return false;
	}
	rc = mpib_survivors_admit(v, &s->process, &others, &ms);

	if (rc == -EPERM)
		proxy_client_refuse(
			s, ask, rc,
			"mpib-proxy crashed twice in a minute while "
			"it worked for this process, pid %u, and "
			"no longer serves it (report the crash; start "
			"the process again)",
			s->pid);
	if (rc != -EINPROGRESS)
		return rc == 0;
	if (v->told != others)
		mpib_info("a new client (pid %u, uid %u) waits, %u ms at most, "
			  "for %u clients of the last proxy that have not come "
			  "back",
			  s->pid, s->uid, ms, others);
	v->told = others;
	proxy_client_refuse(s, ask, rc,
			    "%u clients of the last mpib-proxy come first, for "
			    "%u ms at most (wait, or end those processes)",
			    others, ms);
	return false;
}

/* Answer a process that asks whether it could attach: try to make its segments.
 * proxy_client_drop() frees them. */
static void hello_probe(struct proxy_client *s,
			const struct mpib_ctl_header *ask)
{
	struct mpib_ctl_header answer = { .type = ask->type,
					  .id = ask->id,
					  .len = sizeof(answer) };
	int rc = make_segments(s);

	if (rc < 0)
		proxy_client_refuse(s, ask, rc,
				    "the proxy cannot serve another client: %s "
				    "(see its limits: LimitNOFILE, LimitAS, "
				    "LimitFSIZE)",
				    strerror(-rc));
	else
		proxy_client_send(s, &answer, NULL, 0);
}

/* Attach the client. If that fails, refuse its HELLO and return false. */
static bool hello_serve(struct proxy_client *s, const struct mpib_message *m,
			uint32_t device, uint32_t wish)
{
	int rc = hello_attach(s, device, wish);
	const char *why;

	if (rc == 0)
		return true;
	why = mpib_engine_last_error(s->all->engine, rc);
	/* If the engine knows a remedy, the remedy is part of its text. */
	proxy_client_refuse(s, &m->h, rc,
			    "the proxy cannot serve another client: %s%s", why,
			    strchr(why, '(') ? ""
					     : " (see its limits: LimitNOFILE, "
					       "LimitAS, LimitFSIZE)");
	return false;
}

void proxy_client_hello(struct proxy_client *s, struct mpib_message *m)
{
	const struct mpib_ctl_hello *hello = (const void *)m->bytes;
	struct proxy_clients *all = s->all;
	uint32_t device;

	if (s->state == PROXY_CLIENT_LIVE) {
		proxy_client_refuse(s, &m->h, -EALREADY,
				    "this client has already sent a HELLO");
		return;
	}
	if (m->len < sizeof(*hello) || hello->version != MPIB_ABI_VERSION) {
		proxy_client_refuse(
			s, &m->h, -EPROTO,
			"the client speaks version %u, this mpib-proxy version "
			"%u (install the same mpib for both)",
			m->len >= sizeof(m->h) + 4 ? hello->version : 0,
			MPIB_ABI_VERSION);
		goto err_drop;
	}
	device = hello->device;
	take_text(s->name, hello->name, '!');
	if (!s->name[0])
		snprintf(s->name, sizeof(s->name), "unnamed");
	s->job = hello->job;
	take_text(s->label, hello->label, ' ');
	if (!hello_admit(s, m, device))
		goto err_drop;
	if (hello->flags & MPIB_HELLO_PROBE) {
		hello_probe(s, &m->h);
		proxy_client_drop(s, "it only tested whether it can attach");
		return;
	}
	s->process = mpib_process_of(s->uid, s->pid, s->pidfd, device);
	mpib_process_thread(&s->process, hello->thread);
	s->returned = hello->shard > 0;
	if (!hello_in_turn(s, &m->h, hello->shard)) {
		proxy_client_drop(s, "its HELLO was refused");
		return;
	}
	if (!hello_serve(s, m, device, hello->shard))
		goto err_drop;
	hello_welcome(s, &m->h, device);
	return;

err_drop:
	all->refused++;
	proxy_client_drop(s, "its HELLO was refused");
}
