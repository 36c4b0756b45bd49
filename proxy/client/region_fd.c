/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions of memory that a client has a descriptor of, memfd or dma-buf: their
 * registration, and their restoration in a proxy that takes over. Control
 * thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <mpib/control.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/fill.h"
#include "client/region.h"
#include "engine/handover/handover.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x10 /* Linux 5.1 */
#endif

/* How long a take-over waits for memory in swap: for a part of it, and in all. A user
 * has half of what others leave of that, so that there is some for who comes next. */
#define SWAP_PART ((size_t)8 << 20)
#define SWAP_WAIT (100 * MPIB_MSEC)
#define SWAP_WAIT_ALL (300 * MPIB_MSEC)
#define SWAP_SHARE 2

static bool sealed_against_writing(int seals)
{
	return seals >= 0 && seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE);
}

/*
 * A client's memfd must be sealed against shrinking, or the proxy's accesses
 * could raise SIGBUS. Its seals are only read: adding one waits for the file's lock,
 * which the client has for as long as it writes, and for any other descriptor
 * F_GET_SEALS asks nobody. NULL, or why it is not accepted.
 */
static const char *check_memfd(int fd, const struct mpib_ctl_reg_fd *ask)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (seals < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return "the descriptor is no memfd";
	if (!(seals & F_SEAL_SHRINK))
		return "the memfd is not sealed with F_SEAL_SHRINK";
	if (sealed_against_writing(seals))
		return "the memfd is sealed against writing";
	if (ask->offset > (uint64_t)st.st_size ||
	    ask->size > (uint64_t)st.st_size - ask->offset)
		return "the region reaches beyond the end of the memfd";
	return NULL;
}

/* Its page size. Not st_blksize, which is that of a huge page, too, where the
 * kernel may make ordinary memory of such (shmem_enabled). */
static uint64_t page_of(int fd)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) == 0 && fs.f_type == HUGETLBFS_MAGIC)
		return (uint64_t)fs.f_bsize;
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Map the pages of unit bytes around a region of a file; the region begins
 * *skip bytes into the mapping. */
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
 * Whoever maps a file, or touches a page of it, waits for its locks, and for holes
 * that are punched there. Who made the file holds them for as long as he likes: a
 * process that hardly gets the CPU does so without an end. So the proxy maps what it
 * made itself, and files of those who could trace it anyway.
 */
static bool owner_may(struct proxy_client *s, const struct mpib_message *m)
{
	const uint32_t who = s->all->cfg->own_memory;

	if (who == MPIB_OWN_MEMORY_ALL ||
	    (who == MPIB_OWN_MEMORY_SELF && s->uid == geteuid()))
		return true;
	proxy_client_refuse(s, &m->h, -EPERM,
			    "this user may register no memfds here (take "
			    "memory from mpib_mem_alloc(), or the operator "
			    "permits it: client.own_memory)");
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
	r = mpib_region_new(s, m, ask->size);
	if (!r) {
		munmap(map, len);
		return;
	}
	mpib_region_mapped(r, map, len);
	mpib_region_keep(r, m->fd[0], ask->offset);
	m->fds = 0;
	/* Huge pages are counted where the client reserved them. */
	r->must_be_there = unit == (uint64_t)sysconf(_SC_PAGESIZE);
	mpib_fill_begin(r, &(struct mpib_mr_attr){ .addr = (char *)map + skip,
						   .len = ask->size,
						   .dmabuf_fd = -1 });
}

/* Whether it is a file of no type, as files of the kernel's own are. A file system
 * that is a process is not asked, and so cannot keep the proxy waiting. */
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

/* The software HCA maps the descriptor, so the file must not be able to shrink:
 * a dma-buf cannot, and a sealed memfd is accepted in place of one. */
static const char *check_dmabuf(int fd, const struct mpib_ctl_reg_fd *ask)
{
	return is_dmabuf(fd) || !check_memfd(fd, ask)
		       ? NULL
		       : "the descriptor is no dma-buf";
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
	r = mpib_region_new(s, m, ask->size);
	if (!r)
		return;
	/* Receiving the message gave the proxy a descriptor of its own: the
	 * client may close its copy before it gets the answer. */
	mpib_region_keep(r, m->fd[0], ask->offset);
	m->fds = 0;
	mpib_region_of_device(r);
	mpib_region_add(r,
			&(struct mpib_mr_attr){ .len = ask->size,
						.dmabuf_fd = r->fd,
						.dmabuf_offset = ask->offset });
}

void proxy_client_reg_fd(struct proxy_client *s, struct mpib_message *m)
{
	const struct mpib_ctl_reg_fd *ask = (const void *)m->bytes;
	uint32_t kind = ask->flags;

	if (!mpib_region_allowed(s, &m->h, ask->size,
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

static bool swap_is_used(void)
{
	struct sysinfo i;

	return sysinfo(&i) == 0 && i.freeswap < i.totalswap;
}

/* How long memory of the client may be waited for now. */
static uint64_t swap_time(const struct proxy_client *s)
{
	uint64_t had = s->user->swap_ns, others = s->all->swap_ns - had;
	uint64_t most = others < SWAP_WAIT_ALL
				? (SWAP_WAIT_ALL - others) / SWAP_SHARE
				: 0;
	uint64_t left = had < most ? most - had : 0;

	return left < SWAP_WAIT ? left : SWAP_WAIT;
}

/* As mpib_filler_there(), but pages in swap, which to mincore(2) are not there, are
 * read in while there is time. Holes stay holes. */
static int part_there(const struct proxy_client_region *r, char *at, size_t len)
{
	const uint64_t most = swap_time(r->client);
	int rc = mpib_filler_there(r->fd, at, len);
	uint64_t since, waited;

	if (rc != -ENODATA || !swap_is_used())
		return rc;
	since = mpib_now_ns();
	do {
		madvise(at, len, MADV_WILLNEED);
		usleep(500);
		rc = mpib_filler_there(r->fd, at, len);
		waited = mpib_now_ns() - since;
	} while (rc == -ENODATA && waited < most);
	r->client->user->swap_ns += waited;
	r->client->all->swap_ns += waited;
	return rc;
}

static int region_there(const struct proxy_client_region *r, char *at,
			size_t len)
{
	int rc = 0;

	for (size_t done = 0; done < len && rc == 0; done += SWAP_PART) {
		size_t left = len - done;

		rc = part_there(r, at + done,
				left < SWAP_PART ? left : SWAP_PART);
	}
	return rc;
}

/* Why no proxy that takes over may have the region, whose memory its client
 * changed since; NULL: it may. */
static const char *region_unfit(const struct proxy_client_region *r, void *at)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	size_t skip = (uintptr_t)at % page;
	int rc = 0;

	/* Pages that are not there any more this proxy would make, and pay for. Huge
	 * ones are counted where the client reserved them. */
	if (!r->pool && page_of(r->fd) == page)
		rc = region_there(r, (char *)at - skip, r->size + skip);
	return rc < 0 ? "pages of memory that it had registered were taken "
			"away, or it is not told whether"
		      : NULL;
}

/* Whether its client has sealed it against writing: at any time, so who cannot map
 * it asks again. */
static bool region_sealed(const struct proxy_client_region *r)
{
	if (!sealed_against_writing(fcntl(r->fd, F_GET_SEALS)))
		return false;
	r->client->unfit = "it sealed memory against writing that it had "
			   "registered";
	return true;
}

static int region_fd_remap(struct proxy_client_region *r,
			   struct mpib_mr_attr *attr)
{
	struct proxy_client *s = r->client;
	uint64_t skip, len;
	void *map;

	/* A client that is gone for one region has no more of them looked at: each
	 * look goes over all pages. */
	if (s->unfit || region_sealed(r))
		return 0;
	if (r->dmabuf) {
		attr->dmabuf_fd = r->fd;
		attr->dmabuf_offset = r->offset;
		return 0;
	}
	map = map_around(r->fd, r->offset, r->size, page_of(r->fd), &len,
			 &skip);
	if (map == MAP_FAILED)
		return errno == EPERM && region_sealed(r) ? 0 : -1;
	mpib_region_mapped(r, map, len);
	s->unfit = region_unfit(r, (char *)map + skip);
	if (!s->unfit)
		attr->addr = (char *)map + skip;
	return 0;
}

static int region_fd_register(struct proxy_client_region *r,
			      struct mpib_mr_attr *attr)
{
	struct engine_client *to = r->client->peer_client.engine_client;
	int rc = mpib_mr_restore(to, attr, r->handle);

	/* The software HCA maps what came in place of a dma-buf. */
	if (rc == 0 || !r->dmabuf || !region_sealed(r))
		return rc;
	attr->dmabuf_fd = -1;
	return mpib_mr_restore(to, attr, r->handle);
}

int proxy_client_region_restore(struct proxy_client *s,
				const struct proxy_client_region *like)
{
	struct mpib_mr_attr attr = { .len = like->size,
				     .dmabuf_fd = -1,
				     .any_order = like->pool };
	struct proxy_client_region *r = mpib_region_make(s, like->size);
	int rc;

	if (!r)
		return -1;
	r->handle = like->handle;
	r->state = MPIB_REGION_LIVE;
	if (like->dmabuf)
		mpib_region_of_device(r);
	if (like->pool)
		mpib_region_of_pool(r);
	mpib_region_keep(r, like->fd, like->offset);
	if (region_fd_remap(r, &attr) < 0)
		return -1;
	rc = region_fd_register(r, &attr);
	if (rc == 0)
		rc = mpib_region_remember(s, r);
	errno = -rc;
	return rc < 0 ? -1 : 0;
}
