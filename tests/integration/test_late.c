/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request that is not over in time fails its connection at both ends, with
 * one message that says what it was; other connections go on.
 */
#include <mpib/client.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "node.h"
#include "test.h"

#define BUF 4096
#define HANG_MS 60000

/* Both ends of a connection between the nodes. */
struct ends {
	struct mpib_conn *tx, *rx;
};

static struct node a, b;
static struct mpib_client *from, *to;
static struct mpib_region *from_mr, *to_mr;
static char *src, *dst;

static struct mpib_client *attach(const struct node *n)
{
	struct mpib_attach_opts opts = { .size = sizeof(opts),
					 .run_dir = n->dir };
	struct mpib_client *c;

	assert_int_equal(mpib_attach(&opts, &c), 0);
	return c;
}

static struct ends connect_ends(void)
{
	struct mpib_listener *l;
	struct mpib_handle h;
	struct ends e;

	assert_int_equal(mpib_listen(to, &h, &l), 0);
	assert_int_equal(mpib_accept(l, &e.rx), 0);
	assert_int_equal(mpib_connect(from, &h, -1, &e.tx), 0);
	while (mpib_ready(e.tx) == 0 || mpib_ready(e.rx) == 0)
		usleep(100);
	mpib_close_listen(l);
	return e;
}

static int setup(void **state)
{
	node_start(&a, 3, "--log-level", "error", NULL);
	node_start(&b, 4, "--log-level", "error", NULL);
	from = attach(&a);
	to = attach(&b);
	src = mpib_mem_alloc(from, BUF);
	dst = mpib_mem_alloc(to, BUF);
	assert_int_equal(mpib_reg(from, src, BUF, &from_mr), 0);
	assert_int_equal(mpib_reg(to, dst, BUF, &to_mr), 0);
	return 0;
}

static int teardown(void **state)
{
	mpib_detach(from);
	mpib_detach(to);
	node_stop(&a);
	node_stop(&b);
	return 0;
}

static void set_limit(const struct node *n, const char *seconds)
{
	const char *const argv[] = { "mpibctl", "-s",  n->dir,
				     "config",	"set", "client.request_timeout",
				     seconds,	NULL };
	struct run run;

	run_wait(&run, argv);
	if (run.status)
		fail_msg("%s", run.err);
}

static struct mpib_request *send_on(const struct ends *e)
{
	struct mpib_request *r = NULL;

	while (!r)
		assert_int_equal(mpib_isend(e->tx, src, BUF, 11, from_mr, &r),
				 0);
	return r;
}

static struct mpib_request *receive_on(const struct ends *e)
{
	struct mpib_request *r = NULL;
	size_t size = BUF;
	void *addr = dst;
	int tag = 11;

	while (!r)
		assert_int_equal(
			mpib_irecv(e->rx, 1, &addr, &size, &tag, &to_mr, &r),
			0);
	return r;
}

/* Its error, once it ends in one. */
static int until_error(struct mpib_request *r)
{
	unsigned long long since = node_ms();
	int done = 0, rc = 0;

	while (rc == 0 && !done && node_ms() - since < HANG_MS) {
		rc = mpib_test(r, &done, NULL);
		usleep(1000);
	}
	return rc;
}

static void one_message(const struct ends *e)
{
	struct mpib_request *s = send_on(e), *r = receive_on(e);

	for (int done = 0; !done;)
		assert_int_equal(mpib_test(r, &done, NULL), 0);
	for (int done = 0; !done;)
		assert_int_equal(mpib_test(s, &done, NULL), 0);
}

static void a_send_that_nobody_receives_ends_at_both_ends(void **state)
{
	struct ends late = connect_ends(), other = connect_ends();
	struct mpib_request *s;
	unsigned long long since = node_ms();
	int rc;

	set_limit(&a, "1");
	s = send_on(&late);
	assert_true(until_error(s) < 0);
	assert_non_null(strstr(mpib_strerror(), "send of 4096 bytes"));
	assert_non_null(strstr(mpib_strerror(), "from rank 11"));
	assert_non_null(strstr(mpib_strerror(), ":24790"));
	assert_non_null(strstr(mpib_strerror(), "posted no receive"));
	/* An end without requests learns it as it asks for something. */
	do {
		struct mpib_request *r = NULL;
		size_t size = BUF;
		void *addr = dst;

		rc = mpib_irecv(late.rx, 1, &addr, &size, NULL, &to_mr, &r);
		if (rc == 0 && r)
			rc = until_error(r);
	} while (rc == 0 && node_ms() - since < HANG_MS);
	assert_true(rc < 0);
	assert_non_null(strstr(mpib_strerror(), "send of 4096 bytes"));
	set_limit(&a, "0");
	one_message(&other);
	mpib_close(late.tx);
	mpib_close(late.rx);
	mpib_close(other.tx);
	mpib_close(other.rx);
}

static void so_does_a_receive_that_nobody_answers(void **state)
{
	struct ends late = connect_ends();
	struct mpib_request *r;

	one_message(&late);
	set_limit(&b, "1");
	r = receive_on(&late);
	assert_true(until_error(r) < 0);
	assert_non_null(strstr(mpib_strerror(), "receive of 4096 bytes"));
	assert_non_null(strstr(mpib_strerror(), "sent nothing"));
	set_limit(&b, "0");
	mpib_close(late.tx);
	mpib_close(late.rx);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(a_send_that_nobody_receives_ends_at_both_ends),
	cmocka_unit_test(so_does_a_receive_that_nobody_answers),
	{ 0 },
};
struct test_group test_group = { setup, teardown };
