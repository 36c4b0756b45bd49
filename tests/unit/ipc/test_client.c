/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <string.h>
#include <sys/mman.h>

#include "attached.h"

#define CASE(name) TEST_OF(name, start, stop)

CASE(the_state_word_shows_the_progress_of_a_connect)
{
	struct mpib_handle h = { .magic = MPIB_HANDLE_MAGIC };
	struct mpib_listener *l;
	struct mpib_request *r;
	struct mpib_conn *conn;

	attach();
	assert_int_equal(mpib_listen(c, &h, &l), 0);
	atomic_store(&f->hold_pending, true);
	assert_int_equal(mpib_accept(l, &conn), 0);
	assert_int_equal(mpib_ready(conn), 0);
	assert_int_equal(mpib_isend(conn, NULL, 0, 0, NULL, &r), -ENOTCONN);
	fake_set_state(f, 0, MPIB_CONN_READY, 0);
	assert_int_equal(mpib_ready(conn), 1);
	mpib_close(conn);
	mpib_close_listen(l);
	h.magic = 1;
	assert_int_equal(mpib_connect(c, &h, -1, &conn), -EINVAL);
}

/* If the receiver accepts a connection and closes it at once, NCCL's connect()
 * must still succeed. */
CASE(a_connection_that_was_ready_before_it_failed_fails_at_its_first_send)
{
	struct mpib_handle h = { .magic = MPIB_HANDLE_MAGIC };
	struct mpib_region *region;
	struct mpib_request *r;
	struct mpib_conn *conn;
	static char bytes[100];
	int rc;

	attach();
	assert_int_equal(mpib_reg(c, bytes, sizeof(bytes), &region), 0);
	atomic_store(&f->was_ready, true);
	atomic_store(&f->refuse_conn, -ECONNRESET);
	atomic_store(&f->reply->conn[0].broken, -ECONNRESET);
	assert_int_equal(mpib_connect(c, &h, -1, &conn), 0);
	while ((rc = mpib_ready(conn)) == 0)
		sched_yield();
	assert_int_equal(rc, 1);
	do {
		rc = mpib_isend(conn, bytes, sizeof(bytes), 0, region, &r);
		assert_null(r);
	} while (rc == 0);
	assert_int_equal(rc, -ECONNRESET);
	mpib_close(conn);
}

/* Pop and check one descriptor of the ring at `index`. */
static void expect_desc(unsigned index, uint32_t gen, uint64_t off,
			uint32_t len, int32_t tag)
{
	struct mpib_desc d;

	assert_true(mpib_ring_pop(&f->conn[index].ring, &d));
	mpib_ring_publish(&f->conn[index].ring);
	assert_int_equal(d.op, MPIB_OP_SEND);
	assert_int_equal(d.n, 1);
	assert_int_equal(d.gen, gen);
	assert_int_equal(d.off, off);
	assert_int_equal(d.len, len);
	assert_int_equal(d.total, len);
	assert_int_equal(d.pos, 0);
	assert_int_equal(d.tag, tag);
}

CASE(allocated_memory_is_sent_without_a_copy)
{
	struct mpib_region *region, *again;
	struct mpib_request *r;
	struct mpib_conn *conn;
	size_t size = 0;
	char *mem;
	int done;

	attach();
	conn = connected();
	fake_conn_open(f, 0);
	mem = mpib_mem_alloc(c, 1 << 20);
	assert_non_null(mem);
	assert_int_equal(mpib_reg(c, mem + 4096, 8192, &region), 0);
	assert_int_equal(mpib_reg(c, mem + 4096, 8192, &again), 0);
	/* This does not end the other registration of the same range. */
	assert_int_equal(mpib_dereg(again), 0);

	assert_int_equal(mpib_isend(conn, mem + 5000, 700, 3, region, &r), 0);
	assert_non_null(r);
	assert_int_equal(mpib_request_buffers(r), 1);
	expect_desc(0, 1, 5000, 700, 3);
	assert_int_equal(mpib_test(r, &done, NULL), 0);
	assert_int_equal(done, 0);
	mpib_completion_finish(&f->reply->completion[0][0], 1, 700);
	assert_int_equal(mpib_test(r, &done, &size), 0);
	assert_int_equal(done, 1);
	assert_int_equal(size, 700);

	assert_int_equal(mpib_isend(conn, mem, 1, 0, region, &r), -EFAULT);
	assert_int_equal(mpib_isend(conn, mem + 12287, 2, 0, region, &r),
			 -EFAULT);
	assert_int_equal(mpib_isend(conn, NULL, 0, 9, NULL, &r), 0);
	expect_desc(0, 3, 0, 0, 9);
	assert_int_equal(mpib_dereg(region), 0);
	mpib_close(conn);
	mpib_mem_free(c, mem);
	assert_int_equal(atomic_load(&f->asked[MPIB_CTL_POOL]), 1);
}

/* mmap() calls of this thread place their mappings at this address. NULL: any
 * address. The proxy's thread is not affected. */
static _Thread_local void *maps_at;

WRAPS(void *, mmap, void *addr, size_t len, int prot, int flags, int fd,
      off_t off)
{
	if (maps_at) {
		addr = maps_at;
		flags |= MAP_FIXED;
	}
	return __real_mmap(addr, len, prot, flags, fd, off);
}

/* One part of a program may forget mpib_dereg(), and another part may register
 * memory at the same address later. */
CASE(freed_memory_is_not_part_of_a_later_region)
{
	struct mpib_region *forgotten, *region;
	struct mpib_request *r;
	struct mpib_conn *conn;
	char *mem, *plain;

	attach();
	conn = connected();
	fake_conn_open(f, 0);
	mem = mpib_mem_alloc(c, 8192);
	assert_non_null(mem);
	assert_int_equal(mpib_reg(c, mem, 8192, &forgotten), 0);
	mpib_mem_free(c, mem);
	plain = mmap(mem, 8192, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	assert_ptr_equal(plain, mem);
	assert_int_equal(mpib_reg(c, plain, 8192, &region), 0);
	assert_ptr_not_equal(region, forgotten);
	/* Try again while the helper has the lock. */
	for (r = NULL; !r; sched_yield())
		assert_int_equal(mpib_isend(conn, plain, 700, 3, region, &r),
				 0);
	assert_int_equal(mpib_dereg(region), 0);
	/* Memory of another pool at the same address is not part of the region
	 * either. */
	maps_at = plain;
	mem = mpib_mem_alloc(c, 8192);
	maps_at = NULL;
	assert_ptr_equal(mem, plain);
	assert_int_equal(mpib_reg(c, mem, 8192, &region), 0);
	assert_ptr_not_equal(region, forgotten);
	assert_int_equal(mpib_dereg(forgotten), 0);
	assert_int_equal(mpib_dereg(region), 0);
	mpib_mem_free(c, mem);
	mpib_close(conn);
}

/* Memory that cannot be registered must be reported by mpib_reg(), and not only
 * when a connection uses the memory. */
CASE(impossible_memory_is_refused)
{
	struct mpib_region *region;
	char *mem;

	attach();
	mem = mpib_mem_alloc(c, 8192);
	assert_non_null(mem);
	assert_int_equal(mpib_reg(c, mem, SIZE_MAX, &region), -EINVAL);
	assert_int_equal(mpib_reg(c, mem, SIZE_MAX - 4096, &region), -EINVAL);
	assert_int_equal(
		mpib_reg_fd(c, mem, 8192, 0, -1, MPIB_REG_MEMFD, &region),
		-EBADF);
	assert_int_equal(
		mpib_reg_fd(c, mem, 8192, 0, 9999, MPIB_REG_MEMFD, &region),
		-EBADF);
	assert_string_equal(mpib_strerror(), "9999 is not an open descriptor");
	assert_int_equal(mpib_reg(c, mem, 8192, &region), 0);
}

/* In the connection's client, the same handle and offset name different
 * memory. */
CASE(a_region_of_another_client_is_refused)
{
	static char plain[8192];
	struct fake_proxy *there = fake_proxy_start();
	struct mpib_client *other;
	struct mpib_region *theirs[2];
	struct mpib_request *r;
	struct mpib_conn *conn;
	char *mem;

	attach();
	assert_non_null(there);
	assert_int_equal(fake_attach(there, &other), 0);
	conn = connected();
	mem = mpib_mem_alloc(other, 8192);
	assert_non_null(mem);
	assert_int_equal(mpib_reg(other, mem, 8192, &theirs[0]), 0);
	assert_int_equal(mpib_reg(other, plain, 8192, &theirs[1]), 0);
	assert_int_equal(mpib_isend(conn, mem, 10, 0, theirs[0], &r), -EINVAL);
	assert_null(r);
	assert_string_equal(mpib_strerror(),
			    "the region belongs to another client");
	assert_int_equal(mpib_isend(conn, plain, 10, 0, theirs[1], &r),
			 -EINVAL);
	assert_null(r);
	mpib_detach(other);
	fake_proxy_stop(there);
}

CASE(an_end_can_either_send_or_receive)
{
	struct mpib_handle h;
	struct mpib_listener *l;
	struct mpib_region *region;
	struct mpib_request *r;
	struct mpib_conn *tx, *rx;
	size_t size = 4096;
	void *mem;

	attach();
	tx = connected();
	assert_int_equal(mpib_listen(c, &h, &l), 0);
	assert_int_equal(mpib_accept(l, &rx), 0);
	assert_int_equal(mpib_ready(rx), 1);
	mem = mpib_mem_alloc(c, size);
	assert_non_null(mem);
	assert_int_equal(mpib_reg(c, mem, size, &region), 0);
	assert_int_equal(mpib_isend(rx, mem, size, 0, region, &r), -EINVAL);
	assert_null(r);
	assert_int_equal(mpib_isend(rx, NULL, 0, 0, NULL, &r), -EINVAL);
	assert_int_equal(mpib_irecv(tx, 1, &mem, &size, NULL, &region, &r),
			 -EINVAL);
	assert_null(r);
	assert_int_equal(mpib_isend(tx, mem, size, 0, region, &r), 0);
	assert_non_null(r);
	assert_int_equal(mpib_irecv(rx, 1, &mem, &size, NULL, &region, &r), 0);
	assert_non_null(r);
}

CASE(a_flush_without_room_or_of_other_memory_is_refused)
{
	static char memory[8192];
	struct fake_proxy *there = fake_proxy_start();
	struct mpib_region *device, *host, *theirs;
	struct mpib_request *r[256], *more;
	struct mpib_conn *rx, *tx;
	struct mpib_client *other;
	struct mpib_listener *l;
	struct mpib_handle h;
	int done;

	f->welcome.dmabuf = 1;
	attach();
	assert_int_equal(mpib_reg_fd(c, memory, sizeof(memory), 0, 0,
				     MPIB_REG_DMABUF, &device),
			 0);
	assert_int_equal(mpib_reg(c, memory, sizeof(memory), &host), 0);
	assert_int_equal(mpib_listen(c, &h, &l), 0);
	assert_int_equal(mpib_accept(l, &rx), 0);
	assert_int_equal(mpib_ready(rx), 1);
	fake_conn_open(f, 0);
	assert_int_equal(mpib_iflush(rx, memory, host, &more), 0);
	assert_null(more); /* host memory needs no flush */
	for (unsigned round = 1; round < 4; round++) {
		for (unsigned i = 0; i < 256; i++) {
			assert_int_equal(
				mpib_iflush(rx, memory + i, device, &r[i]), 0);
			fake_turn(f, 0, 0, 0);
		}
		assert_int_equal(mpib_iflush(rx, memory, device, &more),
				 -EBUSY);
		atomic_store(&f->reply->conn[0].flushed, 256 * round);
		for (unsigned i = 256; i-- > 0;) {
			assert_int_equal(mpib_test_int(r[i], &done, NULL), 0);
			assert_int_equal(done, 1);
		}
	}
	assert_non_null(there);
	assert_int_equal(fake_attach(there, &other), 0);
	assert_int_equal(mpib_reg_fd(other, memory, sizeof(memory), 0, 0,
				     MPIB_REG_DMABUF, &theirs),
			 0);
	assert_int_equal(mpib_iflush(rx, memory, theirs, &more), -EINVAL);
	mpib_detach(other);
	fake_proxy_stop(there);
	tx = connected();
	assert_int_equal(mpib_iflush(tx, memory, device, &more), -EINVAL);
	assert_int_equal(
		mpib_iflush(rx, memory + sizeof(memory), device, &more),
		-EFAULT);
}

/* how often the thread of the test waited for the proxy */
static unsigned waits;
static _Atomic pthread_t tester;

WRAPS(int, poll, struct pollfd *p, nfds_t n, int timeout)
{
	if (timeout > 0 && pthread_equal(pthread_self(), tester))
		waits++;
	return __real_poll(p, n, timeout);
}

/* The connection fails, and the control thread publishes the reason only
 * later. */
CASE(post_and_test_do_not_wait_for_the_reason_of_a_failure)
{
	struct mpib_request *r, *next;
	struct mpib_conn *conn;
	int done;

	tester = pthread_self();
	attach();
	conn = connected();
	assert_int_equal(mpib_isend(conn, NULL, 0, 0, NULL, &r), 0);
	assert_non_null(r);
	atomic_store(&f->reply->conn[0].broken, -ECONNRESET);
	waits = 0;
	for (unsigned i = 0; i < 200; i++) {
		assert_int_equal(mpib_test(r, &done, NULL), 0);
		assert_int_equal(mpib_isend(conn, NULL, 0, 0, NULL, &next), 0);
		assert_null(next);
	}
	assert_int_equal(waits, 0);
	fake_set_state(f, 0, MPIB_CONN_FAILED, -ECONNRESET);
	assert_int_equal(mpib_test(r, &done, NULL), -ECONNRESET);
	assert_int_equal(mpib_isend(conn, NULL, 0, 0, NULL, &r), -ECONNRESET);
	assert_string_equal(mpib_strerror(), "the peer has no such listener");
	mpib_close(conn);
}
