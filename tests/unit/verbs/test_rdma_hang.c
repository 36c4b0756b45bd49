/* SPDX-License-Identifier: Apache-2.0 */
/* Calls to an HCA that take long or hang. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_ibv.h"
#include "test.h"
#include "verbs/hca/hca.h"

#define PATIENCE_MS 600
#define STOPPED_MS 1500

static const struct mpib_verbs *const v = &mpib_verbs_rdma;
static const struct mpib_rail_spec spec = { .provider = MPIB_PROVIDER_RDMA,
					    .name = "fake_0",
					    .port = 1 };
static struct ibv_context *ctx;

static int setup(void **state)
{
	fake_ibv_reset();
	fake_ibv_add("fake_0", "127.41.0.1");
	return v->open(&spec, &ctx);
}

static int teardown(void **state)
{
	return v->close(ctx);
}

/* Stop this process for longer than the time limit of the call. Return the ID
 * of the process that stops and continues this one. */
static pid_t stop_me(void)
{
	pid_t me = getpid(), other = fork();

	if (other)
		return other;
	kill(me, SIGSTOP);
	usleep(STOPPED_MS * 1000);
	kill(me, SIGCONT);
	_exit(0);
}

/* When the call hangs, stop the process. When the process runs again, let the
 * call return at once. */
static void *stop_and_answer(void *arg)
{
	pid_t other;

	while (!fake_ibv_hung())
		usleep(1000);
	other = stop_me();
	waitpid(other, NULL, 0);
	fake_ibv_release();
	return arg;
}

static int call_that_hangs(void)
{
	struct mpib_port_info info;
	int rc;

	fake_ibv_hang("fake_0", "ibv_query_port");
	mpib_hca_wait_ms = PATIENCE_MS;
	rc = v->query_port(ctx, 1, &info);
	mpib_hca_wait_ms = FAKE_IBV_PATIENCE_MS;
	return rc;
}

fixture_test(a_process_that_was_stopped_does_not_give_up_an_hca)
{
	pthread_t thread;
	int rc;

	assert_int_equal(pthread_create(&thread, NULL, stop_and_answer, NULL),
			 0);
	rc = call_that_hangs();
	pthread_join(thread, NULL);
	assert_int_equal(rc, 0);
	assert_false(hca_is_lost(ctx));
}

/* When the hanging call returns at last, its thread must close the device. */
setup_test(a_hanging_call_makes_the_process_give_up_the_hca)
{
	assert_int_equal(call_that_hangs(), -EIO);
	assert_true(hca_is_lost(ctx));
	v->close(ctx);
	fake_ibv_release();
	while (fake_ibv_contexts())
		usleep(1000);
}
