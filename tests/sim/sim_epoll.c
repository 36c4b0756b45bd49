/* SPDX-License-Identifier: Apache-2.0 */
/* Simulate epoll, level-triggered and edge-triggered, and poll(). */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "sim_file.h"
#include "sim_task.h"
#include "sim_wrap.h"

struct set {
	struct sim_file file;
	LIST_HEAD(, sim_watch) watches;
};

static uint32_t watch_ready(const struct sim_watch *w)
{
	if (w->event.events & EPOLLET && !w->changed)
		return 0;
	return w->file->ops->ready(w->file) &
	       (w->event.events | EPOLLERR | EPOLLHUP);
}

static uint32_t set_ready(struct sim_file *f)
{
	const struct set *s = (struct set *)f;
	const struct sim_watch *w;

	LIST_FOREACH(w, &s->watches, of_set)
	{
		if (watch_ready(w))
			return EPOLLIN;
	}
	return 0;
}

void sim_watch_end(struct sim_watch *w)
{
	LIST_REMOVE(w, of_set);
	LIST_REMOVE(w, of_file);
	free(w);
}

static void set_close(struct sim_file *f)
{
	struct set *s = (struct set *)f;
	struct sim_watch *w;

	while ((w = LIST_FIRST(&s->watches)))
		sim_watch_end(w);
}

static const struct sim_file_ops set_ops = {
	.ready = set_ready,
	.close = set_close,
};

int __wrap_epoll_create1(int flags)
{
	struct set *s = sim_file_new(&set_ops, sizeof(*s));

	(void)flags;
	LIST_INIT(&s->watches);
	return sim_fd_new(&s->file);
}

static struct sim_watch *find(const struct set *s, const struct sim_file *f,
			      int fd)
{
	struct sim_watch *w;

	LIST_FOREACH(w, &s->watches, of_set)
	{
		if (w->file == f && w->fd == fd)
			return w;
	}
	return NULL;
}

static int epoll_refuse(int error)
{
	errno = error;
	return -1;
}

int __wrap_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	struct set *s = (struct set *)sim_fd_file(epfd);
	struct sim_file *f = sim_fd_file(fd);
	struct sim_watch *w;

	if (!s || !f)
		return -1;
	w = find(s, f, fd);
	if (op == EPOLL_CTL_ADD && w)
		return epoll_refuse(EEXIST);
	if (op != EPOLL_CTL_ADD && !w)
		return epoll_refuse(ENOENT);
	if (op == EPOLL_CTL_DEL) {
		sim_watch_end(w);
		return 0;
	}
	if (op == EPOLL_CTL_ADD) {
		w = calloc(1, sizeof(*w));
		if (!w)
			abort();
		w->set = &s->file;
		w->file = f;
		w->fd = fd;
		LIST_INSERT_HEAD(&s->watches, w, of_set);
		LIST_INSERT_HEAD(&f->watchers, w, of_file);
	}
	w->event = *event;
	w->changed = true;
	sim_file_changed(&s->file);
	return 0;
}

struct take {
	struct epoll_event *out;
	int most;
};

static ssize_t take(struct sim_file *f, void *arg)
{
	const struct set *s = (struct set *)f;
	const struct take *t = arg;
	struct sim_watch *w;
	int n = 0;

	LIST_FOREACH(w, &s->watches, of_set)
	{
		uint32_t ready = n < t->most ? watch_ready(w) : 0;

		if (!ready)
			continue;
		w->changed = false;
		t->out[n].events = ready;
		t->out[n++].data = w->event.data;
	}
	return n ? n : -EAGAIN;
}

int __wrap_epoll_wait(int epfd, struct epoll_event *out, int most, int ms)
{
	struct sim_file *f = sim_fd_file(epfd);
	struct take t = { out, most };
	ssize_t n;

	if (!f)
		return -1;
	sim_point();
	n = sim_file_block(f, ms == 0, ms > 0 ? (uint64_t)ms * SIM_MS : 0, take,
			   &t);
	return n < 0 && errno == EAGAIN ? 0 : (int)n;
}

static ssize_t look(struct sim_file *f, void *arg)
{
	struct pollfd *p = arg;
	uint32_t ready = f->ops->ready(f);

	/* The event bits of poll(2) have the same values as those of
	 * epoll(7). */
	p->revents = (short)(ready & ((uint32_t)(unsigned short)p->events |
				      EPOLLERR | EPOLLHUP));
	return p->revents ? 1 : -EAGAIN;
}

#define POLLED 4 /* maximum number of files in one poll() call */

static int poll_many(struct pollfd *p, nfds_t count, int ms)
{
	struct epoll_event got[POLLED];
	int set = __wrap_epoll_create1(0), n;

	if (set < 0)
		return -1;
	for (nfds_t i = 0; i < count; i++) {
		struct epoll_event want = {
			.events = (uint32_t)(unsigned short)p[i].events,
			.data.u64 = i,
		};

		p[i].revents = 0;
		if (p[i].fd >= 0 &&
		    __wrap_epoll_ctl(set, EPOLL_CTL_ADD, p[i].fd, &want) < 0)
			sim_fail("poll() of descriptor %d", p[i].fd);
	}
	n = __wrap_epoll_wait(set, got, POLLED, ms);
	for (int i = 0; i < n; i++)
		p[got[i].data.u64].revents = (short)got[i].events;
	__wrap_close(set);
	return n;
}

static int poll_none(int ms)
{
	sim_wait(ms < 0 ? SIM_NEVER : sim_now + (uint64_t)ms * SIM_MS);
	return 0;
}

/* Simulate poll(2). Files of the real kernel are always ready. */
int __wrap_poll(struct pollfd *p, nfds_t count, int ms)
{
	struct sim_file *f;
	bool was;
	ssize_t n;

	sim_point();
	if (count == 0)
		return poll_none(ms);
	if (count > 1)
		return poll_many(p, count, ms);
	if (!sim_fd_is(p->fd))
		return __real_poll(p, count, ms);
	f = sim_fd_file(p->fd);
	if (!f) {
		p->revents = POLLNVAL;
		return 1;
	}
	was = f->nonblock;
	/* poll() must wait even if the file is non-blocking */
	f->nonblock = false;
	n = sim_file_block(f, ms == 0, ms > 0 ? (uint64_t)ms * SIM_MS : 0, look,
			   p);
	f->nonblock = was;
	return n < 0 && errno == EAGAIN ? 0 : (int)n;
}
