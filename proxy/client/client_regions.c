/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a client's regions: allocate, count, register with the rails,
 * fence, free. Also the pools that the proxy allocates for clients.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <mpib/control.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/closer.h"
#include "base/log.h"
#include "base/thread.h"
#include "client/client.h"

/* Freeing a region of this size takes 5 ms. Such regions and larger ones are
 * not freed on the control thread. */
#define LARGE ((size_t)32 << 20)

static void region_let_go(const struct proxy_client_region *r)
{
	if (r->map && r->fd >= 0 && r->map_len >= LARGE) {
		mpib_unmap_of(r->client->uid, r->map, r->map_len, r->fd);
		return;
	}
	if (r->map)
		munmap(r->map, r->map_len);
	if (r->fd >= 0)
		close(r->fd);
}

void mpib_region_free(struct proxy_client_region *r)
{
	struct proxy_client *s = r->client;
	struct mpib_usage *usage = &s->all->usage;

	if (r->state == MPIB_REGION_FILLING)
		mpib_fill_end(r);
	region_let_go(r);
	if (r->map)
		mpib_sum_take(&usage->mapped, r->map_len);
	if (r->fd >= 0)
		mpib_sum_less(&s->region_fds);
	LIST_REMOVE(r, link);
	mpib_sum_less(&s->region_count);
	mpib_sum_take(&s->registered, r->size);
	mpib_sum_take(&s->of_kind[r->kind], r->size);
	mpib_sum_less(&usage->regions);
	mpib_sum_take(&usage->registered, r->size);
	free(r);
}

/* Make a region of s for the request m, and count it in the usage. If there is
 * no memory, refuse m and return NULL. */
static struct proxy_client_region *region_new(struct proxy_client *s,
					      const struct mpib_message *m,
					      uint64_t size,
					      enum mpib_region_kind kind)
{
	struct proxy_client_region *r = calloc(1, sizeof(*r));

	if (!r) {
		proxy_client_refuse(s, &m->h, -ENOMEM,
				    "the proxy is out of memory");
		return NULL;
	}
	r->client = s;
	r->ask = m->h;
	r->kind = kind;
	r->size = size;
	r->fd = -1;
	LIST_INSERT_HEAD(&s->regions, r, link);
	s->region_count++;
	s->registered += size;
	s->of_kind[kind] += size;
	s->all->usage.regions++;
	s->all->usage.registered += size;
	return r;
}

/* Return whether the client may register `size` more bytes. If not, refuse the
 * request `ask`. */
static bool region_allowed(struct proxy_client *s,
			   const struct mpib_ctl_header *ask, uint64_t size,
			   enum mpib_region_kind kind)
{
	/* A size above INT64_MAX would overflow the sums of bytes. */
	if (size == 0 || size > INT64_MAX) {
		proxy_client_refuse(s, ask, -EINVAL,
				    "a region of %" PRIu64
				    " bytes cannot be registered",
				    size);
		return false;
	}
	return proxy_client_may(s, ask, MPIB_QUOTA_REGIONS, 1) &&
	       (kind == MPIB_REGION_DMABUF ||
		proxy_client_may(s, ask, MPIB_QUOTA_MEMORY, size));
}

static void on_added(void *arg, int status)
{
	struct proxy_client_region *r = arg;
	struct proxy_client *s = r->client;
	struct mpib_ctl_region answer = {
		.h = { .type = r->ask.type,
		       .id = r->ask.id,
		       .len = sizeof(answer) },
		.mr = r->handle,
	};

	(void)status; /* 0 */
	s->adding--;
	r->state = MPIB_REGION_LIVE;
	if (s->state > PROXY_CLIENT_LIVE)
		proxy_client_advance(s);
	else
		proxy_client_send(s, &answer.h, &r->fd,
				  r->kind == MPIB_REGION_POOL);
}

/* Record that the region is mapped at `map`. */
static void region_mapped(struct proxy_client_region *r, void *map, size_t len)
{
	r->map = map;
	r->map_len = len;
	r->client->all->usage.mapped += len;
}

/* Pass fd to the region, which closes it later. */
static void region_keep(struct proxy_client_region *r, int fd)
{
	r->fd = fd;
	r->client->region_fds++;
}

void mpib_region_add(struct proxy_client_region *r,
		     const struct mpib_mr_attr *attr)
{
	struct proxy_client *s = r->client;
	struct mpib_ctl_header ask = r->ask;
	uint64_t size = r->size;
	int rc = mpib_mr_add(s->peer_client.engine_client, attr, &r->handle,
			     on_added, r);

	if (rc < 0) {
		mpib_region_free(r);
		proxy_client_refuse(
			s, &ask, rc,
			"the rails cannot register %" PRIu64 " bytes: %s", size,
			mpib_engine_last_error(s->all->engine, rc));
		return;
	}
	s->adding++;
	r->state = MPIB_REGION_ADDING;
}

void proxy_client_pool(struct proxy_client *s, struct mpib_message *m)
{
	const struct mpib_ctl_pool *ask = (const void *)m->bytes;
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct proxy_client_region *r;
	struct mpib_memseg seg;
	uint64_t size = ask->size;
	int rc;

	/* A larger size would overflow; it is refused below. */
	if (size <= UINT64_MAX - page)
		size = (size + page - 1) / page * page;
	if (!region_allowed(s, &m->h, size, MPIB_REGION_POOL) ||
	    !proxy_client_may(s, &m->h, MPIB_QUOTA_FDS, 1))
		return;
	r = region_new(s, m, size, MPIB_REGION_POOL);
	if (!r)
		return;
	rc = s->all->cfg->huge_pages
		     ? mpib_memseg_create_huge(&seg, "mpib-pool", size)
		     : mpib_memseg_create(&seg, "mpib-pool", size, false);
	if (rc < 0) {
		mpib_region_free(r);
		proxy_client_refuse(s, &m->h, rc,
				    "no memory segment of %" PRIu64
				    " bytes: %s (see mpib-proxy's limits: "
				    "LimitNOFILE, LimitAS, LimitFSIZE)",
				    size, strerror(-rc));
		return;
	}
	region_mapped(r, seg.addr, seg.size);
	region_keep(r, seg.fd);
	mpib_numa_prefer(
		seg.addr, seg.size,
		mpib_engine_node(s->all->engine, s->peer_client.shard));
	mpib_fill_begin(r, &(struct mpib_mr_attr){ .addr = seg.addr,
						   .len = size,
						   .dmabuf_fd = -1,
						   .any_order = true });
}

static void on_deleted(void *arg, int status)
{
	struct proxy_client_region *r = arg;
	struct proxy_client *s = r->client;
	struct mpib_ctl_header ask = r->ask;
	uint32_t handle = r->handle;

	(void)status;
	/* Free the region before the answer, so that the region no longer
	 * counts in quotas when the client's next request arrives. */
	mpib_region_free(r);
	if (s->state > PROXY_CLIENT_LIVE)
		proxy_client_advance(s);
	else if (ask.type == MPIB_CTL_DEREG)
		proxy_client_ok(s, &ask, handle);
}

void proxy_client_dereg(struct proxy_client *s, struct mpib_message *m)
{
	const struct mpib_ctl_id *ask = (const void *)m->bytes;
	struct proxy_client_region *r;
	int rc;

	LIST_FOREACH(r, &s->regions, link)
	{
		if (r->handle == ask->id && r->state == MPIB_REGION_LIVE)
			break;
	}
	if (!r) {
		proxy_client_refuse(s, &m->h, -ENOENT,
				    "this client has no region %u", ask->id);
		return;
	}
	rc = mpib_mr_del(s->peer_client.engine_client, r->handle, on_deleted,
			 r);
	if (rc < 0) {
		proxy_client_refuse(s, &m->h, rc, "region %u stays: %s",
				    ask->id, strerror(-rc));
		return;
	}
	r->ask = m->h;
	r->state = MPIB_REGION_DELETING;
}

void proxy_client_drop_regions(struct proxy_client *s)
{
	struct proxy_client_region *r, *next;

	for (r = LIST_FIRST(&s->regions); r; r = next) {
		int rc;

		next = LIST_NEXT(r, link);
		if (r->state != MPIB_REGION_LIVE)
			continue;
		r->state = MPIB_REGION_DELETING;
		rc = mpib_mr_del(s->peer_client.engine_client, r->handle,
				 on_deleted, r);
		if (rc < 0)
			mpib_err("client %u: region %u cannot be fenced: %s",
				 s->id, r->handle, strerror(-rc));
	}
}

void proxy_client_let_go(void *arg)
{
	struct proxy_client *s = arg;
	struct proxy_client_region *r;

	if (!mpib_mr_may_revoke(s->peer_client.engine_client))
		return;
	LIST_FOREACH(r, &s->regions, link)
	{
		if (r->kind != MPIB_REGION_DMABUF || r->fd < 0)
			continue;
		mpib_mr_revoke(s->peer_client.engine_client, r->handle);
		close(r->fd);
		r->fd = -1;
		mpib_sum_less(&s->region_fds);
	}
}

/*
 * Registering memory for which a client has a descriptor: a memfd or a dma-buf.
 * Control thread.
 */

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x10 /* Linux 5.1 */
#endif

static bool sealed_against_writing(int seals)
{
	return seals >= 0 && seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE);
}

/*
 * Return NULL, or why the memfd is not accepted. A client's memfd must be
 * sealed against shrinking, or the proxy's accesses could raise SIGBUS. The
 * proxy only reads the seals: adding a seal would wait for the file's lock,
 * which the client can hold by writing. If fd is not a memfd, F_GET_SEALS fails
 * without a call to the descriptor's file system.
 */
static const char *check_memfd(int fd, const struct mpib_ctl_reg_fd *ask)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (seals < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return "the descriptor is not a memfd";
	if (!(seals & F_SEAL_SHRINK))
		return "the memfd is not sealed with F_SEAL_SHRINK";
	if (sealed_against_writing(seals))
		return "the memfd is sealed against writing";
	if (ask->offset > (uint64_t)st.st_size ||
	    ask->size > (uint64_t)st.st_size - ask->offset)
		return "the region reaches beyond the end of the memfd";
	return NULL;
}

/* Return the page size of a file. Do not use st_blksize: with shmem_enabled, it
 * may be the size of a huge page even if the file has ordinary pages. */
static uint64_t page_of(int fd)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) == 0 && fs.f_type == HUGETLBFS_MAGIC)
		return (uint64_t)fs.f_bsize;
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Map the pages (of `unit` bytes each) that contain a region of a file. The
 * region starts *skip bytes after the start of the mapping. */
static void *map_around(int fd, uint64_t offset, uint64_t size, uint64_t unit,
			size_t *len, uint64_t *skip)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	void *map;

	if (unit < page || (unit & (unit - 1)))
		unit = page;
	*skip = offset % unit;
	*len = (size + *skip + unit - 1) / unit * unit;
	map = mmap(NULL, *len, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		   (off_t)(offset - *skip));
	if (map != MAP_FAILED)
		madvise(map, *len, MADV_DONTDUMP);
	return map;
}

/*
 * Return whether the proxy may map files of the client's user. Mapping a file,
 * or touching its pages, waits for the file's locks and for holes that are
 * being punched. The file's owner can hold these locks without limit, for
 * instance by a process that hardly gets any CPU time. So the proxy only maps
 * files that it made itself, and files of users that could ptrace the proxy.
 */
static bool owner_may(struct proxy_client *s, const struct mpib_message *m)
{
	const uint32_t who = s->all->cfg->own_memory;
	struct stat st;

	/* An earlier proxy made this file, because no other user can make files
	 * of this uid. */
	if (fstat(m->fd[0], &st) == 0 && st.st_uid == geteuid())
		return true;
	if (who == MPIB_OWN_MEMORY_ALL ||
	    (who == MPIB_OWN_MEMORY_SELF && s->uid == geteuid()))
		return true;
	proxy_client_refuse(s, &m->h, -EPERM,
			    "this user may not register memfds (allocate with "
			    "mpib_mem_alloc(), or have the operator set "
			    "client.own_memory)");
	return false;
}

static void reg_memfd(struct proxy_client *s, struct mpib_message *m,
		      const struct mpib_ctl_reg_fd *ask)
{
	struct proxy_client_region *r;
	uint64_t unit, skip;
	size_t len;
	const char *why = check_memfd(m->fd[0], ask);
	void *map;

	if (why) {
		proxy_client_refuse(s, &m->h, -EPERM, "%s", why);
		return;
	}
	if (!owner_may(s, m) || !proxy_client_may(s, &m->h, MPIB_QUOTA_FDS, 1))
		return;
	unit = page_of(m->fd[0]);
	map = map_around(m->fd[0], ask->offset, ask->size, unit, &len, &skip);
	if (map == MAP_FAILED && errno == ENOMEM) {
		mpib_fill_refuse(s, &m->h, -ENOMEM, m->fd[0], 0, ask->size);
		return;
	}
	if (map == MAP_FAILED) {
		proxy_client_refuse(s, &m->h, -errno,
				    "the proxy cannot map the memfd: %s (it "
				    "must be open for writing)",
				    strerror(errno));
		return;
	}
	r = region_new(s, m, ask->size, MPIB_REGION_MEMFD);
	if (!r) {
		munmap(map, len);
		return;
	}
	region_mapped(r, map, len);
	region_keep(r, m->fd[0]);
	m->fds = 0;
	/* The proxy may allocate huge pages, because the client has reserved
	 * them. */
	r->must_be_there = unit == (uint64_t)sysconf(_SC_PAGESIZE);
	mpib_fill_begin(r, &(struct mpib_mr_attr){ .addr = (char *)map + skip,
						   .len = ask->size,
						   .dmabuf_fd = -1 });
}

/* Return whether the kernel made the file: the mode of such a file has no file
 * type. fstatfs() is called only for such files, because a file system in user
 * space could block the proxy. */
static bool is_of_the_kernel(int fd)
{
	struct statx st;

	return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE,
		     &st) == 0 &&
	       !(st.stx_mode & S_IFMT);
}

static bool is_dmabuf(int fd)
{
	struct statfs fs;

	return is_of_the_kernel(fd) && fstatfs(fd, &fs) == 0 &&
	       fs.f_type == DMA_BUF_MAGIC;
}

/* Accept a dma-buf or, for the software HCA, a sealed memfd. Neither file can
 * shrink, so the software HCA can map it safely. */
static const char *check_dmabuf(int fd, const struct mpib_ctl_reg_fd *ask)
{
	return is_dmabuf(fd) || !check_memfd(fd, ask)
		       ? NULL
		       : "the descriptor is not a dma-buf";
}

static void reg_dmabuf(struct proxy_client *s, struct mpib_message *m,
		       const struct mpib_ctl_reg_fd *ask)
{
	struct proxy_client_region *r;
	const char *why = check_dmabuf(m->fd[0], ask);

	if (why) {
		proxy_client_refuse(s, &m->h, -EPERM, "%s", why);
		return;
	}
	if (!mpib_engine_dmabuf(s->all->engine)) {
		proxy_client_refuse(s, &m->h, -EOPNOTSUPP,
				    "not every rail can register a dma-buf");
		return;
	}
	if ((!is_dmabuf(m->fd[0]) && !owner_may(s, m)) ||
	    !proxy_client_may(s, &m->h, MPIB_QUOTA_FDS, 1))
		return;
	r = region_new(s, m, ask->size, MPIB_REGION_DMABUF);
	if (!r)
		return;
	/* Keep the received copy of the descriptor, because the client may
	 * close its own copy at any time. */
	region_keep(r, m->fd[0]);
	m->fds = 0;
	mpib_region_add(r,
			&(struct mpib_mr_attr){ .len = ask->size,
						.dmabuf_fd = r->fd,
						.dmabuf_offset = ask->offset });
}

void proxy_client_reg_fd(struct proxy_client *s, struct mpib_message *m)
{
	const struct mpib_ctl_reg_fd *ask = (const void *)m->bytes;
	uint32_t kind = ask->flags;

	if (!region_allowed(s, &m->h, ask->size,
			    kind == MPIB_REG_DMABUF ? MPIB_REGION_DMABUF
						    : MPIB_REGION_MEMFD))
		return;
	if (kind == MPIB_REG_MEMFD)
		reg_memfd(s, m, ask);
	else if (kind == MPIB_REG_DMABUF)
		reg_dmabuf(s, m, ask);
	else
		proxy_client_refuse(s, &m->h, -EINVAL,
				    "flags 0x%x name neither memfd nor dma-buf",
				    ask->flags);
}
