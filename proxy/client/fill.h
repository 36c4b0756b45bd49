/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pages of a region, made before the rails are given it. Making them is
 * most of what registering costs, and in one piece it would hold up the control
 * thread and with it every other client. So it is done in steps, one a turn of
 * the loop: nobody waits for more than a step. Clients take turns, and so do the
 * regions of one: neither size nor number of one client's regions delays
 * another's by more than a step for each of its own.
 *
 * A region is FILLING from _begin() to _end(). It counts as the client's from
 * the start; when the client goes, it goes at once. Control thread only.
 */
#ifndef MPIB_PROXY_CLIENT_FILL_H
#define MPIB_PROXY_CLIENT_FILL_H

#include "client/client.h"

/* A page of the larger kind, so that each is made whole; of 4 KiB pages some
 * 2 ms, against which a turn of the loop is nothing. */
#define MPIB_FILL_STEP ((size_t)2 << 20)

/* r has its mapping. In later turns it is filled and then added with attr, or
 * the client is told why not and r is freed. */
void mpib_fill_begin(struct proxy_client_region *r,
		     const struct mpib_mr_attr *attr);
/* No further step for r, which is freed or added. */
void mpib_fill_end(struct proxy_client_region *r);
/* Refuse ask, for a region of size bytes in fd: the kernel has given pages for
 * filled bytes and said rc then. */
void mpib_fill_refuse(struct proxy_client *s, const struct mpib_ctl_header *ask,
		      int rc, int fd, uint64_t filled, uint64_t size);

#endif
