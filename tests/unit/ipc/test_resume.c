/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection continues at another index (mpib_conn_resume()): `tx` moves from
 * index 0 to 2, and `rx` from 1 to 3. The test takes the place of the shard: it
 * writes completion words and records.
 */
#include <errno.h>
#include <string.h>

#include "ipc/client.h"

/* ipc/client.h comes first, because its parameters named `c` would shadow the
 * global `c` of loop.h. */
#include "loop.h"
#include "test.h"

#define TX 2
#define RX 3

static char *mem;
static struct mpib_region *direct;

static void taken(uint32_t index)
{
	struct mpib_index *x = &c->at->index[index];

	x->taken = true;
	x->debt = c->at->index[0].debt;
	x->debt.id = index;
	c->at->used = index + 1; /* the indexes grow */
	fake_set_state(f, index, MPIB_CONN_READY, 0);
	fake_conn_open(f, index);
}

static int start(void **state)
{
	int rc = loop_start(state);

	if (rc < 0)
		return rc;
	mem = mpib_mem_alloc(c, 4096);
	taken(TX);
	taken(RX);
	return mpib_reg(c, mem, 4096, &direct);
}

static void give_window(uint32_t index, uint32_t size)
{
	mpib_client_hold(c);
	assert_int_equal(mpib_window_get(c, &c->at->index[index], size, false),
			 0);
	mpib_client_unlock(c);
}

/* Resume the connection as the helper does. */
static int resume(struct mpib_conn *conn, uint32_t index, uint64_t base)
{
	conn->next = (struct mpib_instance){ c->at, index, base, 0 };
	if (!atomic_exchange(&conn->next_state, MPIB_NEXT_READY))
		c->at->users++;
	return mpib_conn_resume(conn);
}

static void resume_rx(uint64_t base)
{
	assert_int_equal(mpib_conn_over(rx), base);
	assert_int_equal(resume(rx, RX, base), 1);
}

static void resume_tx(uint64_t base)
{
	assert_int_equal(resume(tx, TX, base), 1);
}

/* Post a receive of `n` buffers of 100 bytes in memory that needs no copy. */
static struct mpib_request *receive(int n)
{
	struct mpib_region *region[8];
	struct mpib_request *r;
	int tag[8];
	size_t size[8];
	void *data[8];

	for (int i = 0; i < n; i++) {
		data[i] = mem + (ptrdiff_t)100 * i;
		size[i] = 100;
		tag[i] = i;
		region[i] = direct;
	}
	assert_int_equal(mpib_irecv(rx, n, data, size, tag, region, &r), 0);
	assert_non_null(r);
	return r;
}

static struct mpib_request *sends(size_t size, int tag)
{
	struct mpib_request *r;

	assert_int_equal(mpib_isend(tx, mem, size, tag, direct, &r), 0);
	assert_non_null(r);
	return r;
}

static bool is_over(struct mpib_request *r, size_t *sizes)
{
	int done;

	assert_int_equal(mpib_test(r, &done, sizes), 0);
	return done;
}

static void is_over_with(struct mpib_request *r, size_t size)
{
	size_t got = 0;

	assert_true(is_over(r, &got));
	assert_int_equal(got, size);
}

/* Record that the send `r` is the answer to receive number `receive`. */
static void answers_receive(const struct mpib_request *r, uint64_t receive,
			    bool refused)
{
	atomic_store(&f->reply->answers[0][mpib_request_index(r)],
		     mpib_answer(r->gen, refused, (uint32_t)receive));
}

/* Return the next descriptor at the index, which must be that of buffer `idx`
 * of `r`. */
static struct mpib_desc pushed(uint32_t index, const struct mpib_request *r,
			       unsigned idx)
{
	struct mpib_desc d;

	assert_true(mpib_ring_pop(&f->conn[index].ring, &d));
	assert_int_equal(d.gen, r->gen);
	assert_int_equal(d.req, mpib_request_index(r));
	assert_int_equal(d.idx, idx);
	assert_int_equal(d.tag, r->buf[idx].tag);
	assert_int_equal(d.pos, 0);
	assert_int_equal(d.total, r->buf[idx].size);
	return d;
}

static void nothing_is_pushed(uint32_t index)
{
	struct mpib_desc d;

	assert_false(mpib_ring_pop(&f->conn[index].ring, &d));
}

#define CASE(name) TEST_OF(name, start, loop_stop)

/* The peer has received all messages with numbers below the new base, so the
 * sends of these messages complete. */
CASE(sends_that_the_peer_received_complete_when_the_connection_resumes)
{
	struct mpib_request *old, *refused, *later, *none, *stale, *word;
	struct mpib_completion *cpl;
	uint64_t base = 5 + (1ull << 33);
	int done;

	old = sends(100, 0);
	refused = sends(200, 1);
	later = sends(300, 2);
	none = sends(400, 3);
	stale = sends(500, 4);
	word = sends(600, 5);
	answers_receive(old, base - 1, false);
	answers_receive(refused, base - 2, true);
	cpl = &f->reply->completion[0][mpib_request_index(refused)];
	cpl->size[0] = 200;
	cpl->size[1] = 150;
	answers_receive(later, base, false);
	answers_receive(stale, 0, false);
	atomic_fetch_sub(&f->reply->answers[0][mpib_request_index(stale)],
			 2ull << 32);
	end_as(0, word, 600);
	resume_tx(base);
	is_over_with(old, 100);
	is_over_with(word, 600);
	assert_int_equal(mpib_test(refused, &done, NULL), -EMSGSIZE);
	assert_non_null(strstr(mpib_strerror(), "send of 200 bytes is larger "
						"than the posted receive of "
						"150"));
	pushed(TX, later, 0);
	pushed(TX, none, 0);
	pushed(TX, stale, 0);
	nothing_is_pushed(TX);
	assert_false(is_over(later, NULL));
	end_as(TX, later, 300);
	is_over_with(later, 300);
}

/* With ordinary memory, the bytes of a completed receive may still be in the
 * window. */
CASE(bytes_are_copied_out_before_the_window_is_lost)
{
	struct mpib_request *first = recv_at(0, 1000),
			    *rest = recv_at(2000, 9000);
	const struct mpib_pool *old = c->at->index[1].window;
	struct mpib_desc d = { 0 };

	assert_true(mpib_ring_pop(&f->conn[1].ring, &d));
	memcpy((char *)f->pool[d.mr].addr + d.off, from, 1000);
	end_as(1, first, 1000);
	/* Resuming fails while the new index has no window. */
	assert_int_equal(resume(rx, RX, 1), 0);
	give_window(RX, mpib_window_size(old));
	resume_rx(1);
	memset((char *)f->pool[d.mr].addr + d.off, 0, 1000);
	is_over_with(first, 1000);
	assert_memory_equal(to, from, 1000);
	assert_int_equal(rest->gen, rx->first_gen);
	/* The incomplete receive starts again in the new window. */
	assert_int_equal(rest->parts, 1);
	assert_true(mpib_ring_pop(&f->conn[RX].ring, &d));
	assert_int_equal(d.pos, 0);
	assert_int_equal(d.mr, c->at->index[RX].window->debt.id);
	assert_int_equal(d.off, 0);
	assert_false(is_over(rest, NULL));
}

CASE(a_request_whose_region_is_gone_fails_the_connection)
{
	struct mpib_request *first = receive(1), *second = receive(1);
	int done;

	end_as(1, first, 5);
	assert_int_equal(mpib_dereg(direct), 0);
	assert_int_equal(resume(rx, RX, 1), -ECANCELED);
	nothing_is_pushed(RX);
	is_over_with(first, 5);
	assert_int_equal(mpib_test(second, &done, NULL), -ECANCELED);
	assert_int_equal(done, 1);
	assert_non_null(strstr(mpib_strerror(), "memory was deregistered"));
}

/* A completion word that an earlier connection left belongs to no posted
 * request. */
CASE(completion_words_without_a_posted_request_are_ignored)
{
	struct mpib_completion *cpl = f->reply->completion[1];

	for (uint32_t leap = 1; leap < 1u << 31; leap *= 2) {
		mpib_completion_finish(&cpl[1], rx->first_gen - 2 * leap, 1);
		mpib_completion_finish(&cpl[2], rx->first_gen + 512 + 2 * leap,
				       1);
		mpib_completion_finish(&cpl[3], rx->first_gen + 2 * leap + 1,
				       1);
		assert_int_equal(mpib_conn_over(rx), 0);
	}
	end_as(1, receive(1), 1);
	assert_int_equal(mpib_conn_over(rx), 1);
}

CASE(a_second_resume_counts_the_receives_of_all_instances)
{
	end_as(1, receive(1), 1);
	resume_rx(1);
	end_as(RX, receive(1), 1);
	assert_int_equal(mpib_conn_over(rx), 2);
}

/* Receives are counted in 64 bits, but generations have 32. */
CASE(receives_are_counted_beyond_32_bits)
{
	struct mpib_request *r;

	/* Advance the generations as if 5 * 2^30 receives had been posted. */
	for (unsigned i = 0; i < 5; i++) {
		rx->gen += 1u << 31;
		mpib_conn_lap(rx);
	}
	assert_int_equal(mpib_conn_over(rx), 0);
	for (unsigned i = 0; i < 100; i++) {
		r = receive(1);
		pushed(1, r, 0);
		mpib_ring_publish(&f->conn[1].ring);
		end_as(1, r, 1);
		assert_int_equal(mpib_conn_over(rx), (5ull << 30) + i + 1);
		is_over_with(r, 1);
	}
	receive(1);
	assert_int_equal(mpib_conn_over(rx), (5ull << 30) + 100);
}

CASE(incomplete_flushes_are_posted_again)
{
	struct mpib_request *r[3];
	struct mpib_region *device;
	int done;

	assert_int_equal(
		mpib_reg_fd(c, to, 4096, 0, 0, MPIB_REG_DMABUF, &device), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(mpib_iflush(rx, to + i, device, &r[i]), 0);
	atomic_store(&f->reply->conn[1].flushed, 1);
	resume_rx(0);
	assert_int_equal(mpib_test_int(r[0], &done, NULL), 0);
	assert_int_equal(done, 1);
	assert_int_equal(mpib_test_int(r[1], &done, NULL), 0);
	assert_int_equal(done, 0);
	fake_turn(f, RX, RX, 0);
	assert_int_equal(f->conn[RX].flushes, 2);
	assert_int_equal(f->conn[RX].flush.off, 2);
	atomic_store(&f->reply->conn[RX].flushed, 2);
	for (unsigned i = 1; i < 3; i++) {
		assert_int_equal(mpib_test_int(r[i], &done, NULL), 0);
		assert_int_equal(done, 1);
	}
}

/* A flush follows each receive except the first. Receives and flushes
 * alternate, and the ring has an even number of slots, so only a flush can find
 * the ring full. */
CASE(flushed_receives_are_counted)
{
	struct mpib_request *r, *flush;
	struct mpib_region *device;
	uint32_t flushes = 0;
	struct mpib_desc d;
	int done;

	assert_int_equal(
		mpib_reg_fd(c, to, 4096, 0, 0, MPIB_REG_DMABUF, &device), 0);
	for (unsigned i = 0; i < 10 * MPIB_RING_SLOTS; i++) {
		r = receive(1);
		end_as(1, r, 1);
		is_over_with(r, 1);
		assert_int_equal(mpib_conn_over(rx), i + 1);
		pushed(1, r, 0);
		mpib_ring_publish(&f->conn[1].ring);
		if (i == 0)
			continue; /* no flush here, see above */
		assert_int_equal(mpib_iflush(rx, to, device, &flush), 0);
		assert_true(mpib_ring_pop(&f->conn[1].ring, &d));
		mpib_ring_publish(&f->conn[1].ring);
		atomic_store(&f->reply->conn[1].flushed, ++flushes);
		assert_int_equal(mpib_test_int(flush, &done, NULL), 0);
		assert_int_equal(done, 1);
	}
}
