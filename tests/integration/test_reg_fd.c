/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test mpib_reg_fd() of the client library, which registers memory by its
 * descriptor. A sealed memfd stands for a dma-buf.
 */
#include <errno.h>
#include <mpib/control.h>
#include <sys/mman.h>
#include <unistd.h>

#include "buffer.h"
#include "ends.h"
#include "test.h"

static struct node node;

/* A client, the region that it has registered, and the test's mapping of this
 * memory. */
struct end {
	struct mpib_client *client;
	struct mpib_region *region;
	char *mem;
};

static void give_buffer(struct end *e, const char *name)
{
	struct mpib_node_info info;
	int fd = buffer_make(name);

	e->client = ends_attach(&node, name);
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

/* Make two clients, each with a buffer, and connect them. */
static struct ends give_buffers(struct end *from, struct end *to)
{
	struct ends e;

	give_buffer(from, "d-from");
	give_buffer(to, "d-to");
	e = (struct ends){ .from = from->client,
			   .to = to->client,
			   .room = BUFFER_SIZE,
			   .src = from->mem,
			   .dst = to->mem,
			   .src_mr = from->region,
			   .dst_mr = to->region };
	ends_connect(&e);
	return e;
}

TEST(memory_at_an_odd_offset_is_transferred)
{
	struct end a = { 0 }, b = { 0 };
	struct ends e = give_buffers(&a, &b);
	const size_t off = 5001;
	char *into;
	int fd;

	/* This memory is not part of a region yet, so it gets a new region. */
	fd = buffer_make("d-odd");
	into = mmap(NULL, BUFFER_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		    0);
	assert_true(into != MAP_FAILED);
	e.dst = into + off;
	e.room = BUFFER_SIZE - off;
	assert_int_equal(mpib_reg_fd(b.client, e.dst, e.room, off, fd,
				     MPIB_REG_DMABUF, &e.dst_mr),
			 0);
	close(fd);
	ends_move(&e, e.room, 0);
	assert_int_equal(e.dst[-1], 0);
	ends_detach(&e);
	munmap(into, BUFFER_SIZE);
	munmap(a.mem, BUFFER_SIZE);
	munmap(b.mem, BUFFER_SIZE);
}

/* NCCL registers the same memory again for each of its connections, each time
 * with a new descriptor. */
TEST(the_same_memory_is_registered_once_and_counted)
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
	/* This memory extends beyond the end of the region, so it gets a new
	 * region. */
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

TEST(an_empty_region_is_refused)
{
	struct mpib_region *none = NULL;
	struct end a = { 0 };
	int fd = buffer_make("d-none");

	give_buffer(&a, "d-some");
	/* A region of 0 bytes must be refused even if the memory around it is
	 * registered. */
	assert_int_equal(mpib_reg_fd(a.client, a.mem + 4096, 0, 0, fd,
				     MPIB_REG_DMABUF, &none),
			 -EINVAL);
	assert_null(none);
	close(fd);
	mpib_detach(a.client);
	munmap(a.mem, BUFFER_SIZE);
}

/* A client may map a memfd at an address where another memfd was mapped before,
 * so the address does not identify the memory. */
TEST(a_memfd_is_identified_by_its_file_and_offset)
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

static int start(void **state)
{
	node_start(&node, 8, "--dmabuf", "yes", NULL);
	return 0;
}

static int stop(void **state)
{
	node_stop(&node);
	return 0;
}

struct test_group test_group = { start, stop };
