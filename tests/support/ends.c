/* SPDX-License-Identifier: Apache-2.0 */
#include "ends.h"

#include <unistd.h>

#include "test.h"

struct mpib_client *ends_attach(const struct node *n, const char *name)
{
	struct mpib_attach_opts opts = { .size = sizeof(opts),
					 .run_dir = n->dir,
					 .name = name,
					 .job = ENDS_JOB };
	struct mpib_client *c;

	assert_int_equal(mpib_attach(&opts, &c), 0);
	return c;
}

static void get_memory(struct mpib_client *c, size_t room, char **mem,
		       struct mpib_region **mr)
{
	*mem = mpib_mem_alloc(c, room);
	assert_non_null(*mem);
	assert_int_equal(mpib_reg(c, *mem, room, mr), 0);
}

void ends_open(struct ends *e, const struct node *from, const struct node *to,
	       size_t room)
{
	*e = (struct ends){ .from = ends_attach(from, "sender"),
			    .to = ends_attach(to, "receiver"),
			    .room = room };
	get_memory(e->from, room, &e->src, &e->src_mr);
	get_memory(e->to, room, &e->dst, &e->dst_mr);
	ends_connect(e);
}

void ends_connect(struct ends *e)
{
	struct mpib_listener *l;
	struct mpib_handle handle;

	assert_int_equal(mpib_listen(e->to, &handle, &l), 0);
	assert_int_equal(mpib_accept(l, &e->rx), 0);
	assert_int_equal(mpib_connect(e->from, &handle, -1, &e->tx), 0);
	while (mpib_ready(e->tx) == 0 || mpib_ready(e->rx) == 0)
		usleep(100);
	assert_int_equal(mpib_ready(e->tx), 1);
	assert_int_equal(mpib_ready(e->rx), 1);
	mpib_close_listen(l);
}

void ends_detach(struct ends *e)
{
	mpib_detach(e->from);
	mpib_detach(e->to);
}

struct mpib_request *ends_send(const struct ends *e, size_t size, int tag)
{
	struct mpib_request *r = NULL;

	while (!r)
		assert_int_equal(
			mpib_isend(e->tx, e->src, size, tag, e->src_mr, &r), 0);
	return r;
}

struct mpib_request *ends_receive(const struct ends *e, int tag)
{
	struct mpib_region *mr = e->dst_mr;
	struct mpib_request *r = NULL;
	size_t room = e->room;
	void *to = e->dst;

	while (!r)
		assert_int_equal(
			mpib_irecv(e->rx, 1, &to, &room, &tag, &mr, &r), 0);
	return r;
}

size_t ends_finish(struct mpib_request *r)
{
	size_t got = 0;

	for (int done = 0; !done;)
		assert_int_equal(mpib_test(r, &done, &got), 0);
	return got;
}

void ends_move(const struct ends *e, size_t size, int tag)
{
	struct mpib_request *s, *r = ends_receive(e, tag);
	static unsigned messages;

	messages++;
	for (size_t i = 0; i < size; i++)
		e->src[i] = (char)(i * 7 + size + messages);
	s = ends_send(e, size, tag);
	assert_int_equal(ends_finish(r), size);
	ends_finish(s);
	assert_memory_equal(e->src, e->dst, size);
}
