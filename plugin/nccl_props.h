/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The structures that a network plugin fills or reads: a device's properties,
 * and NCCL's configuration of a comm. Part of plugin/nccl_abi.h, whose rules
 * apply: layouts are NCCL's, the numbers in the asserts are literal.
 */
#ifndef MPIB_NCCL_PROPS_H
#define MPIB_NCCL_PROPS_H

#include <stddef.h>
#include <stdint.h>

#include "mpib/abi.h"

#define NCCL_NET_MAX_DEVS_PER_NIC_V9 4
#define NCCL_NET_MAX_DEVS_PER_NIC_V12 8

/* maxP2pBytes and maxCollBytes must be from 1 to this. */
#define NCCL_MAX_NET_SIZE_BYTES (1024L * 1024 * 1024 * 1024)

/* ptrSupport bits, and the type given to regMr. */
#define NCCL_PTR_HOST 0x1
#define NCCL_PTR_CUDA 0x2
#define NCCL_PTR_DMABUF 0x4

#define NCCL_NET_TRAFFIC_CLASS_UNDEF (-1)
#define NCCL_NET_ATTR_UNDEF (-1)
#define NCCL_NET_ID_UNDEF (-1)

#define NCCL_NET_DEVICE_INVALID_VERSION 0

enum nccl_net_device_type {
	NCCL_NET_DEVICE_HOST = 0,
	NCCL_NET_DEVICE_UNPACK = 1,
	NCCL_NET_DEVICE_GIN_PROXY = 2,
	NCCL_NET_DEVICE_GIN_GDAKI = 3,
	NCCL_NET_DEVICE_GIN_GPI = 4,
};

struct nccl_net_device_handle {
	enum nccl_net_device_type netDeviceType;
	int netDeviceVersion;
	void *handle;
	size_t size;
	int needsProxyProgress;
};

struct nccl_net_vdevice_props_v9 {
	int ndevs;
	int devs[NCCL_NET_MAX_DEVS_PER_NIC_V9];
};

struct nccl_net_vdevice_props_v12 {
	int ndevs;
	int devs[NCCL_NET_MAX_DEVS_PER_NIC_V12];
};

/* v10 and newer. */
struct nccl_net_comm_config {
	int trafficClass;
};

struct nccl_net_comm_attr {
	int32_t maxConcurrentPeers;
	int32_t minConcurrentPeers;
	int32_t maxFlowsPerPeer;
	int32_t minFlowsPerPeer;
};

/* v11 and newer. op, algo, proto are bit masks, all ones when undefined. */
struct nccl_net_attr {
	struct nccl_net_comm_attr sendCommAttr;
	struct nccl_net_comm_attr recvCommAttr;
	uint32_t op;
	uint32_t algo;
	uint32_t proto;
};

/*
 * getProperties must set every field: NCCL passes uninitialised stack memory.
 * speed is in Mbit/s, latency in microseconds. name is unique within the
 * plugin and the same in every process of a node. pciPath is a real path below
 * /sys or NULL.
 */
struct nccl_net_properties_v8 {
	char *name;
	char *pciPath;
	uint64_t guid;
	int ptrSupport;
	int regIsGlobal;
	int speed;
	int port;
	float latency;
	int maxComms;
	int maxRecvs;
	enum nccl_net_device_type netDeviceType;
	int netDeviceVersion;
};

/* From v9 on they begin alike, but for how many devices there may be. */
#define NCCL_NET_PROPERTIES(vdevice_props)                                     \
	char *name;                                                            \
	char *pciPath;                                                         \
	uint64_t guid;                                                         \
	int ptrSupport;                                                        \
	int regIsGlobal;                                                       \
	int forceFlush;                                                        \
	int speed;                                                             \
	int port;                                                              \
	float latency;                                                         \
	int maxComms;                                                          \
	int maxRecvs;                                                          \
	enum nccl_net_device_type netDeviceType;                               \
	int netDeviceVersion;                                                  \
	struct vdevice_props vProps;                                           \
	size_t maxP2pBytes;                                                    \
	size_t maxCollBytes

struct nccl_net_properties_v9 {
	NCCL_NET_PROPERTIES(nccl_net_vdevice_props_v9);
};

struct nccl_net_properties_v11 {
	NCCL_NET_PROPERTIES(nccl_net_vdevice_props_v9);
	int maxMultiRequestSize;
};

struct nccl_net_properties_v12 {
	NCCL_NET_PROPERTIES(nccl_net_vdevice_props_v12);
	int maxMultiRequestSize;
	int16_t railId;
	int16_t planeId;
};

MPIB_ABI_ASSERT(sizeof(void *) == 8);
MPIB_ABI_ASSERT(sizeof(enum nccl_net_device_type) == 4);
MPIB_ABI_ASSERT(sizeof(struct nccl_net_device_handle) == 32);
MPIB_ABI_ASSERT(sizeof(struct nccl_net_vdevice_props_v9) == 20);
MPIB_ABI_ASSERT(sizeof(struct nccl_net_vdevice_props_v12) == 36);
MPIB_ABI_ASSERT(sizeof(struct nccl_net_comm_config) == 4);
MPIB_ABI_ASSERT(sizeof(struct nccl_net_comm_attr) == 16);
MPIB_ABI_ASSERT(sizeof(struct nccl_net_attr) == 44);

MPIB_ABI_ASSERT(sizeof(struct nccl_net_properties_v8) == 64);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v8, name) == 0);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v8, pciPath) == 8);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v8, guid) == 16);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v8, ptrSupport) == 24);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v8, regIsGlobal) == 28);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v8, speed) == 32);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v8, port) == 36);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v8, latency) == 40);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v8, maxComms) == 44);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v8, maxRecvs) == 48);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v8, netDeviceType) == 52);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v8, netDeviceVersion) ==
		56);

/* As far as vProps. */
#define NCCL_NET_PROPERTIES_ASSERT(type)                                       \
	MPIB_ABI_ASSERT(offsetof(struct type, name) == 0);                     \
	MPIB_ABI_ASSERT(offsetof(struct type, pciPath) == 8);                  \
	MPIB_ABI_ASSERT(offsetof(struct type, guid) == 16);                    \
	MPIB_ABI_ASSERT(offsetof(struct type, ptrSupport) == 24);              \
	MPIB_ABI_ASSERT(offsetof(struct type, regIsGlobal) == 28);             \
	MPIB_ABI_ASSERT(offsetof(struct type, forceFlush) == 32);              \
	MPIB_ABI_ASSERT(offsetof(struct type, speed) == 36);                   \
	MPIB_ABI_ASSERT(offsetof(struct type, port) == 40);                    \
	MPIB_ABI_ASSERT(offsetof(struct type, latency) == 44);                 \
	MPIB_ABI_ASSERT(offsetof(struct type, maxComms) == 48);                \
	MPIB_ABI_ASSERT(offsetof(struct type, maxRecvs) == 52);                \
	MPIB_ABI_ASSERT(offsetof(struct type, netDeviceType) == 56);           \
	MPIB_ABI_ASSERT(offsetof(struct type, netDeviceVersion) == 60);        \
	MPIB_ABI_ASSERT(offsetof(struct type, vProps) == 64)

MPIB_ABI_ASSERT(sizeof(struct nccl_net_properties_v9) == 104);
NCCL_NET_PROPERTIES_ASSERT(nccl_net_properties_v9);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v9, maxP2pBytes) == 88);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v9, maxCollBytes) == 96);

MPIB_ABI_ASSERT(sizeof(struct nccl_net_properties_v11) == 112);
NCCL_NET_PROPERTIES_ASSERT(nccl_net_properties_v11);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v11, maxP2pBytes) == 88);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v11, maxCollBytes) == 96);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v11, maxMultiRequestSize) ==
		104);

MPIB_ABI_ASSERT(sizeof(struct nccl_net_properties_v12) == 128);
NCCL_NET_PROPERTIES_ASSERT(nccl_net_properties_v12);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v12, maxP2pBytes) == 104);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v12, maxCollBytes) == 112);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v12, maxMultiRequestSize) ==
		120);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v12, railId) == 124);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v12, planeId) == 126);

#endif
