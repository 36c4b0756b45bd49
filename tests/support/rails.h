/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rails that a test with two nodes runs on. Unset, MPIB_TEST_RAILS leaves
 * them to the test, which takes software ones; "rdma:a:1,rdma:b:1
 * rdma:c:1,rdma:d:1" names those of both nodes, SOUT first.
 */
#ifndef MPIB_TESTS_RAILS_H
#define MPIB_TESTS_RAILS_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ack timeout of rails that are named, a second: they may be emulated, and rxe
 * errs in repeating writes (docs/providers.md). */
#define TEST_RAIL_TIMEOUT 18

/* Node and rail are 0 or 1. False where nothing is named. */
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
