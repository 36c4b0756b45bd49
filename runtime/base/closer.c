/* SPDX-License-Identifier: Apache-2.0 */
#include "base/closer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/users.h"

/* If a user has this many closes that last longer than LASTS_NS, receive
 * nothing more from the user. */
#define MANY 16u
#define LASTS_NS 1000000000u
/* Pause receiving from a user whose closes use this many threads: each message
 * can add another MPIB_RIGHTS_MAX threads. While receiving is paused, the check
 * runs often, so it uses a shorter limit than LASTS_NS. */
#define MOST 128u
#define LASTS_BESIDE_MOST_NS 10000000u
/* While the closes of all users together use this many threads, receive nothing
 * more from any user who has a close that lasts longer than LASTS_NS. */
#define MOST_OF_ALL 512u
#define FULL 8 /* sockets waiting for close may use 1/FULL of all descriptors */
/* Number of bytes to unmap in one call, which takes 2 ms with ordinary
 * pages. */
#define PART ((size_t)32 << 20)

/* Each kind has its own threads, so no kind waits for another. */
enum kind {
	SOCKETS,
	RECEIVED,
	MEMORY,
	KINDS,
};

/* Maximum numbers of threads. */
static const struct {
	unsigned of_user, of_all;
} most[KINDS] = {
	[SOCKETS] = { 16, 256 },
	[RECEIVED] = { UINT_MAX, 1024 },
	[MEMORY] = { 1, 256 },
};

/* A descriptor to close, and its mapping or NULL. */
struct doomed {
	TAILQ_ENTRY(doomed) link;
	int fd;
	void *map;
	size_t len;
	uint64_t since_ns; /* when the close began */
};

TAILQ_HEAD(doomed_list, doomed);

/* The descriptors of one user and kind that wait to be closed. */
struct closer {
	LIST_ENTRY(closer) link;
	uid_t user;
	enum kind kind;
	unsigned threads;
	unsigned wanted; /* threads that are due but could not be started yet */
	/* `under_way`: being closed. `left`: not begun yet. Both oldest
	 * first. */
	struct doomed_list under_way, left;
	unsigned waiting; /* length of `left` */
};

/* Protects everything below. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, closer) closers = LIST_HEAD_INITIALIZER(closers);

static struct closer *closer_of(uid_t user, enum kind kind)
{
	struct closer *c;

	LIST_FOREACH(c, &closers, link)
	{
		if (c->user == user && c->kind == kind)
			return c;
	}
	return NULL;
}

static struct closer *closer_new(uid_t user, enum kind kind)
{
	struct closer *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->user = user;
	c->kind = kind;
	TAILQ_INIT(&c->under_way);
	TAILQ_INIT(&c->left);
	LIST_INSERT_HEAD(&closers, c, link);
	return c;
}

static unsigned threads_of_all(enum kind kind)
{
	const struct closer *c;
	unsigned n = 0;

	LIST_FOREACH(c, &closers, link)
	n += c->kind == kind ? c->threads : 0;
	return n;
}

static struct closer *closer_wanting(enum kind kind)
{
	struct closer *c;

	LIST_FOREACH(c, &closers, link)
	{
		if (c->wanted > 0 && c->kind == kind)
			return c;
	}
	return NULL;
}

/* Unmap in parts: mmap() and page faults of other threads then wait for at most
 * one part. */
static void closer_unmap(const struct doomed *d)
{
	char *from = d->map;

	for (size_t at = 0; at < d->len; at += PART) {
		size_t left = d->len - at;

		madvise(from + at, left < PART ? left : PART, MADV_DONTNEED);
	}
	munmap(d->map, d->len);
}

/* Keep the descriptor's number in use during the close, so that no other file
 * gets the number. */
static void closer_end(const struct doomed *d)
{
	if (d->map)
		closer_unmap(d);
	dup3(STDERR_FILENO, d->fd, O_CLOEXEC);
	close(d->fd);
}

/* Close the waiting descriptors. The caller holds the lock, which is released
 * during each close. */
static void closer_work(struct closer *c)
{
	struct doomed *d;

	while ((d = TAILQ_FIRST(&c->left))) {
		TAILQ_REMOVE(&c->left, d, link);
		c->waiting--;
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

#define OFTEN_NS 1000000

static void interrupted(int sig)
{
	(void)sig;
}

/* Warn. Without interrupts, a user's lingering sockets can block all threads
 * that close sockets of this user. The sockets that wait to be closed then use
 * up descriptors that other users need. */
static int interrupts_fail(int rc)
{
	static atomic_flag told = ATOMIC_FLAG_INIT;

	if (!atomic_flag_test_and_set(&told))
		mpib_warn("lingering sockets of users can hold descriptors "
			  "for long: no timer: %s (raise LimitSIGPENDING)",
			  strerror(-rc));
	return rc;
}

/* Interrupt the calling thread every ms, whatever it waits for, until
 * timer_delete(). Uses SIGURG, so the program cannot use that signal. Return 0
 * or -errno; only the first error is logged. */
static int interrupts_begin(timer_t *timer)
{
	const struct sigaction nothing = { .sa_handler = interrupted,
					   .sa_flags = SA_RESTART };
	const struct itimerspec often = {
		.it_value.tv_nsec = OFTEN_NS,
		.it_interval.tv_nsec = OFTEN_NS,
	};
	struct sigevent by = {
		.sigev_notify = SIGEV_THREAD_ID,
		.sigev_signo = SIGURG, /* ignored by default */
		/* This is sigev_notify_thread_id. Not every glibc defines that
		 * name. */
		._sigev_un._tid = gettid(),
	};
	sigset_t set;

	if (timer_create(CLOCK_MONOTONIC, &by, timer) < 0)
		return interrupts_fail(-errno);
	sigemptyset(&set);
	sigaddset(&set, SIGURG);
	sigaction(SIGURG, &nothing, NULL);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	timer_settime(*timer, 0, &often, NULL);
	return 0;
}

static void *closer_run(void *arg)
{
	struct closer *c = arg;
	const enum kind kind = c->kind;
	timer_t timer;
	/* Interrupt the thread to end the wait of a lingering socket. That
	 * socket may also be a descriptor in a message that was never
	 * received. */
	const bool interrupts =
		kind == SOCKETS && interrupts_begin(&timer) == 0;

	pthread_setname_np(pthread_self(), "mpib-close");
	pthread_mutex_lock(&lock);
	while (c) {
		closer_work(c);
		if (--c->threads == 0) {
			LIST_REMOVE(c, link);
			free(c);
		}
		c = closer_wanting(kind);
		if (c) {
			c->wanted--;
			c->threads++;
		}
	}
	pthread_mutex_unlock(&lock);
	if (interrupts)
		timer_delete(timer);
	return NULL;
}

static bool closer_start(struct closer *c)
{
	if (threads_of_all(c->kind) >= most[c->kind].of_all ||
	    mpib_thread_create(NULL, closer_run, c) < 0)
		return false;
	c->wanted--;
	c->threads++;
	return true;
}

/* Start the threads that are due, including those that could not be started
 * before. */
static void closers_start(void)
{
	for (enum kind kind = 0; kind < KINDS; kind++) {
		struct closer *c = closer_wanting(kind);

		while (c && closer_start(c))
			c = closer_wanting(kind);
	}
}

static bool closer_take(uid_t user, enum kind kind, const struct doomed *d)
{
	struct closer *c = closer_of(user, kind);
	struct doomed *own = malloc(sizeof(*own));

	if (own && !c)
		c = closer_new(user, kind);
	if (!own || !c) {
		free(own);
		return false;
	}
	*own = *d;
	TAILQ_INSERT_TAIL(&c->left, own, link);
	c->waiting++;
	if (c->threads + c->wanted < most[kind].of_user)
		c->wanted++;
	return true;
}

static void close_by(uid_t user, enum kind kind, const struct doomed *d)
{
	bool taken;

	pthread_mutex_lock(&lock);
	taken = closer_take(user, kind, d);
	closers_start();
	pthread_mutex_unlock(&lock);
	if (!taken) /* no memory: close on this thread, even if that blocks */
		closer_end(d);
}

void mpib_close_of(uid_t user, int sock)
{
	shutdown(sock, SHUT_RDWR);
	if (mpib_unread_none(sock))
		close(sock);
	else
		close_by(user, SOCKETS, &(struct doomed){ .fd = sock });
}

bool mpib_closers_full(uid_t *most_of)
{
	const struct closer *c;
	unsigned waiting = 0, worst = 0;
	struct rlimit files = { 0 };

	pthread_mutex_lock(&lock);
	closers_start();
	LIST_FOREACH(c, &closers, link)
	{
		if (c->kind != SOCKETS)
			continue;
		waiting += c->waiting;
		if (c->waiting > worst) {
			worst = c->waiting;
			*most_of = c->user;
		}
	}
	pthread_mutex_unlock(&lock);
	return waiting > 0 && getrlimit(RLIMIT_NOFILE, &files) == 0 &&
	       waiting >= files.rlim_cur / FULL;
}

void mpib_close_received(uid_t user, int fd)
{
	close_by(user, RECEIVED, &(struct doomed){ .fd = fd });
}

void mpib_unmap_of(uid_t user, void *map, size_t len, int fd)
{
	close_by(user, MEMORY,
		 &(struct doomed){ .fd = fd, .map = map, .len = len });
}

/* Return whether at least `many` running closes have each lasted longer than
 * `ns`. */
static bool closes_last(const struct closer *c, unsigned many, uint64_t ns)
{
	const struct doomed *d = TAILQ_FIRST(&c->under_way);

	for (unsigned n = 1; d && n < many; n++)
		d = TAILQ_NEXT(d, link);
	return d && mpib_now_ns() - d->since_ns > ns;
}

static int closer_may(const struct closer *c)
{
	const unsigned many = threads_of_all(RECEIVED) < MOST_OF_ALL ? MANY : 1;

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
	c = closer_of(user, RECEIVED);
	rc = c ? closer_may(c) : 0;
	pthread_mutex_unlock(&lock);
	return rc;
}
