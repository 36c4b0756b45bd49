/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sim_task.h"
#include "sim_wrap.h"

static struct entry {
	struct sim_file *file;
	const struct sim_proc *owner;
} table[SIM_FDS];
static const struct sim_proc *real_owner[SIM_FD_FIRST];
static int hint;
/* `used`: lowest simulated descriptor that was never used. `real_used`: lowest
 * real descriptor that was never used. */
static int used, real_used;

void *sim_file_new(const struct sim_file_ops *ops, size_t size)
{
	struct sim_file *f = calloc(1, size);

	if (!f)
		abort();
	f->ops = ops;
	f->refs = 1;
	LIST_INIT(&f->watchers);
	return f;
}

void sim_file_hold(struct sim_file *f)
{
	f->refs++;
}

void sim_file_put(struct sim_file *f)
{
	struct sim_watch *w;

	if (--f->refs)
		return;
	while ((w = LIST_FIRST(&f->watchers)))
		sim_watch_end(w);
	if (f->ops->close)
		f->ops->close(f);
	free(f);
}

void sim_file_changed(struct sim_file *f)
{
	struct sim_watch *w;

	if (f->waiters)
		sim_wake_for(f);
	LIST_FOREACH(w, &f->watchers, of_file)
	{
		w->changed = true;
		sim_file_changed(w->set);
	}
}

int sim_fd_new(struct sim_file *f)
{
	for (int i = 0; i < SIM_FDS; i++) {
		int at = (hint + i) % SIM_FDS;

		if (table[at].file)
			continue;
		hint = at + 1;
		if (used < hint)
			used = hint;
		table[at] = (struct entry){ f, sim_proc_self() };
		return SIM_FD_FIRST + at;
	}
	sim_fail("the simulated kernel has no descriptor left");
}

bool sim_fd_is(int fd)
{
	return fd >= SIM_FD_FIRST && fd < SIM_FD_FIRST + SIM_FDS;
}

struct sim_file *sim_fd_file(int fd)
{
	struct sim_file *f =
		sim_fd_is(fd) ? table[fd - SIM_FD_FIRST].file : NULL;

	if (!f)
		errno = EBADF;
	return f;
}

int sim_fd_real(int fd)
{
	if (fd >= 0 && fd < SIM_FD_FIRST) {
		real_owner[fd] = sim_proc_self();
		if (real_used <= fd)
			real_used = fd + 1;
	}
	return fd;
}

/* A descriptor in a message has no owner, so its file stays open when a process
 * ends. */
int sim_fd_hold(int fd)
{
	struct sim_file *f;
	int held;

	if (!sim_fd_is(fd)) {
		held = __real_fcntl(fd, F_DUPFD_CLOEXEC, 0);
		if (held >= 0)
			real_owner[held] = NULL;
		return held;
	}
	f = sim_fd_file(fd);
	if (!f)
		return -1;
	sim_file_hold(f);
	held = sim_fd_new(f);
	table[held - SIM_FD_FIRST].owner = NULL;
	return held;
}

int sim_fd_give(int held)
{
	if (!sim_fd_is(held))
		return sim_fd_real(held);
	table[held - SIM_FD_FIRST].owner = sim_proc_self();
	return held;
}

void sim_fd_drop(int held)
{
	struct sim_file *f;

	if (!sim_fd_is(held)) {
		__real_close(held);
		real_owner[held] = NULL;
		return;
	}
	f = sim_fd_file(held);
	table[held - SIM_FD_FIRST] = (struct entry){ NULL, NULL };
	if (f)
		sim_file_put(f);
}

void sim_files_close_all(const struct sim_proc *proc)
{
	for (int i = 0; i < used; i++) {
		if (table[i].file && table[i].owner == proc)
			sim_fd_drop(SIM_FD_FIRST + i);
	}
	for (int i = 0; i < real_used; i++) {
		if (real_owner[i] == proc)
			sim_fd_drop(i);
	}
}

ssize_t sim_file_block(struct sim_file *f, bool dontwait, uint64_t limit,
		       ssize_t (*op)(struct sim_file *f, void *arg), void *arg)
{
	uint64_t until = limit ? sim_now + limit : SIM_NEVER;
	struct sim_task *t = sim_task_self();
	ssize_t n;

	sim_file_hold(f);
	while ((n = op(f, arg)) == -EAGAIN && !dontwait && !f->nonblock &&
	       sim_now < until) {
		/* This reference is released even if the task is killed while
		 * it waits. */
		t->holds = f;
		sim_wait_file(f, until);
		t->holds = NULL;
	}
	sim_file_put(f);
	if (n >= 0)
		return n;
	errno = (int)-n;
	return -1;
}

int __wrap_close(int fd)
{
	sim_point();
	if (!sim_fd_is(fd)) {
		if (fd >= 0 && fd < SIM_FD_FIRST)
			real_owner[fd] = NULL;
		return __real_close(fd);
	}
	if (!sim_fd_file(fd))
		return -1;
	sim_fd_drop(fd);
	return 0;
}

/* The real code calls this function only for files of the real kernel. */
int __wrap_fclose(FILE *file)
{
	int fd = fileno(file);

	if (fd >= 0 && fd < SIM_FD_FIRST)
		real_owner[fd] = NULL;
	return __real_fclose(file);
}

struct transfer {
	void *buf;
	size_t len;
};

static ssize_t file_read(struct sim_file *f, void *arg)
{
	const struct transfer *t = arg;

	return f->ops->read ? f->ops->read(f, t->buf, t->len) : -EINVAL;
}

static ssize_t file_write(struct sim_file *f, void *arg)
{
	const struct transfer *t = arg;

	return f->ops->write ? f->ops->write(f, t->buf, t->len) : -EINVAL;
}

ssize_t __wrap_read(int fd, void *buf, size_t len)
{
	struct transfer t = { buf, len };
	struct sim_file *f;

	sim_point();
	if (!sim_fd_is(fd))
		return __real_read(fd, buf, len);
	f = sim_fd_file(fd);
	return f ? sim_file_block(f, false, 0, file_read, &t) : -1;
}

ssize_t __wrap_write(int fd, const void *buf, size_t len)
{
	/* Cast away const: file_write() does not change the buffer. */
	struct transfer t = { (void *)(uintptr_t)buf, len };
	struct sim_file *f;

	sim_point();
	if (!sim_fd_is(fd))
		return __real_write(fd, buf, len);
	f = sim_fd_file(fd);
	return f ? sim_file_block(f, false, 0, file_write, &t) : -1;
}

/* Never wait, because the only caller, mpib_eventfd_take(), passes
 * RWF_NOWAIT. */
ssize_t __wrap_preadv2(int fd, const struct iovec *iov, int n, off_t off,
		       int flags)
{
	struct transfer t = { iov->iov_base, iov->iov_len };
	struct sim_file *f = sim_fd_file(fd);

	(void)n;
	(void)off;
	(void)flags;
	sim_point();
	return f ? sim_file_block(f, true, 0, file_read, &t) : -1;
}

int __wrap_fcntl(int fd, int cmd, ...)
{
	struct sim_file *f;
	va_list ap;
	long arg;

	va_start(ap, cmd);
	arg = va_arg(ap, long);
	va_end(ap);
	if (!sim_fd_is(fd)) {
		int rc = __real_fcntl(fd, cmd, arg);

		return cmd == F_DUPFD_CLOEXEC ? sim_fd_real(rc) : rc;
	}
	f = sim_fd_file(fd);
	if (!f)
		return -1;
	switch (cmd) {
	case F_DUPFD_CLOEXEC:
		sim_file_hold(f);
		return sim_fd_new(f);
	case F_GETFL:
		return O_RDWR | (f->nonblock ? O_NONBLOCK : 0);
	case F_SETFL:
		f->nonblock = arg & O_NONBLOCK;
		return 0;
	case F_SETFD:
		return 0;
	default:
		errno = EINVAL;
		return -1;
	}
}

int __wrap_fchmod(int fd, mode_t mode)
{
	return sim_fd_is(fd) ? 0 : __real_fchmod(fd, mode);
}
