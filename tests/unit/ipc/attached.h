/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Setup and teardown of tests with one client and one fake proxy. The functions
 * are static, so only one file of a program may include this.
 */
#ifndef ATTACHED_H
#define ATTACHED_H

#include "fake_proxy.h"
#include "test.h"

static struct fake_proxy *f;
static struct mpib_client *c;

static int start(void **state)
{
	f = fake_proxy_start();
	c = NULL;
	return f ? 0 : -1;
}

static int stop(void **state)
{
	mpib_detach(c);
	fake_proxy_stop(f);
	return 0;
}

static void attach(void)
{
	assert_int_equal(fake_attach(f, &c), 0);
}

/* Return a READY sending end, which has the lowest free index. */
__attribute__((unused)) static struct mpib_conn *connected(void)
{
	struct mpib_handle h = { .magic = MPIB_HANDLE_MAGIC };
	struct mpib_conn *conn;

	assert_int_equal(mpib_connect(c, &h, -1, &conn), 0);
	assert_int_equal(mpib_ready(conn), 1);
	return conn;
}

#endif
