/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The drop-in libibverbs.so.1, as a program sees it that links nothing and
 * looks every function up with its version, as NCCL does.
 */
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "test.h"

#define SIZE 100000
#define QKEEP 16

#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* Name, version. */
#define FUNCTIONS(X)                                                           \
	X(ibv_get_device_list, "IBVERBS_1.1")                                  \
	X(ibv_free_device_list, "IBVERBS_1.1")                                 \
	X(ibv_get_device_name, "IBVERBS_1.1")                                  \
	X(ibv_open_device, "IBVERBS_1.1")                                      \
	X(ibv_close_device, "IBVERBS_1.1")                                     \
	X(ibv_get_async_event, "IBVERBS_1.1")                                  \
	X(ibv_ack_async_event, "IBVERBS_1.1")                                  \
	X(ibv_query_device, "IBVERBS_1.1")                                     \
	X(ibv_query_port, "IBVERBS_1.1")                                       \
	X(ibv_query_gid, "IBVERBS_1.1")                                        \
	X(ibv_query_qp, "IBVERBS_1.1")                                         \
	X(ibv_alloc_pd, "IBVERBS_1.1")                                         \
	X(ibv_dealloc_pd, "IBVERBS_1.1")                                       \
	X(ibv_reg_mr, "IBVERBS_1.1")                                           \
	X(ibv_reg_mr_iova2, "IBVERBS_1.8")                                     \
	X(ibv_reg_dmabuf_mr, "IBVERBS_1.12")                                   \
	X(ibv_dereg_mr, "IBVERBS_1.1")                                         \
	X(ibv_create_comp_channel, "IBVERBS_1.0")                              \
	X(ibv_destroy_comp_channel, "IBVERBS_1.0")                             \
	X(ibv_create_cq, "IBVERBS_1.1")                                        \
	X(ibv_destroy_cq, "IBVERBS_1.1")                                       \
	X(ibv_create_qp, "IBVERBS_1.1")                                        \
	X(ibv_modify_qp, "IBVERBS_1.1")                                        \
	X(ibv_destroy_qp, "IBVERBS_1.1")                                       \
	X(ibv_query_ece, "IBVERBS_1.10")                                       \
	X(ibv_set_ece, "IBVERBS_1.10")                                         \
	X(ibv_fork_init, "IBVERBS_1.1")                                        \
	X(ibv_event_type_str, "IBVERBS_1.1")                                   \
	X(ibv_wc_status_str, "IBVERBS_1.1")

static struct {
#define MEMBER(name, version) __typeof__(&(name)) name;
	FUNCTIONS(MEMBER)
#undef MEMBER
} v;

static void *library;

static int open_library(void **state)
{
	library = dlopen("libibverbs.so.1", RTLD_NOW);
	/* NCCL asks for the other name first, and gets the same. */
	if (!library || dlopen("libibverbs.so", RTLD_NOW) != library) {
		fprintf(stderr, "%s\n", dlerror());
		return -1;
	}
#define LOOK_UP(name, version)                                                 \
	*(void **)&v.name = dlvsym(library, #name, version);
	FUNCTIONS(LOOK_UP)
#undef LOOK_UP
	return 0;
}

struct side {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	union ibv_gid gid;
	char *buf;
};

static struct ibv_context *open_named(const char *name)
{
	struct ibv_device **list = v.ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;

	assert_non_null(list);
	for (int i = 0; list[i]; i++)
		if (!strcmp(v.ibv_get_device_name(list[i]), name))
			ctx = v.ibv_open_device(list[i]);
	v.ibv_free_device_list(list);
	assert_non_null(ctx);
	assert_string_equal(v.ibv_get_device_name(ctx->device), name);
	return ctx;
}

static void side_open(struct side *s, const char *name)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = QKEEP,
			 .max_recv_wr = QKEEP,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags =
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};

	s->ctx = open_named(name);
	s->pd = v.ibv_alloc_pd(s->ctx);
	s->cq = v.ibv_create_cq(s->ctx, 2 * QKEEP, NULL, NULL, 0);
	assert_true(s->pd && s->cq);
	s->buf = calloc(1, SIZE);
	s->mr = v.ibv_reg_mr_iova2(
		s->pd, s->buf, SIZE, (uintptr_t)s->buf,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			IBV_ACCESS_REMOTE_READ | IBV_ACCESS_RELAXED_ORDERING);
	assert_non_null(s->mr);
	init.send_cq = s->cq;
	init.recv_cq = s->cq;
	s->qp = v.ibv_create_qp(s->pd, &init);
	assert_non_null(s->qp);
	assert_int_equal(v.ibv_query_gid(s->ctx, 1, 1, &s->gid), 0);
	assert_int_equal(v.ibv_modify_qp(s->qp, &attr,
					 IBV_QP_STATE | IBV_QP_PKEY_INDEX |
						 IBV_QP_PORT |
						 IBV_QP_ACCESS_FLAGS),
			 0);
}

static void side_connect(struct side *s, const struct side *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_4096,
		.dest_qp_num = peer->qp->qp_num,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1 },
	};

	attr.ah_attr.grh.dgid = peer->gid;
	attr.ah_attr.grh.sgid_index = 1;
	assert_int_equal(
		v.ibv_modify_qp(s->qp, &attr,
				IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					IBV_QP_MAX_DEST_RD_ATOMIC |
					IBV_QP_MIN_RNR_TIMER),
		0);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
	};
	assert_int_equal(v.ibv_modify_qp(s->qp, &attr,
					 IBV_QP_STATE | IBV_QP_TIMEOUT |
						 IBV_QP_RETRY_CNT |
						 IBV_QP_RNR_RETRY |
						 IBV_QP_SQ_PSN |
						 IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
}

static void side_close(struct side *s)
{
	assert_int_equal(v.ibv_destroy_qp(s->qp), 0);
	assert_int_equal(v.ibv_dereg_mr(s->mr), 0);
	assert_int_equal(v.ibv_destroy_cq(s->cq), 0);
	assert_int_equal(v.ibv_dealloc_pd(s->pd), 0);
	assert_int_equal(v.ibv_close_device(s->ctx), 0);
	free(s->buf);
}

static struct ibv_wc wait_for_one(struct side *s)
{
	struct ibv_wc wc;
	int n = 0;

	for (int i = 0; i < 20000 && !n; i++) {
		n = ibv_poll_cq(s->cq, 1, &wc);
		if (!n)
			usleep(500);
	}
	assert_int_equal(n, 1);
	return wc;
}

static void every_function_is_there_in_its_version(void **state)
{
#define PRESENT(name, version) assert_non_null(v.name);
	FUNCTIONS(PRESENT)
#undef PRESENT
	assert_null(dlvsym(library, "ibv_query_ece", "IBVERBS_1.1"));
}

static void the_library_is_the_drop_in(void **state)
{
	Dl_info info;

	assert_true(dladdr(*(void **)&v.ibv_get_device_list, &info));
	assert_non_null(strstr(info.dli_fname, MPIB_DROPIN));
}

static void writes_between_two_devices_of_one_process(void **state)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				  .send_flags = IBV_SEND_SIGNALED,
				  .imm_data = 0x12345678,
				  .wr_id = 7,
				  .num_sge = 1 };
	struct ibv_recv_wr rr = { .wr_id = 8 }, *bad_recv;
	struct ibv_send_wr *bad;
	struct side a, b;
	struct ibv_sge sge;
	struct ibv_wc wc;

	side_open(&a, "soft0");
	side_open(&b, "soft1");
	side_connect(&a, &b);
	side_connect(&b, &a);
	for (int i = 0; i < SIZE; i++)
		a.buf[i] = (char)(i * 7 + i / 256);
	assert_int_equal(ibv_post_recv(b.qp, &rr, &bad_recv), 0);
	sge = (struct ibv_sge){ (uintptr_t)a.buf, SIZE, a.mr->lkey };
	wr.sg_list = &sge;
	wr.wr.rdma.remote_addr = (uintptr_t)b.buf;
	wr.wr.rdma.rkey = b.mr->rkey;
	assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
	wc = wait_for_one(&a);
	assert_string_equal(v.ibv_wc_status_str(wc.status), "success");
	assert_int_equal(wc.wr_id, 7);
	wc = wait_for_one(&b);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.imm_data, 0x12345678);
	assert_int_equal(wc.byte_len, SIZE);
	assert_memory_equal(a.buf, b.buf, SIZE);
	side_close(&a);
	side_close(&b);
}

static void what_is_not_done_is_refused_with_errno(void **state)
{
	struct ibv_port_attr port;
	struct ibv_ece ece;
	struct side s;

	side_open(&s, "soft0");
	assert_int_equal(v.ibv_query_ece(s.qp, &ece), EOPNOTSUPP);
	errno = 0;
	assert_int_equal(v.ibv_query_gid(s.ctx, 1, 2, &s.gid), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(v.ibv_query_port(s.ctx, 2, (void *)&port), EINVAL);
	errno = 0;
	assert_null(v.ibv_create_cq(s.ctx, 0, NULL, NULL, 0));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(v.ibv_dealloc_pd(s.pd), EBUSY);
	side_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_function_is_there_in_its_version),
		cmocka_unit_test(the_library_is_the_drop_in),
		cmocka_unit_test(writes_between_two_devices_of_one_process),
		cmocka_unit_test(what_is_not_done_is_refused_with_errno),
	};
	char devices[128];
	int x = (int)getpid();

	/* Addresses of its own, so that tests may run side by side. */
	snprintf(devices, sizeof(devices),
		 "soft0=127.229.%d.%d,soft1=127.229.%d.%d", x / 120 % 250,
		 1 + 2 * (x % 120), x / 120 % 250, 2 + 2 * (x % 120));
	setenv("MPIB_SOFT_DEVICES", devices, 1);
	return cmocka_run_group_tests_name("dropin", tests, open_library, NULL);
}
