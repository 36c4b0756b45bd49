/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The drop-in libibverbs.so.1 as NCCL uses it: the program is not linked with
 * the library and looks up every function with its version. test_extended,
 * which links the library, and the conformance suite test what the functions
 * do.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>

#include "addr.h"
#include "test.h"

#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* The name and version of each function. */
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
	struct in_addr in = { htonl(test_addr(1)) };
	char devices[32];

	snprintf(devices, sizeof(devices), "soft0=%s", inet_ntoa(in));
	setenv("MPIB_SOFT_DEVICES", devices, 1);
	library = dlopen("libibverbs.so.1", RTLD_NOW);
	/* NCCL tries the name libibverbs.so first, and must get the same
	 * library. */
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

static void side_open(struct side *s)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16, .max_send_sge = 1 },
	};

	s->ctx = open_named("soft0");
	s->pd = v.ibv_alloc_pd(s->ctx);
	s->cq = v.ibv_create_cq(s->ctx, 32, NULL, NULL, 0);
	assert_true(s->pd && s->cq);
	init.send_cq = s->cq;
	init.recv_cq = s->cq;
	s->qp = v.ibv_create_qp(s->pd, &init);
	assert_non_null(s->qp);
}

static void side_close(struct side *s)
{
	assert_int_equal(v.ibv_destroy_qp(s->qp), 0);
	assert_int_equal(v.ibv_destroy_cq(s->cq), 0);
	assert_int_equal(v.ibv_dealloc_pd(s->pd), 0);
	assert_int_equal(v.ibv_close_device(s->ctx), 0);
}

TEST(every_function_exists_in_its_version)
{
#define PRESENT(name, version) assert_non_null(v.name);
	FUNCTIONS(PRESENT)
#undef PRESENT
	assert_null(dlvsym(library, "ibv_query_ece", "IBVERBS_1.1"));
}

TEST(the_library_is_the_drop_in)
{
	Dl_info info;

	assert_true(dladdr(*(void **)&v.ibv_get_device_list, &info));
	assert_in(info.dli_fname, MPIB_DROPIN);
}

TEST(unsupported_calls_are_refused_with_errno)
{
	struct ibv_port_attr port;
	struct ibv_ece ece;
	union ibv_gid gid;
	struct side s;

	side_open(&s);
	assert_int_equal(v.ibv_query_ece(s.qp, &ece), EOPNOTSUPP);
	errno = 0;
	assert_int_equal(v.ibv_query_gid(s.ctx, 1, 2, &gid), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(v.ibv_query_port(s.ctx, 2, (void *)&port), EINVAL);
	errno = 0;
	assert_null(v.ibv_create_cq(s.ctx, 0, NULL, NULL, 0));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(v.ibv_dealloc_pd(s.pd), EBUSY);
	side_close(&s);
}

struct test_group test_group = { open_library, NULL };
