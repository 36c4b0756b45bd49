/* SPDX-License-Identifier: Apache-2.0 */
/*
 * To be preloaded. Call number MPIB_FAIL_AT of the functions below fails, as if
 * memory or descriptors were used up. When the program ends, the number of
 * calls is written to the file MPIB_FAIL_COUNT. Calls by glibc and libseccomp
 * are not made to fail: getgrnam() and libseccomp 2.5 would crash, and the
 * loader would end the process.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* Call these functions of glibc instead of looking up malloc() and the others
 * with dlsym(), because dlsym() itself allocates memory. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);

static atomic_ulong calls;
static unsigned long fail_at;
static const char *count_file;
/* The address ranges of libc, the loader and libseccomp. */
static struct range {
	uintptr_t start, end;
} theirs[3];

static int find_theirs(struct dl_phdr_info *info, size_t size, void *arg)
{
	unsigned *n = arg;

	(void)size;
	if (*n == 3 || (!strstr(info->dlpi_name, "/libc.so") &&
			!strstr(info->dlpi_name, "/ld-linux") &&
			!strstr(info->dlpi_name, "/libseccomp.so")))
		return 0;
	theirs[*n].start = info->dlpi_addr;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t end = info->dlpi_addr + p->p_vaddr + p->p_memsz;

		if (p->p_type == PT_LOAD && end > theirs[*n].end)
			theirs[*n].end = end;
	}
	++*n;
	return 0;
}

__attribute__((constructor)) static void begin(void)
{
	const char *at = getenv("MPIB_FAIL_AT");
	unsigned n = 0;

	fail_at = at ? strtoul(at, NULL, 10) : 0;
	count_file = getenv("MPIB_FAIL_COUNT");
	dl_iterate_phdr(find_theirs, &n);
	atomic_store(&calls, 0);
}

__attribute__((destructor)) static void end(void)
{
	char text[32];
	int fd, n;

	if (!count_file)
		return;
	fd = open(count_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	n = snprintf(text, sizeof(text), "%lu\n", atomic_load(&calls));
	if (fd < 0 || write(fd, text, (size_t)n) != n)
		_exit(99);
	close(fd);
}

static bool fails_for(const void *caller, int error)
{
	uintptr_t at = (uintptr_t)caller;

	for (unsigned i = 0; i < 3; i++) {
		if (at >= theirs[i].start && at < theirs[i].end)
			return false;
	}
	if (atomic_fetch_add(&calls, 1) + 1 != fail_at)
		return false;
	errno = error;
	return true;
}

#define fails(error) fails_for(__builtin_return_address(0), (error))
#define NEXT(fn) ((__typeof__(&fn))dlsym(RTLD_NEXT, #fn))

void *malloc(size_t size)
{
	return fails(ENOMEM) ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	return fails(ENOMEM) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	return fails(ENOMEM) ? NULL : __libc_realloc(p, size);
}

void *reallocarray(void *p, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes) || fails(ENOMEM))
		return NULL;
	return __libc_realloc(p, bytes);
}

int posix_memalign(void **p, size_t align, size_t size)
{
	if (fails(ENOMEM))
		return ENOMEM;
	*p = __libc_memalign(align, size);
	return *p ? 0 : ENOMEM;
}

void *aligned_alloc(size_t align, size_t size)
{
	return fails(ENOMEM) ? NULL : __libc_memalign(align, size);
}

void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off)
{
	if (fails(ENOMEM))
		return MAP_FAILED;
	return NEXT(mmap)(addr, len, prot, flags, fd, off);
}

int madvise(void *addr, size_t len, int advice)
{
	if (fails(ENOMEM))
		return -1;
	return NEXT(madvise)(addr, len, advice);
}

int memfd_create(const char *name, unsigned flags)
{
	return fails(EMFILE) ? -1 : NEXT(memfd_create)(name, flags);
}

int ftruncate(int fd, off_t len)
{
	return fails(ENOSPC) ? -1 : NEXT(ftruncate)(fd, len);
}

int socket(int domain, int type, int protocol)
{
	return fails(EMFILE) ? -1 : NEXT(socket)(domain, type, protocol);
}

int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	return fails(EMFILE) ? -1 : NEXT(accept4)(fd, addr, len, flags);
}

int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	return fails(ENOBUFS) ? -1 : NEXT(connect)(fd, addr, len);
}

int epoll_create1(int flags)
{
	return fails(EMFILE) ? -1 : NEXT(epoll_create1)(flags);
}

int epoll_ctl(int ep, int op, int fd, struct epoll_event *ev)
{
	/* Removing a descriptor needs no memory. */
	if (op != EPOLL_CTL_DEL && fails(ENOMEM))
		return -1;
	return NEXT(epoll_ctl)(ep, op, fd, ev);
}

int eventfd(unsigned init, int flags)
{
	return fails(EMFILE) ? -1 : NEXT(eventfd)(init, flags);
}

int pthread_create(pthread_t *t, const pthread_attr_t *attr,
		   void *(*fn)(void *), void *arg)
{
	return fails(EAGAIN) ? EAGAIN : NEXT(pthread_create)(t, attr, fn, arg);
}
