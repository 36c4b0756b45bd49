/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's socket and hint file. Proxies register connections; each
 * connection gets a slot of the file. See mpib/agent.h for the protocol.
 */
#include "agent/slots.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/closer.h"
#include "base/log.h"
#include "base/run_dir.h"

/* Connections accepted per turn. The limit matters if a program other than a
 * proxy connects endlessly. */
#define CALLS 256u

struct mpib_agent_proxy {
	struct mpib_agent *agent;
	int fd;
	struct mpib_io watch;
	/* For each slot, the number of the last reason that was sent. */
	unsigned reason[MPIB_HINT_SLOTS_MAX];
	TAILQ_ENTRY(mpib_agent_proxy) entry;
};

void mpib_agent_hint(struct mpib_agent *a, unsigned slot, uint32_t sup_bw)
{
	struct mpib_agent_slot *s = &a->slot[slot];

	if (s->sup_bw == sup_bw)
		return;
	s->sup_bw = sup_bw;
	mpib_hint_write(mpib_hint_at(a->shm, slot), sup_bw);
}

static void slots_give_back(struct mpib_agent *a, struct mpib_agent_held *c)
{
	struct mpib_hint_entry *e = mpib_hint_at(a->shm, c->slot);
	struct mpib_agent_slot *s = &a->slot[c->slot];

	if (--s->users == 0) {
		mpib_agent_hint(a, c->slot, 0);
		e->dst_ip = 0;
		memset(s, 0, sizeof(*s));
	}
	HASH_DELETE(hh, a->held, c);
	free(c);
}

static void slots_drop(struct mpib_agent_proxy *p)
{
	struct mpib_agent *a = p->agent;
	struct mpib_agent_held *c, *next;

	HASH_ITER(hh, a->held, c, next)
	{
		if (c->key.proxy == p)
			slots_give_back(a, c);
	}
	mpib_loop_del(&a->loop, &p->watch);
	close(p->fd);
	TAILQ_REMOVE(&a->proxies, p, entry);
	free(p);
}

static struct mpib_agent_held *
slots_find(struct mpib_agent *a, struct mpib_agent_proxy *p, uint64_t id)
{
	struct mpib_agent_held_key key = { .proxy = p, .id = id };
	struct mpib_agent_held *c;

	HASH_FIND(hh, a->held, &key, sizeof(key), c);
	return c;
}

/* Return whether a connection can share the slot, that is, whether the same
 * decision applies to it. */
static bool slots_alike(const struct mpib_agent_slot *s,
			const struct mpib_agent_request *r)
{
	return s->dst_ip == r->sout_dst_ip &&
	       s->alone == (r->sup_dst_ip == 0) &&
	       s->adaptive == ((r->flags & MPIB_AGENT_ADAPTIVE) != 0);
}

/* Return the slot of similar connections, else a free one; MPIB_HINT_SLOTS_MAX:
 * none. */
static uint32_t slots_choose(const struct mpib_agent *a,
			     const struct mpib_agent_request *r)
{
	uint32_t slot = MPIB_HINT_SLOTS_MAX;

	for (uint32_t i = MPIB_HINT_SLOTS_MAX; i-- > 0;) {
		if (!a->slot[i].users)
			slot = i;
		else if (slots_alike(&a->slot[i], r))
			return i;
	}
	return slot;
}

/* Assign a slot to r->conn_id. Return its index, or -errno. */
static int slots_take(struct mpib_agent_proxy *p,
		      const struct mpib_agent_request *r)
{
	struct mpib_agent *a = p->agent;
	struct mpib_agent_slot *s;
	struct mpib_agent_held *c;
	uint32_t slot;

	if (slots_find(a, p, r->conn_id))
		return -EEXIST;
	slot = slots_choose(a, r);
	if (slot == MPIB_HINT_SLOTS_MAX)
		return -ENOSPC;
	c = mpib_xcalloc(sizeof(*c));
	c->key.proxy = p;
	c->key.id = r->conn_id;
	c->slot = slot;
	HASH_ADD(hh, a->held, key, sizeof(c->key), c);
	s = &a->slot[slot];
	if (s->users++)
		return (int)slot;
	s->dst_ip = r->sout_dst_ip;
	s->alone = r->sup_dst_ip == 0;
	s->adaptive = r->flags & MPIB_AGENT_ADAPTIVE;
	mpib_hint_at(a->shm, slot)->dst_ip = r->sout_dst_ip;
	if (a->taken)
		a->taken(a->ctx, slot);
	return (int)slot;
}

/* Handle one request of p. False: the caller must drop the proxy. */
static bool slots_serve(struct mpib_agent_proxy *p,
			const struct mpib_agent_request *r)
{
	struct mpib_agent_response answer = { 0 };
	struct mpib_agent_held *c;
	int slot;

	if (r->type == MPIB_AGENT_DEREGISTER) {
		c = slots_find(p->agent, p, r->conn_id);
		if (c)
			slots_give_back(p->agent, c);
		return true;
	}
	if (r->type != MPIB_AGENT_REGISTER)
		return false;
	slot = slots_take(p, r);
	if (slot < 0)
		answer.status = slot;
	else
		answer.hint_slot = (uint32_t)slot;
	/* The agent drops a proxy that does not read its answers. */
	return send(p->fd, &answer, sizeof(answer),
		    MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(answer);
}

static bool slots_send(const struct mpib_agent_proxy *p, const void *message,
		       size_t bytes)
{
	return send(p->fd, message, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) ==
	       (ssize_t)bytes;
}

static void tell_reason(struct mpib_agent_proxy *p, uint32_t slot)
{
	const struct mpib_agent_choice *c = &p->agent->slot[slot].choice;
	struct mpib_agent_reason r = { .hint_slot = slot,
				       .sup_bw = c->sup_bw,
				       .since = c->since };

	snprintf(r.why, sizeof(r.why), "%s", c->why);
	if (p->reason[slot] != c->number && slots_send(p, &r, sizeof(r)))
		p->reason[slot] = c->number;
}

/* If a proxy's socket is full, the message is sent again a second later. */
void mpib_agent_tell(struct mpib_agent *a, const struct mpib_agent_summary *s)
{
	struct mpib_agent_proxy *p;

	TAILQ_FOREACH(p, &a->proxies, entry)
	{
		if (!slots_send(p, s, sizeof(*s)))
			continue;
		for (uint32_t i = 0; i < MPIB_HINT_SLOTS_MAX; i++) {
			if (a->slot[i].users)
				tell_reason(p, i);
		}
	}
}

static void on_proxy(void *arg, uint32_t events)
{
	struct mpib_agent_proxy *p = arg;
	struct mpib_agent_request r;
	ssize_t n = recv(p->fd, &r, sizeof(r), MSG_DONTWAIT | MSG_TRUNC);

	(void)events;
	if (n < 0 && errno == EAGAIN)
		return;
	if (n != sizeof(r) || !slots_serve(p, &r))
		slots_drop(p);
}

/* Return whether the uid may be that of a proxy. Other callers are refused,
 * because there are few slots. */
static bool slots_welcome(const struct mpib_agent *a, uid_t uid)
{
	return uid == 0 || uid == geteuid() || uid == a->user;
}

static void on_call(void *arg, int fd)
{
	struct mpib_agent *a = arg;
	uid_t uid = mpib_accepted_uid(fd);
	struct mpib_agent_proxy *p;

	if (!slots_welcome(a, uid)) {
		mpib_close_of(uid, fd);
		return;
	}
	p = calloc(1, sizeof(*p));
	if (!p ||
	    mpib_loop_add(&a->loop, &p->watch, fd, EPOLLIN, on_proxy, p) < 0) {
		free(p);
		close(fd);
		return;
	}
	p->agent = a;
	p->fd = fd;
	TAILQ_INSERT_TAIL(&a->proxies, p, entry);
}

/* The files of the agent's directory: the lock, the hints and the socket. */

/* Make the file under a temporary name, then rename it. A proxy that has
 * mapped the old file keeps it, and a proxy that opens the name finds a
 * complete file. */
static int make_hints(struct mpib_agent *a)
{
	static const char tmp[] = MPIB_AGENT_HINTS ".new";
	const struct mpib_hint_header h = {
		.magic = MPIB_HINT_MAGIC,
		.max_entries = MPIB_HINT_MAX_ENTRIES,
		.version = MPIB_HINT_VERSION,
		.more = MPIB_HINT_MORE_MAX,
	};
	const size_t bytes = mpib_hint_bytes(MPIB_HINT_SLOTS_MAX);
	int rc = 0, fd;

	unlinkat(a->dir_fd, tmp, 0);
	fd = openat(a->dir_fd, tmp,
		    O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	if (fchmod(fd, 0644) < 0 || ftruncate(fd, (off_t)bytes) < 0 ||
	    pwrite(fd, &h, sizeof(h), 0) != sizeof(h))
		rc = -errno;
	if (rc == 0) {
		a->shm = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			      fd, 0);
		if (a->shm == MAP_FAILED)
			rc = -errno;
	}
	if (rc == 0 &&
	    renameat(a->dir_fd, tmp, a->dir_fd, MPIB_AGENT_HINTS) < 0)
		rc = -errno;
	close(fd);
	return rc;
}

/* Refuse a directory in which another user may write: that user could make the
 * agent change other files. */
static int slots_check_dir(const struct mpib_agent *a)
{
	struct stat st;

	if (fstat(a->dir_fd, &st) < 0)
		return -errno;
	return (st.st_uid == 0 || st.st_uid == geteuid()) &&
			       !(st.st_mode & (S_IWGRP | S_IWOTH))
		       ? 0
		       : -EPERM;
}

/* Lock a file and not the directory, since any user can lock the directory. */
static int hold_lock(struct mpib_agent *a)
{
	int rc;

	do {
		if (a->lock >= 0)
			close(a->lock);
		rc = mpib_lockfile_take(a->dir_fd, MPIB_AGENT_LOCK, &a->lock);
	} while (rc == -EAGAIN);
	return rc == -EBUSY ? -EADDRINUSE : rc;
}

/* Let the group of a->user connect, so that this user's proxies can connect.
 * Other members of the group can connect, too; on_call() hangs up on them. */
static int admit(const struct mpib_agent *a, gid_t group)
{
	/* An agent that may not set that group serves only its own user and
	 * root. */
	if (a->user == geteuid() || group == (gid_t)-1 ||
	    (getegid() != group &&
	     fchownat(a->dir_fd, MPIB_AGENT_SOCK, (uid_t)-1, group,
		      AT_SYMLINK_NOFOLLOW) < 0))
		return 0;
	return fchmodat(a->dir_fd, MPIB_AGENT_SOCK, 0660, 0) < 0 ? -errno : 0;
}

static int bind_in(struct mpib_agent *a, gid_t group)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
			0);
	int rc;

	if (fd < 0)
		return -errno;
	snprintf(sun.sun_path, sizeof(sun.sun_path),
		 "/proc/self/fd/%d/" MPIB_AGENT_SOCK, a->dir_fd);
	rc = hold_lock(a);
	if (rc < 0) {
		close(fd);
		return rc;
	}
	unlinkat(a->dir_fd, MPIB_AGENT_SOCK, 0);
	rc = fchmod(fd, 0600) < 0 ||
			     bind(fd, (struct sockaddr *)&sun, sizeof(sun)) < 0
		     ? -errno
		     : admit(a, group);
	if (rc < 0)
		close(fd);
	else
		a->fd = fd;
	return rc < 0 ? rc : 0;
}

static int listen_in(struct mpib_agent *a)
{
	a->acceptor = (struct mpib_acceptor){ .loop = &a->loop,
					      .fd = a->fd,
					      .at_once = CALLS,
					      .who = "a proxy",
					      .fn = on_call,
					      .arg = a };
	/* Other programs may connect, too: use the longest queue. */
	return listen(a->fd, 4096) < 0 ? -errno
				       : mpib_acceptor_open(&a->acceptor);
}

static const char *start_remedy(int rc)
{
	if (rc == -EADDRINUSE)
		return "another agent uses it; stop that agent";
	if (rc == -EPERM)
		return "another user owns it or may write to it; give your own "
		       "directory with --dir";
	return "give your own directory with --dir";
}

int mpib_agent_start(struct mpib_agent *a, const char *dir, const char *user,
		     char *why)
{
	const struct passwd *pw = getpwnam(user);
	int rc;

	memset(a, 0, sizeof(*a));
	a->user = pw ? pw->pw_uid : geteuid();
	a->dir_fd = a->lock = a->fd = -1;
	a->shm = MAP_FAILED;
	TAILQ_INIT(&a->proxies);
	snprintf(a->dir, sizeof(a->dir), "%s", dir);
	rc = mpib_loop_init(&a->loop);
	if (rc == 0 && mkdir(dir, 0755) < 0 && errno != EEXIST)
		rc = -errno;
	if (rc == 0) {
		a->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
					      O_CLOEXEC);
		rc = a->dir_fd < 0 ? -errno : slots_check_dir(a);
	}
	/* Make the socket first: this fails if another agent is running. */
	if (rc == 0)
		rc = bind_in(a, pw ? pw->pw_gid : (gid_t)-1);
	if (rc == 0)
		rc = make_hints(a);
	if (rc == 0)
		rc = listen_in(a);
	if (rc == 0)
		return 0;
	snprintf(why, MPIB_AGENT_WHY, "%.96s: %s (%s)", dir, strerror(-rc),
		 start_remedy(rc));
	mpib_agent_stop(a);
	return rc;
}

void mpib_agent_stop(struct mpib_agent *a)
{
	while (!TAILQ_EMPTY(&a->proxies))
		slots_drop(TAILQ_FIRST(&a->proxies));
	if (a->fd >= 0) {
		mpib_acceptor_close(&a->acceptor);
		close(a->fd);
		unlinkat(a->dir_fd, MPIB_AGENT_SOCK, 0);
	}
	if (a->shm != MAP_FAILED) {
		munmap(a->shm, mpib_hint_bytes(MPIB_HINT_SLOTS_MAX));
		unlinkat(a->dir_fd, MPIB_AGENT_HINTS, 0);
	}
	if (a->lock >= 0) {
		/* Only the holder of the lock may remove it. */
		if (a->fd >= 0)
			unlinkat(a->dir_fd, MPIB_AGENT_LOCK, 0);
		close(a->lock);
	}
	if (a->dir_fd >= 0)
		close(a->dir_fd);
	mpib_loop_fini(&a->loop);
}
