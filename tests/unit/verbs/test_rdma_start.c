/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine/rail/rail.c, probe.c and verbs/explain.c: the start of an engine on
 * RDMA devices, and the messages if a device is unsuitable.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "engine/rail/tenant.h"
#include "engine/shard.h"
#include "fake_ibv.h"
#include "scratch.h"
#include "test.h"

static struct mpib_engine_config cfg;
static struct mpib_engine *engine;
static struct fake_device *sout, *sup;
static char why[300];

static void name_rails(const char *a, const char *b)
{
	assert_int_equal(
		mpib_rail_spec_parse(a, &cfg.rail[0], why, sizeof(why)), 0);
	assert_int_equal(
		mpib_rail_spec_parse(b, &cfg.rail[1], why, sizeof(why)), 0);
}

static int setup(void **state)
{
	fake_ibv_reset();
	sout = fake_ibv_add("fake_0", "127.41.1.1");
	sup = fake_ibv_add("fake_1", "127.41.1.2");
	mpib_engine_config_init(&cfg);
	name_rails("rdma:fake_0:1", "rdma:fake_1");
	engine = NULL;
	return 0;
}

static int teardown(void **state)
{
	if (engine)
		mpib_engine_close(engine);
	return 0;
}

static int start(void)
{
	return mpib_engine_open_idle(&cfg, NULL, NULL, &engine, why,
				     sizeof(why));
}

static void must_start(void)
{
	if (start() < 0)
		fail_msg("%s", why);
}

static void refused(int error, const char *const *words)
{
	assert_int_equal(start(), error);
	assert_null(engine);
	for (; *words; words++)
		assert_in(why, *words);
}

#define REFUSED(error, ...)                                                    \
	refused(error, (const char *const[]){ __VA_ARGS__, NULL })

fixture_test(every_shard_has_the_inline_limit_of_the_device)
{
	cfg.shards = 2;
	assert_int_equal(start(), 0);
	assert_string_equal(mpib_engine_provider(engine, 0), "rdma");
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(
			engine->shard[i / 2].rail[i % 2].port.max_inline, 128);
}

fixture_test(a_device_without_inline_data_is_used_without_it)
{
	fake_ibv.max_inline = 0;
	assert_int_equal(start(), 0);
	assert_int_equal(engine->shard[0].rail[0].port.max_inline, 0);
}

fixture_test(adaptive_routing_has_its_threshold_on_infiniband)
{
	fake_ibv_make_ib(sout, 1);
	fake_ibv_make_ib(sup, 2);
	assert_int_equal(start(), 0);
	assert_int_equal(engine->shard[0].ar_above, 8192);
	mpib_engine_close(engine);
	cfg.ar = MPIB_AR_OFF;
	assert_int_equal(start(), 0);
	assert_int_equal(engine->shard[0].ar_above, UINT32_MAX);
}

fixture_test(the_error_for_an_unknown_device_lists_the_known_ones)
{
	name_rails("rdma:mlx5_7", "rdma:fake_1");
	REFUSED(-ENODEV, "rdma:mlx5_7:1", "ibv_open_device", "fake_0, fake_1");
}

fixture_test(a_machine_without_devices_is_an_error)
{
	fake_ibv.devices = 0;
	REFUSED(-ENODEV, "there are none", "/dev/infiniband");
}

fixture_test(the_error_for_a_device_names_the_missing_right)
{
	fake_ibv_fails("ibv_open_device", EACCES, 1);
	REFUSED(-EACCES, "rdma:fake_0:1: ibv_open_device: Permission denied",
		"/dev/infiniband/uverbs");
}

fixture_test(a_port_that_the_device_lacks_is_an_error)
{
	name_rails("rdma:fake_0:2", "rdma:fake_1");
	REFUSED(-EINVAL, "rdma:fake_0:2", "ibv_query_port", "no such port");
}

/* For example, a node may boot before its switch. */
fixture_test(a_rail_whose_port_is_down_starts_as_lost)
{
	struct mpib_tenant *t;

	sup->port[0].attr.state = IBV_PORT_DOWN;
	sup->port[0].gids = 0;
	must_start();
	assert_int_equal(mpib_engine_lost(engine), 2);
	assert_false(engine->rail_up[1]);
	assert_true(engine->rail_up[0]);
	assert_int_equal(mpib_tenant_get(engine, 0, 1, &t), 0);
	assert_non_null(t->srq[0]);
	assert_null(t->srq[1]);
}

/* SOUT does not answer the first shard, but works for the second. */
fixture_test(shards_of_a_device_agree_which_rails_are_lost)
{
	cfg.shards = 2;
	fake_ibv_fails("ibv_open_device", EIO, 1);
	must_start();
	assert_null(engine->shard[0].rail[0].ctx);
	assert_non_null(engine->shard[1].rail[0].ctx);
	for (unsigned i = 0; i < 2; i++) {
		assert_true(engine->shard[i].rail[0].dead);
		assert_false(engine->shard[i].rail[1].dead);
	}
	assert_false(engine->rail_up[0]);
	assert_int_equal(mpib_engine_lost(engine), 1);
}

/* NCCL needs the PCI path of SOUT even if SOUT does not answer, to find the
 * nearest GPU. */
fixture_test(a_device_that_does_not_answer_has_its_pci_path)
{
	assert_int_equal(scratch_make(NULL), 0);
	scratch_dir("device");
	snprintf(sout->ibv.ibdev_path, sizeof(sout->ibv.ibdev_path), "%s",
		 scratch);
	fake_ibv_fails("ibv_open_device", EIO, 1);
	must_start();
	assert_string_equal(mpib_engine_place(engine, 0),
			    scratch_path("device"));
	assert_string_equal(mpib_engine_place(engine, 1), "");
	assert_int_equal(scratch_remove(NULL), 0);
}

fixture_test(with_both_ports_down_tenants_are_refused)
{
	struct mpib_tenant *t;

	sout->port[0].attr.state = IBV_PORT_INIT;
	sup->port[0].attr.state = IBV_PORT_DOWN;
	assert_int_equal(start(), 0);
	assert_int_equal(mpib_engine_lost(engine), 3);
	assert_int_equal(mpib_tenant_get(engine, 0, 1, &t), -ENETDOWN);
	assert_in(mpib_engine_last_error(engine, -ENETDOWN), "no rail is left");
}

fixture_test(a_port_without_a_gid_is_an_error)
{
	sout->port[0].gids = 0;
	REFUSED(-EADDRNOTAVAIL, "rdma:fake_0:1", "no RoCE v2 GID", "IPv4");
}

fixture_test(rails_with_different_link_layers_are_refused)
{
	fake_ibv_make_ib(sup, 3);
	REFUSED(-EINVAL, "fake_0 is Ethernet", "fake_1 is InfiniBand",
		"--sup none");
}

fixture_test(the_error_names_the_limit_on_pinned_memory)
{
	struct rlimit old, low;

	getrlimit(RLIMIT_MEMLOCK, &old);
	low = old;
	low.rlim_cur = 8 << 20;
	setrlimit(RLIMIT_MEMLOCK, &low);
	fake_ibv_fails("ibv_reg_mr", ENOMEM, 2);
	REFUSED(-ENOMEM, "ibv_reg_mr", "RLIMIT_MEMLOCK is 8192 KiB",
		"LimitMEMLOCK=infinity");
	setrlimit(RLIMIT_MEMLOCK, &old);
}

fixture_test(a_cq_that_cannot_be_pinned_is_an_error)
{
	fake_ibv_fails("ibv_create_cq", ENOMEM, 1);
	REFUSED(-ENOMEM, "rdma:fake_0:1: ibv_create_cq: Cannot allocate",
		"RLIMIT_MEMLOCK");
}

fixture_test(the_error_for_too_long_queues_names_the_setting)
{
	cfg.sq_depth = 5000;
	REFUSED(-EINVAL, "qp.sq_depth = 5000", "max_qp_wr = 4096");
	cfg.sq_depth = 512;
	cfg.srq_high = 5000;
	REFUSED(-EINVAL, "srq.high = 5000", "max_srq_wr = 4096");
}

fixture_test(the_error_names_a_device_limit_that_is_too_low)
{
	sup->port[0].attr.max_msg_sz = 2048;
	REFUSED(-EINVAL, "fake_1", "max_msg_sz = 2048");
	sup->port[0].attr.max_msg_sz = 0; /* the port reports no limit */
	sup->attr.max_qp = 1;
	REFUSED(-EINVAL, "fake_1", "max_qp = 1", "sup.qp");
	sup->attr.max_qp = 100;
	sup->attr.max_cqe = 64;
	REFUSED(-EINVAL, "fake_1", "max_cqe = 64", "srq.high");
	sup->attr.max_cqe = 1 << 20;
	sup->attr.max_qp_init_rd_atom = 0;
	REFUSED(-EINVAL, "fake_1", "no RDMA READ");
	sup->attr.max_qp_init_rd_atom = 1;
	must_start();
	assert_int_equal(engine->shard[0].rail[1].port.max_msg_sz, 1u << 31);
}

fixture_test(relaxed_ordering_is_not_used_if_the_device_refuses_it)
{
	const struct mpib_verbs *v = &mpib_verbs_rdma;
	int wish = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	char mem[64];

	assert_int_equal(v->open(&cfg.rail[0], &ctx), 0);
	assert_int_equal(v->alloc_pd(ctx, &pd), 0);
	for (unsigned times = 0; times < 2; times++) {
		fake_ibv_fails("ibv_reg_mr", EINVAL, times);
		assert_int_equal(v->reg_mr(pd, mem, sizeof(mem),
					   (uint64_t)(uintptr_t)mem, wish, &mr),
				 0);
		assert_int_equal(fake_ibv.access,
				 times ? IBV_ACCESS_LOCAL_WRITE : wish);
		assert_int_equal(v->dereg_mr(mr), 0);
	}
	/* If a registration did not request IBV_ACCESS_RELAXED_ORDERING, it
	 * must not be tried again after an error. */
	fake_ibv.times = 1;
	assert_int_equal(v->reg_mr(pd, mem, sizeof(mem),
				   (uint64_t)(uintptr_t)mem,
				   IBV_ACCESS_LOCAL_WRITE, &mr),
			 -EINVAL);
	assert_int_equal(v->dealloc_pd(pd), 0);
	assert_int_equal(v->close(ctx), 0);
}
