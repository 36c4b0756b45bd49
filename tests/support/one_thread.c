/* SPDX-License-Identifier: Apache-2.0 */
/* The CMake function mpib_one_thread() links this into tests that must have one
 * thread. pthread_create() aborts, unless the test runs on libibverbs devices,
 * each of which needs a thread. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include "test.h"

static bool has_rdma(const char *variable)
{
	const char *rails = getenv(variable);

	return rails && strncmp(rails, "rdma:", 5) == 0;
}

WRAPS(int, pthread_create, pthread_t *thread, const pthread_attr_t *attr,
      void *(*start)(void *), void *arg)
{
	if (has_rdma("MPIB_TEST_RAILS") || has_rdma("MPIB_TEST_RAIL_A"))
		return __real_pthread_create(thread, attr, start, arg);
	fputs("this test must have only one thread (mpib_one_thread), but "
	      "starts another\n",
	      stderr);
	abort();
}
