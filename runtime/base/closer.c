/* SPDX-License-Identifier: Apache-2.0 */
#include "base/closer.h"

#include <errno.h>
#include <fcntl.h>
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
 * whole message by then. Since it is asked again and again meanwhile, closes last
 * earlier then. */
#define MOST 128u
#define LASTS_BESIDE_MOST_NS 10000000u
/* Threads of all users from which on nothing is taken of one who has a close that
 * lasts; and from which on there is no other. */
#define MOST_OF_ALL 512u
#define ALL 1024u
#define PART                                                                   \
	((size_t)32 << 20) /* bytes of a mapping: 2 ms, of ordinary pages */

/* A descriptor, and a mapping of it or NULL. */
struct doomed {
	TAILQ_ENTRY(doomed) link;
	int fd;
	void *map;
	size_t len;
	uint64_t since_ns; /* under way */
};

TAILQ_HEAD(doomed_list, doomed);

/* A user's descriptors that are to be closed. */
struct closer {
	LIST_ENTRY(closer) link;
	uid_t user;
	pid_t process; /* a child that it forked has none of its threads */
	unsigned threads;
	unsigned wanted; /* threads more that could not be made yet */
	struct doomed_list under_way, left; /* the oldest first */
	bool memory; /* whether that is what they are of */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* all below */
static LIST_HEAD(, closer) closers = LIST_HEAD_INITIALIZER(closers);

static bool is_own(const struct closer *c)
{
	return c->process == getpid();
}

static struct closer *closer_of(uid_t user, bool memory)
{
	struct closer *c;

	LIST_FOREACH(c, &closers, link)
	{
		if (c->user == user && c->memory == memory && is_own(c))
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
	TAILQ_INIT(&c->left);
	LIST_INSERT_HEAD(&closers, c, link);
	return c;
}

static unsigned threads_of_all(void)
{
	const struct closer *c;
	unsigned n = 0;

	LIST_FOREACH(c, &closers, link)
	n += is_own(c) ? c->threads : 0;
	return n;
}

static struct closer *closer_wanting(void)
{
	struct closer *c;

	LIST_FOREACH(c, &closers, link)
	{
		if (c->wanted > 0 && is_own(c))
			return c;
	}
	return NULL;
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

/* The number stays taken while the close lasts, so that it is known what it is. */
static void closer_end(const struct doomed *d)
{
	if (d->map)
		closer_unmap(d);
	dup3(STDERR_FILENO, d->fd, O_CLOEXEC);
	close(d->fd);
}

/* Close what is left of c's, with the lock, which is let go meanwhile. */
static void closer_work(struct closer *c)
{
	struct doomed *d;

	while ((d = TAILQ_FIRST(&c->left))) {
		TAILQ_REMOVE(&c->left, d, link);
		d->since_ns = mpib_now_ns();
		TAILQ_INSERT_TAIL(&c->under_way, d, link);
		pthread_mutex_unlock(&lock);
		closer_end(d);
		pthread_mutex_lock(&lock);
		TAILQ_REMOVE(&c->under_way, d, link);
		free(d);
	}
	c->wanted = 0;
}

static void *closer_run(void *arg)
{
	struct closer *c = arg;

	pthread_mutex_lock(&lock);
	while (c) {
		closer_work(c);
		if (--c->threads == 0) {
			LIST_REMOVE(c, link);
			free(c);
		}
		c = closer_wanting();
		if (c) {
			c->wanted--;
			c->threads++;
		}
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

static bool closer_start(struct closer *c)
{
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	if (threads_of_all() >= ALL)
		return false;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	rc = mpib_thread_create(&thread, &attr, closer_run, c);
	pthread_attr_destroy(&attr);
	if (rc < 0)
		return false;
	pthread_setname_np(thread, "mpib-close");
	c->wanted--;
	c->threads++;
	return true;
}

/* Make what threads are wanted, those of before, too, if there is room by now. */
static void closers_start(void)
{
	struct closer *c = closer_wanting();

	while (c && closer_start(c))
		c = closer_wanting();
}

/* Close it before what is left, or behind it, by so many threads. */
static bool closer_take(uid_t user, const struct doomed *d, unsigned most)
{
	struct closer *c = closer_of(user, d->map != NULL);
	struct doomed *own = malloc(sizeof(*own));

	if (own && !c)
		c = closer_new(user, d->map != NULL);
	if (!own || !c) {
		free(own);
		return false;
	}
	*own = *d;
	if (most == UINT_MAX)
		TAILQ_INSERT_HEAD(&c->left, own, link);
	else
		TAILQ_INSERT_TAIL(&c->left, own, link);
	if (c->threads + c->wanted < most)
		c->wanted++;
	return true;
}

static void close_by(uid_t user, const struct doomed *d, unsigned most)
{
	bool taken;

	pthread_mutex_lock(&lock);
	taken = closer_take(user, d, most);
	closers_start();
	pthread_mutex_unlock(&lock);
	if (!taken) /* no memory: better late than never */
		closer_end(d);
}

void mpib_close_of(uid_t user, int sock)
{
	shutdown(sock, SHUT_RDWR);
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

/* Whether so many closes have been under way for so long. */
static bool closes_last(const struct closer *c, unsigned many, uint64_t ns)
{
	const struct doomed *d = TAILQ_FIRST(&c->under_way);

	for (unsigned n = 1; d && n < many; n++)
		d = TAILQ_NEXT(d, link);
	return d && mpib_now_ns() - d->since_ns > ns;
}

static int closer_may(const struct closer *c)
{
	const unsigned many = threads_of_all() < MOST_OF_ALL ? MANY : 1;

	if (c->wanted >= MOST || closes_last(c, many, LASTS_NS))
		return -EPIPE;
	if (c->threads < MOST)
		return 0;
	return closes_last(c, MANY, LASTS_BESIDE_MOST_NS) ? -EPIPE : -EAGAIN;
}

int mpib_may_receive(uid_t user)
{
	const struct closer *c;
	int rc;

	pthread_mutex_lock(&lock);
	closers_start();
	c = closer_of(user, false);
	rc = c ? closer_may(c) : 0;
	pthread_mutex_unlock(&lock);
	return rc;
}

bool mpib_closers_crowded(void)
{
	bool crowded;

	pthread_mutex_lock(&lock);
	closers_start();
	crowded = closer_wanting() != NULL;
	pthread_mutex_unlock(&lock);
	return crowded;
}

/* The first descriptor from one on that is to be closed by a thread; INT_MAX. */
static int closers_next(int from)
{
	const struct doomed *d;
	const struct closer *c;
	int next = INT_MAX;

	LIST_FOREACH(c, &closers, link)
	{
		if (!is_own(c))
			continue;
		TAILQ_FOREACH(d, &c->under_way, link)
		next = d->fd >= from && d->fd < next ? d->fd : next;
		TAILQ_FOREACH(d, &c->left, link)
		next = d->fd >= from && d->fd < next ? d->fd : next;
	}
	return next;
}

/* With the lock no thread begins a close. */
static void close_others(int keep)
{
	int at = STDERR_FILENO + 1;

	while (at < INT_MAX) {
		int next = closers_next(at);

		if (keep >= at && keep < next)
			next = keep;
		if (next > at)
			close_range((unsigned)at, (unsigned)next - 1, 0);
		at = next < INT_MAX ? next + 1 : INT_MAX;
	}
}

bool mpib_closers_leave(int keep)
{
	const uint64_t until = mpib_now_ns() + LASTS_NS;
	bool last;

	pthread_mutex_lock(&lock);
	while ((last = closers_next(0) < INT_MAX) && mpib_now_ns() < until) {
		pthread_mutex_unlock(&lock);
		usleep(1000);
		pthread_mutex_lock(&lock);
	}
	if (last)
		close_others(keep);
	pthread_mutex_unlock(&lock);
	return last;
}

ssize_t mpib_recv_of(uid_t user, int sock, void *to, size_t len, int flags)
{
	_Alignas(struct cmsghdr) char
		control[CMSG_SPACE(sizeof(int) * MPIB_RIGHTS_MAX)];
	struct iovec iov = { .iov_base = to, .iov_len = len };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	ssize_t n =
		recvmsg(sock, &msg, flags | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	const struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&msg);

	for (size_t at = CMSG_LEN(0); c && at < c->cmsg_len;
	     at += sizeof(int)) {
		int fd;

		memcpy(&fd, (const char *)c + at, sizeof(fd));
		mpib_close_received(user, fd);
	}
	return n;
}
