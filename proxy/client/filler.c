/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/client.h"

/* The time of a step. After this time, the step begins no further piece. */
#define STEP_NS 2000000u

/*
 * Return 0 if the client has allocated all pages of the memory, -ENODATA if it
 * has not. Return -EACCES if the kernel does not tell or a filter forbids the
 * call, or -EAGAIN if there was no memory for the result. If the proxy
 * allocated the pages instead, they would count as the proxy's memory, and a
 * client could provoke the kernel's OOM killer. lseek(SEEK_HOLE) cannot be
 * used: it waits for the file's lock during the client's fallocate(2).
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

/* Return whether the result of mincore(2) is true. Without write permission for
 * the file, mincore(2) reports all pages as present. */
static bool mincore_tells(int fd)
{
	struct stat st;

	/* An earlier proxy's file is immutable, but mincore() works for its
	 * owner. */
	return (fstat(fd, &st) == 0 && st.st_uid == geteuid()) ||
	       faccessat(fd, "", W_OK, AT_EMPTY_PATH | AT_EACCESS) == 0;
}

static int filler_there(int fd, void *at, size_t len)
{
	bool told = mincore_tells(fd);
	int rc = all_there(at, len);

	return told && mincore_tells(fd) ? rc : -EACCES;
}

static int filler_populate(const struct mpib_fill_piece *p)
{
	int rc = p->fd >= 0 ? filler_there(p->fd, p->at, p->len) : 0;

	if (rc < 0)
		return rc;
	/* Use madvise(2): if no pages can be allocated, a write would raise
	 * SIGBUS. */
	while (madvise(p->at, p->len, MADV_POPULATE_WRITE) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return 0;
}

/* Fill at least one piece, then more until the step's time has passed. Set
 * *done to the number of filled pieces. Returns 0, or the error of the next
 * piece. */
static int filler_step(const struct mpib_filler *f, unsigned *done)
{
	uint64_t until = mpib_now_ns() + STEP_NS;
	int rc = 0;

	for (*done = 0; *done < f->asked; ++*done) {
		if (*done && mpib_now_ns() > until)
			break;
		rc = filler_populate(&f->piece[*done]);
		if (rc < 0)
			break;
	}
	return rc;
}

static void *filler_run(void *arg)
{
	struct mpib_filler *f = arg;

	pthread_mutex_lock(&f->lock);
	for (;;) {
		unsigned done;
		int rc;

		while (!f->asked)
			pthread_cond_wait(&f->changed, &f->lock);
		pthread_mutex_unlock(&f->lock);
		rc = filler_step(f, &done);
		pthread_mutex_lock(&f->lock);
		f->asked = 0;
		f->over = true;
		f->done = done;
		f->rc = rc;
		mpib_bell_ring(&f->bell);
	}
	return NULL;
}

/* Begin a step with these pieces, which stay mapped until fill_stepped(). No
 * other step may be in progress. If a piece's fd is -1, the step allocates the
 * missing pages. Otherwise the step checks that all pages of the piece exist in
 * the open file fd. The step fails with -ENODATA if some do not exist, and with
 * -EACCES if the file's mode or a system call filter prevents the check. */
static void filler_ask(struct mpib_filler *f,
		       const struct mpib_fill_piece *piece, unsigned n)
{
	pthread_mutex_lock(&f->lock);
	memcpy(f->piece, piece, n * sizeof(*piece));
	f->asked = n;
	f->over = false;
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->lock);
}

/* Fill regions round robin, step by step. */

/* Return the region's next piece. Unless the region ends before, the piece ends
 * where a huge page would end, at a multiple of MPIB_FILL_PIECE. */
static struct mpib_fill_piece next_piece(struct proxy_client_region *r)
{
	uintptr_t at = (uintptr_t)r->attr.addr + r->filled;
	uintptr_t skip = at & ((uintptr_t)sysconf(_SC_PAGESIZE) - 1);

	r->step = (at | (MPIB_FILL_PIECE - 1)) + 1 - at;
	if (r->step > r->attr.len - r->filled)
		r->step = r->attr.len - r->filled;
	return (struct mpib_fill_piece){ .at = (void *)(at - skip),
					 .len = r->step + skip,
					 .fd = r->must_be_there ? r->fd : -1 };
}

/* Move r and its client to the end of their queues. */
static void to_the_end(struct proxy_client_region *r)
{
	struct proxy_client *s = r->client;
	struct proxy_clients *all = s->all;

	TAILQ_REMOVE(&s->filling, r, fill_link);
	TAILQ_INSERT_TAIL(&s->filling, r, fill_link);
	TAILQ_REMOVE(&all->filling, s, fill_link);
	TAILQ_INSERT_TAIL(&all->filling, s, fill_link);
}

/* Start the thread's next step, with one piece of each region in turn. Stop at
 * a region that already has a piece in this step. */
static void next_step(struct proxy_clients *all)
{
	struct mpib_fill_piece piece[MPIB_FILL_PIECES];

	if (all->pieces || TAILQ_EMPTY(&all->filling))
		return;
	while (all->pieces < MPIB_FILL_PIECES) {
		struct proxy_client *s = TAILQ_FIRST(&all->filling);
		struct proxy_client_region *r = TAILQ_FIRST(&s->filling);

		if (r->step)
			break;
		piece[all->pieces] = next_piece(r);
		all->stepping[all->pieces++] = r;
		to_the_end(r);
	}
	filler_ask(&all->filler, piece, all->pieces);
}

void mpib_fill_begin(struct proxy_client_region *r,
		     const struct mpib_mr_attr *attr)
{
	struct proxy_client *s = r->client;
	struct proxy_clients *all = s->all;

	r->state = MPIB_REGION_FILLING;
	r->attr = *attr;
	if (TAILQ_EMPTY(&s->filling))
		TAILQ_INSERT_TAIL(&all->filling, s, fill_link);
	TAILQ_INSERT_TAIL(&s->filling, r, fill_link);
	next_step(all);
}

void mpib_fill_end(struct proxy_client_region *r)
{
	struct proxy_client *s = r->client;
	struct proxy_clients *all = s->all;

	TAILQ_REMOVE(&s->filling, r, fill_link);
	r->state = MPIB_REGION_ADDING;
	if (TAILQ_EMPTY(&s->filling))
		TAILQ_REMOVE(&all->filling, s, fill_link);
}

void mpib_fill_stop(struct proxy_client *s)
{
	struct proxy_client_region *r, *next;

	for (r = TAILQ_FIRST(&s->filling); r; r = next) {
		next = TAILQ_NEXT(r, fill_link);
		if (!r->step)
			mpib_region_free(r);
	}
}

static const char *fill_remedy(int fd)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) == 0 && fs.f_type == HUGETLBFS_MAGIC)
		return "set more huge pages aside, vm.nr_hugepages, or "
		       "register ordinary memory";
	return "register less, or give mpib-proxy more: MemoryMax";
}

void mpib_fill_refuse(struct proxy_client *s, const struct mpib_ctl_header *ask,
		      int rc, int fd, uint64_t filled, uint64_t size)
{
	/* madvise(2) fails with EFAULT if pages cannot be allocated. */
	if (rc == -EFAULT)
		rc = -ENOMEM;
	proxy_client_refuse(s, ask, rc,
			    "there are pages for %" PRIu64 " of %" PRIu64
			    " bytes: %s (%s)",
			    filled, size, strerror(-rc), fill_remedy(fd));
}

static void give_up(struct proxy_client_region *r, int rc)
{
	struct proxy_client *s = r->client;

	mpib_fill_end(r);
	if (rc == -ENODATA)
		proxy_client_refuse(s, &r->ask, -EFAULT,
				    "there are no pages yet at byte %zu of "
				    "%" PRIu64 " of the memfd (write to all of "
				    "it before it is registered)",
				    r->filled, r->size);
	else if (rc == -EACCES)
		proxy_client_refuse(s, &r->ask, rc,
				    "the proxy may not write to the memfd, nor "
				    "see which pages it has (leave its mode as "
				    "memfd_create(2) makes it; the proxy's "
				    "unit has to permit mincore(2))");
	else
		mpib_fill_refuse(s, &r->ask, rc, r->fd, r->filled, r->size);
	mpib_region_free(r);
	/* A client that did not read the refusal was dropped. Its removal
	 * waited until r was freed. */
	proxy_client_advance(s);
}

/* Handle the end of r's piece. rc -EINVAL: the kernel is older than 5.14. */
static void fill_stepped(struct proxy_client_region *r, size_t filled, int rc)
{
	struct proxy_client *s = r->client;

	r->step = 0;
	r->filled += filled;
	if (s->state > PROXY_CLIENT_LIVE) {
		mpib_region_free(r);
		proxy_client_advance(s);
	} else if (rc < 0 && rc != -EINVAL) {
		give_up(r, rc);
	} else if (rc < 0 || r->filled == r->attr.len) {
		mpib_fill_end(r);
		r->attr.present = rc == 0;
		mpib_region_add(r, &r->attr);
	}
}

/* Handle the end of a step. `done`: the number of filled pieces. `rc`: the
 * result for piece number `done`. The later pieces are left for another
 * step. */
static void step_ended(struct proxy_clients *all, unsigned done, int rc)
{
	for (unsigned i = 0; i < all->pieces; i++) {
		struct proxy_client_region *r = all->stepping[i];

		fill_stepped(r, i < done ? r->step : 0, i == done ? rc : 0);
	}
	all->pieces = 0;
	next_step(all);
}

static void filler_on_bell(void *arg, uint32_t events)
{
	struct proxy_clients *all = arg;
	struct mpib_filler *f = &all->filler;
	unsigned done;
	bool over;
	int rc;

	(void)events;
	mpib_bell_heard(&f->bell);
	pthread_mutex_lock(&f->lock);
	over = f->over;
	done = f->done;
	rc = f->rc;
	f->over = false;
	pthread_mutex_unlock(&f->lock);
	if (over)
		step_ended(all, done, rc);
}

int mpib_filler_start(struct proxy_clients *all)
{
	struct mpib_filler *f = &all->filler;
	pthread_t thread;
	int rc = mpib_bell_init(&f->bell);

	if (rc < 0)
		return rc;
	rc = mpib_loop_add(all->loop, &f->watch, f->bell.fd, EPOLLIN,
			   filler_on_bell, all);
	if (rc < 0)
		goto err_bell;
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->changed, NULL);
	rc = -pthread_create(&thread, NULL, filler_run, f);
	if (rc < 0)
		goto err_watch;
	pthread_setname_np(thread, "mpib-fill");
	return 0;

err_watch:
	pthread_cond_destroy(&f->changed);
	pthread_mutex_destroy(&f->lock);
	mpib_loop_del(all->loop, &f->watch);
err_bell:
	mpib_bell_fini(&f->bell);
	return rc;
}
