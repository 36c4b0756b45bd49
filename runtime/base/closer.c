/* SPDX-License-Identifier: Apache-2.0 */
#include "base/closer.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"

/* Threads for sockets of one user, and closes that last from which on nothing is taken
 * of him any more. */
#define MANY 16u
#define LASTS_NS 1000000000u
/* Threads of one user from which on nothing is taken of him for now: there may come a
 * whole message by then. */
#define MOST 128u
#define PART                                                                   \
	((size_t)32 << 20) /* bytes of a mapping: 2 ms, of ordinary pages */

/* A thread, on its stack. */
struct closer_job {
	TAILQ_ENTRY(closer_job) link;
	uint64_t since_ns;
};

/* A descriptor, and a mapping of it or NULL. */
struct doomed {
	int fd;
	void *map;
	size_t len;
};

/* A user's descriptors that are to be closed. */
struct closer {
	LIST_ENTRY(closer) link;
	uid_t user;
	pid_t process; /* a child that it forked has none of its threads */
	unsigned threads;
	TAILQ_HEAD(closer_jobs, closer_job) under_way; /* the oldest first */
	bool memory; /* whether that is what they are of */
	unsigned left, room; /* not under way yet */
	struct doomed *doomed;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* all below */
static LIST_HEAD(, closer) closers = LIST_HEAD_INITIALIZER(closers);

static struct closer *closer_of(uid_t user, bool memory)
{
	const pid_t process = getpid();
	struct closer *c;

	LIST_FOREACH(c, &closers, link)
	{
		if (c->user == user && c->process == process &&
		    c->memory == memory)
			return c;
	}
	return NULL;
}

static struct closer *closer_new(uid_t user, bool memory)
{
	struct closer *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->user = user;
	c->process = getpid();
	c->memory = memory;
	TAILQ_INIT(&c->under_way);
	LIST_INSERT_HEAD(&closers, c, link);
	return c;
}

static void closer_free(struct closer *c)
{
	LIST_REMOVE(c, link);
	free(c->doomed);
	free(c);
}

/* Part by part: who maps something, or makes a page, waits for the part. */
static void closer_unmap(const struct doomed *d)
{
	char *from = d->map;

	for (size_t at = 0; at < d->len; at += PART) {
		size_t left = d->len - at;

		madvise(from + at, left < PART ? left : PART, MADV_DONTNEED);
	}
	munmap(d->map, d->len);
}

static void closer_end(const struct doomed *d)
{
	if (d->map)
		closer_unmap(d);
	close(d->fd);
}

static void *closer_run(void *arg)
{
	struct closer *c = arg;
	struct closer_job own;

	pthread_mutex_lock(&lock);
	while (c->left > 0) {
		struct doomed d = c->doomed[--c->left];

		own.since_ns = mpib_now_ns();
		TAILQ_INSERT_TAIL(&c->under_way, &own, link);
		pthread_mutex_unlock(&lock);
		closer_end(&d);
		pthread_mutex_lock(&lock);
		TAILQ_REMOVE(&c->under_way, &own, link);
	}
	if (--c->threads == 0)
		closer_free(c);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static bool closer_push(struct closer *c, const struct doomed *d)
{
	if (c->left == c->room) {
		unsigned room = c->room * 2 + 4;
		struct doomed *grown =
			reallocarray(c->doomed, room, sizeof(*grown));

		if (!grown)
			return false;
		c->doomed = grown;
		c->room = room;
	}
	c->doomed[c->left++] = *d;
	return true;
}

static bool closer_start(struct closer *c)
{
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	rc = mpib_thread_create(&thread, &attr, closer_run, c);
	pthread_attr_destroy(&attr);
	if (rc < 0)
		return false;
	pthread_setname_np(thread, "mpib-close");
	c->threads++;
	return true;
}

static void close_by(uid_t user, const struct doomed *d, unsigned most)
{
	const bool memory = d->map != NULL;
	struct closer *c;
	bool taken;

	pthread_mutex_lock(&lock);
	c = closer_of(user, memory);
	if (!c)
		c = closer_new(user, memory);
	taken = c && closer_push(c, d);
	if (taken && c->threads < most)
		closer_start(c);
	if (c && c->threads == 0) {
		taken = false; /* nobody ever would: better late than never */
		closer_free(c);
	}
	pthread_mutex_unlock(&lock);
	if (!taken)
		closer_end(d);
}

void mpib_close_of(uid_t user, int sock)
{
	close_by(user, &(struct doomed){ .fd = sock }, MANY);
}

void mpib_close_received(uid_t user, int fd)
{
	close_by(user, &(struct doomed){ .fd = fd }, UINT_MAX);
}

void mpib_unmap_of(uid_t user, void *map, size_t len, int fd)
{
	close_by(user, &(struct doomed){ .fd = fd, .map = map, .len = len }, 1);
}

/* Whether many closes have been under way for long. */
static bool closes_last(const struct closer *c)
{
	const struct closer_job *i = TAILQ_FIRST(&c->under_way);

	for (unsigned n = 1; i && n < MANY; n++)
		i = TAILQ_NEXT(i, link);
	return i && mpib_now_ns() - i->since_ns > LASTS_NS;
}

int mpib_may_receive(uid_t user)
{
	const struct closer *c;
	int rc = 0;

	pthread_mutex_lock(&lock);
	c = closer_of(user, false);
	if (c && closes_last(c))
		rc = -EPIPE;
	else if (c && c->threads >= MOST)
		rc = -EAGAIN;
	pthread_mutex_unlock(&lock);
	return rc;
}

ssize_t mpib_recv_of(uid_t user, int sock, void *to, size_t len)
{
	_Alignas(struct cmsghdr) char
		control[CMSG_SPACE(sizeof(int) * MPIB_RIGHTS_MAX)];
	struct iovec iov = { .iov_base = to, .iov_len = len };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	const struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&msg);

	for (size_t at = CMSG_LEN(0); c && at < c->cmsg_len;
	     at += sizeof(int)) {
		int fd;

		memcpy(&fd, (const char *)c + at, sizeof(fd));
		mpib_close_received(user, fd);
	}
	return n;
}
