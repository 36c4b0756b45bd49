/* SPDX-License-Identifier: Apache-2.0 */
#include "client/filler.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* What SEEK_DATA of a page costs beside what SEEK_HOLE does, for each page that it
 * goes over. */
#define DATA_COST 6

/* Not by mincore(2), which says yes to who may not write to the file, and no of
 * pages in swap. SEEK_HOLE goes on to the end of the file, however far that is. */
bool mpib_filler_whole(int fd, uint64_t offset, uint64_t size)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t at = offset & ~(page - 1), end = offset + size;
	off_t was = lseek(fd, 0, SEEK_CUR);
	struct stat st;

	if (fstat(fd, &st) == 0 &&
	    ((uint64_t)st.st_size - at) / DATA_COST < end - at)
		at = (uint64_t)lseek(fd, (off_t)at, SEEK_HOLE);
	else
		while (at < end && lseek(fd, (off_t)at, SEEK_DATA) == (off_t)at)
			at += page;
	lseek(fd, was, SEEK_SET);
	return at >= end;
}

static int filler_populate(const struct mpib_filler *f)
{
	if (f->fd >= 0 && !mpib_filler_whole(f->fd, f->offset, f->len))
		return -ENODATA;
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
		pthread_cond_broadcast(&f->changed);
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

void mpib_filler_ask(struct mpib_filler *f, void *at, size_t len, int fd,
		     uint64_t offset)
{
	pthread_mutex_lock(&f->lock);
	f->at = at;
	f->len = len;
	f->fd = fd;
	f->offset = offset;
	f->asked = true;
	f->over = false;
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->lock);
}

void mpib_filler_cancel(struct mpib_filler *f)
{
	pthread_mutex_lock(&f->lock);
	while (f->asked)
		pthread_cond_wait(&f->changed, &f->lock);
	f->over = true;
	f->rc = -ECANCELED;
	pthread_mutex_unlock(&f->lock);
	mpib_bell_ring(&f->bell);
}

void mpib_filler_stop(struct mpib_filler *f)
{
	if (!f->running)
		return;
	mpib_filler_cancel(f);
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
