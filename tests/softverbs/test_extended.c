/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The extended verbs, ibv_wr_*() and ibv_cq_ex, in a program that is linked
 * with the drop-in libibverbs.so.1. The test uses two QPs of one device.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <unistd.h>

#include "addr.h"
#include "test.h"

#define DEPTH 4
#define SIZE 4096
#define HALF (SIZE / 2)
#define INLINE 32
#define OPERATIONS                                                             \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |      \
	 IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |                  \
	 IBV_QP_EX_WITH_RDMA_READ)

struct fixture {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq_ex *cq;
	struct ibv_qp *a, *b;
	struct ibv_qp_ex *ex; /* the extended QP of `a` */
	struct ibv_mr *mr;
	/* QP `a` sends the lower half, and `b` receives into the upper half */
	char buf[SIZE];
};

static struct ibv_qp *new_qp(struct fixture *f)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = ibv_cq_ex_to_cq(f->cq),
		.recv_cq = ibv_cq_ex_to_cq(f->cq),
		.cap = { .max_send_wr = DEPTH,
			 .max_recv_wr = DEPTH,
			 .max_send_sge = 2,
			 .max_recv_sge = 1,
			 .max_inline_data = INLINE },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.comp_mask =
			IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = f->pd,
		.send_ops_flags = OPERATIONS,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(f->ctx, &init);

	assert_non_null(qp);
	return qp;
}

static void connect_qp(struct fixture *f, struct ibv_qp *qp,
		       struct ibv_qp *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags =
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
		.path_mtu = IBV_MTU_4096,
		.dest_qp_num = peer->qp_num,
		.max_dest_rd_atomic = 1,
		.max_rd_atomic = 1,
		.min_rnr_timer = 1,
		.rnr_retry = 7,
		.retry_cnt = 7,
		.timeout = 14,
		.ah_attr = { .is_global = 1, .port_num = 1 },
	};

	assert_int_equal(ibv_query_gid(f->ctx, 1, 1, &attr.ah_attr.grh.dgid),
			 0);
	assert_int_equal(ibv_modify_qp(qp, &attr,
				       IBV_QP_STATE | IBV_QP_PKEY_INDEX |
					       IBV_QP_PORT |
					       IBV_QP_ACCESS_FLAGS),
			 0);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(ibv_modify_qp(qp, &attr,
				       IBV_QP_STATE | IBV_QP_AV |
					       IBV_QP_PATH_MTU |
					       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					       IBV_QP_MAX_DEST_RD_ATOMIC |
					       IBV_QP_MIN_RNR_TIMER),
			 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(
		ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				      IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				      IBV_QP_MAX_QP_RD_ATOMIC),
		0);
}

static int setup(void **state)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 4 * DEPTH,
		.wc_flags = IBV_WC_STANDARD_FLAGS |
			    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
	};
	struct fixture *f = calloc(1, sizeof(*f));
	struct in_addr in = { htonl(test_addr(1)) };
	struct ibv_device **list;
	char devices[32];

	snprintf(devices, sizeof(devices), "soft0=%s", inet_ntoa(in));
	setenv("MPIB_SOFT_DEVICES", devices, 1);
	list = ibv_get_device_list(NULL);
	f->ctx = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	f->pd = ibv_alloc_pd(f->ctx);
	f->cq = ibv_create_cq_ex(f->ctx, &attr);
	assert_non_null(f->cq);
	f->mr = ibv_reg_mr(f->pd, f->buf, SIZE,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ);
	f->a = new_qp(f);
	f->b = new_qp(f);
	f->ex = ibv_qp_to_qp_ex(f->a);
	assert_non_null(f->ex);
	connect_qp(f, f->a, f->b);
	connect_qp(f, f->b, f->a);
	for (int i = 0; i < HALF; i++)
		f->buf[i] = (char)(i * 13 + 1);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(ibv_destroy_qp(f->a), 0);
	assert_int_equal(ibv_destroy_qp(f->b), 0);
	assert_int_equal(ibv_dereg_mr(f->mr), 0);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(f->cq)), 0);
	assert_int_equal(ibv_dealloc_pd(f->pd), 0);
	assert_int_equal(ibv_close_device(f->ctx), 0);
	free(f);
	return 0;
}

static void receive(struct fixture *f, uint64_t id, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)f->buf + HALF, len, f->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	assert_int_equal(ibv_post_recv(f->b, &wr, &bad), 0);
}

/* Poll until the current completion is that of WR `id`. This completion and all
 * earlier ones must be successful. */
static void reach(struct fixture *f, uint64_t id)
{
	struct ibv_poll_cq_attr none = { 0 };
	int rc = ENOENT;

	for (int i = 0; i < 20000 && rc; i++) {
		rc = ibv_start_poll(f->cq, &none);
		if (rc) {
			assert_int_equal(rc, ENOENT);
			usleep(500);
			continue;
		}
		assert_int_equal(f->cq->status, IBV_WC_SUCCESS);
		if (f->cq->wr_id == id)
			return;
		ibv_end_poll(f->cq);
		rc = ENOENT;
	}
	fail_msg("WR %d does not complete", (int)id);
}

static void piece(struct fixture *f, uint64_t id)
{
	f->ex->wr_id = id;
	f->ex->wr_flags = 0;
}

static void set_lower_half(struct fixture *f)
{
	ibv_wr_set_sge(f->ex, f->mr->lkey, (uintptr_t)f->buf, HALF);
}

fixture_test(every_operation_does_what_its_name_says)
{
	struct fixture *f = *state;
	uint64_t upper = (uintptr_t)f->buf + HALF;
	struct ibv_sge list[2] = {
		{ (uintptr_t)f->buf, 100, f->mr->lkey },
		{ (uintptr_t)f->buf + 100, HALF - 100, f->mr->lkey },
	};

	ibv_wr_start(f->ex);
	piece(f, 1);
	ibv_wr_rdma_write(f->ex, f->mr->rkey, upper);
	set_lower_half(f);
	assert_int_equal(ibv_wr_complete(f->ex), 0);
	reach(f, 1);
	assert_int_equal(ibv_wc_read_opcode(f->cq), IBV_WC_RDMA_WRITE);
	ibv_end_poll(f->cq);
	assert_memory_equal(f->buf, f->buf + HALF, HALF);

	memset(f->buf + HALF, 0, HALF);
	receive(f, 20, 0);
	ibv_wr_start(f->ex);
	piece(f, 2);
	ibv_wr_rdma_write_imm(f->ex, f->mr->rkey, upper, 0x1234);
	ibv_wr_set_sge_list(f->ex, 2, list);
	assert_int_equal(ibv_wr_complete(f->ex), 0);
	reach(f, 20);
	assert_int_equal(ibv_wc_read_opcode(f->cq), IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(ibv_wc_read_imm_data(f->cq), 0x1234);
	assert_int_equal(ibv_wc_read_byte_len(f->cq), HALF);
	assert_int_equal(ibv_wc_read_qp_num(f->cq), f->b->qp_num);
	ibv_end_poll(f->cq);
	assert_memory_equal(f->buf, f->buf + HALF, HALF);

	memset(f->buf, 0, 100);
	ibv_wr_start(f->ex);
	piece(f, 3);
	ibv_wr_rdma_read(f->ex, f->mr->rkey, upper);
	ibv_wr_set_sge(f->ex, f->mr->lkey, (uintptr_t)f->buf, 100);
	assert_int_equal(ibv_wr_complete(f->ex), 0);
	reach(f, 3);
	ibv_end_poll(f->cq);
	assert_memory_equal(f->buf, f->buf + HALF, 100);
}

fixture_test(a_wrong_batch_is_refused_as_a_whole)
{
	struct fixture *f = *state;
	struct ibv_sge three[3] = { { 0 } };
	char much[INLINE + 1] = "";

	ibv_wr_start(f->ex);
	for (unsigned i = 0; i < DEPTH + 3; i++) {
		piece(f, 100 + i);
		ibv_wr_send(f->ex);
		set_lower_half(f);
	}
	assert_int_equal(ibv_wr_complete(f->ex), ENOMEM);

	ibv_wr_start(f->ex);
	ibv_wr_send(f->ex);
	set_lower_half(f);
	ibv_wr_send(f->ex);
	ibv_wr_set_sge_list(f->ex, 3, three);
	assert_int_equal(ibv_wr_complete(f->ex), EINVAL);

	ibv_wr_start(f->ex);
	ibv_wr_send(f->ex);
	ibv_wr_set_inline_data(f->ex, much, sizeof(much));
	assert_int_equal(ibv_wr_complete(f->ex), EINVAL);

	ibv_wr_start(f->ex);
	set_lower_half(f);
	assert_int_equal(ibv_wr_complete(f->ex), EINVAL);

	ibv_wr_start(f->ex);
	ibv_wr_send(f->ex);
	ibv_wr_abort(f->ex);

	/* No WR of the refused batches was posted, so the whole queue is
	 * free. */
	ibv_wr_start(f->ex);
	for (unsigned i = 0; i < DEPTH; i++) {
		piece(f, i);
		ibv_wr_rdma_write(f->ex, f->mr->rkey, (uintptr_t)f->buf + HALF);
		set_lower_half(f);
	}
	assert_int_equal(ibv_wr_complete(f->ex), 0);
	reach(f, 0);
	for (unsigned i = 1; i < DEPTH; i++) {
		int rc;

		do {
			rc = ibv_next_poll(f->cq);
		} while (rc == ENOENT);
		assert_int_equal(rc, 0);
		assert_int_equal(f->cq->wr_id, i);
	}
	ibv_end_poll(f->cq);
}

fixture_test(unsupported_operations_are_refused_at_creation)
{
	struct fixture *f = *state;
	struct ibv_qp_init_attr_ex init = {
		.send_cq = ibv_cq_ex_to_cq(f->cq),
		.recv_cq = ibv_cq_ex_to_cq(f->cq),
		.qp_type = IBV_QPT_RC,
		.comp_mask =
			IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = f->pd,
		.send_ops_flags = IBV_QP_EX_WITH_LOCAL_INV,
	};
	struct ibv_cq_init_attr_ex attr = { .cqe = 1,
					    .wc_flags =
						    IBV_WC_EX_WITH_TM_INFO };
	struct ibv_qp *plain;

	errno = 0;
	assert_null(ibv_create_qp_ex(f->ctx, &init));
	assert_int_equal(errno, EOPNOTSUPP);
	errno = 0;
	assert_null(ibv_create_cq_ex(f->ctx, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
	init.comp_mask = IBV_QP_INIT_ATTR_PD;
	plain = ibv_create_qp_ex(f->ctx, &init);
	assert_non_null(plain);
	assert_null(ibv_qp_to_qp_ex(plain));
	assert_int_equal(ibv_destroy_qp(plain), 0);
}
