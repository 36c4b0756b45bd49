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

/* rc: that of mpib_filler_there(), or -errno of madvise(MADV_POPULATE_WRITE). */
typedef void mpib_filled_fn(void *arg, int rc);

struct mpib_filler {
	struct mpib_loop *loop;
	struct mpib_io watch;
	struct mpib_bell bell; /* to the control thread: a step is over */
	mpib_filled_fn *done;
	void *arg;
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

/* Start the thread; the loop calls done(arg, rc) after each step. -errno. */
int mpib_filler_start(struct mpib_filler *f, struct mpib_loop *loop,
		      mpib_filled_fn *done, void *arg);
/* Make the pages from at to at + len, which stays mapped until done(). fd: they are
 * those of a file, open as long, and have to be there already, or rc is -ENODATA;
 * -EACCES: its mode, or a filter of system calls, keeps the kernel from telling this
 * process. -1: they need not be. No step may be under way. */
void mpib_filler_ask(struct mpib_filler *f, void *at, size_t len, int fd);
/* What the thread asks of a file's memory that has to be there: 0, -ENODATA, -EACCES
 * or, for want of memory, -EAGAIN, for pages from at on. Waits for nobody. Any
 * thread. */
int mpib_filler_there(int fd, void *at, size_t len);
/* End the thread, after the step that is under way, of which the loop tells nothing
 * more. Does nothing to a zeroed f. */
void mpib_filler_stop(struct mpib_filler *f);

#endif
