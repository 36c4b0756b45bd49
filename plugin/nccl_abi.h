/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The binary interface between NCCL and a network plugin, versions 8 to 12,
 * declared here so that building needs no copy of NCCL's headers. A plugin
 * exports one data symbol "ncclNetPlugin_v<N>" for each version that the plugin
 * supports. NCCL uses the newest version that NCCL and the plugin both support.
 * The first NCCL releases with each version are: v8 2.20.3, v9 2.24.3, v10
 * 2.26.2, v11 2.28.3, v12 2.30.3.
 *
 * The layouts are those of released NCCL versions and never change: the asserts
 * carry literal numbers, measured with NCCL's own headers on x86-64.
 */
#ifndef MPIB_NCCL_ABI_H
#define MPIB_NCCL_ABI_H

#include <stddef.h>
#include <stdint.h>

#include "mpib/abi.h"

/*
 * The structures that a network plugin fills or reads: a device's properties,
 * and NCCL's configuration of a comm.
 */

#define NCCL_NET_MAX_DEVS_PER_NIC_V9 4
#define NCCL_NET_MAX_DEVS_PER_NIC_V12 8

/* Upper limit of maxP2pBytes and maxCollBytes; the lower limit is 1. */
#define NCCL_MAX_NET_SIZE_BYTES (1024L * 1024 * 1024 * 1024)

/* ptrSupport bits, and the type given to regMr. */
#define NCCL_PTR_HOST 0x1
#define NCCL_PTR_CUDA 0x2
#define NCCL_PTR_DMABUF 0x4

#define NCCL_NET_TRAFFIC_CLASS_UNDEF (-1)
#define NCCL_NET_ID_UNDEF (-1)

#define NCCL_NET_DEVICE_INVALID_VERSION 0

/* NCCL has more types. The plugin's devices have this type. */
enum nccl_net_device_type {
	NCCL_NET_DEVICE_HOST = 0,
};

struct nccl_net_device_handle; /* the plugin has none */
struct nccl_net_attr; /* argument of setNetAttr, which the plugin lacks */

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

/*
 * getProperties must set every field: NCCL passes uninitialised stack memory.
 * `speed` is in Mbit/s, `latency` in microseconds. `name` is unique within the
 * plugin and the same in every process of a node. `pciPath` is a real path
 * below /sys or NULL.
 */
#define NCCL_NET_PROPERTIES_FIRST                                              \
	char *name;                                                            \
	char *pciPath;                                                         \
	uint64_t guid;                                                         \
	int ptrSupport;                                                        \
	int regIsGlobal

#define NCCL_NET_PROPERTIES_NEXT                                               \
	int speed;                                                             \
	int port;                                                              \
	float latency;                                                         \
	int maxComms;                                                          \
	int maxRecvs;                                                          \
	enum nccl_net_device_type netDeviceType;                               \
	int netDeviceVersion

struct nccl_net_properties_v8 {
	NCCL_NET_PROPERTIES_FIRST;
	NCCL_NET_PROPERTIES_NEXT;
};

/* The properties of v9 and of v10. */
struct nccl_net_properties_v9 {
	NCCL_NET_PROPERTIES_FIRST;
	int forceFlush;
	NCCL_NET_PROPERTIES_NEXT;
	struct nccl_net_vdevice_props_v9 vProps;
	size_t maxP2pBytes;
	size_t maxCollBytes;
};

struct nccl_net_properties_v11 {
	NCCL_NET_PROPERTIES_FIRST;
	int forceFlush;
	NCCL_NET_PROPERTIES_NEXT;
	struct nccl_net_vdevice_props_v9 vProps;
	size_t maxP2pBytes;
	size_t maxCollBytes;
	int maxMultiRequestSize;
};

struct nccl_net_properties_v12 {
	NCCL_NET_PROPERTIES_FIRST;
	int forceFlush;
	NCCL_NET_PROPERTIES_NEXT;
	struct nccl_net_vdevice_props_v12 vProps;
	size_t maxP2pBytes;
	size_t maxCollBytes;
	int maxMultiRequestSize;
	int16_t railId;
	int16_t planeId;
};

MPIB_ABI_ASSERT(sizeof(void *) == 8);
MPIB_ABI_ASSERT(sizeof(enum nccl_net_device_type) == 4);
MPIB_ABI_ASSERT(sizeof(struct nccl_net_vdevice_props_v9) == 20);
MPIB_ABI_ASSERT(sizeof(struct nccl_net_vdevice_props_v12) == 36);
MPIB_ABI_ASSERT(sizeof(struct nccl_net_comm_config) == 4);

MPIB_ABI_ASSERT(sizeof(struct nccl_net_properties_v8) == 64);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v8, speed) == 32);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v8, netDeviceVersion) ==
		56);

MPIB_ABI_ASSERT(sizeof(struct nccl_net_properties_v9) == 104);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v9, maxP2pBytes) == 88);

/* The properties of v11 begin with all fields of v9. */
MPIB_ABI_ASSERT(sizeof(struct nccl_net_properties_v11) == 112);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v11, maxMultiRequestSize) ==
		104);

/* The fields of v12 before vProps are the same as in v9. */
MPIB_ABI_ASSERT(sizeof(struct nccl_net_properties_v12) == 128);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v12, name) == 0);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v12, pciPath) == 8);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v12, guid) == 16);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v12, ptrSupport) == 24);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v12, regIsGlobal) == 28);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v12, forceFlush) == 32);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v12, speed) == 36);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v12, port) == 40);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v12, latency) == 44);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v12, maxComms) == 48);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v12, maxRecvs) == 52);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v12, netDeviceType) == 56);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v12, netDeviceVersion) ==
		60);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v12, vProps) == 64);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v12, maxP2pBytes) == 104);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v12, maxCollBytes) == 112);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v12, maxMultiRequestSize) ==
		120);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v12, railId) == 124);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_properties_v12, planeId) == 126);

#define NCCL_NET_SYMBOL_PREFIX "ncclNetPlugin_v"
#define NCCL_NET_ABI_OLDEST 8
#define NCCL_NET_ABI_NEWEST 12

#define NCCL_NET_HANDLE_MAXSIZE 128

/* Maximum number of outstanding requests of one receive comm. A send comm can
 * have maxRecvs times this number. */
#define NCCL_NET_MAX_REQUESTS 32
/* Maximum number of requests that NCCL in fact keeps outstanding on one
 * connection. */
#define NCCL_STEPS 8

#define NCCL_MAX_NETDEVS 128

/* The largest size that NCCL gives to a v8 plugin. */
#define NCCL_MAX_NET_SIZE_V8 (1024L * 1024 * 1024)

/* From v9 on, NCCL can set *request to this value before it calls irecv. Then
 * the plugin may report completion at once, because NCCL detects the arrival of
 * the data by flags inside the data. */
#define NCCL_NET_OPTIONAL_RECV_COMPLETION 0x1

/* A plugin never returns NCCL_IN_PROGRESS, because NCCL does not treat this
 * value as an error.
 */
enum nccl_result {
	NCCL_SUCCESS = 0,
	NCCL_SYSTEM_ERROR = 2,
	NCCL_INVALID_ARGUMENT = 4,
	NCCL_INVALID_USAGE = 5,
	NCCL_REMOTE_ERROR = 6,
	NCCL_IN_PROGRESS = 7,
};

/* The two levels that the plugin uses. */
enum nccl_log_level {
	NCCL_LOG_WARN = 2,
	NCCL_LOG_INFO = 3,
};

/* The subsystem of a log line: a bit of a mask. */
#define NCCL_SUBSYS_NET 0x10ul

/* NCCL's logger, given to init; any thread may call it. The logger formats and
 * writes synchronously, so do not call it for every message. With NCCL_LOG_WARN
 * the argument `where` is a file name. */
typedef void (*nccl_log_fn)(enum nccl_log_level level, unsigned long flags,
			    const char *where, int line, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* NCCL's profiler callback, given to init from v10 on. `type`: 0 start, 1 stop,
 * 2 update, 3 update and stop. The callback does nothing unless NCCL has loaded
 * a profiler. */
typedef enum nccl_result (*nccl_profiler_fn)(void **event, int type,
					     void *phandle, int64_t plugin_id,
					     void *data);

/* Plugin id of an IB transport's events: plugin type 1, record version 1. */
#define NCCL_PROFILER_IB_V1 ((int64_t)1 << 16 | 1)
#define NCCL_PROFILE_QP 1

struct nccl_profiler_ib_v1 {
	uint8_t type; /* NCCL_PROFILE_QP */
	struct {
		int device;
		uint64_t wr_id;
		int opcode;
		int qpNum;
		size_t length;
	} qp;
};

/*
 * The function tables. The contract that all versions share:
 *  - listen, connect and accept never block. A NULL comm with NCCL_SUCCESS
 *    means "call again". connect gets the same handle memory on every call.
 *  - isend and irecv never block. A NULL request with NCCL_SUCCESS means "call
 *    again". Requests of one comm complete in the order in which NCCL posted
 *    them.
 *  - test writes 1 int to `sizes` for a send, and n ints for a receive of n
 *    buffers. After test has set `done` to 1, the plugin may reuse the request.
 *  - deregMr returns only when neither the plugin nor the HCA accesses the
 *    memory any more.
 *  - NCCL's Service thread makes the set-up calls. NCCL's Progress thread calls
 *    isend, irecv, iflush and test. The two threads may call functions of the
 *    same comm at the same time.
 * A plugin may set regMrDmaBuf, getDeviceMr, irecvConsumed, makeVDevice and
 * setNetAttr to NULL. If it does not announce support for GPU memory, it may
 * also set iflush to NULL.
 */
/* Members that have the same type in every version, in three groups. */
#define NCCL_NET_FIRST(init_type, props_type)                                  \
	const char *name;                                                      \
	init_type;                                                             \
	enum nccl_result (*devices)(int *ndev);                                \
	enum nccl_result (*getProperties)(int dev, struct props_type *props)

#define NCCL_NET_MEMORY                                                        \
	enum nccl_result (*accept)(void *listen_comm, void **recv_comm,        \
				   struct nccl_net_device_handle **recv_dev);  \
	enum nccl_result (*regMr)(void *comm, void *data, size_t size,         \
				  int type, void **mhandle);                   \
	enum nccl_result (*regMrDmaBuf)(void *comm, void *data, size_t size,   \
					int type, uint64_t offset, int fd,     \
					void **mhandle);                       \
	enum nccl_result (*deregMr)(void *comm, void *mhandle)

#define NCCL_NET_LAST                                                          \
	enum nccl_result (*iflush)(void *recv_comm, int n, void **data,        \
				   int *sizes, void **mhandles,                \
				   void **request);                            \
	enum nccl_result (*test)(void *request, int *done, int *sizes);        \
	enum nccl_result (*closeSend)(void *send_comm);                        \
	enum nccl_result (*closeRecv)(void *recv_comm);                        \
	enum nccl_result (*closeListen)(void *listen_comm);                    \
	enum nccl_result (*getDeviceMr)(void *comm, void *mhandle,             \
					void **dptr_mhandle);                  \
	enum nccl_result (*irecvConsumed)(void *recv_comm, int n, void *request)

/* From v10 on. */
#define NCCL_NET_MOVE                                                          \
	enum nccl_result (*isend)(void *send_comm, void *data, size_t size,    \
				  int tag, void *mhandle, void *phandle,       \
				  void **request);                             \
	enum nccl_result (*irecv)(void *recv_comm, int n, void **data,         \
				  size_t *sizes, int *tags, void **mhandles,   \
				  void **phandles, void **request)

/* From v11 on. */
#define NCCL_NET_INIT                                                          \
	enum nccl_result (*init)(void **ctx, uint64_t comm_id,                 \
				 struct nccl_net_comm_config *config,          \
				 nccl_log_fn log, nccl_profiler_fn prof)
#define NCCL_NET_CONNECT                                                       \
	enum nccl_result (*listen)(void *ctx, int dev, void *handle,           \
				   void **listen_comm);                        \
	enum nccl_result (*connect)(void *ctx, int dev, void *handle,          \
				    void **send_comm,                          \
				    struct nccl_net_device_handle **send_dev)
#define NCCL_NET_CONTEXT                                                       \
	enum nccl_result (*finalize)(void *ctx);                               \
	enum nccl_result (*setNetAttr)(void *ctx, struct nccl_net_attr *attr)

struct nccl_net_v8 {
	NCCL_NET_FIRST(enum nccl_result (*init)(nccl_log_fn log),
		       nccl_net_properties_v8);
	enum nccl_result (*listen)(int dev, void *handle, void **listen_comm);
	enum nccl_result (*connect)(int dev, void *handle, void **send_comm,
				    struct nccl_net_device_handle **send_dev);
	NCCL_NET_MEMORY;
	enum nccl_result (*isend)(void *send_comm, void *data, int size,
				  int tag, void *mhandle, void **request);
	enum nccl_result (*irecv)(void *recv_comm, int n, void **data,
				  int *sizes, int *tags, void **mhandles,
				  void **request);
	NCCL_NET_LAST;
};

struct nccl_net_v9 {
	NCCL_NET_FIRST(enum nccl_result (*init)(nccl_log_fn log),
		       nccl_net_properties_v9);
	enum nccl_result (*listen)(int dev, void *handle, void **listen_comm);
	enum nccl_result (*connect)(int dev, void *handle, void **send_comm,
				    struct nccl_net_device_handle **send_dev);
	NCCL_NET_MEMORY;
	enum nccl_result (*isend)(void *send_comm, void *data, size_t size,
				  int tag, void *mhandle, void **request);
	enum nccl_result (*irecv)(void *recv_comm, int n, void **data,
				  size_t *sizes, int *tags, void **mhandles,
				  void **request);
	NCCL_NET_LAST;
	enum nccl_result (*makeVDevice)(
		int *dev, struct nccl_net_vdevice_props_v9 *props);
};

struct nccl_net_v10 {
	NCCL_NET_FIRST(enum nccl_result (*init)(nccl_log_fn log,
						nccl_profiler_fn prof),
		       nccl_net_properties_v9);
	enum nccl_result (*listen)(int dev, void *handle, void **listen_comm);
	enum nccl_result (*connect)(int dev,
				    struct nccl_net_comm_config *config,
				    void *handle, void **send_comm,
				    struct nccl_net_device_handle **send_dev);
	NCCL_NET_MEMORY;
	NCCL_NET_MOVE;
	NCCL_NET_LAST;
	enum nccl_result (*makeVDevice)(
		int *dev, struct nccl_net_vdevice_props_v9 *props);
};

struct nccl_net_v11 {
	NCCL_NET_FIRST(NCCL_NET_INIT, nccl_net_properties_v11);
	NCCL_NET_CONNECT;
	NCCL_NET_MEMORY;
	NCCL_NET_MOVE;
	NCCL_NET_LAST;
	enum nccl_result (*makeVDevice)(
		int *dev, struct nccl_net_vdevice_props_v9 *props);
	NCCL_NET_CONTEXT;
};

struct nccl_net_v12 {
	NCCL_NET_FIRST(NCCL_NET_INIT, nccl_net_properties_v12);
	NCCL_NET_CONNECT;
	NCCL_NET_MEMORY;
	NCCL_NET_MOVE;
	NCCL_NET_LAST;
	enum nccl_result (*makeVDevice)(
		int *dev, struct nccl_net_vdevice_props_v12 *props);
	NCCL_NET_CONTEXT;
};

MPIB_ABI_ASSERT(sizeof(enum nccl_result) == 4);
MPIB_ABI_ASSERT(sizeof(enum nccl_log_level) == 4);
MPIB_ABI_ASSERT(sizeof(struct nccl_net_v8) == 152);
MPIB_ABI_ASSERT(sizeof(struct nccl_net_v9) == 160);
MPIB_ABI_ASSERT(sizeof(struct nccl_net_v10) == 160);
MPIB_ABI_ASSERT(sizeof(struct nccl_net_v11) == 176);
MPIB_ABI_ASSERT(sizeof(struct nccl_net_v12) == 176);

MPIB_ABI_ASSERT(offsetof(struct nccl_net_v8, irecvConsumed) == 144);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_v9, irecvConsumed) == 144);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_v10, irecvConsumed) == 144);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_v11, irecvConsumed) == 144);

/* The table of v12 begins with the members of v8 to v11, in the same order.
 * Only some argument types differ. */
MPIB_ABI_ASSERT(offsetof(struct nccl_net_v12, init) == 8);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_v12, devices) == 16);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_v12, getProperties) == 24);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_v12, listen) == 32);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_v12, connect) == 40);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_v12, accept) == 48);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_v12, regMr) == 56);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_v12, regMrDmaBuf) == 64);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_v12, deregMr) == 72);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_v12, isend) == 80);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_v12, irecv) == 88);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_v12, iflush) == 96);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_v12, test) == 104);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_v12, closeSend) == 112);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_v12, closeRecv) == 120);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_v12, closeListen) == 128);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_v12, getDeviceMr) == 136);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_v12, irecvConsumed) == 144);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_v12, makeVDevice) == 152);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_v12, finalize) == 160);
MPIB_ABI_ASSERT(offsetof(struct nccl_net_v12, setNetAttr) == 168);

#endif
