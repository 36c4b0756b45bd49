/* SPDX-License-Identifier: Apache-2.0 */
#include <sched.h>

#include "ipc/client.h"

/* ipc/client.h comes first, because its parameters named `c` would shadow the
 * global `c` of loop.h. */
#include "loop.h"
#include "test.h"

struct fake_proxy *f;
struct mpib_client *c;
struct mpib_conn *tx, *rx;
struct mpib_region *from_region, *to_region;
char *from, *to;

void connect_both(void)
{
	struct mpib_handle h = { .magic = MPIB_HANDLE_MAGIC };
	struct mpib_listener *l;

	assert_int_equal(mpib_listen(c, &h, &l), 0);
	assert_int_equal(mpib_connect(c, &h, -1, &tx), 0);
	assert_int_equal(mpib_accept(l, &rx), 0);
	assert_int_equal(mpib_ready(tx), 1);
	assert_int_equal(mpib_ready(rx), 1);
	fake_conn_open(f, 0);
	fake_conn_open(f, 1);
	mpib_close_listen(l);
}

static int start(uint32_t grace_ms, uint32_t answer_ms)
{
	f = fake_proxy_start();
	if (!f)
		return -1;
	if (grace_ms)
		fake_proxy_mortal(f, grace_ms);
	f->welcome.answer_ms = answer_ms;
	if (fake_attach(f, &c) < 0)
		return -1;
	from = malloc(BYTES);
	to = malloc(BYTES);
	for (unsigned i = 0; i < BYTES; i++)
		from[i] = (char)(i * 7 + (i >> 9));
	memset(to, 0, BYTES);
	if (mpib_reg(c, from, BYTES, &from_region) < 0 ||
	    mpib_reg(c, to, BYTES, &to_region) < 0)
		return -1;
	connect_both();
	return 0;
}

int loop_start(void **state)
{
	return start(0, 10000);
}

int loop_start_mortal(void **state)
{
	return start(600000, 10000);
}

int loop_start_with(void **state, uint32_t grace_ms, uint32_t answer_ms)
{
	return start(grace_ms, answer_ms);
}

int loop_stop(void **state)
{
	mpib_detach(c);
	fake_proxy_stop(f);
	free(from);
	free(to);
	return 0;
}

#define YIELDS 1000000

struct mpib_request *send_at(size_t off, size_t size, int tag)
{
	struct mpib_request *r = NULL;

	/* `r` stays NULL while the helper thread has the client's lock. */
	for (unsigned i = 0; !r && i < YIELDS; i++) {
		assert_int_equal(
			mpib_isend(tx, from + off, size, tag, from_region, &r),
			0);
		sched_yield();
	}
	assert_non_null(r);
	return r;
}

struct mpib_request *recv_at(size_t off, size_t size)
{
	struct mpib_request *r = NULL;
	void *data = to + off;

	for (unsigned i = 0; !r && i < YIELDS; i++) {
		assert_int_equal(
			mpib_irecv(rx, 1, &data, &size, NULL, &to_region, &r),
			0);
		sched_yield();
	}
	assert_non_null(r);
	return r;
}

void end_as(unsigned index, const struct mpib_request *r, int32_t result)
{
	mpib_completion_finish(
		&f->reply->completion[index][mpib_request_index(r)], r->gen,
		result);
}

int finish(struct mpib_request *r, struct mpib_request *other, size_t *sizes)
{
	int done = 0, other_done, rc = 0;

	for (int i = 0; i < 100000 && !done && rc == 0; i++) {
		fake_turn(f, 0, 1, 30000);
		rc = mpib_test(r, &done, sizes);
		if (other && mpib_test(other, &other_done, NULL) == 0 &&
		    other_done)
			other = NULL;
	}
	assert_int_equal(done, 1);
	return rc;
}

void dies(void)
{
	fake_proxy_die(f);
	fake_proxy_end(f);
	while (mpib_client_ok(c)) {
		(void)mpib_alive(c);
		sched_yield();
	}
}

unsigned asked(uint32_t type)
{
	return atomic_load(&f->asked[type]);
}

void until(uint32_t type, unsigned times)
{
	while (asked(type) < times)
		sched_yield();
}

/* Only a call of the connection's own thread resumes the connection. */
void goes_on(struct mpib_conn *conn)
{
	while (mpib_conn_goes_on(conn) != 1)
		sched_yield();
	fake_conn_open(f, conn->index);
}

void stops(const struct mpib_conn *conn)
{
	while (mpib_conn_lives(conn, c)) {
		assert_int_equal(mpib_alive(c), 0);
		sched_yield();
	}
}
