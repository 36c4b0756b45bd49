/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's region, from the asking to the answer: allowed, made, given the
 * descriptor behind it, added. Control thread only.
 */
#ifndef MPIB_PROXY_CLIENT_REGION_H
#define MPIB_PROXY_CLIENT_REGION_H

#include "client/client.h"

/* True when the client may have size bytes more; else it was refused. */
bool mpib_region_allowed(struct proxy_client *s,
			 const struct mpib_ctl_header *ask, uint64_t size,
			 bool pool);
/* Counted from now on; NULL: no memory. */
struct proxy_client_region *mpib_region_make(struct proxy_client *s,
					     uint64_t size);
/* The same for the message m, which is refused where NULL is returned. */
struct proxy_client_region *mpib_region_new(struct proxy_client *s,
					    const struct mpib_message *m,
					    uint64_t size);
/* fd is the region's from now on; its memory begins at offset. */
void mpib_region_keep(struct proxy_client_region *r, int fd, uint64_t offset);
/* The rails do not have it, nor anybody else; it may be FILLING. */
void mpib_region_free(struct proxy_client_region *r);
/* Register it with the rails; answers the client then, or at once where that
 * fails, and r may be gone. */
void mpib_region_add(struct proxy_client_region *r,
		     const struct mpib_mr_attr *attr);
/* Let its handle lead to it. -ENOMEM. */
int mpib_region_remember(struct proxy_client *s, struct proxy_client_region *r);

#endif
