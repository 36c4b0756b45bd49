/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every version of the ABI over the same core: properties are filled
 * completely, and a message and a group pass with that version's types.
 */
#include "rig.h"

#include "test.h"

static struct rig *r;
static char from[200000], to[200000];

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

/* Two versions of properties agree in what both have. */
#define assert_alike(a, b)                                                     \
	do {                                                                   \
		assert_string_equal((a).name, (b).name);                       \
		assert_ptr_equal((a).pciPath, (b).pciPath);                    \
		assert_int_equal((a).guid, (b).guid);                          \
		assert_int_equal((a).ptrSupport, (b).ptrSupport);              \
		assert_int_equal((a).regIsGlobal, (b).regIsGlobal);            \
		assert_int_equal((a).speed, (b).speed);                        \
		assert_int_equal((a).port, (b).port);                          \
		assert_true((a).latency == (b).latency);                       \
		assert_int_equal((a).maxComms, (b).maxComms);                  \
		assert_int_equal((a).maxRecvs, (b).maxRecvs);                  \
		assert_int_equal((a).netDeviceType, (b).netDeviceType);        \
		assert_int_equal((a).netDeviceVersion, (b).netDeviceVersion);  \
	} while (0)

#define assert_alike_v9(a, b)                                                  \
	do {                                                                   \
		assert_alike(a, b);                                            \
		assert_int_equal((a).forceFlush, (b).forceFlush);              \
		assert_int_equal((a).vProps.ndevs, (b).vProps.ndevs);          \
		assert_int_equal((a).vProps.devs[0], (b).vProps.devs[0]);      \
		assert_int_equal((a).maxP2pBytes, (b).maxP2pBytes);            \
		assert_int_equal((a).maxCollBytes, (b).maxCollBytes);          \
	} while (0)

#define CASE(name) TEST_OF(name, set_up, tear_down)

CASE(every_version_fills_all_properties)
{
	const struct nccl_net_v8 *v8 = rig_table(8);
	const struct nccl_net_v9 *v9 = rig_table(9);
	const struct nccl_net_v10 *v10 = rig_table(10);
	const struct nccl_net_v11 *v11 = rig_table(11);
	struct nccl_net_properties_v12 p;
	struct nccl_net_properties_v11 p11;
	struct nccl_net_properties_v9 p9;
	struct nccl_net_properties_v8 p8;

	assert_int_equal(rig_connect(r), 0);
	memset(&p, 0xa5, sizeof(p));
	assert_int_equal(r->net->getProperties(0, &p), NCCL_SUCCESS);
	assert_string_equal(p.name, "soft:127.0.0.1+soft:127.0.0.2");
	assert_null(p.pciPath);
	assert_int_equal(p.ptrSupport, NCCL_PTR_HOST);
	/* One rail does not know its speed. */
	assert_int_equal(p.speed, 10000 + 400000);
	assert_int_equal(p.maxRecvs, 8);
	assert_int_equal(p.forceFlush, 0);
	assert_int_equal(p.vProps.ndevs, 1);
	assert_int_equal(p.vProps.devs[0], 0);
	assert_int_equal(p.netDeviceType, NCCL_NET_DEVICE_HOST);
	assert_in_range(p.maxP2pBytes, 1, NCCL_MAX_NET_SIZE_BYTES);
	assert_int_equal(p.railId, NCCL_NET_ID_UNDEF);

	memset(&p11, 0xa5, sizeof(p11));
	assert_int_equal(v11->getProperties(0, &p11), NCCL_SUCCESS);
	assert_alike_v9(p11, p);
	assert_int_equal(p11.maxMultiRequestSize, p.maxMultiRequestSize);
	memset(&p9, 0xa5, sizeof(p9));
	assert_int_equal(v10->getProperties(0, &p9), NCCL_SUCCESS);
	assert_alike_v9(p9, p);
	memset(&p9, 0xa5, sizeof(p9));
	assert_int_equal(v9->getProperties(0, &p9), NCCL_SUCCESS);
	assert_alike_v9(p9, p);
	memset(&p8, 0xa5, sizeof(p8));
	assert_int_equal(v8->getProperties(0, &p8), NCCL_SUCCESS);
	assert_alike(p8, p);
	assert_int_equal(r->net->getProperties(1, &p), NCCL_INVALID_ARGUMENT);
}

CASE(each_device_of_the_proxy_is_one_of_nccl_s)
{
	struct nccl_net_properties_v12 p[3];
	int n;

	pthread_mutex_lock(&r->f->lock);
	r->f->welcome.devices = 3;
	pthread_mutex_unlock(&r->f->lock);
	assert_int_equal(rig_connect(r), 0);
	assert_int_equal(r->net->devices(&n), NCCL_SUCCESS);
	assert_int_equal(n, 3);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(r->net->getProperties(i, &p[i]), NCCL_SUCCESS);
		assert_int_equal(p[i].vProps.ndevs, 1);
		assert_int_equal(p[i].vProps.devs[0], i);
		for (int k = 0; k < i; k++) {
			assert_true(p[i].guid != p[k].guid);
			assert_string_not_equal(p[i].name, p[k].name);
		}
	}
	/* By the fake proxy SUP of device 1 stands by: its speed is SOUT's,
	 * which is unknown. */
	assert_int_equal(p[0].speed, 410000);
	assert_int_equal(p[1].speed, 10000);
	assert_int_equal(r->net->getProperties(3, &p[0]),
			 NCCL_INVALID_ARGUMENT);
	assert_int_equal(r->net->getProperties(-1, &p[0]),
			 NCCL_INVALID_ARGUMENT);
	assert_int_equal(r->net->listen(r->ctx, 3, &p[0], &r->listener),
			 NCCL_INVALID_ARGUMENT);
}

CASE(there_is_one_device_that_is_never_fused)
{
	const struct nccl_net_v9 *v9 = rig_table(9);
	struct nccl_net_vdevice_props_v12 v = { .ndevs = 1 };
	struct nccl_net_vdevice_props_v9 old = { .ndevs = 1 };
	int n;

	assert_string_equal(r->net->name, "MPIB");
	assert_int_equal(r->net->devices(&n), NCCL_SUCCESS);
	assert_int_equal(n, 1);
	assert_int_equal(r->net->makeVDevice(&n, &v), NCCL_INVALID_USAGE);
	assert_int_equal(v9->makeVDevice(&n, &old), NCCL_INVALID_USAGE);
}

/* Turn the shard and test both, until both are over. */
static void finish(void *s, void *v, int *sent, int *got)
{
	int s_done = 0, v_done = 0;

	for (int i = 0; i < 100000 && !(s_done && v_done); i++) {
		fake_turn(r->f, 0, 1, 1 << 20);
		if (!s_done)
			assert_int_equal(r->net->test(s, &s_done, sent), 0);
		if (!v_done)
			assert_int_equal(r->net->test(v, &v_done, got), 0);
	}
	assert_true(s_done && v_done);
}

static void check(int sent, int got)
{
	assert_int_equal(sent, 150000);
	assert_int_equal(got, 150000);
	assert_memory_equal(from, to, 150000);
	memset(to, 0, sizeof(to));
	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (char)(from[i] + (char)i + 1);
}

/* The part that is alike in all versions. */
#define CONNECT_AND_REGISTER(net)                                              \
	do {                                                                   \
		assert_int_equal((net)->accept(listener, &r->rx, NULL), 0);    \
		assert_int_equal((net)->closeListen(listener), 0);             \
		fake_conn_open(r->f, 0);                                       \
		fake_conn_open(r->f, 1);                                       \
		assert_int_equal((net)->regMr(r->tx, from, sizeof(from),       \
					      NCCL_PTR_HOST, &a),              \
				 0);                                           \
		assert_int_equal((net)->regMr(r->rx, to, sizeof(to),           \
					      NCCL_PTR_HOST, &b),              \
				 0);                                           \
	} while (0)

CASE(v8_passes_sizes_in_int)
{
	const struct nccl_net_v8 *net = rig_table(8);
	void *listener, *a, *b, *s, *v, *addr = to;
	int size = sizeof(to), tag = 4, sent, got;
	char handle[NCCL_NET_HANDLE_MAXSIZE];

	assert_int_equal(net->init(rig_log), 0);
	assert_int_equal(net->init(rig_log), 0); /* kept, not doubled */
	assert_int_equal(atomic_load(&r->f->asked[MPIB_CTL_HELLO]), 1);
	assert_int_equal(net->listen(0, handle, &listener), 0);
	assert_int_equal(net->connect(0, handle, &r->tx, NULL), 0);
	CONNECT_AND_REGISTER(net);
	assert_int_equal(net->irecv(r->rx, 1, &addr, &size, &tag, &b, &v), 0);
	assert_int_equal(net->isend(r->tx, from, 150000, tag, a, &s), 0);
	finish(s, v, &sent, &got);
	check(sent, got);
	assert_int_equal(net->isend(r->tx, from, -1, tag, a, &s),
			 NCCL_INVALID_ARGUMENT);
}

CASE(v10_passes_a_configuration_and_profiler_handles)
{
	const struct nccl_net_v10 *net = rig_table(10);
	void *listener, *a, *b, *s, *v, *addr = to;
	struct nccl_net_comm_config config = { .trafficClass = 7 };
	char handle[NCCL_NET_HANDLE_MAXSIZE];
	size_t size = sizeof(to);
	int tag = 4, sent, got;

	assert_int_equal(net->init(rig_log, NULL), 0);
	assert_int_equal(net->listen(0, handle, &listener), 0);
	assert_int_equal(net->connect(0, &config, handle, &r->tx, NULL), 0);
	CONNECT_AND_REGISTER(net);
	assert_int_equal(net->irecv(r->rx, 1, &addr, &size, &tag, &b, NULL, &v),
			 0);
	assert_int_equal(net->isend(r->tx, from, 150000, tag, a, NULL, &s), 0);
	finish(s, v, &sent, &got);
	check(sent, got);
}

CASE(v12_passes_contexts_and_groups)
{
	void *a, *b, *s[2], *v, *addr[2] = { to, to + 100000 }, *mr[2];
	size_t size[2] = { 100000, 100000 };
	int tag[2] = { 5, 6 }, sent[2], got[2], done = 0;

	assert_int_equal(rig_connect(r), 0);
	assert_int_equal(
		r->net->regMr(r->tx, from, sizeof(from), NCCL_PTR_HOST, &a), 0);
	assert_int_equal(
		r->net->regMr(r->rx, to, sizeof(to), NCCL_PTR_HOST, &b), 0);
	mr[0] = mr[1] = b;
	assert_int_equal(r->net->irecv(r->rx, 2, addr, size, tag, mr, NULL, &v),
			 0);
	for (int i = 1; i >= 0; i--)
		assert_int_equal(r->net->isend(r->tx, from + i,
					       (size_t)(90000 - i), tag[i], a,
					       NULL, &s[i]),
				 0);
	finish(s[0], s[1], &sent[0], &sent[1]);
	assert_int_equal(sent[0], 90000);
	assert_int_equal(sent[1], 89999);
	assert_int_equal(r->net->test(v, &done, got), 0);
	assert_int_equal(done, 1);
	assert_int_equal(got[0], 90000);
	assert_int_equal(got[1], 89999);
	assert_memory_equal(to, from, 90000);
	assert_memory_equal(to + 100000, from + 1, 89999);
	assert_int_equal(r->net->iflush(r->rx, 2, addr, got, mr, &v), 0);
	assert_null(v); /* nothing to do */
}
