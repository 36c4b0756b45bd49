/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions of memory that a client has a descriptor of, memfd or dma-buf: their
 * registration. Control thread.
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

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x10 /* Linux 5.1 */
#endif

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
	struct stat st;

	/* Made by an earlier proxy: no other user makes files of this one. */
	if (fstat(m->fd[0], &st) == 0 && st.st_uid == geteuid())
		return true;
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
	mpib_region_keep(r, m->fd[0]);
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
	mpib_region_keep(r, m->fd[0]);
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
