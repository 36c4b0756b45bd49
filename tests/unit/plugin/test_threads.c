/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's service and progress threads call the plugin at the same time. One
 * thread registers and deregisters memory, even that of outstanding requests,
 * while another moves messages on the same comms. After deregMr the memory is
 * unmapped, so the plugin must not touch it. These tests are most useful with
 * ThreadSanitizer.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

#include "test.h"

#define BYTES (256u << 10) /* the size of four staging windows */

static struct rig *r;
static _Atomic int stop;
static _Atomic unsigned bad;

static int set_up(void **state)
{
	r = rig_new();
	atomic_store(&stop, 0);
	atomic_store(&bad, 0);
	return r && rig_connect(r) == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
	rig_free(r);
	return 0;
}

static void *pages(void)
{
	return mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* The service thread: register and deregister other memory on the busy
 * comms. */
static void *churn(void *arg)
{
	void *mr[4], *mem = pages();

	while (!atomic_load(&stop)) {
		for (unsigned i = 0; i < 4; i++)
			bad += r->net->regMr(i % 2 ? r->rx : r->tx,
					     (char *)mem + 4096 * (i / 2), 4096,
					     NCCL_PTR_HOST,
					     &mr[i]) != NCCL_SUCCESS;
		for (unsigned i = 0; i < 4; i++)
			bad += r->net->deregMr(i % 2 ? r->rx : r->tx, mr[i]) !=
			       NCCL_SUCCESS;
	}
	munmap(mem, BYTES);
	return NULL;
}

static void post(void *from, void *a, void *to, void *b, void **s, void **v)
{
	size_t size = BYTES;
	int tag = 0;

	/* Call again while the plugin returns no request because the other
	 * thread is registering memory. */
	for (*s = *v = NULL; !*s || !*v;) {
		if (!*v)
			assert_int_equal(r->net->irecv(r->rx, 1, &to, &size,
						       &tag, &b, NULL, v),
					 0);
		if (!*s)
			assert_int_equal(r->net->isend(r->tx, from, size, tag,
						       a, NULL, s),
					 0);
	}
}

#define CASE(name) TEST_OF(name, set_up, tear_down)

CASE(messages_move_while_memory_is_registered_and_deregistered)
{
	char *from = pages(), *to = pages();
	void *a, *b, *s, *v;
	pthread_t service;
	int size;

	assert_int_equal(r->net->regMr(r->tx, from, BYTES, 1, &a), 0);
	assert_int_equal(r->net->regMr(r->rx, to, BYTES, 1, &b), 0);
	assert_int_equal(pthread_create(&service, NULL, churn, NULL), 0);
	for (int i = 0; i < 30; i++) {
		int s_done = 0, v_done = 0;

		memset(from, i + 1, BYTES);
		post(from, a, to, b, &s, &v);
		while (!s_done || !v_done) {
			fake_turn(r->f, 0, 1, 1 << 16);
			if (!s_done)
				assert_int_equal(r->net->test(s, &s_done, NULL),
						 0);
			if (!v_done)
				assert_int_equal(
					r->net->test(v, &v_done, &size), 0);
		}
		assert_int_equal(size, BYTES);
		assert_memory_equal(from, to, BYTES);
	}
	atomic_store(&stop, 1);
	pthread_join(service, NULL);
	assert_int_equal(atomic_load(&bad), 0);
	munmap(from, BYTES);
	munmap(to, BYTES);
}

struct memory {
	char *from, *to;
	void *a, *b;
};

/* The service thread: deregister and unmap the memory of outstanding
 * requests. */
static void *take_away(void *arg)
{
	struct memory *m = arg;

	while (!atomic_load(&stop))
		;
	bad += r->net->deregMr(r->rx, m->b) != NCCL_SUCCESS;
	munmap(m->to, BYTES);
	bad += r->net->deregMr(r->tx, m->a) != NCCL_SUCCESS;
	munmap(m->from, BYTES);
	return NULL;
}

CASE(deregistered_memory_of_requests_is_not_touched)
{
	for (unsigned round = 0; round < 40; round++) {
		struct memory m = { .from = pages(), .to = pages() };
		int s_done = 0, v_done = 0;
		pthread_t service;
		void *s, *v;

		rig_free(r);
		assert_int_equal(set_up(NULL), 0);
		assert_int_equal(r->net->regMr(r->tx, m.from, BYTES, 1, &m.a),
				 0);
		assert_int_equal(r->net->regMr(r->rx, m.to, BYTES, 1, &m.b), 0);
		assert_int_equal(pthread_create(&service, NULL, take_away, &m),
				 0);
		post(m.from, m.a, m.to, m.b, &s, &v);
		/* The requests may complete or fail, but the process must not
		 * crash. */
		for (unsigned i = 0; i < 2000 && !(s_done && v_done); i++) {
			if (i == round)
				atomic_store(&stop, 1);
			fake_turn(r->f, 0, 1, 1 << 14);
			if (!s_done && r->net->test(s, &s_done, NULL) != 0)
				s_done = 1;
			if (!v_done && r->net->test(v, &v_done, NULL) != 0)
				v_done = 1;
		}
		atomic_store(&stop, 1);
		pthread_join(service, NULL);
		assert_true(s_done);
	}
	assert_int_equal(atomic_load(&bad), 0);
}

static _Atomic bool attached;

/* Drop the message. Two threads call this at the same time. */
static void no_log(enum nccl_log_level level, unsigned long flags,
		   const char *where, int line, const char *fmt, ...)
{
}

static void *attach_in_vain(void *arg)
{
	void *ctx;

	bad += r->net->init(&ctx, 1, NULL, no_log, NULL) == NCCL_SUCCESS;
	atomic_store(&attached, true);
	return NULL;
}

/* Let another thread attach to a proxy that does not answer. Return whether a
 * call on the old context returned before the attach returned. */
static bool goes_on_meanwhile(struct fake_proxy *mute)
{
	char handle[NCCL_NET_HANDLE_MAXSIZE];
	unsigned asked = atomic_load(&mute->asked[MPIB_CTL_HELLO]);
	pthread_t attacher;
	void *listener;
	bool meanwhile;

	atomic_store(&attached, false);
	assert_int_equal(pthread_create(&attacher, NULL, attach_in_vain, NULL),
			 0);
	while (atomic_load(&mute->asked[MPIB_CTL_HELLO]) == asked)
		sched_yield();
	/* The proxy of this context is dead, so the call fails immediately. */
	assert_int_equal(r->net->listen(r->ctx, 0, handle, &listener),
			 NCCL_SYSTEM_ERROR);
	meanwhile = !atomic_load(&attached);
	pthread_join(attacher, NULL);
	return meanwhile;
}

CASE(an_attaching_communicator_does_not_delay_another)
{
	struct fake_proxy *mute = fake_proxy_start();
	bool meanwhile = false;

	assert_non_null(mute);
	mute->mute = true;
	fake_proxy_die(r->f);
	setenv("MPIB_RUN_DIR", mute->dir, 1);
	for (int i = 0; i < 5 && !meanwhile; i++)
		meanwhile = goes_on_meanwhile(mute);
	assert_true(meanwhile);
	assert_int_equal(atomic_load(&bad), 0);
	fake_proxy_stop(mute);
}

static void *ask_properties(void *arg)
{
	struct nccl_net_properties_v12 props;

	while (!atomic_load(&stop))
		bad += r->net->getProperties(0, &props) != NCCL_SUCCESS;
	return NULL;
}

CASE(a_child_forked_during_a_call_can_ask_for_properties)
{
	struct nccl_net_properties_v12 props;
	pthread_t asker;
	int status;

	assert_int_equal(pthread_create(&asker, NULL, ask_properties, NULL), 0);
	for (int i = 0; i < 300; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			alarm(60);
			_exit(r->net->getProperties(0, &props));
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	atomic_store(&stop, 1);
	pthread_join(asker, NULL);
	assert_int_equal(atomic_load(&bad), 0);
}
