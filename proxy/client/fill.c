/* SPDX-License-Identifier: Apache-2.0 */
/* Filling regions round robin, one step per turn of the loop. */
#include "client/fill.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "client/region.h"

static void on_step(void *arg);

static void await_turn(struct proxy_clients *all)
{
	mpib_timer_arm(all->loop, &all->fill, 0, on_step, all);
}

void mpib_fill_begin(struct proxy_client_region *r,
		     const struct mpib_mr_attr *attr)
{
	struct proxy_client *s = r->client;
	struct proxy_clients *all = s->all;

	r->state = MPIB_REGION_FILLING;
	r->attr = *attr;
	if (TAILQ_EMPTY(&all->filling))
		await_turn(all);
	if (TAILQ_EMPTY(&s->filling))
		TAILQ_INSERT_TAIL(&all->filling, s, fill_link);
	TAILQ_INSERT_TAIL(&s->filling, r, fill_link);
}

void mpib_fill_end(struct proxy_client_region *r)
{
	struct proxy_client *s = r->client;
	struct proxy_clients *all = s->all;

	TAILQ_REMOVE(&s->filling, r, fill_link);
	r->state = MPIB_REGION_ADDING;
	if (TAILQ_EMPTY(&s->filling))
		TAILQ_REMOVE(&all->filling, s, fill_link);
	if (TAILQ_EMPTY(&all->filling))
		mpib_timer_disarm(all->loop, &all->fill);
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
	/* madvise(2): an access would end in SIGBUS, for want of pages. */
	if (rc == -EFAULT)
		rc = -ENOMEM;
	proxy_client_refuse(s, ask, rc,
			    "there are pages for %" PRIu64 " of %" PRIu64
			    " bytes: %s (%s)",
			    filled, size, strerror(-rc), fill_remedy(fd));
}

/* Fill up to the next multiple of MPIB_FILL_STEP, where huge pages end, if r
 * has them. -EINVAL: the kernel cannot (before 5.14). */
static int fill_some(struct proxy_client_region *r)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	char *at = (char *)r->attr.addr + r->filled;
	size_t left = r->attr.len - r->filled;
	size_t skip = (uintptr_t)at & (page - 1);
	size_t len = MPIB_FILL_STEP - ((uintptr_t)at & (MPIB_FILL_STEP - 1));

	if (len > left)
		len = left;
	/* Not by writing to the pages: that raises SIGBUS if there are none. */
	if (madvise(at - skip, len + skip, MADV_POPULATE_WRITE) < 0)
		return errno == EINTR ? 0 : -errno;
	r->filled += len;
	return 0;
}

static void give_up(struct proxy_client_region *r, int rc)
{
	struct proxy_client *s = r->client;

	mpib_fill_end(r);
	mpib_fill_refuse(s, &r->ask, rc, r->fd, r->filled, r->size);
	mpib_region_free(r);
	/* If the client did not read the refusal it was dropped meanwhile, and
	 * its take-down waited for r. */
	proxy_client_advance(s);
}

/* r has had its step: requeue r and its client at the end. */
static void to_the_end(struct proxy_client_region *r)
{
	struct proxy_client *s = r->client;
	struct proxy_clients *all = s->all;

	TAILQ_REMOVE(&s->filling, r, fill_link);
	TAILQ_INSERT_TAIL(&s->filling, r, fill_link);
	TAILQ_REMOVE(&all->filling, s, fill_link);
	TAILQ_INSERT_TAIL(&all->filling, s, fill_link);
}

static void on_step(void *arg)
{
	struct proxy_clients *all = arg;
	struct proxy_client_region *r =
		TAILQ_FIRST(&TAILQ_FIRST(&all->filling)->filling);
	int rc = fill_some(r);

	to_the_end(r);
	if (rc < 0 && rc != -EINVAL) {
		give_up(r, rc);
	} else if (rc < 0 || r->filled == r->attr.len) {
		mpib_fill_end(r);
		r->attr.present = rc == 0;
		mpib_region_add(r, &r->attr);
	}
	if (!TAILQ_EMPTY(&all->filling))
		await_turn(all);
}
