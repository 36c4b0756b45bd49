/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client uses as many connections, requests, regions and listeners as a real
 * proxy allows. The proxy refuses one more object with a helpful message, and
 * nothing else changes. Another client sends and receives correct messages
 * throughout. After an object is released, a new one can be made. test_quota.c
 * and test_runout.c test configured quotas and limits. unit/test_broker_full
 * tests the tables of the broker.
 */
#include <errno.h>
#include <fcntl.h>
#include <mpib/segment.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ends.h"
#include "mover.h"
#include "test.h"

#define SENDS 280 /* sends without a receive */
#define LISTENERS 65536 /* including those that are reserved for root */

static struct node node;
static struct mpib_client *client;
static struct mover other;

static int start(void **state)
{
	node_start(&node, 3, "--quota-listeners", "0", "--quota-fds", "0",
		   "--log-level", "error", NULL);
	client = ends_attach(&node, "most");
	mover_must(mover_begin(&other, node.dir, node.dir, 65536, true, 3));
	return 0;
}

static int stop(void **state)
{
	mpib_detach(client);
	mover_close(&other);
	node_stop(&node);
	return 0;
}

/* Check that another client's messages still arrive. */
static void others_go_on(void)
{
	mover_must(mover_move(&other, 3));
}

TEST(a_connection_beyond_a_clients_maximum_is_refused)
{
	static struct mpib_conn *conn[MPIB_CONNS_MAX], *more;
	struct mpib_listener *l;
	struct mpib_handle h;

	assert_int_equal(mpib_listen(client, &h, &l), 0);
	for (unsigned i = 0; i < MPIB_CONNS_MAX; i++)
		assert_int_equal(mpib_accept(l, &conn[i]), 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(mpib_accept(l, &more), -EMFILE);
		assert_in(mpib_strerror(),
			  "1024 connections open or closing (close some)");
		assert_int_equal(mpib_connect(client, &h, -1, &more), -EMFILE);
		assert_in(mpib_strerror(), "(close some)");
	}
	others_go_on();
	mpib_close(conn[500]);
	/* When the proxy has handled the close, another connection must be
	 * possible. */
	while (mpib_accept(l, &conn[500]) == -EMFILE)
		others_go_on();
	assert_int_equal(mpib_accept(l, &more), -EMFILE);
	for (unsigned i = 0; i < MPIB_CONNS_MAX; i++)
		mpib_close(conn[i]);
	mpib_close_listen(l);
	others_go_on();
}

static int *words; /* the client's registered memory */
static struct mpib_region *of_words;

static struct mpib_request *receive(struct mpib_conn *rx, int *to, int tag)
{
	struct mpib_request *r = NULL;
	size_t size = sizeof(*to);
	void *buf = to;

	assert_int_equal(mpib_irecv(rx, 1, &buf, &size, &tag, &of_words, &r),
			 0);
	return r;
}

/* Send words[`tag`], whose value is `tag`. */
static struct mpib_request *send_one(struct mpib_conn *tx, int tag)
{
	struct mpib_request *r = NULL;

	words[tag] = tag;
	assert_int_equal(mpib_isend(tx, &words[tag], sizeof(words[tag]), tag,
				    of_words, &r),
			 0);
	return r;
}

/* If the maximum is reached, a call returns no request and no error. */
TEST(a_request_beyond_a_connections_maximum_is_refused)
{
	struct mpib_request *in[MPIB_REQUESTS], *out[SENDS + 1];
	struct ends e = { .from = client, .to = client };
	struct mpib_conn *tx, *rx;
	unsigned n = 0;
	int *to;

	words = mpib_mem_alloc(client, 4096);
	assert_non_null(words);
	assert_int_equal(mpib_reg(client, words, 4096, &of_words), 0);
	to = words + 512;
	ends_connect(&e);
	tx = e.tx;
	rx = e.rx;
	for (unsigned i = 0; i < MPIB_REQUESTS; i++) {
		in[i] = receive(rx, &to[i], (int)i);
		assert_non_null(in[i]);
	}
	assert_null(receive(rx, &to[0], 99));
	/* Post as many unmatched sends as possible. After that, a send that
	 * matches a receive must still be possible. */
	while ((out[n] = send_one(tx, 99)))
		n++;
	assert_int_equal(n, SENDS);
	others_go_on();
	for (unsigned i = 0; i < MPIB_REQUESTS; i++) {
		struct mpib_request *r;

		while (!(r = send_one(tx, (int)i)))
			others_go_on();
		ends_finish(r);
		assert_int_equal(ends_finish(in[i]), sizeof(int));
		assert_int_equal(to[i], i);
	}
	assert_null(send_one(tx, 99));
	for (unsigned i = 0; i < n; i++) {
		struct mpib_request *r = receive(rx, &to[0], 99);

		ends_finish(out[i]);
		assert_int_equal(ends_finish(r), sizeof(int));
	}
	out[0] = send_one(tx, 99);
	assert_non_null(out[0]);
	ends_finish(receive(rx, &to[0], 99));
	ends_finish(out[0]);
	mpib_close(tx);
	mpib_close(rx);
	mpib_dereg(of_words);
	mpib_mem_free(client, words);
}

TEST(a_listener_beyond_a_proxys_maximum_is_refused)
{
	static struct mpib_listener *l[LISTENERS], *more;
	struct mpib_handle h;
	struct mover late;
	const unsigned of_root = geteuid() ? LISTENERS / 32 : 0;
	unsigned n = 1; /* the other client has one listener */

	while (n < LISTENERS - of_root) {
		assert_int_equal(mpib_listen(client, &h, &l[n]), 0);
		n++;
	}
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(mpib_listen(client, &h, &more), -ENOSPC);
		assert_in(mpib_strerror(), "no further listener: ");
		assert_in(mpib_strerror(), "(close some)");
	}
	others_go_on();
	mpib_close_listen(l[1]);
	assert_int_equal(mover_open(&late, node.dir, node.dir, 65536, false, 4),
			 0);
	mover_close(&late);
	/* Do not close the other listeners: detaching releases them. */
}

struct test_group test_group = { start, stop };
