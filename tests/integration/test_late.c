/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request that exceeds client.request_timeout fails its connection at both
 * ends. The error message at both ends names the request. Other connections
 * continue.
 */
#include <unistd.h>

#include "ends.h"
#include "test.h"

#define BUF 4096
#define HANG_MS 60000

static struct node a, b;
static struct ends first;

/* Make another connection between the same clients. */
static struct ends one_more(void)
{
	struct ends e = first;

	ends_connect(&e);
	return e;
}

static int setup(void **state)
{
	node_start(&a, 3, "--log-level", "error", NULL);
	node_start(&b, 4, "--log-level", "error", NULL);
	ends_open(&first, &a, &b, BUF);
	return 0;
}

static int teardown(void **state)
{
	ends_detach(&first);
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

/* Wait until the request fails, and return its error. */
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

TEST(an_unmatched_send_times_out_at_both_ends)
{
	struct ends late = one_more(), other = one_more();
	struct mpib_request *s;
	unsigned long long since = node_ms();
	int rc;

	set_limit(&a, "1");
	s = ends_send(&late, BUF, 11);
	assert_true(until_error(s) < 0);
	assert_non_null(strstr(mpib_strerror(), "send of 4096 bytes"));
	assert_non_null(strstr(mpib_strerror(), "from rank 11"));
	assert_non_null(strstr(mpib_strerror(), ":24790"));
	assert_non_null(strstr(mpib_strerror(), "posted no receive"));
	/* The receiving end has no outstanding request, so its next call
	 * returns the error. */
	do {
		struct mpib_request *r = NULL;
		size_t size = BUF;
		void *addr = late.dst;

		rc = mpib_irecv(late.rx, 1, &addr, &size, NULL, &late.dst_mr,
				&r);
		if (rc == 0 && r)
			rc = until_error(r);
	} while (rc == 0 && node_ms() - since < HANG_MS);
	assert_true(rc < 0);
	assert_non_null(strstr(mpib_strerror(), "send of 4096 bytes"));
	set_limit(&a, "0");
	ends_move(&other, BUF, 11);
	mpib_close(late.tx);
	mpib_close(late.rx);
	mpib_close(other.tx);
	mpib_close(other.rx);
}

TEST(an_unmatched_receive_times_out_at_both_ends)
{
	struct ends late = one_more();
	struct mpib_request *r;

	ends_move(&late, BUF, 11);
	set_limit(&b, "1");
	r = ends_receive(&late, 11);
	assert_true(until_error(r) < 0);
	assert_non_null(strstr(mpib_strerror(), "receive of 4096 bytes"));
	assert_non_null(strstr(mpib_strerror(), "sent nothing"));
	set_limit(&b, "0");
	mpib_close(late.tx);
	mpib_close(late.rx);
}

struct test_group test_group = { setup, teardown };
