/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rails of a test with two nodes. The environment variable MPIB_TEST_RAILS
 * names the rails of both nodes, SOUT first, as in "rdma:a:1,rdma:b:1
 * rdma:c:1,rdma:d:1". If the variable is not set, the test uses software rails.
 */
#ifndef MPIB_TESTS_RAILS_H
#define MPIB_TESTS_RAILS_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The qp.timeout for the rails of MPIB_TEST_RAILS, about one second. It is long
 * because these may be rxe devices, and the rxe driver has a bug when it
 * repeats writes (docs/providers.md). */
#define TEST_RAIL_TIMEOUT 18

/* Write the name of a rail. `node` and `rail` are 0 or 1. Return false if
 * MPIB_TEST_RAILS is not set. */
static inline bool test_rail(char *buf, size_t len, unsigned node,
			     unsigned rail)
{
	const char *at = getenv("MPIB_TEST_RAILS");

	if (!at)
		return false;
	for (unsigned i = 0; i < 2 * node + rail; i++) {
		at += strcspn(at, ", ");
		at += strspn(at, ", ");
	}
	snprintf(buf, len, "%.*s", (int)strcspn(at, ", "), at);
	return true;
}

#endif
