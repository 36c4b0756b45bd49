/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocating the pages of a region before the rails register it. Page
 * allocation is most of the cost of registering, so a thread of its own does it
 * (filler.h), in steps. Clients take turns, and so do the regions of one client:
 * however large or many one client's regions are, another client waits for one
 * foreign step per step of its own.
 *
 * A region is FILLING from mpib_fill_begin() to mpib_fill_end(). It counts in
 * the client's quotas from the start, and is freed at once when the client
 * leaves. A step that is under way then keeps the memory, and the next one waiting:
 * it takes as long as another thread of the client's punches a hole into that, 0.2 s
 * a GiB. Control thread only.
 */
#ifndef MPIB_PROXY_CLIENT_FILL_H
#define MPIB_PROXY_CLIENT_FILL_H

#include "client/client.h"

/* One huge page, so that each is made whole. With 4 KiB pages a step takes some
 * 2 ms. */
#define MPIB_FILL_STEP ((size_t)2 << 20)

/* r is mapped. It is filled and then registered with attr; or the client's
 * request is refused and r freed. */
void mpib_fill_begin(struct proxy_client_region *r,
		     const struct mpib_mr_attr *attr);
/* Take r off the queue; the caller then frees or registers it. */
void mpib_fill_end(struct proxy_client_region *r);
/* A step of the clients arg is over: the filler's done(). */
void mpib_fill_stepped(void *arg, int rc);
/* Refuse ask, which is for a region of size bytes in fd: the kernel gave pages
 * for filled bytes only, then failed with rc. */
void mpib_fill_refuse(struct proxy_client *s, const struct mpib_ctl_header *ask,
		      int rc, int fd, uint64_t filled, uint64_t size);

#endif
