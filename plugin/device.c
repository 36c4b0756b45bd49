/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The properties of the plugin's one network device, which fuses both rails.
 */
#include <fcntl.h>
#include <mpib/segment.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "net.h"
#include "proxy.h"

/* NCCL keeps pointers to the two strings, so they live as long as the library.
 * Written once, and again only when a restarted proxy has other rails. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char device_name[2 * 64 + 2];
static char device_path[128];

void device_in_child(void)
{
	pthread_mutex_init(&lock, NULL);
}

static void set_once(char *to, size_t len, const char *text)
{
	if (strncmp(to, text, len) != 0)
		snprintf(to, len, "%s", text);
}

static void fill_names(const struct mpib_node_info *info)
{
	char name[sizeof(device_name)];

	snprintf(name, sizeof(name), "%s%s%s", info->rail[0].name,
		 info->rails > 1 ? "+" : "",
		 info->rails > 1 ? info->rail[1].name : "");
	pthread_mutex_lock(&lock);
	set_once(device_name, sizeof(device_name), name);
	set_once(device_path, sizeof(device_path), info->rail[0].pci_path);
	pthread_mutex_unlock(&lock);
}

static uint64_t device_hash(uint64_t h, const char *text)
{
	for (; *text; text++)
		h = (h ^ (uint8_t)*text) * 0x100000001b3ull; /* FNV-1a */
	return h;
}

/* The same in all processes of a node, different on each node: HCAs have the
 * same names everywhere, so the machine's boot id is hashed too. */
static uint64_t device_guid(void)
{
	uint64_t h = device_hash(0xcbf29ce484222325ull, device_name);
	char boot[64] = "";
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		ssize_t n = read(fd, boot, sizeof(boot) - 1);

		boot[n > 0 ? n : 0] = 0;
		close(fd);
	}
	return device_hash(h, boot);
}

/* In Mbit/s. NCCL divides by the speed, so it must not be 0: a rail of unknown
 * speed counts as 10 Gbit/s. */
static int device_speed(const struct mpib_node_info *info)
{
	uint32_t sum = 0;

	for (int r = 0; r < info->rails; r++)
		sum += info->rail[r].speed_mbps ? info->rail[r].speed_mbps
						: 10000;
	return (int)sum;
}

enum nccl_result mpib_net_devices(int *ndev)
{
	*ndev = 1; /* both rails behind one device */
	return NCCL_SUCCESS;
}

enum nccl_result mpib_net_properties(int dev, mpib_net_props *props)
{
	struct mpib_node_info info;

	if (dev != 0) {
		net_say(false, "getProperties: there is no device %d, only 0",
			dev);
		return NCCL_INVALID_ARGUMENT;
	}
	if (!net_proxy_query(&info)) {
		net_say(false, "getProperties: called before init");
		return NCCL_INVALID_USAGE;
	}
	fill_names(&info);
	*props = (mpib_net_props){
		.name = device_name,
		.pciPath = device_path[0] ? device_path : NULL,
		.guid = device_guid(),
		.ptrSupport =
			NCCL_PTR_HOST | (info.dmabuf ? NCCL_PTR_DMABUF : 0),
		.regIsGlobal = 1, /* a region is valid for all comms */
		.speed = device_speed(&info),
		.port = 1,
		.latency = 2.0f, /* a hop through the proxy at each end */
		.maxComms = MPIB_CONNS_MAX,
		.maxRecvs = MPIB_GROUP_MAX,
		.netDeviceType = NCCL_NET_DEVICE_HOST,
		.netDeviceVersion = NCCL_NET_DEVICE_INVALID_VERSION,
		/*
		 * Not { 2, { 0, 1 } } for the rails: devs[] are device indices
		 * that NCCL may pass to getProperties, and NCCL sees only
		 * device 0. A device that is not fused by NCCL lists itself.
		 */
		.vProps = { .ndevs = 1, .devs = { 0 } },
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
	return NCCL_INVALID_USAGE; /* the proxy fuses the rails itself */
}
