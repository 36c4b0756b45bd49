/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <mpib/control.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/log.h"
#include "engine/handover/handover.h"
#include "session/session.h"

static int remember(struct mpib_session *s, struct mpib_session_region *r)
{
	if (r->handle >= s->handles) {
		uint32_t n = r->handle * 2 + 16;
		struct mpib_session_region **grown;

		grown = reallocarray(s->by_handle, n, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		memset(grown + s->handles, 0,
		       (n - s->handles) * sizeof(*grown));
		s->by_handle = grown;
		s->handles = n;
	}
	s->by_handle[r->handle] = r;
	return 0;
}

static void free_region(struct mpib_session_region *r)
{
	struct mpib_session *s = r->session;
	struct mpib_ledger *ledger = &s->all->ledger;

	if (r->handle < s->handles && s->by_handle[r->handle] == r)
		s->by_handle[r->handle] = NULL;
	if (r->map) {
		munmap(r->map, r->map_len);
		ledger->mapped -= r->map_len;
	}
	if (r->fd >= 0) {
		close(r->fd);
		s->region_fds--;
	}
	LIST_REMOVE(r, link);
	s->region_count--;
	s->registered -= r->size;
	if (r->pool)
		s->pooled -= r->size;
	ledger->regions--;
	ledger->registered -= r->size;
	free(r);
}

static struct mpib_session_region *make_region(struct mpib_session *s,
					       uint64_t size)
{
	struct mpib_session_region *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->session = s;
	r->size = size;
	r->fd = -1;
	LIST_INSERT_HEAD(&s->regions, r, link);
	s->region_count++;
	s->registered += size;
	s->all->ledger.regions++;
	s->all->ledger.registered += size;
	return r;
}

static struct mpib_session_region *
new_region(struct mpib_session *s, const struct mpib_message *m, uint64_t size)
{
	struct mpib_session_region *r = make_region(s, size);

	if (r)
		r->ask = m->h;
	else
		mpib_session_refuse(s, &m->h, -ENOMEM,
				    "the proxy is out of memory");
	return r;
}

/* True when the client may have size bytes more; else it was refused. */
static bool allowed(struct mpib_session *s, const struct mpib_ctl_header *ask,
		    uint64_t size, bool pool)
{
	const struct mpib_sessions *all = s->all;

	if (size == 0) {
		mpib_session_refuse(s, ask, -EINVAL,
				    "a region of 0 bytes cannot be registered");
		return false;
	}
	if (size > all->max_memory || s->registered > all->max_memory - size) {
		mpib_session_refuse(s, ask, -EDQUOT,
				    "%" PRIu64 " bytes more than the %" PRIu64
				    " registered pass limit.memory = %" PRIu64
				    " (raise it)",
				    size, s->registered, all->max_memory);
		return false;
	}
	if (s->region_count >= all->cfg->max_regions) {
		mpib_session_refuse(s, ask, -EDQUOT,
				    "%u regions are registered already (raise "
				    "limit.regions)",
				    s->region_count);
		return false;
	}
	return mpib_session_may(s, ask, MPIB_QUOTA_REGIONS, 1) &&
	       mpib_session_may(s, ask, MPIB_QUOTA_MEMORY, size) &&
	       (!pool || mpib_session_may(s, ask, MPIB_QUOTA_POOL, size));
}

static void on_added(void *arg, int status)
{
	struct mpib_session_region *r = arg;
	struct mpib_session *s = r->session;
	struct mpib_ctl_region answer = {
		.h = { .type = r->ask.type,
		       .id = r->ask.id,
		       .len = sizeof(answer) },
		.size = r->size,
		.mr = r->handle,
	};

	s->adding--;
	r->state = MPIB_REGION_LIVE;
	if (s->state > MPIB_SESSION_LIVE) {
		mpib_session_advance(s);
	} else if (status < 0) {
		mpib_session_refuse(s, &r->ask, status,
				    "registration failed: %s",
				    strerror(-status));
		free_region(r);
	} else {
		mpib_session_send(s, &answer.h, &r->fd, r->pool);
	}
}

/* fd is the region's from now on. */
static void keep(struct mpib_session_region *r, int fd, uint64_t offset)
{
	r->fd = fd;
	r->offset = offset;
	r->session->region_fds++;
}

static void add(struct mpib_session_region *r, const struct mpib_mr_attr *attr)
{
	struct mpib_session *s = r->session;
	int rc =
		mpib_mr_add(s->owner.attachment, attr, &r->handle, on_added, r);

	if (rc < 0) {
		mpib_session_refuse(s, &r->ask, rc,
				    "the rails cannot register %zu bytes: %s",
				    attr->len,
				    mpib_engine_trouble(s->all->engine, rc));
		free_region(r);
		return;
	}
	s->adding++;
	r->state = MPIB_REGION_ADDING;
	if (remember(s, r) < 0)
		mpib_session_drop(s, "the proxy is out of memory");
}

void mpib_session_pool(struct mpib_session *s, struct mpib_message *m)
{
	const struct mpib_ctl_pool *ask = (const void *)m->bytes;
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct mpib_session_region *r;
	struct mpib_memseg seg;
	uint64_t size;
	int rc;

	if (!allowed(s, &m->h, ask->size, true) ||
	    !mpib_session_may(s, &m->h, MPIB_QUOTA_FDS, 1))
		return;
	size = (ask->size + page - 1) / page * page;
	r = new_region(s, m, size);
	if (!r)
		return;
	rc = s->all->cfg->huge_pages
		     ? mpib_memseg_create_huge(&seg, "mpib-pool", size)
		     : mpib_memseg_create(&seg, "mpib-pool", size, false);
	if (rc < 0) {
		mpib_session_refuse(s, &m->h, rc,
				    "no memory segment of %" PRIu64
				    " bytes: %s",
				    size, strerror(-rc));
		free_region(r);
		return;
	}
	r->map = seg.addr;
	r->map_len = seg.size;
	keep(r, seg.fd, 0);
	r->pool = true;
	s->pooled += size;
	s->all->ledger.mapped += seg.size;
	add(r, &(struct mpib_mr_attr){
		       .addr = seg.addr, .len = size, .dmabuf_fd = -1 });
}

/*
 * Memory a client offers must be unable to shrink, or an access of ours could
 * fault. NULL or why it is not accepted.
 */
static const char *check_memfd(int fd, const struct mpib_ctl_reg_fd *ask,
			       uint64_t *unit)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || seals < 0)
		return "the descriptor is no memfd";
	if (!(seals & F_SEAL_SHRINK))
		return "the memfd is not sealed with F_SEAL_SHRINK";
	if (ask->offset > (uint64_t)st.st_size ||
	    ask->size > (uint64_t)st.st_size - ask->offset)
		return "the region reaches beyond the end of the memfd";
	/* The huge page size, for a memfd of huge pages. */
	*unit = (uint64_t)st.st_blksize;
	return NULL;
}

/* The pages (of unit bytes) of a file around a region; skip is how far into
 * them it begins. */
static void *map_around(int fd, uint64_t offset, uint64_t size, uint64_t unit,
			size_t *len, uint64_t *skip)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	if (unit < page || (unit & (unit - 1)))
		unit = page;
	*skip = offset % unit;
	*len = (size + *skip + unit - 1) / unit * unit;
	return mmap(NULL, *len, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		    (off_t)(offset - *skip));
}

static void reg_memfd(struct mpib_session *s, struct mpib_message *m,
		      const struct mpib_ctl_reg_fd *ask)
{
	struct mpib_session_region *r;
	uint64_t unit, skip;
	size_t len;
	const char *why = check_memfd(m->fd[0], ask, &unit);
	void *map;

	if (why) {
		mpib_session_refuse(s, &m->h, -EPERM, "%s", why);
		return;
	}
	if (!mpib_session_may(s, &m->h, MPIB_QUOTA_FDS, 1))
		return;
	map = map_around(m->fd[0], ask->offset, ask->size, unit, &len, &skip);
	if (map == MAP_FAILED) {
		mpib_session_refuse(s, &m->h, -errno,
				    "the proxy cannot map the memfd: %s (it "
				    "must be open for writing)",
				    strerror(errno));
		return;
	}
	r = new_region(s, m, ask->size);
	if (!r) {
		munmap(map, len);
		return;
	}
	r->map = map;
	r->map_len = len;
	s->all->ledger.mapped += r->map_len;
	keep(r, m->fd[0], ask->offset);
	m->fds = 0;
	r->strict = ask->flags & MPIB_REG_STRICT;
	add(r, &(struct mpib_mr_attr){ .addr = (char *)map + skip,
				       .len = ask->size,
				       .dmabuf_fd = -1,
				       .strict = r->strict });
}

/* The software HCA maps what it is given; a file could shrink below it. A
 * sealed memfd does as well for it as a dma-buf, which cannot shrink. */
static const char *check_dmabuf(int fd, const struct mpib_ctl_reg_fd *ask)
{
	struct statfs fs;
	uint64_t unit;

	if (fstatfs(fd, &fs) == 0 && fs.f_type == DMA_BUF_MAGIC)
		return NULL;
	return check_memfd(fd, ask, &unit) ? "the descriptor is no dma-buf"
					   : NULL;
}

static void reg_dmabuf(struct mpib_session *s, struct mpib_message *m,
		       const struct mpib_ctl_reg_fd *ask)
{
	struct mpib_session_region *r;
	const char *why = check_dmabuf(m->fd[0], ask);

	if (why) {
		mpib_session_refuse(s, &m->h, -EPERM, "%s", why);
		return;
	}
	if (!mpib_engine_dmabuf(s->all->engine)) {
		mpib_session_refuse(s, &m->h, -EOPNOTSUPP,
				    "not every rail can register a dma-buf");
		return;
	}
	if (!mpib_session_may(s, &m->h, MPIB_QUOTA_FDS, 1))
		return;
	r = new_region(s, m, ask->size);
	if (!r)
		return;
	/* The kernel made it ours as the message came: the client may close
	 * its own before it hears from us. */
	keep(r, m->fd[0], ask->offset);
	m->fds = 0;
	r->dmabuf = true;
	r->strict = ask->flags & MPIB_REG_STRICT;
	add(r, &(struct mpib_mr_attr){ .len = ask->size,
				       .dmabuf_fd = r->fd,
				       .dmabuf_offset = ask->offset,
				       .strict = r->strict });
}

void mpib_session_reg_fd(struct mpib_session *s, struct mpib_message *m)
{
	const struct mpib_ctl_reg_fd *ask = (const void *)m->bytes;
	uint32_t kind = ask->flags & ~MPIB_REG_STRICT;

	if (!allowed(s, &m->h, ask->size, false))
		return;
	if (kind == MPIB_REG_MEMFD)
		reg_memfd(s, m, ask);
	else if (kind == MPIB_REG_DMABUF)
		reg_dmabuf(s, m, ask);
	else
		mpib_session_refuse(s, &m->h, -EINVAL,
				    "flags 0x%x name neither memfd nor dma-buf",
				    ask->flags);
}

static void on_deleted(void *arg, int status)
{
	struct mpib_session_region *r = arg;
	struct mpib_session *s = r->session;
	struct mpib_ctl_header ask = r->ask;
	uint32_t handle = r->handle;

	(void)status;
	/* Ours first: what the client does after the answer finds it gone. */
	free_region(r);
	if (s->state > MPIB_SESSION_LIVE)
		mpib_session_advance(s);
	else if (ask.type == MPIB_CTL_DEREG)
		mpib_session_ok(s, &ask, handle);
}

void mpib_session_dereg(struct mpib_session *s, struct mpib_message *m)
{
	const struct mpib_ctl_id *ask = (const void *)m->bytes;
	struct mpib_session_region *r;
	int rc;

	r = ask->id < s->handles ? s->by_handle[ask->id] : NULL;
	if (!r || r->state != MPIB_REGION_LIVE) {
		mpib_session_refuse(s, &m->h, -ENOENT,
				    "this client has no region %u", ask->id);
		return;
	}
	rc = mpib_mr_del(s->owner.attachment, r->handle, on_deleted, r);
	if (rc < 0) {
		mpib_session_refuse(s, &m->h, rc, "region %u stays: %s",
				    ask->id, strerror(-rc));
		return;
	}
	r->ask = m->h;
	r->state = MPIB_REGION_DELETING;
}

static int remap(struct mpib_session_region *r, struct mpib_mr_attr *attr)
{
	struct stat st;
	uint64_t skip;
	void *map;

	if (r->dmabuf) {
		attr->dmabuf_fd = r->fd;
		attr->dmabuf_offset = r->offset;
		return 0;
	}
	if (fstat(r->fd, &st) < 0)
		return -1;
	map = map_around(r->fd, r->offset, r->size, (uint64_t)st.st_blksize,
			 &r->map_len, &skip);
	if (map == MAP_FAILED)
		return -1;
	r->map = map;
	attr->addr = (char *)map + skip;
	r->session->all->ledger.mapped += r->map_len;
	return 0;
}

int mpib_session_region_restore(struct mpib_session *s,
				const struct mpib_session_region *like)
{
	struct mpib_mr_attr attr = { .len = like->size,
				     .dmabuf_fd = -1,
				     .strict = like->strict };
	struct mpib_session_region *r = make_region(s, like->size);
	int rc;

	if (!r)
		return -1;
	r->handle = like->handle;
	r->state = MPIB_REGION_LIVE;
	r->dmabuf = like->dmabuf;
	r->strict = like->strict;
	r->pool = like->pool;
	if (r->pool)
		s->pooled += r->size;
	keep(r, like->fd, like->offset);
	if (remap(r, &attr) < 0)
		return -1;
	rc = mpib_mr_restore(s->owner.attachment, &attr, r->handle);
	if (rc == 0)
		rc = remember(s, r);
	errno = -rc;
	return rc < 0 ? -1 : 0;
}

void mpib_session_drop_regions(struct mpib_session *s)
{
	struct mpib_session_region *r, *next;

	for (r = LIST_FIRST(&s->regions); r; r = next) {
		int rc;

		next = LIST_NEXT(r, link);
		if (r->state != MPIB_REGION_LIVE)
			continue;
		r->state = MPIB_REGION_DELETING;
		rc = mpib_mr_del(s->owner.attachment, r->handle, on_deleted, r);
		if (rc < 0)
			mpib_err("client %u: region %u cannot be fenced: %s",
				 s->id, r->handle, strerror(-rc));
	}
}

void mpib_session_free_regions(struct mpib_session *s)
{
	while (!LIST_EMPTY(&s->regions))
		free_region(LIST_FIRST(&s->regions));
}
