/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that has the kernel make pages, so that the control thread never
 * waits for that: a GiB takes about a second. One step at a time. Calls are made
 * on the control thread.
 */
#ifndef MPIB_PROXY_CLIENT_FILLER_H
#define MPIB_PROXY_CLIENT_FILLER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/bell.h"
#include "base/loop.h"

struct mpib_ctl_header;
struct mpib_mr_attr;
struct proxy_client;
struct proxy_client_region;
struct proxy_clients;

struct mpib_filler {
	struct mpib_loop *loop;
	struct mpib_io watch;
	struct mpib_bell bell; /* to the control thread: a step is over */
	pthread_t thread;
	bool running;
	pthread_mutex_t lock; /* all below */
	pthread_cond_t changed;
	void *at;
	size_t len;
	int fd; /* -1: the pages need not be there */
	bool asked, over, stop;
	int rc;
};

/* Start the thread. -errno. */
int mpib_filler_start(struct proxy_clients *all);
/* End the thread, after the step that is under way, of which the loop tells nothing
 * more. Does nothing to a zeroed f. */
void mpib_filler_stop(struct mpib_filler *f);

/*
 * Allocating the pages of a region before the rails register it. Page
 * allocation is most of the cost of registering, so the thread above does it in
 * steps. Clients take turns, and so do the regions of one client:
 * however large or many one client's regions are, another client waits for one
 * foreign step per step of its own.
 *
 * A region is FILLING from mpib_fill_begin() to mpib_fill_end(). It counts in
 * the client's quotas from the start, and is freed at once when the client
 * leaves. A step that is under way then keeps the memory, and the next one waiting:
 * it takes as long as another thread of the client's punches a hole into that, 0.2 s
 * a GiB. Control thread only.
 */

/* One huge page, so that each is made whole. With 4 KiB pages a step takes some
 * 2 ms. */
#define MPIB_FILL_STEP ((size_t)2 << 20)

/* r is mapped. It is filled and then registered with attr; or the client's
 * request is refused and r freed. */
void mpib_fill_begin(struct proxy_client_region *r,
		     const struct mpib_mr_attr *attr);
/* Take r off the queue; the caller then frees or registers it. */
void mpib_fill_end(struct proxy_client_region *r);
/* Refuse ask, which is for a region of size bytes in fd: the kernel gave pages
 * for filled bytes only, then failed with rc. */
void mpib_fill_refuse(struct proxy_client *s, const struct mpib_ctl_header *ask,
		      int rc, int fd, uint64_t filled, uint64_t size);

#endif
