/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test how cq.c handles a completion with an error. The test puts a QP into
 * ERR, so its WRs fail, and replaces the status of their completions.
 */
#include "engine/conn/conn.h"
#include "engine/lane/lane.h"
#include "engine_pair.h"
#include "test.h"

#define SUP MPIB_RAIL_SUP

static struct pair pair;
static struct pair_end tx, rx;
static enum ibv_wc_status wanted;
static bool resume, failover;
static int (*poll_cq)(struct ibv_cq *cq, int n, struct ibv_wc *wc);

static int poll_with_status(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int got = poll_cq(cq, n, wc);

	for (int i = 0; i < got; i++) {
		if (wc[i].status != IBV_WC_SUCCESS)
			wc[i].status = wanted;
	}
	return got;
}

/* Fail the SUP stripe of a message that is in flight on both rails. With
 * failover the lane survives this failure. */
static void fail_part_with(enum ibv_wc_status status)
{
	struct mpib_lane *lane;
	struct ibv_context *ctx;

	pair_open_at(&pair, 512, MPIB_IMM_V2, &tx, &rx);
	lane = pair.node[0].lane;
	lane->failover = failover;
	pair.node[0].engine->cfg.resume = resume;
	ctx = pair.node[0].engine->shard[0].rail[SUP].ctx;
	poll_cq = ctx->ops.poll_cq;
	ctx->ops.poll_cq = poll_with_status;
	wanted = status;
	mpib_lane_rail_to_err(lane, SUP);
	pair_post(&rx, MPIB_OP_RECV, 0, pair.node[1].mr, PAIR_RX, 100000, 7);
	pair_post(&tx, MPIB_OP_SEND, 0, pair.node[0].mr, 0, 100000, 7);
	pair_turns(&pair, 1000);
	assert_false(lane->open & 1u << SUP);
}

/* Return the error of the sending connection. */
static int broken_by(void)
{
	return atomic_load(&tx.reply->conn[tx.index].broken);
}

static void fail_with(enum ibv_wc_status status)
{
	failover = true;
	resume = false;
	fail_part_with(status);
	/* With failover, the rail is connected again in each case. */
	assert_false(pair.node[0].lane->broken);
}

static void leave(void)
{
	struct mpib_engine *e = pair.node[0].engine;

	e->shard[0].rail[SUP].ctx->ops.poll_cq = poll_cq;
	pair_close(&pair);
}

TEST(a_wrong_request_fails_its_connection)
{
	static const enum ibv_wc_status wrong[] = {
		IBV_WC_LOC_LEN_ERR,    IBV_WC_LOC_PROT_ERR,
		IBV_WC_LOC_ACCESS_ERR, IBV_WC_REM_INV_REQ_ERR,
		IBV_WC_REM_ACCESS_ERR,
	};

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		fail_with(wrong[i]);
		assert_int_equal(pair.node[0].broken, 1);
		leave();
	}
}

/* For example, soft-RoCE reports LOC_QP_OP_ERR while its port has no route. */
TEST(other_completion_errors_fail_only_the_rail)
{
	static const enum ibv_wc_status rails[] = {
		IBV_WC_LOC_QP_OP_ERR, IBV_WC_WR_FLUSH_ERR,
		IBV_WC_RETRY_EXC_ERR, IBV_WC_RNR_RETRY_EXC_ERR,
		IBV_WC_REM_OP_ERR,    IBV_WC_REM_ABORT_ERR,
		IBV_WC_FATAL_ERR,     IBV_WC_RESP_TIMEOUT_ERR,
		IBV_WC_GENERAL_ERR,   IBV_WC_BAD_RESP_ERR,
	};

	for (unsigned i = 0; i < sizeof(rails) / sizeof(rails[0]); i++) {
		fail_with(rails[i]);
		assert_int_equal(pair.node[0].broken, 0);
		/* A flushed WR is not counted: it is the consequence of another
		 * error. */
		assert_int_equal(
			pair.node[0].engine->shard[0].rail[SUP].n.cqe_errors >
				0,
			rails[i] != IBV_WC_WR_FLUSH_ERR);
		leave();
	}
}

/* These errors mean that this end built a wrong WR, which would fail again
 * after a resume. */
TEST(a_connection_with_a_wrong_request_is_not_resumed)
{
	static const enum ibv_wc_status wrong[] = {
		IBV_WC_LOC_LEN_ERR,
		IBV_WC_LOC_PROT_ERR,
		IBV_WC_LOC_ACCESS_ERR,
		IBV_WC_REM_INV_REQ_ERR,
	};

	resume = true;
	for (unsigned i = 0; i < 2 * sizeof(wrong) / sizeof(wrong[0]); i++) {
		failover = i % 2;
		fail_part_with(wrong[i / 2]);
		assert_int_equal(broken_by(), -EIO);
		assert_int_equal(pair.node[0].lane->broken, !failover);
		leave();
	}
}

/* The peer's device also refuses access while the peer's proxy is ending, so
 * the connection must be resumed. */
TEST(a_refused_access_resumes_the_lane)
{
	resume = true;
	for (unsigned i = 0; i < 2; i++) {
		failover = i;
		fail_part_with(IBV_WC_REM_ACCESS_ERR);
		assert_int_equal(broken_by(), MPIB_BROKEN_LOST);
		assert_true(pair.node[0].lane->broken);
		leave();
	}
}

static int poll_without_qp(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int got = poll_cq(cq, n, wc);

	for (int i = 0; i < got; i++)
		wc[i].qp_num = 0xffffff;
	return got;
}

/* The CQ may still hold a completion of a destroyed QP. Its wr_id may match a
 * send op of a newer connection. */
TEST(a_completion_of_a_destroyed_qp_fails_no_connection)
{
	struct ibv_context *ctx;

	pair_open_at(&pair, 512, MPIB_IMM_V2, &tx, &rx);
	ctx = pair.node[0].engine->shard[0].rail[SUP].ctx;
	poll_cq = ctx->ops.poll_cq;
	ctx->ops.poll_cq = poll_without_qp;
	pair_post(&rx, MPIB_OP_RECV, 0, pair.node[1].mr, PAIR_RX, 100000, 7);
	pair_post(&tx, MPIB_OP_SEND, 0, pair.node[0].mr, 0, 100000, 7);
	pair_turns(&pair, 1000);
	assert_int_equal(tx.conn->tx.op_head - tx.conn->tx.op_tail, 1);
	leave();
}
