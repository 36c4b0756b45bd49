/* SPDX-License-Identifier: Apache-2.0 */
/* Filling regions round robin, step by step. */
#include "client/fill.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "client/region.h"

/* Have the thread make the next step, up to the next multiple of
 * MPIB_FILL_STEP, where huge pages end, if the region has them. */
static void next_step(struct proxy_clients *all)
{
	struct proxy_client *s = TAILQ_FIRST(&all->filling);
	struct proxy_client_region *r;
	uintptr_t at, end, skip;

	if (all->stepping || all->left.map || !s)
		return;
	r = TAILQ_FIRST(&s->filling);
	at = (uintptr_t)r->attr.addr + r->filled;
	skip = at & ((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
	end = (at | (MPIB_FILL_STEP - 1)) + 1;
	all->step = end - at;
	if (all->step > r->attr.len - r->filled)
		all->step = r->attr.len - r->filled;
	all->stepping = r;
	mpib_filler_ask(&all->filler, (void *)(at - skip), all->step + skip,
			r->must_be_there ? r->fd : -1);
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
	r->stepping = all->stepping == r;
	if (r->stepping)
		all->stepping = NULL;
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

/* -EINVAL: the kernel cannot (before 5.14). */
void mpib_fill_stepped(void *arg, int rc)
{
	struct proxy_clients *all = arg;
	struct proxy_client_region *r = all->stepping;

	if (!r) {
		assert(all->left.map);
		mpib_region_let_go(&all->left);
		all->left = (struct mpib_region_memory){ 0 };
		next_step(all);
		return;
	}
	all->stepping = NULL;
	if (rc == 0)
		r->filled += all->step;
	to_the_end(r);
	if (rc < 0 && rc != -EINVAL) {
		give_up(r, rc);
	} else if (rc < 0 || r->filled == r->attr.len) {
		mpib_fill_end(r);
		r->attr.present = rc == 0;
		mpib_region_add(r, &r->attr);
	}
	next_step(all);
}
