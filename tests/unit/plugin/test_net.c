/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin's behaviour towards NCCL: its messages if no proxy runs, connects
 * that NCCL repeats, contexts, and the result code and message of each failure.
 */
#include <errno.h>

#include "rig.h"

#include "test.h"

static struct rig *r;
static char from[4096], to[4096];

static int set_up(void **state)
{
	r = rig_new();
	return r ? 0 : -1;
}

static int tear_down(void **state)
{
	rig_free(r);
	return 0;
}

static unsigned asked(enum mpib_control_type type)
{
	return atomic_load(&r->f->asked[type]);
}

static void *registered(void *comm, void *addr, size_t size)
{
	void *mr;

	assert_int_equal(r->net->regMr(comm, addr, size, NCCL_PTR_HOST, &mr),
			 NCCL_SUCCESS);
	return mr;
}

static int class_with(const char *environment, int of_communicator)
{
	struct nccl_net_comm_config config = { of_communicator };
	char handle[NCCL_NET_HANDLE_MAXSIZE];
	void *ctx, *listener, *tx = NULL;

	setenv("NCCL_IB_TC", environment, 1);
	assert_int_equal(r->net->init(&ctx, 1, &config, rig_log, NULL), 0);
	assert_int_equal(r->net->listen(ctx, 0, handle, &listener), 0);
	assert_int_equal(r->net->connect(ctx, 0, handle, &tx, NULL), 0);
	assert_non_null(tx);
	assert_int_equal(r->net->closeSend(tx), 0);
	assert_int_equal(r->net->closeListen(listener), 0);
	assert_int_equal(r->net->finalize(ctx), 0);
	unsetenv("NCCL_IB_TC");
	return atomic_load(&r->f->traffic_class);
}

#define CASE(name) TEST_OF(name, set_up, tear_down)

CASE(nccl_ib_tc_sets_the_traffic_class)
{
	assert_int_equal(class_with("106", -1), 106);
	/* The communicator's own setting takes precedence, as in NCCL. */
	assert_int_equal(class_with("106", 40), 40);
	assert_int_equal(class_with("", -1), -1);
	assert_int_equal(rig_warnings, 0);
	assert_int_equal(class_with("fast", -1), -1);
	assert_int_equal(rig_warnings, 1);
	assert_non_null(strstr(rig_warning, "NCCL_IB_TC = \"fast\""));
	assert_int_equal(class_with("256", -1), -1);
	assert_int_equal(rig_warnings, 2);
}

CASE(without_a_proxy_init_reports_the_path_and_what_to_do)
{
	void *ctx;

	setenv("MPIB_RUN_DIR", "/nonexistent", 1);
	assert_int_equal(r->net->init(&ctx, 0, NULL, rig_log, NULL),
			 NCCL_SYSTEM_ERROR);
	assert_non_null(strstr(rig_warning, "/nonexistent/proxy.sock"));
	assert_non_null(strstr(rig_warning, "start mpib-proxy"));
	assert_int_equal(rig_warnings, 1);
	/* The next communicator that tries to attach gets the message, too. */
	assert_int_equal(r->net->init(&ctx, 0, NULL, rig_log, NULL),
			 NCCL_SYSTEM_ERROR);
	assert_int_equal(rig_warnings, 2);
}

CASE(all_contexts_share_one_engine_client)
{
	void *a, *b;

	assert_int_equal(r->net->init(&a, 1, NULL, rig_log, NULL), 0);
	assert_int_equal(r->net->init(&b, 2, NULL, rig_log, NULL), 0);
	assert_int_equal(asked(MPIB_CTL_HELLO), 1);
	assert_int_equal(r->net->finalize(a), 0);
	assert_int_equal(rig_connect(r), 0);
	assert_int_equal(r->net->finalize(b), 0);
	/* The client stays attached while it has comms, even without
	 * contexts. */
	assert_int_equal(r->net->finalize(r->ctx), 0);
	r->ctx = NULL;
	registered(r->tx, from, sizeof(from));
	assert_int_equal(asked(MPIB_CTL_HELLO), 1);
}

CASE(a_retried_connect_makes_one_connection)
{
	char handle[NCCL_NET_HANDLE_MAXSIZE];

	assert_int_equal(r->net->init(&r->ctx, 1, NULL, rig_log, NULL), 0);
	assert_int_equal(r->net->listen(r->ctx, 0, handle, &r->listener), 0);
	atomic_store(&r->f->hold_pending, true);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(
			r->net->connect(r->ctx, 0, handle, &r->tx, NULL), 0);
		assert_null(r->tx);
		assert_int_equal(r->net->accept(r->listener, &r->rx, NULL), 0);
		assert_null(r->rx);
	}
	assert_int_equal(asked(MPIB_CTL_CONNECT), 1);
	assert_int_equal(asked(MPIB_CTL_ACCEPT), 1);
	fake_set_state(r->f, 0, MPIB_CONN_READY, 0);
	fake_set_state(r->f, 1, MPIB_CONN_READY, 0);
	assert_int_equal(r->net->connect(r->ctx, 0, handle, &r->tx, NULL), 0);
	assert_non_null(r->tx);
	assert_int_equal(r->net->accept(r->listener, &r->rx, NULL), 0);
	assert_non_null(r->rx);
}

CASE(an_abandoned_connect_is_closed_with_its_context)
{
	char handle[NCCL_NET_HANDLE_MAXSIZE];

	assert_int_equal(r->net->init(&r->ctx, 1, NULL, rig_log, NULL), 0);
	assert_int_equal(r->net->listen(r->ctx, 0, handle, &r->listener), 0);
	atomic_store(&r->f->hold_pending, true);
	assert_int_equal(r->net->connect(r->ctx, 0, handle, &r->tx, NULL), 0);
	assert_int_equal(r->net->finalize(r->ctx), 0);
	r->ctx = NULL;
	assert_int_equal(asked(MPIB_CTL_CLOSE), 1);
}

/* Do what NCCL does when it aborts: close only the connected comms. */
static void set_up_and_abort(bool close_late)
{
	char handle[NCCL_NET_HANDLE_MAXSIZE];
	void *ctx, *listener, *tx, *rx;

	assert_int_equal(r->net->init(&ctx, 2, NULL, rig_log, NULL), 0);
	assert_int_equal(r->net->listen(ctx, 0, handle, &listener), 0);
	assert_int_equal(r->net->connect(ctx, 0, handle, &tx, NULL), 0);
	assert_int_equal(r->net->accept(listener, &rx, NULL), 0);
	assert_null(tx);
	assert_null(rx);
	assert_int_equal(r->net->finalize(ctx), 0);
	if (!close_late)
		return;
	assert_int_equal(r->net->accept(listener, &rx, NULL),
			 NCCL_INVALID_USAGE);
	assert_int_equal(r->net->closeListen(listener), 0);
}

CASE(aborted_connects_leave_no_connection)
{
	assert_int_equal(r->net->init(&r->ctx, 1, NULL, rig_log, NULL), 0);
	atomic_store(&r->f->hold_pending, true);
	for (unsigned i = 0; i < MPIB_CONNS_MAX + 1; i++)
		set_up_and_abort(i % 2);
	assert_int_equal(asked(MPIB_CTL_CLOSE), 2 * (MPIB_CONNS_MAX + 1));
	assert_int_equal(asked(MPIB_CTL_CLOSE_LISTEN), MPIB_CONNS_MAX + 1);
	/* The unclosed ends must not keep the client attached. */
	assert_int_equal(r->net->finalize(r->ctx), 0);
	assert_int_equal(r->net->init(&r->ctx, 1, NULL, rig_log, NULL), 0);
	assert_int_equal(asked(MPIB_CTL_HELLO), 2);
}

CASE(a_peer_that_refuses_is_a_remote_error)
{
	char handle[NCCL_NET_HANDLE_MAXSIZE];

	assert_int_equal(r->net->init(&r->ctx, 1, NULL, rig_log, NULL), 0);
	assert_int_equal(r->net->listen(r->ctx, 0, handle, &r->listener), 0);
	atomic_store(&r->f->refuse_conn, -ECONNREFUSED);
	while (r->net->connect(r->ctx, 0, handle, &r->tx, NULL) !=
	       NCCL_REMOTE_ERROR)
		assert_null(r->tx);
	assert_non_null(strstr(rig_warning, "the peer has no such listener"));
	assert_int_equal(asked(MPIB_CTL_CLOSE), 1);
	/* The handle of another plugin is an invalid argument. */
	memset(handle, 1, sizeof(handle));
	assert_int_equal(r->net->connect(r->ctx, 0, handle, &r->tx, NULL),
			 NCCL_INVALID_ARGUMENT);
}

/* Test until the request completes. Return its result. */
static enum nccl_result finish(void *req, int *sizes)
{
	enum nccl_result res = NCCL_SUCCESS;
	int done = 0;

	for (int i = 0; i < 100000 && res == NCCL_SUCCESS && !done; i++) {
		fake_turn(r->f, 0, 1, 1 << 20);
		res = r->net->test(req, &done, sizes);
	}
	return res;
}

static void receive(void *mr, size_t size, void **req)
{
	void *addr = to;
	int tag = 0;

	*req = (void *)NCCL_NET_OPTIONAL_RECV_COMPLETION;
	assert_int_equal(
		r->net->irecv(r->rx, 1, &addr, &size, &tag, &mr, NULL, req),
		NCCL_SUCCESS);
	/* NCCL passes a hint in *req, which the plugin must replace by a
	 * request. */
	assert_ptr_not_equal(*req, (void *)NCCL_NET_OPTIONAL_RECV_COMPLETION);
}

CASE(a_send_too_large_is_a_usage_error_with_both_sizes)
{
	void *from_mr, *to_mr, *s, *v;
	int size;

	assert_int_equal(rig_connect(r), 0);
	from_mr = registered(r->tx, from, sizeof(from));
	to_mr = registered(r->rx, to, sizeof(to));
	receive(to_mr, 100, &v);
	assert_int_equal(r->net->isend(r->tx, from, 300, 0, from_mr, NULL, &s),
			 NCCL_SUCCESS);
	assert_int_equal(finish(s, &size), NCCL_INVALID_USAGE);
	assert_non_null(strstr(rig_warning, "300 bytes"));
	assert_non_null(strstr(rig_warning, "100 bytes"));
	assert_int_equal(finish(v, &size), NCCL_INVALID_USAGE);
	assert_int_equal(rig_warnings, 1);
}

CASE(a_lost_peer_is_a_remote_error_with_one_warning)
{
	void *mr, *s, *again;
	int size;

	assert_int_equal(rig_connect(r), 0);
	mr = registered(r->tx, from, sizeof(from));
	assert_int_equal(r->net->isend(r->tx, from, 300, 0, mr, NULL, &s),
			 NCCL_SUCCESS);
	fake_break(r->f, 0, -ECONNRESET);
	assert_int_equal(finish(s, &size), NCCL_REMOTE_ERROR);
	assert_non_null(strstr(rig_warning, "the peer has no such listener"));
	rig_warnings = 0;
	for (int i = 0; i < 3; i++)
		assert_int_equal(
			r->net->isend(r->tx, from, 300, 0, mr, NULL, &again),
			NCCL_REMOTE_ERROR);
	/* only one warning for all failed calls */
	assert_int_equal(rig_warnings, 1);
}

CASE(a_dead_proxy_is_a_system_error_with_one_warning)
{
	void *mr, *s, *ctx;
	int size, done;

	assert_int_equal(rig_connect(r), 0);
	mr = registered(r->tx, from, sizeof(from));
	assert_int_equal(r->net->isend(r->tx, from, 300, 0, mr, NULL, &s),
			 NCCL_SUCCESS);
	fake_proxy_die(r->f);
	assert_int_equal(finish(s, &size), NCCL_SYSTEM_ERROR);
	assert_non_null(strstr(rig_warning, "is gone"));
	assert_int_equal(rig_warnings, 1);
	assert_int_equal(r->net->test(s, &done, &size), NCCL_SYSTEM_ERROR);
	assert_int_equal(rig_warnings, 1);
	/* All later calls fail, except those that release objects. */
	assert_int_equal(r->net->deregMr(r->tx, mr), NCCL_SUCCESS);
	assert_int_equal(r->net->init(&ctx, 1, NULL, rig_log, NULL),
			 NCCL_SYSTEM_ERROR);
}

CASE(gpu_memory_without_dma_buf_is_refused_with_a_remedy)
{
	void *mr;

	assert_int_equal(rig_connect(r), 0);
	assert_int_equal(r->net->regMr(r->tx, from, 100, NCCL_PTR_CUDA, &mr),
			 NCCL_INVALID_USAGE);
	assert_non_null(strstr(rig_warning, "NCCL_DMABUF_ENABLE"));
}

CASE(the_last_warning_says_why_the_dma_buf_was_refused)
{
	void *mr;

	assert_int_equal(rig_connect(r), 0);
	atomic_store(&r->f->refuse_reg, -ENOSPC);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(r->net->regMrDmaBuf(r->tx, from, 100,
						     NCCL_PTR_CUDA, 0, 0, &mr),
				 NCCL_SYSTEM_ERROR);
		assert_int_equal(
			r->net->regMr(r->tx, from, 100, NCCL_PTR_CUDA, &mr),
			NCCL_INVALID_USAGE);
		assert_non_null(strstr(rig_warning, "no such luck"));
	}
	assert_int_equal(rig_warnings, 1);
	/* The memory `to` has no dma-buf. */
	assert_int_equal(r->net->regMr(r->tx, to, 100, NCCL_PTR_CUDA, &mr),
			 NCCL_INVALID_USAGE);
	assert_non_null(strstr(rig_warning, "NCCL_DMABUF_ENABLE"));
}

CASE(memory_that_was_not_used_yet_has_no_window)
{
	void *from_mr, *to_mr, *req;

	assert_int_equal(rig_connect(r), 0);
	from_mr = registered(r->tx, from, sizeof(from));
	to_mr = registered(r->rx, to, sizeof(to));
	assert_int_equal(asked(MPIB_CTL_POOL), 0);
	receive(to_mr, 100, &req);
	assert_int_equal(asked(MPIB_CTL_POOL), 1);
	assert_int_equal(r->net->isend(r->tx, from, 3, 0, from_mr, NULL, &req),
			 0);
	assert_int_equal(asked(MPIB_CTL_POOL), 2);
}

CASE(a_comm_with_outstanding_requests_can_be_closed)
{
	void *mr, *s, *v;

	assert_int_equal(rig_connect(r), 0);
	mr = registered(r->rx, to, sizeof(to));
	receive(mr, 100, &v);
	mr = registered(r->tx, from, sizeof(from));
	for (int i = 0; i < 600; i++)
		assert_int_equal(r->net->isend(r->tx, from, 3, 0, mr, NULL, &s),
				 0);
	assert_null(s);
	assert_int_equal(r->net->closeSend(NULL), NCCL_SUCCESS);
}
