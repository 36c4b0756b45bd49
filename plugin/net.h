/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's network calls over the client library, one implementation for all
 * versions of the ABI; vtable.c adapts it to each. All return NCCL_SUCCESS or
 * an error that was also written to NCCL's log, never NCCL_IN_PROGRESS.
 *
 * phandle and phandles are handles of NCCL's profiler, NULL before v10.
 *
 * Threads: NCCL's Service and Progress threads (nccl_abi.h) call at once on one
 * comm, and one process may have several such pairs of threads.
 */
#ifndef MPIB_PLUGIN_NET_H
#define MPIB_PLUGIN_NET_H

#include "nccl_abi.h"

/* Properties of a device, in the newest version's layout. */
typedef struct nccl_net_properties_v12 mpib_net_props;

/* *ctx holds a reference to the client until mpib_net_finalize(). Before v11
 * the process has one context, mpib_net_default(). */
enum nccl_result mpib_net_init(void **ctx, uint64_t comm_id, int traffic_class,
			       nccl_log_fn log);
enum nccl_result mpib_net_init_default(nccl_log_fn log);
void *mpib_net_default(void);
enum nccl_result mpib_net_finalize(void *ctx);

enum nccl_result mpib_net_devices(int *ndev);
enum nccl_result mpib_net_properties(int dev, mpib_net_props *props);
enum nccl_result mpib_net_no_vdevice(void);

enum nccl_result mpib_net_listen(void *ctx, int dev, void *handle,
				 void **listen_comm);
enum nccl_result mpib_net_connect(void *ctx, int dev, int traffic_class,
				  void *handle, void **send_comm,
				  struct nccl_net_device_handle **send_dev);
enum nccl_result mpib_net_accept(void *listen_comm, void **recv_comm,
				 struct nccl_net_device_handle **recv_dev);
enum nccl_result mpib_net_reg(void *comm, void *data, size_t size, int type,
			      void **mhandle);
enum nccl_result mpib_net_reg_dmabuf(void *comm, void *data, size_t size,
				     int type, uint64_t offset, int fd,
				     void **mhandle);
enum nccl_result mpib_net_dereg(void *comm, void *mhandle);
enum nccl_result mpib_net_isend(void *send_comm, void *data, size_t size,
				int tag, void *mhandle, void *phandle,
				void **request);
enum nccl_result mpib_net_irecv(void *recv_comm, int n, void **data,
				size_t *sizes, int *tags, void **mhandles,
				void **phandles, void **request);
enum nccl_result mpib_net_iflush(void *recv_comm, int n, void **data,
				 int *sizes, void **mhandles, void **request);
enum nccl_result mpib_net_test(void *request, int *done, int *sizes);
enum nccl_result mpib_net_close(void *comm);
enum nccl_result mpib_net_close_listen(void *listen_comm);

#endif
