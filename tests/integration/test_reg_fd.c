/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpib_reg_fd() of the client library: memory behind a descriptor, with a
 * sealed memfd in the place of a dma-buf.
 */
#include <errno.h>
#include <mpib/client.h>
#include <mpib/control.h>
#include <sys/mman.h>
#include <unistd.h>

#include "buffer.h"
#include "node.h"
#include "test.h"

static struct node node;

/* The client library on both ends, and the bytes seen through the test's own
 * map of what it gave away. */
struct end {
	struct mpib_client *client;
	struct mpib_region *region;
	struct mpib_conn *conn;
	char *mem;
};

static void give_buffer(struct end *e, const char *name)
{
	struct mpib_attach_opts opts = { .size = sizeof(opts),
					 .run_dir = node.dir };
	struct mpib_node_info info;
	int fd = buffer_make(name);

	assert_int_equal(mpib_attach(&opts, &e->client), 0);
	mpib_query(e->client, &info);
	assert_int_equal(info.dmabuf, 1);
	e->mem = mmap(NULL, BUFFER_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		      0);
	assert_true(e->mem != MAP_FAILED);
	assert_int_equal(mpib_reg_fd(e->client, e->mem, BUFFER_SIZE, 0, fd,
				     MPIB_REG_DMABUF, &e->region),
			 0);
	close(fd);
}

static void until_ready(struct end *e)
{
	int rc;

	while ((rc = mpib_ready(e->conn)) == 0)
		usleep(1000);
	assert_int_equal(rc, 1);
}

static void until_done(struct mpib_request *req)
{
	size_t size = 0;
	int done = 0;

	while (!done)
		assert_int_equal(mpib_test(req, &done, &size), 0);
	assert_int_equal(size, BUFFER_SIZE);
}

static void connect_ends(struct end *from, struct end *to)
{
	struct mpib_listener *l;
	struct mpib_handle handle;

	assert_int_equal(mpib_listen(to->client, &handle, &l), 0);
	assert_int_equal(mpib_accept(l, &to->conn), 0);
	assert_int_equal(mpib_connect(from->client, &handle, -1, &from->conn),
			 0);
	until_ready(from);
	until_ready(to);
	mpib_close_listen(l);
}

static void move(struct end *from, struct end *to)
{
	struct mpib_request *tx, *rx;
	void *into = to->mem;
	size_t size = BUFFER_SIZE;
	int tag = 3;

	assert_int_equal(
		mpib_irecv(to->conn, 1, &into, &size, &tag, &to->region, &rx),
		0);
	assert_int_equal(mpib_isend(from->conn, from->mem, BUFFER_SIZE, tag,
				    from->region, &tx),
			 0);
	until_done(rx);
	until_done(tx);
}

static void the_rails_carry_what_lies_behind_it(void **state)
{
	struct end a = { 0 }, b = { 0 };

	give_buffer(&a, "d-from");
	give_buffer(&b, "d-to");
	connect_ends(&a, &b);
	for (unsigned i = 0; i < BUFFER_SIZE; i++)
		a.mem[i] = (char)(i * 7 + (i >> 8));
	move(&a, &b);
	assert_memory_equal(a.mem, b.mem, BUFFER_SIZE);
	mpib_detach(a.client);
	mpib_detach(b.client);
	munmap(a.mem, BUFFER_SIZE);
	munmap(b.mem, BUFFER_SIZE);
}

static void the_rails_carry_what_lies_at_an_odd_offset(void **state)
{
	struct end a = { 0 }, b = { 0 };
	struct mpib_request *tx, *rx;
	const size_t off = 5001, size = BUFFER_SIZE - 5001;
	struct mpib_region *odd;
	size_t got = 0;
	void *into;
	int fd, done = 0, tag = 0;

	give_buffer(&a, "d-from");
	give_buffer(&b, "d-to");
	connect_ends(&a, &b);
	/* Other memory than a's region has, so that a region is made for it. */
	fd = buffer_make("d-odd");
	into = mmap(NULL, BUFFER_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		    0);
	assert_true(into != MAP_FAILED);
	assert_int_equal(mpib_reg_fd(b.client, (char *)into + off, size, off,
				     fd, MPIB_REG_DMABUF, &odd),
			 0);
	close(fd);
	memset(a.mem, 0x5a, BUFFER_SIZE);
	into = (char *)into + off;
	assert_int_equal(mpib_irecv(b.conn, 1, &into, &size, &tag, &odd, &rx),
			 0);
	assert_int_equal(mpib_isend(a.conn, a.mem, size, tag, a.region, &tx),
			 0);
	while (!done)
		assert_int_equal(mpib_test(rx, &done, &got), 0);
	assert_int_equal(got, size);
	assert_memory_equal(into, a.mem, size);
	assert_int_equal(((char *)into)[-1], 0);
	mpib_detach(a.client);
	mpib_detach(b.client);
	munmap((char *)into - off, BUFFER_SIZE);
	munmap(a.mem, BUFFER_SIZE);
	munmap(b.mem, BUFFER_SIZE);
}

/* NCCL registers the same memory once for each of its connections, with a new
 * descriptor each time. */
static void the_same_memory_is_registered_once_and_counted(void **state)
{
	struct mpib_region *again, *part, *other;
	struct end a = { 0 };
	int fd;

	give_buffer(&a, "d-once");
	fd = buffer_make("d-twice");
	assert_int_equal(mpib_reg_fd(a.client, a.mem, BUFFER_SIZE, 0, fd,
				     MPIB_REG_DMABUF, &again),
			 0);
	assert_int_equal(mpib_reg_fd(a.client, a.mem + 4096, BUFFER_SIZE - 4096,
				     0, fd, MPIB_REG_DMABUF, &part),
			 0);
	assert_ptr_equal(again, a.region);
	assert_ptr_equal(part, a.region);
	assert_int_equal(buffer_held(&node, "d-once"), 1);
	assert_int_equal(buffer_held(&node, "d-twice"), 0);
	/* What reaches beyond it is not. */
	assert_int_equal(mpib_reg_fd(a.client, a.mem + 4096, BUFFER_SIZE, 0, fd,
				     MPIB_REG_DMABUF, &other),
			 0);
	assert_int_equal(buffer_held(&node, "d-twice"), 1);
	assert_int_equal(mpib_dereg(other), 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(buffer_held(&node, "d-once"), 1);
		assert_int_equal(mpib_dereg(a.region), 0);
	}
	assert_int_equal(buffer_held(&node, "d-once"), 0);
	close(fd);
	mpib_detach(a.client);
	munmap(a.mem, BUFFER_SIZE);
}

static void no_bytes_are_no_region(void **state)
{
	struct mpib_region *none = NULL;
	struct end a = { 0 };
	int fd = buffer_make("d-none");

	give_buffer(&a, "d-some");
	/* Not even where all around it is registered. */
	assert_int_equal(mpib_reg_fd(a.client, a.mem + 4096, 0, 0, fd,
				     MPIB_REG_DMABUF, &none),
			 -EINVAL);
	assert_null(none);
	close(fd);
	mpib_detach(a.client);
	munmap(a.mem, BUFFER_SIZE);
}

/* Two memfds may be mapped at one address, one after the other. */
static void a_memfd_is_known_by_its_file_and_offset(void **state)
{
	struct mpib_region *first, *second, *same, *behind;
	struct end a = { 0 };
	int fd[2];

	give_buffer(&a, "d-end");
	for (unsigned i = 0; i < 2; i++)
		fd[i] = buffer_make(i ? "d-new" : "d-old");
	assert_int_equal(mpib_reg_fd(a.client, a.mem, 8192, 0, fd[0],
				     MPIB_REG_MEMFD, &first),
			 0);
	assert_int_equal(mpib_reg_fd(a.client, a.mem, 8192, 0, fd[1],
				     MPIB_REG_MEMFD, &second),
			 0);
	assert_ptr_not_equal(first, second);
	assert_int_equal(mpib_reg_fd(a.client, a.mem + 4096, 4096, 4096, fd[1],
				     MPIB_REG_MEMFD, &same),
			 0);
	assert_ptr_equal(same, second);
	assert_int_equal(mpib_reg_fd(a.client, a.mem + 4096, 4096, 0, fd[1],
				     MPIB_REG_MEMFD, &behind),
			 0);
	assert_ptr_not_equal(behind, second);
	for (unsigned i = 0; i < 2; i++)
		close(fd[i]);
	mpib_detach(a.client);
	munmap(a.mem, BUFFER_SIZE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_rails_carry_what_lies_behind_it),
		cmocka_unit_test(the_rails_carry_what_lies_at_an_odd_offset),
		cmocka_unit_test(
			the_same_memory_is_registered_once_and_counted),
		cmocka_unit_test(no_bytes_are_no_region),
		cmocka_unit_test(a_memfd_is_known_by_its_file_and_offset),
	};

	int failed;

	node_start(&node, 8, "--dmabuf", "yes", NULL);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	node_stop(&node);
	return failed;
}
