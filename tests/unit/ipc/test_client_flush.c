/* SPDX-License-Identifier: Apache-2.0 */
/* mpib_iflush(): what the client pushes, and when it is over. */
#include <errno.h>
#include <string.h>

#include "ipc/client.h"

/* Its c would be shadowed there. */
#include "attached.h"

#define BYTES 8192

static char mem[BYTES];
static struct mpib_conn *rx;
static struct mpib_region *device;

static void open_receiver(void)
{
	struct mpib_handle handle;
	struct mpib_listener *l;

	f->welcome.dmabuf = 1;
	attach();
	assert_int_equal(
		mpib_reg_fd(c, mem, BYTES, 0, 0, MPIB_REG_DMABUF, &device), 0);
	assert_int_equal(mpib_listen(c, &handle, &l), 0);
	assert_int_equal(mpib_accept(l, &rx), 0);
	assert_int_equal(mpib_ready(rx), 1);
	fake_conn_open(f, 0);
}

static struct mpib_request *flush_at(size_t off)
{
	struct mpib_request *r;

	assert_int_equal(mpib_iflush(rx, mem + off, device, &r), 0);
	assert_non_null(r);
	return r;
}

static bool is_over(struct mpib_request *r)
{
	int done = 0, size = 55;

	assert_int_equal(mpib_test_int(r, &done, &size), 0);
	assert_int_equal(size, 55);
	return done;
}

/* The proxy has ended so many. */
static void ended(uint32_t n)
{
	atomic_store(&f->reply->conn[0].flushed, n);
}

#define CASE(name) TEST_OF(name, start, stop)

CASE(host_memory_has_nothing_to_flush)
{
	struct mpib_region *host;
	struct mpib_request *r;

	open_receiver();
	assert_int_equal(mpib_reg(c, mem, BYTES, &host), 0);
	assert_int_equal(mpib_iflush(rx, mem, host, &r), 0);
	assert_null(r);
	assert_int_equal(mpib_iflush(rx, NULL, NULL, &r), 0);
	assert_null(r);
	mpib_close(rx);
}

CASE(too_many_are_refused_and_their_room_is_used_again)
{
	struct mpib_request *r[256], *more;

	open_receiver();
	for (unsigned round = 1; round < 4; round++) {
		for (unsigned i = 0; i < 256; i++) {
			r[i] = flush_at(i);
			fake_turn(f, 0, 0, 0);
		}
		assert_int_equal(mpib_iflush(rx, mem, device, &more), -EBUSY);
		assert_null(more);
		ended(256 * round);
		for (unsigned i = 256; i-- > 0;)
			assert_true(is_over(r[i]));
	}
	mpib_close(rx);
}

CASE(wrong_calls_are_told)
{
	struct fake_proxy *there = fake_proxy_start();
	struct mpib_client *other;
	struct mpib_region *theirs;
	struct mpib_request *r;
	struct mpib_conn *tx;

	open_receiver();
	assert_non_null(there);
	assert_int_equal(fake_attach(there, &other), 0);
	assert_int_equal(
		mpib_reg_fd(other, mem, BYTES, 0, 0, MPIB_REG_DMABUF, &theirs),
		0);
	assert_int_equal(mpib_iflush(rx, mem, theirs, &r), -EINVAL);
	assert_null(r);
	mpib_detach(other);
	fake_proxy_stop(there);
	tx = connected();
	assert_int_equal(mpib_iflush(tx, mem, device, &r), -EINVAL);
	assert_int_equal(mpib_iflush(rx, mem + BYTES, device, &r), -EFAULT);
	mpib_close(tx);
	mpib_close(rx);
}
