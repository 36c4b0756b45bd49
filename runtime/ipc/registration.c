/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory regions: registration and deregistration. Ordinary memory is "staged":
 * its bytes are copied through a staging window. Memory from mpib_mem_alloc()
 * and memory registered with mpib_reg_fd() needs no copy. The program may
 * deregister a region while requests still use it.
 */
#include <errno.h>
#include <fcntl.h>
#include <mpib/control.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ipc/client.h"
#include "ipc/message.h"

void mpib_regions_ref(struct mpib_request *r)
{
	r->held = true;
	for (unsigned i = 0; i < r->n; i++) {
		/* Relaxed: the region still exists, because callers must not
		 * deregister a region while they post a request with it. */
		if (r->buf[i].region)
			atomic_fetch_add_explicit(&r->buf[i].region->refs, 1,
						  memory_order_relaxed);
	}
}

void mpib_regions_unref(struct mpib_request *r)
{
	r->held = false;
	for (unsigned i = 0; i < r->n; i++) {
		/* Release pairs with the acquire in region_bury(). So the
		 * region is freed only after its last use. */
		if (r->buf[i].region)
			atomic_fetch_sub_explicit(&r->buf[i].region->refs, 1,
						  memory_order_release);
	}
}

/* Under the lock. Free the deregistered regions that no request uses and that
 * have no MR at the proxy any more. mpib_regions_unref() cannot free them: it
 * runs in mpib_test(), which must not wait for the lock. */
static void region_bury(struct mpib_client *c)
{
	struct mpib_region *r, *next;

	for (r = LIST_FIRST(&c->graves); r; r = next) {
		next = LIST_NEXT(r, link);
		if (r->own_mr ||
		    atomic_load_explicit(&r->refs, memory_order_acquire))
			continue;
		LIST_REMOVE(r, link);
		free(r);
	}
}

bool mpib_region_copy_begin(struct mpib_region *r)
{
	/* Acquire pairs with mpib_dereg()'s release of MPIB_REGION_DEAD. */
	unsigned was =
		atomic_fetch_add_explicit(&r->copying, 1, memory_order_acquire);

	if (!(was & MPIB_REGION_DEAD))
		return true;
	mpib_region_copy_end(r);
	return false;
}

bool mpib_region_dead(const struct mpib_region *r)
{
	/* Relaxed: if this load misses a new MPIB_REGION_DEAD,
	 * mpib_region_copy_begin() will see it. */
	return atomic_load_explicit(&r->copying, memory_order_relaxed) &
	       MPIB_REGION_DEAD;
}

void mpib_region_copy_end(struct mpib_region *r)
{
	/* Release pairs with the acquire in mpib_dereg(). So the copy ends
	 * before the count is decremented. */
	atomic_fetch_sub_explicit(&r->copying, 1, memory_order_release);
}

bool mpib_region_holds(const struct mpib_region *r, const char *addr,
		       size_t size)
{
	return addr >= r->addr && size <= r->size &&
	       (size_t)(addr - r->addr) <= r->size - size;
}

/*
 * `like` describes a new region of mpib_reg_fd(). Return whether the region `r`
 * can be used instead: it must contain all memory of `like`. A dma-buf is
 * identified by its addresses only, because each export of the same dma-buf has
 * its own inode. A memfd is identified by its addresses and its file, because
 * another memfd may have been mapped at the same addresses before.
 */
static bool region_serves(const struct mpib_region *r,
			  const struct mpib_region *like)
{
	return r->own_mr && mpib_region_holds(r, like->addr, like->size) &&
	       r->memory.flags == like->memory.flags &&
	       (r->memory.flags & MPIB_REG_DMABUF ||
		(r->dev == like->dev && r->ino == like->ino &&
		 r->memory.offset + (uint64_t)(like->addr - r->addr) ==
			 like->memory.offset));
}

/* Under the lock. Find an existing region that can be used instead of `like`,
 * and increment the number of its registrations. Returns NULL if there is no
 * such region. */
static struct mpib_region *region_again(const struct mpib_region *like)
{
	struct mpib_region *r;

	LIST_FOREACH(r, &like->client->regions, link)
	{
		if (region_serves(r, like)) {
			r->regs++;
			return r;
		}
	}
	return NULL;
}

static struct mpib_region *make_region(struct mpib_client *c, void *addr,
				       size_t size)
{
	struct mpib_region *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->client = c;
	r->addr = addr;
	r->size = size;
	r->direct = size < MPIB_SIZE_MAX ? size : MPIB_SIZE_MAX;
	r->regs = 1;
	atomic_init(&r->refs, 0);
	return r;
}

/* Return the pool of mpib_mem_alloc() that contains the whole region, or NULL
 * if there is none. */
static const struct mpib_pool *region_pool(const struct mpib_region *r)
{
	const struct mpib_pool *p;

	LIST_FOREACH(p, &r->client->pools, link)
	{
		const char *base = p->seg.addr;

		if (r->addr >= base && r->addr + r->size <= base + p->seg.size)
			return p;
	}
	return NULL;
}

static void region_set_mr(struct mpib_region *r, uint32_t mr)
{
	atomic_store_explicit(&r->mr, mr, memory_order_relaxed);
}

/* Decide whether the region is staged. Memory from mpib_mem_alloc() is not
 * staged. Such a region gets the MR of its pool. */
static void region_place(struct mpib_region *r)
{
	const struct mpib_pool *p = region_pool(r);

	r->staged = !p;
	if (!p) {
		r->direct = 0;
		return;
	}
	region_set_mr(r, p->debt.id);
	r->off = (uint64_t)(r->addr - (char *)p->seg.addr);
}

void mpib_regions_renew(struct mpib_client *c)
{
	const struct mpib_pool *pool;
	struct mpib_region *r;
	struct mpib_pool *p;

	LIST_FOREACH(p, &c->pools, link)
	{
		p->debt.id = p->memory.mr;
	}
	LIST_FOREACH(r, &c->regions, link)
	{
		pool = r->own_mr || r->staged ? NULL : region_pool(r);
		if (pool)
			region_set_mr(r, pool->debt.id);
		if (!r->own_mr)
			continue;
		r->debt.id = r->memory.mr;
		region_set_mr(r, r->memory.mr);
	}
}

static int no_region(const void *addr, size_t size)
{
	return mpib_fail(-EINVAL,
			 "cannot register %zu bytes at %p (the address is "
			 "NULL, the size is 0, or the end is beyond the "
			 "address space)",
			 size, addr);
}

int mpib_reg(struct mpib_client *client, void *addr, size_t size,
	     struct mpib_region **region)
{
	struct mpib_region *r;
	int rc = mpib_client_check(client);

	if (rc < 0)
		return rc;
	if (!addr || size == 0 || size > UINTPTR_MAX - (uintptr_t)addr)
		return no_region(addr, size);
	r = make_region(client, addr, size);
	if (!r)
		return mpib_fail(-ENOMEM, "out of memory");
	mpib_client_hold(client);
	region_bury(client);
	region_place(r);
	LIST_INSERT_HEAD(&client->regions, r, link);
	mpib_client_unlock(client);
	*region = r;
	return 0;
}

/* Record that the proxy has no MR of the region any more. After that,
 * region_bury() may free the region, which is on c->graves. */
static void mr_gone(struct mpib_debt *d)
{
	((struct mpib_region *)d)->own_mr = false;
}

/* Allocate the pages of a memfd by reading them. Linux before 5.14 has no
 * MADV_POPULATE_WRITE. */
static void read_pages(int fd, uint64_t end, const char *at, size_t len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct stat st;

	if (mpib_fstat(fd, &st) < 0 || st.st_size < 0 ||
	    end > (uint64_t)st.st_size)
		return; /* a read beyond the end of the file raises SIGBUS */
	for (size_t i = 0; i < len; i += page)
		(void)*(const volatile char *)(at + i);
}

/* Allocate all pages of the `size` bytes of a memfd from `offset` on. This
 * process allocates the pages, not the proxy, so that the kernel counts them as
 * memory of this process. A failure needs no message here: the proxy refuses
 * memory with missing pages, and reports the reason. */
static void allocate_pages(int fd, uint64_t offset, size_t size)
{
	size_t skip = offset % (size_t)sysconf(_SC_PAGESIZE);
	size_t len = size + skip;
	void *map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			 (off_t)(offset - skip));

	if (map == MAP_FAILED)
		return;
	if (madvise(map, len, MADV_POPULATE_WRITE) < 0 && errno == EINVAL)
		read_pages(fd, offset + size, map, len);
	munmap(map, len);
}

/* Under the lock. Register the region `r` at the proxy. `fd` is the descriptor
 * of the region's memory. */
static int region_register(struct mpib_region *r, int fd)
{
	struct mpib_ctl_reg_fd ask = {
		.h = { .type = MPIB_CTL_REG_FD, .len = sizeof(ask) },
		.offset = r->memory.offset,
		.size = r->size,
		.flags = r->memory.flags,
	};
	struct mpib_message m;
	int rc;

	rc = mpib_rpc_make(r->client, &ask.h, &fd, 1, &r->debt, &m,
			   sizeof(struct mpib_ctl_region));
	if (rc < 0)
		return rc;
	mpib_message_close_fds(&m);
	region_set_mr(r, r->debt.id);
	r->debt.paid = mr_gone;
	/* Keep a copy of the descriptor, because the caller may close `fd`. */
	r->memory.kept = mpib_keep(r->client, fd);
	LIST_INSERT_HEAD(&r->client->regions, r, link);
	TAILQ_INSERT_HEAD(&r->client->memories, &r->memory, link);
	return 0;
}

int mpib_reg_fd(struct mpib_client *client, void *addr, size_t size,
		uint64_t offset, int fd, uint32_t flags,
		struct mpib_region **region)
{
	struct mpib_region *r, *there = NULL;
	struct stat st = { 0 };
	int rc = mpib_client_check(client);

	if (rc < 0)
		return rc;
	/* The proxy would refuse a size of 0, too. Refuse it here, with the
	 * same error text as in mpib_reg(). */
	if (size == 0)
		return no_region(addr, size);
	if (mpib_fstat(fd, &st) < 0 && errno == EBADF)
		return mpib_fail(-EBADF, "%d is not an open descriptor", fd);
	r = make_region(client, addr, size);
	if (!r)
		return mpib_fail(-ENOMEM, "out of memory");
	r->own_mr = true;
	r->memory = (struct mpib_memory){ .flags = flags,
					  .offset = offset,
					  .size = size };
	r->dev = st.st_dev;
	r->ino = st.st_ino;
	r->debt.undo = MPIB_CTL_DEREG;
	rc = mpib_client_lock(client);
	if (rc < 0) {
		free(r);
		return rc;
	}
	there = region_again(r);
	if (!there && !(flags & MPIB_REG_DMABUF)) {
		/* Allocate the pages without the lock, because this takes
		 * long. */
		mpib_client_unlock(client);
		allocate_pages(fd, offset, size);
		mpib_client_hold(client);
		/* Another thread may have registered the memory while this
		 * thread did not hold the lock. */
		there = region_again(r);
	}
	if (there) {
		free(r);
		r = there;
	} else {
		rc = region_register(r, fd);
	}
	if (rc == 0)
		*region = r;
	mpib_client_unlock(client);
	if (rc == -EPIPE && mpib_client_again(client))
		return mpib_reg_fd(client, addr, size, offset, fd, flags,
				   region);
	/* Prevent further seals. After a seal against writing, the memory could
	 * not be registered at another proxy. */
	if (rc == 0)
		(void)fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL);
	return rc;
}

int mpib_dereg(struct mpib_region *region)
{
	struct mpib_client *c;
	int rc;

	if (!region)
		return 0;
	c = region->client;
	if (c->forks != mpib_forks)
		return mpib_client_check(c);
	mpib_client_hold(c);
	rc = 0;
	if (--region->regs > 0) {
		mpib_client_unlock(c);
		return 0;
	}
	/* After this, region_again() does not find the region. */
	LIST_REMOVE(region, link);
	/* Acquire pairs with the release in mpib_region_copy_end(). A thread
	 * that begins a copy after this point sees MPIB_REGION_DEAD and does
	 * not copy. A running copy ends after at most one part of a message, so
	 * the wait is short. */
	atomic_fetch_or_explicit(&region->copying, MPIB_REGION_DEAD,
				 memory_order_acq_rel);
	while (atomic_load_explicit(&region->copying, memory_order_acquire) !=
	       MPIB_REGION_DEAD)
		sched_yield();
	LIST_INSERT_HEAD(&c->graves, region, link);
	if (region->own_mr)
		mpib_memory_drop(c, &region->memory);
	if (region->own_mr)
		rc = mpib_rpc_undo(c, &region->debt);
	if (rc == -EPIPE && c->at->state == MPIB_ATTACH_WHOLE &&
	    c->at->pidfd >= 0 && !mpib_client_dead(c, (int)c->answer_ms))
		rc = mpib_fail(-ETIMEDOUT,
			       "the proxy at %s hung up, and its process did "
			       "not end: it may still write to the memory",
			       c->path);
	region_bury(c);
	mpib_client_unlock(c);
	/* a proxy that has ended cannot write to the memory */
	return rc == -EPIPE ? 0 : rc;
}

/*
 * Registration of the client's memory at another proxy. Each request is sent
 * without waiting for the answer to the previous request. This avoids a round
 * trip for each region.
 */

/* Send the request that registers the memory. Returns -EAGAIN if the socket is
 * full. */
static int memory_send(struct mpib_client *c, struct mpib_attached *at,
		       struct mpib_memory *memory)
{
	struct mpib_ctl_reg_fd ask = {
		.h = { .type = MPIB_CTL_REG_FD, .len = sizeof(ask) },
		.offset = memory->offset,
		.size = memory->size,
		.flags = memory->flags,
	};
	int fd = mpib_keep_lend(c, memory->kept), rc;

	if (fd < 0)
		return mpib_fail(fd,
				 "no descriptor is left to register memory "
				 "again: %s (raise the limit, ulimit -n)",
				 mpib_errtext(fd));
	rc = mpib_rpc_send(c, at, &ask.h, &fd, 1);
	close(fd);
	if (rc == -EAGAIN)
		return rc;
	if (rc < 0)
		return mpib_fail(rc, "asking the proxy at %s: %s", c->path,
				 mpib_errtext(rc));
	memory->at = at->number;
	memory->asked = ask.h.id;
	at->registering++;
	TAILQ_REMOVE(&c->memories, memory, link);
	TAILQ_INSERT_TAIL(&c->memories, memory, link);
	return 0;
}

/* Return the memory whose registration request has the id `asked`. Returns NULL
 * if there is no such memory. */
static struct mpib_memory *memory_find(const struct mpib_client *c,
				       uint32_t asked)
{
	struct mpib_memory *m = NULL;

	TAILQ_FOREACH_REVERSE(m, &c->memories, mpib_memories, link)
	{
		if (m->asked == asked)
			break;
	}
	return m;
}

/* Send registration requests until MPIB_REGISTERING of them are unanswered, or
 * until the socket is full. */
static int memory_send_all(struct mpib_client *c, struct mpib_attached *at)
{
	struct mpib_memory *m;
	int rc = 0;

	while (rc == 0 && at->registering < MPIB_REGISTERING &&
	       (m = TAILQ_FIRST(&c->memories)) && m->at != at->number)
		rc = memory_send(c, at, m);
	if (rc == -EAGAIN && at->registering == 0)
		return mpib_fail(-ETIMEDOUT, "the proxy at %s reads nothing",
				 c->path);
	return rc == -EAGAIN ? 0 : rc;
}

/* Deregister the MR `mr` at the proxy of the session `at`. Do not wait for
 * the answer, because no peer has a remote key of this MR yet. */
static void memory_deregister(struct mpib_client *c,
			      const struct mpib_attached *at, uint32_t mr)
{
	uint32_t id;

	/* If the request cannot be sent, shut the socket down. Then the helper
	 * attaches again. */
	if (mpib_rpc_tell(c, at, MPIB_CTL_DEREG, mr, &id) < 0)
		shutdown(at->sock, SHUT_RDWR);
}

void mpib_memory_drop(struct mpib_client *c, struct mpib_memory *memory)
{
	const struct mpib_attached *at = c->successor;

	TAILQ_REMOVE(&c->memories, memory, link);
	mpib_keep_close(c, memory->kept);
	/* If the proxy has not answered the registration yet, memory_answered()
	 * deregisters the memory after the answer. */
	if (at && memory->at == at->number && !memory->asked)
		memory_deregister(c, at, memory->mr);
}

static int memory_answered(struct mpib_client *c, struct mpib_attached *at,
			   struct mpib_message *m)
{
	const struct mpib_ctl_region *got = (const void *)m->bytes;
	struct mpib_memory *memory;
	int rc;

	if (m->h.type == MPIB_CTL_NEXT)
		at->serves = true;
	if (m->h.type != MPIB_CTL_REG_FD || !m->h.id || !at->registering) {
		mpib_message_close_fds(m);
		return 0;
	}
	at->registering--;
	rc = mpib_rpc_check(m, sizeof(*got));
	if (rc < 0)
		return rc;
	memory = memory_find(c, m->h.id);
	if (memory) {
		memory->asked = 0;
		memory->mr = got->mr;
	} else {
		memory_deregister(c, at, got->mr);
	}
	mpib_message_close_fds(m);
	return 0;
}

/* Handle all answers that have arrived. */
static int memory_hear(struct mpib_client *c, struct mpib_attached *at)
{
	struct mpib_message m;
	int rc, got;

	while ((got = mpib_message_recv(at->sock, &m)) == 1) {
		rc = memory_answered(c, at, &m);
		if (rc < 0)
			return rc;
	}
	if (got == -EAGAIN)
		return 0;
	return mpib_fail(-EPIPE, "the proxy at %s hung up (see its log)",
			 c->path);
}

int mpib_memory_step(struct mpib_client *c, struct mpib_attached *at)
{
	int rc = memory_hear(c, at);

	if (rc == 0)
		rc = memory_send_all(c, at);
	return rc < 0 ? rc : at->registering > 0;
}

int mpib_memory_register(struct mpib_client *c, struct mpib_attached *at)
{
	int rc;

	for (;;) {
		rc = mpib_memory_step(c, at);
		if (rc < 0 || (rc == 0 && at->serves))
			return rc;
		rc = mpib_wait_socket(c, at->sock, POLLIN,
				      mpib_now_ms() + c->answer_ms);
		if (rc < 0)
			return rc;
	}
}
