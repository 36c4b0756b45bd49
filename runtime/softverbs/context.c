/* SPDX-License-Identifier: Apache-2.0 */
/* Device contexts: open, close, asynchronous events, fork. */
#include "softverbs/softverbs.h"

#include <string.h>

#include "base/log.h"

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
	/* Programs compare this pointer with the device they opened. */
	ctx->device = device;
	fill_operations(ctx);
	return ctx;
}

SV_EXPORT int ibv_close_device(struct ibv_context *ctx)
{
	/* Objects may be left: on an HCA closing the device file succeeds
	 * whatever has not been destroyed. */
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

/*
 * Nothing to prepare: the context's thread writes to memory as any thread of
 * the process does, not by DMA to physical pages, so copy on write after fork()
 * does the parent no harm.
 */
SV_EXPORT int ibv_fork_init(void)
{
	return 0;
}

SV_EXPORT enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

/* Part of libibverbs' interface for providers, so in no public header. */
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
