/* SPDX-License-Identifier: Apache-2.0 */
/* The list of devices, made from MPIB_SOFT_DEVICES. */
#include "softverbs/softverbs.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

#define VARIABLE "MPIB_SOFT_DEVICES"
#define DEFAULT_DEVICES "soft0=127.0.0.1"
#define MAX_DEVICES 64

static struct sv_device *table;
static int count;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int devices_complain(const char *entry, size_t len, const char *what)
{
	mpib_err(VARIABLE ": \"%.*s\": %s", (int)len, entry, what);
	return -EINVAL;
}

static bool is_name(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)s[i]) && !strchr("_.-", s[i]))
			return false;
	return len > 0 && len < IBV_SYSFS_NAME_MAX;
}

/* Return the EUI-64 of the MAC address 02:00:a:b:c:d, for IPv4 address a.b.c.d.
 * The MAC is locally administered, so no vendor's device has the same GUID. */
static __be64 guid_of(struct in_addr addr)
{
	uint8_t raw[8] = { 0x02, 0, 0, 0xff, 0xfe };
	const uint8_t *ip = (const uint8_t *)&addr;
	__be64 guid;

	raw[2] = ip[0];
	memcpy(&raw[5], &ip[1], 3);
	memcpy(&guid, raw, sizeof(guid));
	return guid;
}

static void devices_fill(struct sv_device *dev, const char *name, size_t len,
			 struct in_addr addr)
{
	struct ibv_device *ibv = &dev->ibv;

	*dev = (struct sv_device){
		.ibv = { .node_type = IBV_NODE_CA,
			 .transport_type = IBV_TRANSPORT_IB },
		.spec = { .provider = MPIB_PROVIDER_SOFT, .port = 1 },
		.guid = guid_of(addr),
		.index = count,
	};
	inet_ntop(AF_INET, &addr, dev->spec.name, sizeof(dev->spec.name));
	memcpy(ibv->name, name, len);
	/* There is no kernel device, so these paths must not lead to another
	 * device's files in sysfs. */
	memcpy(ibv->dev_name, name, len);
	snprintf(ibv->dev_path, sizeof(ibv->dev_path),
		 "/sys/class/infiniband_verbs/%s", ibv->name);
	snprintf(ibv->ibdev_path, sizeof(ibv->ibdev_path),
		 "/sys/class/infiniband/%s", ibv->name);
}

static int devices_add(const char *entry, size_t len)
{
	const char *eq = memchr(entry, '=', len);
	size_t name_len = eq ? (size_t)(eq - entry) : len;
	char text[INET_ADDRSTRLEN] = "";
	struct in_addr addr;

	if (!eq || !is_name(entry, name_len))
		return devices_complain(entry, len,
					"wants NAME=IPv4, as in "
					"soft0=127.0.0.2");
	if (len - name_len - 1 < sizeof(text))
		memcpy(text, eq + 1, len - name_len - 1);
	if (inet_pton(AF_INET, text, &addr) != 1)
		return devices_complain(entry, len,
					"wants an IPv4 address of this "
					"machine, as in soft0=127.0.0.2");
	for (int i = 0; i < count; i++)
		if (!strncmp(table[i].ibv.name, entry, name_len) &&
		    !table[i].ibv.name[name_len])
			return devices_complain(entry, len,
						"names a device twice");
	if (count == MAX_DEVICES)
		return devices_complain(entry, len,
					"is one device too many, "
					"64 are allowed");
	devices_fill(&table[count], entry, name_len, addr);
	count++;
	return 0;
}

static void read_variable(void)
{
	const char *s = getenv(VARIABLE);
	int rc = 0;

	if (!s)
		s = DEFAULT_DEVICES;
	table = calloc(MAX_DEVICES, sizeof(*table));
	if (!table) {
		count = -ENOMEM;
		return;
	}
	while (*s && !rc) {
		size_t len = strcspn(s, ",");

		rc = devices_add(s, len);
		s += len;
		s += *s == ',';
	}
	if (rc < 0)
		count = rc;
}

/* Get the devices of MPIB_SOFT_DEVICES. The variable is read once, and the
 * devices exist until the process ends. Returns their number, or -EINVAL or
 * -ENOMEM after a line on stderr. Any thread. */
static int sv_devices(struct sv_device **devices)
{
	pthread_once(&once, read_variable);
	*devices = table;
	return count;
}

#undef ibv_get_device_list
SV_EXPORT struct ibv_device **ibv_get_device_list(int *num)
{
	struct ibv_device **list;
	struct sv_device *devices;
	int n = sv_devices(&devices);

	if (num)
		*num = 0;
	if (n < 0)
		return sv_object(n, NULL);
	list = calloc((size_t)n + 1, sizeof(struct ibv_device *));
	if (!list)
		return NULL;
	for (int i = 0; i < n; i++)
		list[i] = &devices[i].ibv;
	if (num)
		*num = n;
	return list;
}

SV_EXPORT void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

SV_EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

SV_EXPORT int ibv_get_device_index(struct ibv_device *device)
{
	return to_sv_device(device)->index;
}

SV_EXPORT __be64 ibv_get_device_guid(struct ibv_device *device)
{
	return to_sv_device(device)->guid;
}

/* Two sysfs functions that libibverbs has exported since version 1.0. */

const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf,
			size_t size);

SV_EXPORT const char *ibv_get_sysfs_path(void)
{
	return "/sys";
}

/* Read the file `dir`/`file` into `buf`, without its last newline and with a
 * terminating 0. Returns the length. -1: no such file, or it does not fit. */
SV_EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *buf,
				  size_t size)
{
	char path[IBV_SYSFS_PATH_MAX * 2];
	ssize_t len;
	int fd;

	if (snprintf(path, sizeof(path), "%s/%s", dir, file) >=
	    (int)sizeof(path))
		return -1;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	len = read(fd, buf, size);
	close(fd);
	if (len > 0 && buf[len - 1] == '\n')
		len--;
	if (len < 0 || (size_t)len >= size)
		return -1;
	buf[len] = 0;
	return (int)len;
}

/* Device contexts: open, close, asynchronous events, fork. */

static void fill_operations(struct ibv_context *ctx)
{
	struct verbs_context *v = verbs_get_ctx(ctx);

	v->query_port = sv_query_port;
	v->query_device_ex = sv_query_device_ex;
	v->create_cq_ex = sv_create_cq_ex;
	v->create_qp_ex = sv_create_qp_ex;
	v->query_rt_values = sv_query_rt_values;
}

SV_EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct sv_device *dev = to_sv_device(device);
	struct ibv_context *ctx;
	int rc = mpib_soft_open_threaded(&dev->spec, &ctx);

	if (rc < 0) {
		mpib_err("%s: cannot open %s: %s%s", device->name,
			 dev->spec.name, strerror(-rc),
			 rc == -ENODEV ? "; MPIB_SOFT_DEVICES must name an "
					 "address of this machine"
				       : "");
		return sv_object(rc, NULL);
	}
	/* Programs compare this pointer with the device that they opened. */
	ctx->device = device;
	fill_operations(ctx);
	return ctx;
}

SV_EXPORT int ibv_close_device(struct ibv_context *ctx)
{
	/* Objects may remain: with an HCA, closing the device succeeds even if
	 * not all objects were destroyed. */
	if (mpib_verbs_soft.close(ctx) == -EBUSY)
		mpib_soft_abandon(ctx);
	return 0;
}

SV_EXPORT int ibv_get_async_event(struct ibv_context *ctx,
				  struct ibv_async_event *event)
{
	return sv_minus_one(mpib_verbs_soft.get_async_event(ctx, event));
}

SV_EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
	mpib_verbs_soft.ack_async_event(event);
}

/* There is nothing to prepare. The context's thread writes to memory like any
 * thread of the process, not by DMA to physical pages, so copy-on-write after
 * fork() does not affect the parent. */
SV_EXPORT int ibv_fork_init(void)
{
	return 0;
}

SV_EXPORT enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

/* No public header declares this: it is part of libibverbs' interface for
 * providers. */
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

SV_EXPORT int ibv_dontfork_range(void *base, size_t size)
{
	(void)base;
	(void)size;
	return 0;
}

SV_EXPORT int ibv_dofork_range(void *base, size_t size)
{
	(void)base;
	(void)size;
	return 0;
}

/* Names of states, and rates as numbers. Texts and rounding are those of
 * libibverbs, because programs print and compare them. */

#define NAME_OF(table, i)                                                      \
	((size_t)(i) < sizeof(table) / sizeof((table)[0]) && (table)[i]        \
		 ? (table)[i]                                                  \
		 : "unknown")

SV_EXPORT const char *ibv_node_type_str(enum ibv_node_type type)
{
	static const char *const names[] = {
		[IBV_NODE_CA] = "InfiniBand channel adapter",
		[IBV_NODE_SWITCH] = "InfiniBand switch",
		[IBV_NODE_ROUTER] = "InfiniBand router",
		[IBV_NODE_RNIC] = "iWARP NIC",
		[IBV_NODE_USNIC] = "usNIC",
		[IBV_NODE_USNIC_UDP] = "usNIC UDP",
		[IBV_NODE_UNSPECIFIED] = "unspecified",
	};

	return NAME_OF(names, type);
}

SV_EXPORT const char *ibv_port_state_str(enum ibv_port_state state)
{
	static const char *const names[] = {
		[IBV_PORT_NOP] = "no state change (NOP)",
		[IBV_PORT_DOWN] = "down",
		[IBV_PORT_INIT] = "init",
		[IBV_PORT_ARMED] = "armed",
		[IBV_PORT_ACTIVE] = "active",
		[IBV_PORT_ACTIVE_DEFER] = "active defer",
	};

	return NAME_OF(names, state);
}

SV_EXPORT const char *ibv_event_type_str(enum ibv_event_type event)
{
	static const char *const names[] = {
		[IBV_EVENT_CQ_ERR] = "CQ error",
		[IBV_EVENT_QP_FATAL] = "local work queue catastrophic error",
		[IBV_EVENT_QP_REQ_ERR] =
			"invalid request local work queue error",
		[IBV_EVENT_QP_ACCESS_ERR] =
			"local access violation work queue error",
		[IBV_EVENT_COMM_EST] = "communication established",
		[IBV_EVENT_SQ_DRAINED] = "send queue drained",
		[IBV_EVENT_PATH_MIG] = "path migrated",
		[IBV_EVENT_PATH_MIG_ERR] = "path migration request error",
		[IBV_EVENT_DEVICE_FATAL] = "local catastrophic error",
		[IBV_EVENT_PORT_ACTIVE] = "port active",
		[IBV_EVENT_PORT_ERR] = "port error",
		[IBV_EVENT_LID_CHANGE] = "LID change",
		[IBV_EVENT_PKEY_CHANGE] = "P_Key change",
		[IBV_EVENT_SM_CHANGE] = "SM change",
		[IBV_EVENT_SRQ_ERR] = "SRQ catastrophic error",
		[IBV_EVENT_SRQ_LIMIT_REACHED] = "SRQ limit reached",
		[IBV_EVENT_QP_LAST_WQE_REACHED] = "last WQE reached",
		[IBV_EVENT_CLIENT_REREGISTER] = "client reregistration",
		[IBV_EVENT_GID_CHANGE] = "GID table change",
		[IBV_EVENT_WQ_FATAL] = "WQ fatal",
	};

	return NAME_OF(names, event);
}

SV_EXPORT const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	static const char *const names[] = {
		[IBV_WC_SUCCESS] = "success",
		[IBV_WC_LOC_LEN_ERR] = "local length error",
		[IBV_WC_LOC_QP_OP_ERR] = "local QP operation error",
		[IBV_WC_LOC_EEC_OP_ERR] = "local EE context operation error",
		[IBV_WC_LOC_PROT_ERR] = "local protection error",
		[IBV_WC_WR_FLUSH_ERR] = "Work Request Flushed Error",
		[IBV_WC_MW_BIND_ERR] = "memory management operation error",
		[IBV_WC_BAD_RESP_ERR] = "bad response error",
		[IBV_WC_LOC_ACCESS_ERR] = "local access error",
		[IBV_WC_REM_INV_REQ_ERR] = "remote invalid request error",
		[IBV_WC_REM_ACCESS_ERR] = "remote access error",
		[IBV_WC_REM_OP_ERR] = "remote operation error",
		[IBV_WC_RETRY_EXC_ERR] = "transport retry counter exceeded",
		[IBV_WC_RNR_RETRY_EXC_ERR] = "RNR retry counter exceeded",
		[IBV_WC_LOC_RDD_VIOL_ERR] = "local RDD violation error",
		[IBV_WC_REM_INV_RD_REQ_ERR] = "remote invalid RD request",
		[IBV_WC_REM_ABORT_ERR] = "aborted error",
		[IBV_WC_INV_EECN_ERR] = "invalid EE context number",
		[IBV_WC_INV_EEC_STATE_ERR] = "invalid EE context state",
		[IBV_WC_FATAL_ERR] = "fatal error",
		[IBV_WC_RESP_TIMEOUT_ERR] = "response timeout error",
		[IBV_WC_GENERAL_ERR] = "general error",
		[IBV_WC_TM_ERR] = "TM error",
		[IBV_WC_TM_RNDV_INCOMPLETE] = "TM software rendezvous",
	};

	return NAME_OF(names, status);
}

/* `mult` is the rate in units of 2.5 Gb/s; -1: the rate is not a multiple of
 * that. */
static const struct {
	enum ibv_rate rate;
	int mult, mbps;
} rates[] = {
	{ IBV_RATE_2_5_GBPS, 1, 2500 },
	{ IBV_RATE_5_GBPS, 2, 5000 },
	{ IBV_RATE_10_GBPS, 4, 10000 },
	{ IBV_RATE_20_GBPS, 8, 20000 },
	{ IBV_RATE_30_GBPS, 12, 30000 },
	{ IBV_RATE_40_GBPS, 16, 40000 },
	{ IBV_RATE_60_GBPS, 24, 60000 },
	{ IBV_RATE_80_GBPS, 32, 80000 },
	{ IBV_RATE_120_GBPS, 48, 120000 },
	{ IBV_RATE_14_GBPS, -1, 14062 },
	{ IBV_RATE_56_GBPS, -1, 56250 },
	{ IBV_RATE_112_GBPS, -1, 112500 },
	{ IBV_RATE_168_GBPS, -1, 168750 },
	{ IBV_RATE_25_GBPS, -1, 25781 },
	{ IBV_RATE_100_GBPS, -1, 103125 },
	{ IBV_RATE_200_GBPS, -1, 206250 },
	{ IBV_RATE_300_GBPS, -1, 309375 },
	{ IBV_RATE_28_GBPS, 11, 28125 },
	{ IBV_RATE_50_GBPS, 20, 53125 },
	{ IBV_RATE_400_GBPS, 160, 425000 },
	{ IBV_RATE_600_GBPS, 240, 637500 },
	{ IBV_RATE_800_GBPS, 320, 850000 },
	{ IBV_RATE_1200_GBPS, 480, 1275000 },
};

#define NRATES (sizeof(rates) / sizeof(rates[0]))

SV_EXPORT int ibv_rate_to_mult(enum ibv_rate rate)
{
	for (size_t i = 0; i < NRATES; i++)
		if (rates[i].rate == rate)
			return rates[i].mult;
	return -1;
}

SV_EXPORT enum ibv_rate mult_to_ibv_rate(int mult)
{
	for (size_t i = 0; i < NRATES; i++)
		if (mult > 0 && rates[i].mult == mult)
			return rates[i].rate;
	return IBV_RATE_MAX;
}

SV_EXPORT int ibv_rate_to_mbps(enum ibv_rate rate)
{
	for (size_t i = 0; i < NRATES; i++)
		if (rates[i].rate == rate)
			return rates[i].mbps;
	return -1;
}

SV_EXPORT enum ibv_rate mbps_to_ibv_rate(int mbps)
{
	for (size_t i = 0; i < NRATES; i++)
		if (rates[i].mbps == mbps)
			return rates[i].rate;
	return IBV_RATE_MAX;
}
