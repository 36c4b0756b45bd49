/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The link to an agent: find the agent's socket and hint file, register each
 * connection with the agent, and unmap the hints when the agent disappears.
 * Control thread.
 */
#include "agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <mpib/agent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/closer.h"
#include "base/log.h"
#include "base/text.h"
#include "base/users.h"

#define RETRY (1000 * MPIB_MSEC)
#define NO_HINT UINT32_MAX
#define MESSAGES 64 /* maximum read from the agent per turn of the loop */
#define BOTH ((1u << MPIB_RAILS) - 1)

enum conn_state {
	CONN_NEW, /* not yet registered with the agent */
	CONN_ASKED, /* REGISTER sent, no answer yet */
	CONN_HELD, /* the agent gave the connection a hint slot */
	CONN_REFUSED, /* refused by the agent; will be registered again */
};

TAILQ_HEAD(conn_list, mpib_agent_conn);

struct mpib_agent_conn {
	struct mpib_agent_link *link;
	struct engine_conn *conn; /* NULL: deleted, but not yet deregistered */
	uint64_t id;
	struct mpib_agent_route route;
	enum conn_state state;
	TAILQ_ENTRY(mpib_agent_conn) entry, asked_entry;
};

struct mpib_agent_link {
	struct mpib_loop *loop;
	char dir[96];
	uid_t user; /* trusted besides root and our own user */
	/* adaptive mode: the engine decides the split of a connection that has
	 * no hint */
	bool adaptive;
	/* log text: what connections do without an agent */
	const char *without;
	/* A mapping of shm_bytes that always exists: an agent's hint file with
	 * `slots` entries, then zeros. */
	void *shm;
	size_t shm_bytes;
	uint32_t slots; /* 0: no agent */
	int fd; /* -1: no agent */
	struct mpib_io watch;
	struct mpib_timer timer;
	/* the last error logged, so that no error is logged twice in a row */
	int told;
	uint64_t counter; /* connections that were added so far */
	struct conn_list conns;
	struct conn_list asked; /* in CONN_ASKED, in the order of the answers */
	struct mpib_agent_summary summary;
	uint64_t heard_ns; /* time of the summary; 0: none */
	pid_t pid; /* pid of the agent that sent the summary */
	struct mpib_agent_reason *reason; /* by slot; NULL: none received */
};

static void set_hint(struct mpib_agent_conn *c, uint32_t slot)
{
	if (c->conn)
		engine_conn_set_hint(c->conn, slot);
}

static void agent_free_conn(struct mpib_agent_conn *c)
{
	TAILQ_REMOVE(&c->link->conns, c, entry);
	free(c);
}

/*
 * Map the hint file fd with `slots` slots over the first pages of the mapping.
 * If fd < 0, map zeros over the whole mapping. The exchange is atomic: shards
 * read the old mapping or the new one, and never an unmapped page. The pages
 * after the file stay zeros, so a shard that still has a slot of an earlier,
 * longer file does not fault.
 */
static int map_shm(struct mpib_agent_link *l, int fd, uint32_t slots)
{
	size_t bytes = fd < 0 ? l->shm_bytes : mpib_hint_bytes(slots);
	/* syscall() takes longs: the upper half of an int argument would be
	 * undefined, and the offset has 64 bits. */
	long flags = (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED) |
		     (l->shm ? MAP_FIXED : 0);
	/* Shards read the pages while the kernel exchanges them, which is safe.
	 * ThreadSanitizer would report this as a race, because it treats mmap()
	 * as a write. */
	long p = syscall(SYS_mmap, l->shm, bytes, (long)PROT_READ, flags,
			 (long)fd, 0L);

	if (p == -1)
		return -errno;
	l->shm = (void *)p;
	l->slots = slots;
	return 0;
}

static void agent_on_retry(void *arg);

/* Use mpib_close_of(): the socket may hold descriptors that another user has
 * sent, and closing these can take long. */
static void agent_close_sock(struct mpib_agent_link *l)
{
	mpib_loop_del(l->loop, &l->watch);
	mpib_close_of(l->user, l->fd);
	l->fd = -1;
}

/* Hang up on the agent, and connect again later. */
static void agent_hang_up(struct mpib_agent_link *l, const char *why)
{
	struct mpib_agent_conn *c, *next;

	mpib_warn("agent: %s/" MPIB_AGENT_SOCK ": %s, connections %s", l->dir,
		  why, l->without);
	agent_close_sock(l);
	l->heard_ns = 0;
	TAILQ_INIT(&l->asked);
	for (c = TAILQ_FIRST(&l->conns); c; c = next) {
		next = TAILQ_NEXT(c, entry);
		c->state = CONN_NEW;
		set_hint(c, NO_HINT);
		if (!c->conn)
			agent_free_conn(c);
	}
	free(l->reason);
	l->reason = NULL;
	/* Let shards read zeros, because the next agent may have another hint
	 * file. */
	if (map_shm(l, -1, 0) < 0)
		mpib_err("agent: cannot unmap its hints: %m");
	mpib_timer_arm(l->loop, &l->timer, RETRY, agent_on_retry, l);
}

/* Send a request. 1: sent; 0: the socket is full; -errno: the agent is gone. */
static int agent_request(struct mpib_agent_link *l,
			 const struct mpib_agent_conn *c, uint32_t type)
{
	struct mpib_agent_request r = {
		.type = type,
		.flags = l->adaptive ? MPIB_AGENT_ADAPTIVE : 0,
		.conn_id = c->id,
		.sout_src_ip = c->route.sout_src,
		.sout_dst_ip = c->route.sout_dst,
		.sup_src_ip = c->route.sup_src,
		.sup_dst_ip = c->route.sup_dst,
	};

	if (send(l->fd, &r, sizeof(r), MSG_NOSIGNAL | MSG_DONTWAIT) ==
	    sizeof(r))
		return 1;
	return errno == EAGAIN ? 0 : -errno;
}

/* Send the request that the connection needs next, if any. Returns the result
 * of agent_request(), or 1 if there was nothing to send. */
static int agent_advance(struct mpib_agent_link *l, struct mpib_agent_conn *c)
{
	int rc = 1;

	switch (c->state) {
	case CONN_NEW:
		if (!c->conn) {
			agent_free_conn(c);
			break;
		}
		rc = agent_request(l, c, MPIB_AGENT_REGISTER);
		if (rc > 0) {
			c->state = CONN_ASKED;
			TAILQ_INSERT_TAIL(&l->asked, c, asked_entry);
		}
		break;
	case CONN_HELD:
		if (c->conn)
			break;
		rc = agent_request(l, c, MPIB_AGENT_DEREGISTER);
		if (rc > 0)
			agent_free_conn(c);
		break;
	case CONN_REFUSED:
		if (!c->conn)
			agent_free_conn(c);
		break;
	case CONN_ASKED:
		break;
	}
	return rc;
}

static void agent_pump(struct mpib_agent_link *l)
{
	struct mpib_agent_conn *c, *next;
	int rc = 1;

	if (l->fd < 0)
		return;
	for (c = TAILQ_FIRST(&l->conns); c && rc > 0; c = next) {
		next = TAILQ_NEXT(c, entry);
		rc = agent_advance(l, c);
	}
	if (rc < 0)
		agent_hang_up(l, strerror(-rc));
	else
		mpib_loop_mod(l->loop, &l->watch,
			      rc ? EPOLLIN : EPOLLIN | EPOLLOUT);
}

/* Handle an answer. Return false if a correct agent would not send this answer
 * in the current state. */
static bool agent_on_answer(struct mpib_agent_link *l,
			    const struct mpib_agent_response *r)
{
	struct mpib_agent_conn *c = TAILQ_FIRST(&l->asked);

	if (!c || (r->status == 0 && r->hint_slot >= l->slots))
		return false;
	TAILQ_REMOVE(&l->asked, c, asked_entry);
	if (r->status == 0) {
		c->state = CONN_HELD;
		set_hint(c, r->hint_slot);
		return true;
	}
	c->state = CONN_REFUSED;
	if (!l->timer.armed)
		mpib_timer_arm(l->loop, &l->timer, RETRY, agent_on_retry, l);
	return true;
}

/* Correct invalid data: the texts of an agent may contain any byte, and its
 * numbers may be out of range. */
static void mend_text(char *text, size_t size)
{
	text[size - 1] = '\0';
	mpib_ascii_make(text);
}

static void hear_summary(struct mpib_agent_link *l,
			 struct mpib_agent_summary *s)
{
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred);

	s->sick &= BOTH;
	s->congested &= BOTH;
	mend_text(s->config, sizeof(s->config));
	mend_text(s->fault, sizeof(s->fault));
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		mend_text(s->rail[r].why, sizeof(s->rail[r].why));
	if (getsockopt(l->fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0)
		l->pid = cred.pid;
	l->summary = *s;
	l->heard_ns = mpib_loop_now(l->loop);
}

/* Store the agent's reason under the number of its hint slot. If memory is
 * short, drop the reason. */
static void hear_reason(struct mpib_agent_link *l, struct mpib_agent_reason *r)
{
	if (r->hint_slot >= l->slots)
		return;
	mend_text(r->why, sizeof(r->why));
	if (!l->reason)
		l->reason = calloc(l->slots, sizeof(*l->reason));
	if (l->reason)
		l->reason[r->hint_slot] = *r;
}

/* Read one message. Return false if there is no message, or if the link was
 * closed. */
static bool agent_take(struct mpib_agent_link *l)
{
	union {
		struct mpib_agent_response answer;
		struct mpib_agent_summary summary;
		struct mpib_agent_reason reason;
	} m;
	bool sound = true;
	ssize_t n;

	if (mpib_may_receive(l->user) < 0) {
		agent_hang_up(l, "closing its descriptors takes long");
		return false;
	}
	n = mpib_recv_of(l->user, l->fd, &m, sizeof(m), MSG_TRUNC);
	if (n <= 0) {
		if (n == 0 || errno != EAGAIN)
			agent_hang_up(l,
				      n ? strerror(errno) : "the agent left");
		return false;
	}
	if (n == sizeof(m.summary))
		hear_summary(l, &m.summary);
	else if (n == sizeof(m.reason))
		hear_reason(l, &m.reason);
	else
		sound = n == sizeof(m.answer) && agent_on_answer(l, &m.answer);
	if (!sound)
		agent_hang_up(l,
			      "the program that listens there is not an agent");
	return sound;
}

/* At most MESSAGES per turn, so that an endless sender delays no other work. */
static void on_agent(void *arg, uint32_t events)
{
	struct mpib_agent_link *l = arg;

	(void)events;
	for (unsigned i = 0; i < MESSAGES && agent_take(l); i++)
		;
	agent_pump(l);
}

static int find_agent(struct mpib_agent_link *l)
{
	int dir = mpib_agent_dir_open(l->dir, l->user), hints, rc;
	uint32_t slots;

	if (dir < 0)
		return dir;
	rc = l->fd = mpib_agent_dial(dir, l->user);
	if (rc < 0)
		goto out_dir;
	/* Open the hints only after connecting: an agent that has exited may
	 * have left its hint file. */
	rc = hints = mpib_agent_hints_open(dir, l->user, &slots);
	if (rc >= 0) {
		rc = map_shm(l, hints, slots);
		close(hints);
	}
	if (rc == 0)
		rc = mpib_loop_add(l->loop, &l->watch, l->fd, EPOLLIN, on_agent,
				   l);
	if (rc < 0)
		agent_close_sock(l);
out_dir:
	close(dir);
	if (rc < 0)
		l->fd = -1;
	return rc;
}

static void agent_on_retry(void *arg)
{
	struct mpib_agent_link *l = arg;
	struct mpib_agent_conn *c;
	int rc = 0;

	if (l->fd < 0) {
		rc = find_agent(l);
		if (rc == 0)
			mpib_info("agent: hints come from %s", l->dir);
		else if (rc != l->told && !(l->adaptive && rc == -ENOENT))
			mpib_warn("agent: %s: %s; connections %s", l->dir,
				  mpib_agent_dir_error(rc), l->without);
		l->told = rc;
	}
	if (rc < 0) {
		mpib_timer_arm(l->loop, &l->timer, RETRY, agent_on_retry, l);
		return;
	}
	TAILQ_FOREACH(c, &l->conns, entry)
	{
		if (c->state == CONN_REFUSED)
			c->state = CONN_NEW;
	}
	agent_pump(l);
}

int mpib_agent_open(struct mpib_loop *loop, struct mpib_engine *engine,
		    const char *dir, uid_t user, bool adaptive,
		    struct mpib_agent_link **link)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct mpib_agent_link *l = calloc(1, sizeof(*l));
	int rc;

	if (!l)
		return -ENOMEM;
	l->loop = loop;
	l->fd = -1;
	l->user = user;
	l->adaptive = adaptive;
	l->without = adaptive ? "are split as measured" : "stay on SOUT";
	snprintf(l->dir, sizeof(l->dir), "%s", dir);
	l->shm_bytes =
		(mpib_hint_bytes(MPIB_HINT_SLOTS_MAX) + page - 1) & ~(page - 1);
	TAILQ_INIT(&l->conns);
	TAILQ_INIT(&l->asked);
	rc = map_shm(l, -1, 0);
	if (rc < 0) {
		free(l);
		return rc;
	}
	mpib_engine_set_hints(engine, l->shm);
	agent_on_retry(l);
	*link = l;
	return 0;
}

void mpib_agent_close(struct mpib_agent_link *link)
{
	if (!link)
		return;
	while (!TAILQ_EMPTY(&link->conns))
		agent_free_conn(TAILQ_FIRST(&link->conns));
	mpib_timer_disarm(link->loop, &link->timer);
	if (link->fd >= 0)
		agent_close_sock(link);
	munmap(link->shm, link->shm_bytes);
	free(link->reason);
	free(link);
}

struct mpib_agent_conn *mpib_agent_add(struct mpib_agent_link *link,
				       struct engine_conn *conn,
				       const struct mpib_agent_route *route)
{
	struct mpib_agent_conn *c;

	if (!link)
		return NULL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->link = link;
	c->conn = conn;
	c->id = ((uint64_t)getpid() << 16) + link->counter++;
	c->route = *route;
	TAILQ_INSERT_TAIL(&link->conns, c, entry);
	agent_pump(link);
	return c;
}

void mpib_agent_del(struct mpib_agent_conn *conn)
{
	struct mpib_agent_link *l;

	if (!conn)
		return;
	l = conn->link;
	set_hint(conn, NO_HINT);
	conn->conn = NULL;
	if (l->fd < 0)
		agent_free_conn(conn);
	else
		agent_pump(l);
}

const struct mpib_agent_summary *
mpib_agent_heard(const struct mpib_agent_link *link, pid_t *pid)
{
	*pid = link ? link->pid : 0;
	if (!link || !link->heard_ns ||
	    mpib_loop_now(link->loop) >=
		    link->heard_ns + MPIB_AGENT_VALID_S * MPIB_SEC)
		return NULL;
	return &link->summary;
}

uint8_t mpib_agent_sick(const struct mpib_agent_link *link)
{
	pid_t pid;
	const struct mpib_agent_summary *s = mpib_agent_heard(link, &pid);

	return s && !(s->flags & MPIB_AGENT_DRY) ? s->sick : 0;
}

const struct mpib_agent_reason *
mpib_agent_reason(const struct mpib_agent_link *link, uint32_t slot)
{
	if (!link || !link->reason || slot >= link->slots)
		return NULL;
	return link->reason[slot].since ? &link->reason[slot] : NULL;
}

/*
 * The agent's directory with its socket and hint file, and the check whether
 * the files can be trusted. A process that can write hints can steer all
 * traffic over one rail. So the check requires that only root, our own user and
 * the agent's user can write them. Control thread.
 */

static bool agent_trusted(uid_t uid, uid_t user)
{
	return uid == 0 || uid == geteuid() ||
	       (user != MPIB_AGENT_NO_USER && uid == user);
}

static int dir_trusted(const struct stat *st, uid_t user)
{
	if (!agent_trusted(st->st_uid, user) ||
	    st->st_mode & (S_IWGRP | S_IWOTH))
		return -EPERM;
	return 0;
}

int mpib_agent_dir_open(const char *dir, uid_t user)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	int rc;

	if (fd < 0)
		return -errno;
	rc = fstat(fd, &st) < 0 ? -errno : dir_trusted(&st, user);
	if (rc < 0) {
		close(fd);
		return rc;
	}
	return fd;
}

int mpib_agent_dial(int dir, uid_t user)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct ucred cred;
	socklen_t len = sizeof(cred);
	int rc, fd = socket(AF_UNIX,
			    SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	/* Use the fd of the directory that was checked, because the path may
	 * now lead to another directory. */
	snprintf(sun.sun_path, sizeof(sun.sun_path),
		 "/proc/self/fd/%d/" MPIB_AGENT_SOCK, dir);
	if (connect(fd, (struct sockaddr *)&sun, sizeof(sun)) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		rc = -errno;
	else
		rc = agent_trusted(cred.uid, user) ? 0 : -EPERM;
	if (rc < 0) {
		mpib_close_of(user, fd);
		return rc;
	}
	return fd;
}

/* Return whether the header is valid for a file of that size. */
static bool hints_sound(const struct mpib_hint_header *h, off_t bytes)
{
	return h->magic == MPIB_HINT_MAGIC &&
	       h->max_entries == MPIB_HINT_MAX_ENTRIES &&
	       h->more <= MPIB_HINT_MORE_MAX &&
	       bytes == (off_t)mpib_hint_bytes(h->max_entries + h->more);
}

int mpib_agent_hints_open(int dir, uid_t user, uint32_t *slots)
{
	int rc, fd = openat(dir, MPIB_AGENT_HINTS,
			    O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	struct mpib_hint_header h;
	struct stat st;

	if (fd < 0)
		return -errno;
	rc = fstat(fd, &st) < 0 ? -errno : dir_trusted(&st, user);
	if (rc == 0 &&
	    (!S_ISREG(st.st_mode) || pread(fd, &h, sizeof(h), 0) != sizeof(h) ||
	     !hints_sound(&h, st.st_size)))
		rc = -EPROTO;
	if (rc < 0) {
		close(fd);
		return rc;
	}
	*slots = h.max_entries + h.more;
	return fd;
}

const char *mpib_agent_dir_error(int rc)
{
	switch (rc) {
	case -EPERM:
		return "it must belong to root, to the proxy's user or to "
		       "agent.user, and no other user may have write access";
	case -EPROTO:
		return "its hint file has an unknown format (is the agent of "
		       "another version?)";
	case -ENOENT:
	case -ECONNREFUSED:
		return "no agent runs (start mpib-agent)";
	default:
		return strerror(-rc);
	}
}
