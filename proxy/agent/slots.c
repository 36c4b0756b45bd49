/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's socket and hint file: proxies register connections, each gets a
 * slot of the file. See mpib/agent.h for the protocol.
 */
#include "agent/slots.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"

#define PAUSE (MPIB_SEC / 10)

struct mpib_agent_proxy {
	struct mpib_agent *agent;
	int fd;
	struct mpib_io watch;
	TAILQ_ENTRY(mpib_agent_proxy) entry;
};

void mpib_agent_hint(struct mpib_agent *a, unsigned slot, uint32_t sup_bw)
{
	struct mpib_agent_slot *s = &a->slot[slot];

	if (s->sup_bw == sup_bw)
		return;
	s->sup_bw = sup_bw;
	mpib_hint_write(&a->shm->entries[slot], sup_bw);
}

uint64_t mpib_agent_pid(const struct mpib_agent_slot *s)
{
	return s->conn_id >> 16;
}

static void give_back(struct mpib_agent *a, unsigned slot)
{
	mpib_agent_hint(a, slot, 0);
	a->shm->entries[slot].src_ip = a->shm->entries[slot].dst_ip = 0;
	memset(&a->slot[slot], 0, sizeof(a->slot[slot]));
}

static void slots_drop(struct mpib_agent_proxy *p)
{
	struct mpib_agent *a = p->agent;

	for (unsigned i = 0; i < MPIB_HINT_MAX_ENTRIES; i++) {
		if (a->slot[i].proxy == p)
			give_back(a, i);
	}
	mpib_loop_del(&a->loop, &p->watch);
	close(p->fd);
	TAILQ_REMOVE(&a->proxies, p, entry);
	free(p);
}

static int slots_find(const struct mpib_agent *a,
		      const struct mpib_agent_proxy *p, uint64_t conn_id)
{
	for (int i = 0; i < (int)MPIB_HINT_MAX_ENTRIES; i++) {
		if (a->slot[i].proxy == p &&
		    (!p || a->slot[i].conn_id == conn_id))
			return i;
	}
	return -ENOSPC;
}

/* Take a free slot for r->conn_id: its index, or -errno. */
static int slots_take(struct mpib_agent_proxy *p,
		      const struct mpib_agent_request *r)
{
	struct mpib_agent *a = p->agent;
	struct mpib_hint_entry *e;
	int i;

	if (slots_find(a, p, r->conn_id) >= 0)
		return -EEXIST;
	i = slots_find(a, NULL, 0);
	if (i < 0)
		return i;
	a->slot[i].proxy = p;
	a->slot[i].conn_id = r->conn_id;
	e = &a->shm->entries[i];
	e->src_ip = r->sout_src_ip;
	e->dst_ip = r->sout_dst_ip;
	mpib_agent_hint(a, (unsigned)i, a->first);
	return i;
}

/* Answer one request of p. False: the caller must drop the proxy. */
static bool slots_serve(struct mpib_agent_proxy *p,
			const struct mpib_agent_request *r)
{
	struct mpib_agent_response answer = { 0 };
	int slot;

	if (r->type == MPIB_AGENT_DEREGISTER) {
		slot = slots_find(p->agent, p, r->conn_id);
		if (slot >= 0)
			give_back(p->agent, (unsigned)slot);
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

static void slots_on_pause_end(void *arg)
{
	struct mpib_agent *a = arg;

	mpib_loop_mod(&a->loop, &a->watch, EPOLLIN);
}

static void on_call(void *arg, uint32_t events)
{
	struct mpib_agent *a = arg;
	int fd = accept4(a->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct mpib_agent_proxy *p;

	(void)events;
	if (fd < 0 && errno != EAGAIN && errno != ECONNABORTED &&
	    errno != EINTR) {
		mpib_warn("a proxy waits: accept: %m (raise the limit of "
			  "descriptors)");
		mpib_loop_mod(&a->loop, &a->watch, 0);
		mpib_timer_arm(&a->loop, &a->pause, PAUSE, slots_on_pause_end,
			       a);
	}
	if (fd < 0)
		return;
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

/* Create the hint file under a temporary name, then rename it: a proxy that
 * has the old file mapped keeps it, and a proxy that opens the name finds a
 * complete file. */
static int make_hints(struct mpib_agent *a)
{
	static const char tmp[] = MPIB_AGENT_HINTS ".new";
	const struct mpib_hint_header h = {
		.magic = MPIB_HINT_MAGIC,
		.max_entries = MPIB_HINT_MAX_ENTRIES,
		.version = MPIB_HINT_VERSION,
	};
	int rc = 0, fd;

	unlinkat(a->dir_fd, tmp, 0);
	fd = openat(a->dir_fd, tmp,
		    O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	if (fchmod(fd, 0644) < 0 || ftruncate(fd, sizeof(*a->shm)) < 0 ||
	    pwrite(fd, &h, sizeof(h), 0) != sizeof(h))
		rc = -errno;
	if (rc == 0) {
		a->shm = mmap(NULL, sizeof(*a->shm), PROT_READ | PROT_WRITE,
			      MAP_SHARED, fd, 0);
		if (a->shm == MAP_FAILED)
			rc = -errno;
	}
	if (rc == 0 &&
	    renameat(a->dir_fd, tmp, a->dir_fd, MPIB_AGENT_HINTS) < 0)
		rc = -errno;
	close(fd);
	return rc;
}

/* Bind only; listen_in() comes after make_hints(), so a proxy that can connect
 * finds this agent's hint file. */
static int bind_in(struct mpib_agent *a)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
			0);

	if (fd < 0)
		return -errno;
	snprintf(sun.sun_path, sizeof(sun.sun_path),
		 "/proc/self/fd/%d/" MPIB_AGENT_SOCK, a->dir_fd);
	/* The directory's lock ends with this process. connect() finds a
	 * running agent of an older version, which took no lock. */
	if (flock(a->dir_fd, LOCK_EX | LOCK_NB) < 0 ||
	    connect(fd, (struct sockaddr *)&sun, sizeof(sun)) == 0) {
		close(fd);
		return -EADDRINUSE;
	}
	unlinkat(a->dir_fd, MPIB_AGENT_SOCK, 0);
	if (bind(fd, (struct sockaddr *)&sun, sizeof(sun)) < 0 ||
	    /* Root's agent serves the proxies of all users of the node. */
	    fchmodat(a->dir_fd, MPIB_AGENT_SOCK, geteuid() ? 0600 : 0666, 0) <
		    0) {
		int rc = -errno;

		close(fd);
		return rc;
	}
	a->fd = fd;
	return 0;
}

static int listen_in(struct mpib_agent *a)
{
	return listen(a->fd, 64) < 0 ? -errno
				     : mpib_loop_add(&a->loop, &a->watch, a->fd,
						     EPOLLIN, on_call, a);
}

int mpib_agent_start(struct mpib_agent *a, const char *dir, uint32_t first,
		     char *why)
{
	int rc;

	memset(a, 0, sizeof(*a));
	a->dir_fd = a->fd = -1;
	a->shm = MAP_FAILED;
	a->first = first;
	TAILQ_INIT(&a->proxies);
	snprintf(a->dir, sizeof(a->dir), "%s", dir);
	rc = mpib_loop_init(&a->loop);
	if (rc == 0 && mkdir(dir, 0755) < 0 && errno != EEXIST)
		rc = -errno;
	if (rc == 0) {
		a->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
					      O_CLOEXEC);
		rc = a->dir_fd < 0 ? -errno : 0;
	}
	/* The socket first: bind_in() fails if another agent is running. */
	if (rc == 0)
		rc = bind_in(a);
	if (rc == 0)
		rc = make_hints(a);
	if (rc == 0)
		rc = listen_in(a);
	if (rc == 0)
		return 0;
	snprintf(why, MPIB_AGENT_WHY, "%.96s: %s (%s)", dir, strerror(-rc),
		 rc == -EADDRINUSE ? "another agent serves it; stop that one"
				   : "give a directory of your own by --dir");
	mpib_agent_stop(a);
	return rc;
}

void mpib_agent_stop(struct mpib_agent *a)
{
	while (!TAILQ_EMPTY(&a->proxies))
		slots_drop(TAILQ_FIRST(&a->proxies));
	if (a->fd >= 0) {
		mpib_timer_disarm(&a->loop, &a->pause);
		mpib_loop_del(&a->loop, &a->watch);
		close(a->fd);
		unlinkat(a->dir_fd, MPIB_AGENT_SOCK, 0);
	}
	if (a->shm != MAP_FAILED) {
		munmap(a->shm, sizeof(*a->shm));
		unlinkat(a->dir_fd, MPIB_AGENT_HINTS, 0);
	}
	if (a->dir_fd >= 0)
		close(a->dir_fd);
	mpib_loop_fini(&a->loop);
}
