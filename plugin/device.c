/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The properties of the plugin's network devices, each of which has one rail or
 * fuses two.
 */
#include <mpib/segment.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "net.h"
#include "proxy.h"

/* NCCL keeps pointers to the strings, so they live as long as the library.
 * Written once, and again only when a restarted proxy has other rails. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	char name[2 * 64 + 2];
	char path[128];
} device[MPIB_DEVICES];

void device_in_child(void)
{
	pthread_mutex_init(&lock, NULL);
}

static void set_once(char *to, size_t len, const char *text)
{
	if (strncmp(to, text, len) != 0)
		snprintf(to, len, "%s", text);
}

static void fill_names(int dev, const struct mpib_device_info *info)
{
	char name[sizeof(device[0].name)];

	snprintf(name, sizeof(name), "%s%s%s", info->rail[0].name,
		 info->rails > 1 ? "+" : "",
		 info->rails > 1 ? info->rail[1].name : "");
	pthread_mutex_lock(&lock);
	set_once(device[dev].name, sizeof(device[dev].name), name);
	set_once(device[dev].path, sizeof(device[dev].path),
		 info->rail[0].pci_path);
	pthread_mutex_unlock(&lock);
}

/* The same in all processes of a node, different on each node: HCAs have the
 * same names everywhere, so the machine's boot id is hashed too. */
static uint64_t device_guid(int dev)
{
	uint64_t h = net_hash(NET_HASH, device[dev].name);
	char boot[64];

	mpib_read_line(boot, sizeof(boot), "/proc/sys/kernel/random/boot_id");
	return net_hash(h, boot);
}

/* In Mbit/s, of the rails that carry payload. NCCL divides by the speed, so it
 * must not be 0: a rail of unknown speed counts as 10 Gbit/s. */
static int device_speed(const struct mpib_device_info *info)
{
	uint32_t sum = 0;

	for (int r = 0; r < info->rails; r++) {
		uint32_t speed = info->rail[r].speed_mbps;

		if (info->carries >> r & 1)
			sum += speed ? speed : 10000;
	}
	return sum ? (int)sum : 10000;
}

enum nccl_result mpib_net_devices(int *ndev)
{
	struct mpib_node_info node;
	int devices = net_proxy_query(&node, -1, NULL);

	*ndev = devices ? devices : 1;
	return NCCL_SUCCESS;
}

enum nccl_result mpib_net_properties(int dev, mpib_net_props *props)
{
	struct mpib_device_info info;
	struct mpib_node_info node;
	int devices = net_proxy_query(&node, dev, &info);

	if (!devices) {
		net_say(false, "getProperties: called before init");
		return NCCL_INVALID_USAGE;
	}
	if (dev < 0 || dev >= devices) {
		net_say(false, "getProperties: there is no device %d, only %d",
			dev, devices);
		return NCCL_INVALID_ARGUMENT;
	}
	fill_names(dev, &info);
	*props = (mpib_net_props){
		.name = device[dev].name,
		.pciPath = device[dev].path[0] ? device[dev].path : NULL,
		.guid = device_guid(dev),
		.ptrSupport =
			NCCL_PTR_HOST | (node.dmabuf ? NCCL_PTR_DMABUF : 0),
		.regIsGlobal = 1, /* a region is valid for all comms */
		.speed = device_speed(&info),
		.port = 1,
		.latency = 2.0f, /* a hop through the proxy at each end */
		.maxComms = MPIB_CONNS_MAX,
		.maxRecvs = MPIB_GROUP_MAX,
		.netDeviceType = NCCL_NET_DEVICE_HOST,
		.netDeviceVersion = NCCL_NET_DEVICE_INVALID_VERSION,
		/*
		 * Not both rails: devs[] are device indices that NCCL may pass
		 * to getProperties. A device that is not fused by NCCL lists
		 * itself.
		 */
		.vProps = { .ndevs = 1, .devs = { dev } },
		.maxP2pBytes = MPIB_SIZE_MAX,
		.maxCollBytes = MPIB_SIZE_MAX,
		.maxMultiRequestSize = 1,
		.railId = NCCL_NET_ID_UNDEF,
		.planeId = NCCL_NET_ID_UNDEF,
	};
	return NCCL_SUCCESS;
}

enum nccl_result mpib_net_no_vdevice(void)
{
	/* Not a warning: NCCL goes on with the devices as they are. */
	net_say(true, "makeVDevice: devices are not fused in a rank "
		      "(mpib-proxy fuses HCAs: set device.layout = fused)");
	return NCCL_INVALID_USAGE;
}
