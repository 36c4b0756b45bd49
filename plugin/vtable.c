/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The five tables that NCCL looks up by symbol, and the adapters from older ABI
 * versions to net.h: v8 has 32-bit sizes, v8 to v10 have no contexts, v8 to v11
 * have older property structures.
 */
#include <string.h>

#include "net.h"

#define MPIB_EXPORT __attribute__((visibility("default")))
#define NAME "MPIB"

static enum nccl_result properties_v8(int dev,
				      struct nccl_net_properties_v8 *props)
{
	mpib_net_props p;
	enum nccl_result res = mpib_net_properties(dev, &p);

	if (res == NCCL_SUCCESS)
		*props = (struct nccl_net_properties_v8){
			.name = p.name,
			.pciPath = p.pciPath,
			.guid = p.guid,
			.ptrSupport = p.ptrSupport,
			.regIsGlobal = p.regIsGlobal,
			.speed = p.speed,
			.port = p.port,
			.latency = p.latency,
			.maxComms = p.maxComms,
			.maxRecvs = p.maxRecvs,
			.netDeviceType = p.netDeviceType,
			.netDeviceVersion = p.netDeviceVersion,
		};
	return res;
}

static enum nccl_result properties_v11(int dev,
				       struct nccl_net_properties_v11 *props)
{
	mpib_net_props p;
	enum nccl_result res = mpib_net_properties(dev, &p);

	if (res != NCCL_SUCCESS)
		return res;
	/* The members before vProps are the same in v9 to v12. */
	*props = (struct nccl_net_properties_v11){ 0 };
	memcpy(props, &p, offsetof(mpib_net_props, vProps));
	props->vProps.ndevs = p.vProps.ndevs;
	props->vProps.devs[0] = p.vProps.devs[0];
	props->maxP2pBytes = p.maxP2pBytes;
	props->maxCollBytes = p.maxCollBytes;
	props->maxMultiRequestSize = p.maxMultiRequestSize;
	return NCCL_SUCCESS;
}

static enum nccl_result properties_v9(int dev,
				      struct nccl_net_properties_v9 *props)
{
	struct nccl_net_properties_v11 p;
	enum nccl_result res = properties_v11(dev, &p);

	/* The structure of v11 is that of v9 with one more member at its
	 * end. */
	if (res == NCCL_SUCCESS)
		memcpy(props, &p, sizeof(*props));
	return res;
}

static enum nccl_result init_v10(nccl_log_fn log, nccl_profiler_fn prof)
{
	net_profile_set(prof);
	return mpib_net_init_default(log);
}

static enum nccl_result init_v11(void **ctx, uint64_t comm_id,
				 struct nccl_net_comm_config *config,
				 nccl_log_fn log, nccl_profiler_fn prof)
{
	net_profile_set(prof);
	return mpib_net_init(ctx, comm_id, config ? config->trafficClass : -1,
			     log);
}

static enum nccl_result listen_v8(int dev, void *handle, void **listen_comm)
{
	return mpib_net_listen(mpib_net_default(), dev, handle, listen_comm);
}

static enum nccl_result connect_v8(int dev, void *handle, void **send_comm,
				   struct nccl_net_device_handle **send_dev)
{
	return mpib_net_connect(mpib_net_default(), dev, -1, handle, send_comm,
				send_dev);
}

static enum nccl_result connect_v10(int dev,
				    struct nccl_net_comm_config *config,
				    void *handle, void **send_comm,
				    struct nccl_net_device_handle **send_dev)
{
	return mpib_net_connect(mpib_net_default(), dev,
				config ? config->trafficClass : -1, handle,
				send_comm, send_dev);
}

static enum nccl_result connect_v11(void *ctx, int dev, void *handle,
				    void **send_comm,
				    struct nccl_net_device_handle **send_dev)
{
	return mpib_net_connect(ctx, dev, -1, handle, send_comm, send_dev);
}

static enum nccl_result isend_v8(void *send_comm, void *data, int size, int tag,
				 void *mhandle, void **request)
{
	if (size < 0)
		return NCCL_INVALID_ARGUMENT;
	return mpib_net_isend(send_comm, data, (size_t)size, tag, mhandle, NULL,
			      request);
}

static enum nccl_result irecv_v8(void *recv_comm, int n, void **data,
				 int *sizes, int *tags, void **mhandles,
				 void **request)
{
	size_t wide[MPIB_GROUP_MAX];

	if (n < 1 || n > MPIB_GROUP_MAX)
		return NCCL_INVALID_ARGUMENT;
	for (int i = 0; i < n; i++) {
		if (sizes[i] < 0)
			return NCCL_INVALID_ARGUMENT;
		wide[i] = (size_t)sizes[i];
	}
	return mpib_net_irecv(recv_comm, n, data, wide, tags, mhandles, NULL,
			      request);
}

static enum nccl_result isend_v9(void *send_comm, void *data, size_t size,
				 int tag, void *mhandle, void **request)
{
	return mpib_net_isend(send_comm, data, size, tag, mhandle, NULL,
			      request);
}

static enum nccl_result irecv_v9(void *recv_comm, int n, void **data,
				 size_t *sizes, int *tags, void **mhandles,
				 void **request)
{
	return mpib_net_irecv(recv_comm, n, data, sizes, tags, mhandles, NULL,
			      request);
}

/* Functions with the same name and type in every version. */
#define COMMON                                                                 \
	.name = NAME, .devices = mpib_net_devices, .accept = mpib_net_accept,  \
	.regMr = mpib_net_reg, .regMrDmaBuf = mpib_net_reg_dmabuf,             \
	.deregMr = mpib_net_dereg, .iflush = mpib_net_iflush,                  \
	.test = mpib_net_test, .closeSend = mpib_net_close,                    \
	.closeRecv = mpib_net_close, .closeListen = mpib_net_close_listen

MPIB_EXPORT const struct nccl_net_v8 ncclNetPlugin_v8 = {
	COMMON,
	.init = mpib_net_init_default,
	.getProperties = properties_v8,
	.listen = listen_v8,
	.connect = connect_v8,
	.isend = isend_v8,
	.irecv = irecv_v8,
};

MPIB_EXPORT const struct nccl_net_v9 ncclNetPlugin_v9 = {
	COMMON,
	.init = mpib_net_init_default,
	.getProperties = properties_v9,
	.listen = listen_v8,
	.connect = connect_v8,
	.isend = isend_v9,
	.irecv = irecv_v9,
};

MPIB_EXPORT const struct nccl_net_v10 ncclNetPlugin_v10 = {
	COMMON,
	.init = init_v10,
	.getProperties = properties_v9,
	.listen = listen_v8,
	.connect = connect_v10,
	.isend = mpib_net_isend,
	.irecv = mpib_net_irecv,
};

MPIB_EXPORT const struct nccl_net_v11 ncclNetPlugin_v11 = {
	COMMON,
	.init = init_v11,
	.getProperties = properties_v11,
	.listen = mpib_net_listen,
	.connect = connect_v11,
	.isend = mpib_net_isend,
	.irecv = mpib_net_irecv,
	.finalize = mpib_net_finalize,
};

MPIB_EXPORT const struct nccl_net_v12 ncclNetPlugin_v12 = {
	COMMON,
	.init = init_v11,
	.getProperties = mpib_net_properties,
	.listen = mpib_net_listen,
	.connect = connect_v11,
	.isend = mpib_net_isend,
	.irecv = mpib_net_irecv,
	.finalize = mpib_net_finalize,
};
