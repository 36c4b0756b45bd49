/* SPDX-License-Identifier: Apache-2.0 */
#include "filled.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mpib/segment.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/un.h>
#include <unistd.h>
/* cmocka wants the ones above. */
#include "addr.h"
#include "base/clock.h"
#include "base/log.h"
#include "scratch.h"
#include "test.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x10
#endif

struct mpib_proxy filled;
size_t large = 32u << 20;
static struct mpib_usage before;
static unsigned fds_before;
static int socks[8];

/* The filler's threads read these while a test changes them. */
static atomic_int error, next_error;
static atomic_uint pass;

static pthread_t control;
_Atomic unsigned filled_by_control;
_Atomic int filled_stuck;

/* 10 s at most. */
static void be_stuck(void)
{
	int asked = 1;

	if (!atomic_compare_exchange_strong(&filled_stuck, &asked, 2))
		return;
	for (unsigned i = 0; i < 10000 && atomic_load(&filled_stuck); i++)
		usleep(1000);
	atomic_store(&filled_stuck, 0);
}

atomic_bool filled_by_huge_pages;
atomic_int filled_sealed_when_mapped = -1;

void *__real_mmap(void *addr, size_t len, int prot, int flags, int fd,
		  off_t offset);
void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd,
		  off_t offset);

void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd,
		  off_t offset)
{
	if (fd >= 0 && fd == filled_sealed_when_mapped)
		fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
	return __real_mmap(addr, len, prot, flags, fd, offset);
}

int __real_fstat(int fd, struct stat *st);
int __wrap_fstat(int fd, struct stat *st);

int __wrap_fstat(int fd, struct stat *st)
{
	int rc = __real_fstat(fd, st);

	if (filled_by_huge_pages)
		st->st_blksize = 2 << 20;
	return rc;
}

atomic_int filled_mincore_error;
atomic_uint filled_in_swap;

int __real_mincore(void *addr, size_t len, unsigned char *there);
int __wrap_mincore(void *addr, size_t len, unsigned char *there);

int __wrap_mincore(void *addr, size_t len, unsigned char *there)
{
	int rc = __real_mincore(addr, len, there);

	if (filled_mincore_error) {
		errno = filled_mincore_error;
		return -1;
	}
	if (filled_in_swap)
		there[0] = 0;
	return rc;
}

int __real_sysinfo(struct sysinfo *i);
int __wrap_sysinfo(struct sysinfo *i);

int __wrap_sysinfo(struct sysinfo *i)
{
	int rc = __real_sysinfo(i);

	if (filled_in_swap)
		i->totalswap = i->freeswap + 1;
	return rc;
}

int __real_madvise(void *addr, size_t len, int advice);
int __wrap_madvise(void *addr, size_t len, int advice);

int __wrap_madvise(void *addr, size_t len, int advice)
{
	bool populates =
		advice == MADV_POPULATE_WRITE || advice == MADV_POPULATE_READ;

	if (advice == MADV_WILLNEED && filled_in_swap)
		filled_in_swap--;
	if (populates && pthread_equal(pthread_self(), control))
		atomic_fetch_add(&filled_by_control, 1);
	if (populates && atomic_load(&filled_stuck))
		be_stuck();
	if (populates && error && pass-- == 0) {
		pass = 0;
		errno = error;
		error = next_error;
		return -1;
	}
	return __real_madvise(addr, len, advice);
}

static void set(const char *section, const char *key, const char *value)
{
	const struct mpib_setting *s = mpib_config_find(section, key);
	char why[MPIB_WHY_MAX];

	assert_non_null(s);
	assert_int_equal(mpib_config_set(&filled.cfg, s, value, "test", why),
			 0);
}

static void set_rail(const char *key, unsigned host)
{
	uint32_t a = test_addr(host);
	char text[64];

	snprintf(text, sizeof(text), "soft:%u.%u.%u.%u", a >> 24, a >> 16 & 255,
		 a >> 8 & 255, a & 255);
	set("hca", key, text);
}

int filled_start(void **state)
{
	char why[MPIB_WHY_MAX], memory[32];

	control = pthread_self();
	if (scratch_make(state))
		return -1;
	mpib_log_set_level(MPIB_LOG_ERROR);
	mpib_config_init(&filled.cfg);
	snprintf(filled.cfg.run_dir, sizeof(filled.cfg.run_dir), "%s",
		 scratch_path("run"));
	set_rail("sout", 1);
	set_rail("sup", 2);
	snprintf(memory, sizeof(memory), "%zu", 4 * large);
	set("limit", "memory", memory);
	if (mpib_config_finish(&filled.cfg, why) < 0 ||
	    mpib_proxy_start(&filled, why) < 0) {
		fprintf(stderr, "%s\n", why);
		return -1;
	}
	return 0;
}

int filled_stop(void **state)
{
	mpib_proxy_stop(&filled);
	return scratch_remove(state);
}

uint64_t turn(void)
{
	uint64_t since = mpib_now_ns();

	assert_true(mpib_loop_turn(&filled.loop, MPIB_FOREVER) >= 0);
	return mpib_now_ns() - since;
}

static unsigned open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

void hear(int sock, struct mpib_message *m)
{
	int rc;

	while ((rc = mpib_message_recv(sock, m)) == -EAGAIN)
		turn();
	assert_int_equal(rc, 1);
	mpib_message_close_fds(m);
}

int hear_status(int sock)
{
	struct mpib_message m;

	hear(sock, &m);
	return m.h.status;
}

static void tell(int sock, const struct mpib_ctl_header *h)
{
	assert_int_equal(mpib_message_send(sock, h, NULL, 0), 0);
}

int attach(void)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct mpib_ctl_hello hello = {
		.h = { .type = MPIB_CTL_HELLO, .len = sizeof(hello) },
		.version = MPIB_ABI_VERSION,
		.name = "tester",
	};
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	unsigned n;

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/" MPIB_CONTROL_SOCK,
		 filled.cfg.run_dir);
	assert_int_equal(connect(sock, (struct sockaddr *)&sun, sizeof(sun)),
			 0);
	tell(sock, &hello.h);
	for (n = 0; socks[n]; n++)
		;
	assert_true(n < sizeof(socks) / sizeof(socks[0]));
	socks[n] = sock;
	assert_int_equal(hear_status(sock), 0);
	return sock;
}

void leave(int sock)
{
	for (unsigned i = 0; i < sizeof(socks) / sizeof(socks[0]); i++) {
		if (socks[i] == sock)
			socks[i] = 0;
	}
	close(sock);
}

struct proxy_client *newest(void)
{
	return TAILQ_LAST(&filled.clients.list, proxy_client_list);
}

/* Allocate the pages of a memfd, as a client must. */
static void fill_memfd(int fd, uint64_t size)
{
	static const char some[65536];

	for (uint64_t at = 0; at < size; at += sizeof(some))
		assert_true(pwrite(fd, some,
				   size - at < sizeof(some) ? size - at
							    : sizeof(some),
				   (off_t)at) > 0);
}

static void reg(int sock, unsigned flags, uint64_t offset, uint64_t size,
		bool filled_first)
{
	struct mpib_ctl_reg_fd ask = {
		.h = { .type = MPIB_CTL_REG_FD, .len = sizeof(ask) },
		.offset = offset,
		.size = size,
		.flags = MPIB_REG_MEMFD,
	};
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)(offset + size)), 0);
	if (filled_first)
		fill_memfd(fd, offset + size);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_int_equal(mpib_message_send(sock, &ask.h, &fd, 1), 0);
	close(fd);
}

void ask_reg(int sock, unsigned flags, uint64_t offset, uint64_t size)
{
	/* Huge pages cannot be written by write(2). */
	reg(sock, flags, offset, size, !flags);
}

void ask_reg_holes(int sock, uint64_t size)
{
	reg(sock, 0, 0, size, false);
}

void ask_pool(int sock, uint64_t size)
{
	struct mpib_ctl_pool ask = {
		.h = { .type = MPIB_CTL_POOL, .len = sizeof(ask) },
		.size = size,
	};

	tell(sock, &ask.h);
}

void ask_why(int sock)
{
	struct mpib_ctl_id ask = {
		.h = { .type = MPIB_CTL_WHY, .len = sizeof(ask) },
	};

	tell(sock, &ask.h);
}

void filled_fail(unsigned calls, int first, int then)
{
	pass = calls;
	error = first;
	next_error = then;
}

int filled_look(void **state)
{
	before = filled.clients.usage;
	fds_before = open_fds();
	return 0;
}

int filled_nothing_is_left(void **state)
{
	filled_fail(0, 0, 0);
	atomic_store(&filled_stuck, 0);
	for (unsigned i = 0; i < sizeof(socks) / sizeof(socks[0]); i++) {
		if (socks[i])
			leave(socks[i]);
	}
	while (memcmp(&before, &filled.clients.usage, sizeof(before)) != 0)
		turn();
	/* Sockets are closed by threads. */
	for (unsigned i = 0; i < 5000 && open_fds() != fds_before; i++)
		usleep(1000);
	assert_int_equal(open_fds(), fds_before);
	assert_true(TAILQ_EMPTY(&filled.clients.filling));
	assert_null(filled.clients.stepping);
	return 0;
}
