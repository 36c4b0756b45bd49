/* SPDX-License-Identifier: Apache-2.0 */
/* All versions of the ABI: each must set all properties. */
#include "rig.h"

#include "test.h"

static struct rig *r;
static char from[4096];

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

/* Check that two versions of the properties agree in their common fields. */
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
	/* The speed of SOUT is unknown and counts as 10000. */
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

CASE(each_device_of_the_proxy_is_a_device_of_nccl)
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
	/* In the fake proxy, SUP of device 1 is a standby rail. So only SOUT,
	 * whose speed is unknown, counts. */
	assert_int_equal(p[0].speed, 410000);
	assert_int_equal(p[1].speed, 10000);
	assert_int_equal(r->net->getProperties(3, &p[0]),
			 NCCL_INVALID_ARGUMENT);
	assert_int_equal(r->net->getProperties(-1, &p[0]),
			 NCCL_INVALID_ARGUMENT);
	assert_int_equal(r->net->listen(r->ctx, 3, &p[0], &r->listener),
			 NCCL_INVALID_ARGUMENT);
}

/* If makeVDevice is NULL, NCCL fuses no devices. */
CASE(the_plugin_has_one_device_and_does_not_fuse)
{
	const struct nccl_net_v11 *v11 = rig_table(11);
	const struct nccl_net_v10 *v10 = rig_table(10);
	const struct nccl_net_v9 *v9 = rig_table(9);
	int n;

	assert_string_equal(r->net->name, "MPIB");
	assert_int_equal(r->net->devices(&n), NCCL_SUCCESS);
	assert_int_equal(n, 1);
	assert_null(r->net->makeVDevice);
	assert_null(v11->makeVDevice);
	assert_null(v10->makeVDevice);
	assert_null(v9->makeVDevice);
}

/* integration/traffic tests messages with each version of the ABI. */
CASE(v8_keeps_one_client_and_refuses_a_negative_size)
{
	const struct nccl_net_v8 *net = rig_table(8);
	void *mr, *request;

	assert_int_equal(net->init(rig_log), 0);
	assert_int_equal(net->init(rig_log), 0);
	assert_int_equal(atomic_load(&r->f->asked[MPIB_CTL_HELLO]), 1);
	assert_int_equal(rig_connect(r), 0);
	assert_int_equal(
		net->regMr(r->tx, from, sizeof(from), NCCL_PTR_HOST, &mr), 0);
	assert_int_equal(net->isend(r->tx, from, -1, 4, mr, &request),
			 NCCL_INVALID_ARGUMENT);
}
