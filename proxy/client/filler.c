/* SPDX-License-Identifier: Apache-2.0 */
#include "client/filler.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * 0: the client has allocated all pages of the memory; -ENODATA; -EACCES: the kernel
 * does not tell, or something forbids it; -EAGAIN: it has no page to tell it in. Those
 * that the proxy would allocate in its stead would count as the proxy's memory, and a
 * client could have the kernel kill the proxy for want of it. Not by lseek(SEEK_HOLE),
 * which waits for the file's lock while the client's fallocate(2) has it.
 */
static int all_there(char *from, size_t len)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	unsigned char there[512];

	while (len > 0) {
		size_t part =
			len < page * sizeof(there) ? len : page * sizeof(there);

		if (mincore(from, part, there) < 0)
			return errno == EAGAIN ? -EAGAIN : -EACCES;
		for (size_t i = 0; i < (part + page - 1) / page; i++) {
			if (!(there[i] & 1))
				return -ENODATA;
		}
		from += part;
		len -= part;
	}
	return 0;
}

/* To who may not write to the file mincore(2) says that all pages are there. */
static bool mincore_tells(int fd)
{
	struct stat st;

	/* What an earlier proxy made is immutable, and its owner is told. */
	return (fstat(fd, &st) == 0 && st.st_uid == geteuid()) ||
	       faccessat(fd, "", W_OK, AT_EMPTY_PATH | AT_EACCESS) == 0;
}

int mpib_filler_there(int fd, void *at, size_t len)
{
	bool told = mincore_tells(fd);
	int rc = all_there(at, len);

	return told && mincore_tells(fd) ? rc : -EACCES;
}

static int filler_populate(const struct mpib_filler *f)
{
	int rc = f->fd >= 0 ? mpib_filler_there(f->fd, f->at, f->len) : 0;

	if (rc < 0)
		return rc;
	/* Not by writing to the pages: that raises SIGBUS if there are none. */
	while (madvise(f->at, f->len, MADV_POPULATE_WRITE) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return 0;
}

static void *filler_run(void *arg)
{
	struct mpib_filler *f = arg;

	pthread_mutex_lock(&f->lock);
	for (;;) {
		int rc;

		while (!f->asked && !f->stop)
			pthread_cond_wait(&f->changed, &f->lock);
		if (f->stop)
			break;
		pthread_mutex_unlock(&f->lock);
		rc = filler_populate(f);
		pthread_mutex_lock(&f->lock);
		f->asked = false;
		f->over = true;
		f->rc = rc;
		mpib_bell_ring(&f->bell);
	}
	pthread_mutex_unlock(&f->lock);
	return NULL;
}

static void filler_on_bell(void *arg, uint32_t events)
{
	struct mpib_filler *f = arg;
	bool over;
	int rc;

	(void)events;
	mpib_bell_heard(&f->bell);
	pthread_mutex_lock(&f->lock);
	over = f->over;
	rc = f->rc;
	f->over = false;
	pthread_mutex_unlock(&f->lock);
	if (over)
		f->done(f->arg, rc);
}

int mpib_filler_start(struct mpib_filler *f, struct mpib_loop *loop,
		      mpib_filled_fn *done, void *arg)
{
	int rc;

	*f = (struct mpib_filler){ .loop = loop, .done = done, .arg = arg };
	rc = mpib_bell_init(&f->bell);
	if (rc < 0)
		return rc;
	rc = mpib_loop_add(loop, &f->watch, f->bell.fd, EPOLLIN, filler_on_bell,
			   f);
	if (rc < 0)
		goto err_bell;
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->changed, NULL);
	rc = -pthread_create(&f->thread, NULL, filler_run, f);
	if (rc < 0)
		goto err_watch;
	pthread_setname_np(f->thread, "mpib-fill");
	f->running = true;
	return 0;

err_watch:
	pthread_cond_destroy(&f->changed);
	pthread_mutex_destroy(&f->lock);
	mpib_loop_del(loop, &f->watch);
err_bell:
	mpib_bell_fini(&f->bell);
	return rc;
}

void mpib_filler_ask(struct mpib_filler *f, void *at, size_t len, int fd)
{
	pthread_mutex_lock(&f->lock);
	f->at = at;
	f->len = len;
	f->fd = fd;
	f->asked = true;
	f->over = false;
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->lock);
}

void mpib_filler_stop(struct mpib_filler *f)
{
	if (!f->running)
		return;
	pthread_mutex_lock(&f->lock);
	f->stop = true;
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->lock);
	pthread_join(f->thread, NULL);
	pthread_cond_destroy(&f->changed);
	pthread_mutex_destroy(&f->lock);
	mpib_loop_del(f->loop, &f->watch);
	mpib_bell_fini(&f->bell);
	f->running = false;
}
