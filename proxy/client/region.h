/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's region from request to answer: checked against limits, made, given
 * its descriptor, registered. Control thread only.
 */
#ifndef MPIB_PROXY_CLIENT_REGION_H
#define MPIB_PROXY_CLIENT_REGION_H

#include "client/client.h"

enum mpib_region_kind {
	MPIB_REGION_MEMFD, /* the client's memory */
	MPIB_REGION_POOL, /* made by the proxy */
	MPIB_REGION_DMABUF, /* a device's memory, which no quota of ours counts */
};

/* True when the client may register size bytes more. False: ask was refused. */
bool mpib_region_allowed(struct proxy_client *s,
			 const struct mpib_ctl_header *ask, uint64_t size,
			 enum mpib_region_kind kind);
/* The region is a dma-buf; or one that the proxy made. */
void mpib_region_of_device(struct proxy_client_region *r);
void mpib_region_of_pool(struct proxy_client_region *r);
/* The region is mapped at map. */
void mpib_region_mapped(struct proxy_client_region *r, void *map, size_t len);
/* A region of s, counted in its usage from now on; NULL: no memory. */
struct proxy_client_region *mpib_region_make(struct proxy_client *s,
					     uint64_t size);
/* Like mpib_region_make(), for the request m; NULL: m was refused. */
struct proxy_client_region *mpib_region_new(struct proxy_client *s,
					    const struct mpib_message *m,
					    uint64_t size);
/* Give fd to the region, which closes it. */
void mpib_region_keep(struct proxy_client_region *r, int fd);
/* Unmap it, and close its descriptor. */
void mpib_region_let_go(const struct mpib_region_memory *m);
/* Free r, which neither rails nor shard have; it may be FILLING. */
void mpib_region_free(struct proxy_client_region *r);
/* Register r with the rails and tell the shard; answers the client when that is
 * done. Where it fails at once, refuses the request and frees r. */
void mpib_region_add(struct proxy_client_region *r,
		     const struct mpib_mr_attr *attr);
/* Enter r under its handle in s->by_handle. -ENOMEM. */
int mpib_region_remember(struct proxy_client *s, struct proxy_client_region *r);

#endif
