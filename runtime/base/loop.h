/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop of the control thread: descriptors by epoll (level-triggered) and
 * timers. Every callback runs inside mpib_loop_turn(), on the thread that calls
 * it; watches and timers are members of what they are about and must stay in
 * place while they are added or armed. A callback may add, change or remove
 * any watch and any timer, its own too, and free what holds them: nothing of
 * a removed watch is called again, not even for an event already taken.
 *
 * All calls belong to the loop's thread but mpib_loop_stop(). They never
 * block, except mpib_loop_turn() and mpib_loop_run(). Times are nanoseconds.
 */
#ifndef MPIB_BASE_LOOP_H
#define MPIB_BASE_LOOP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/bell.h"

#define MPIB_MSEC 1000000ull
#define MPIB_SEC 1000000000ull
#define MPIB_FOREVER (-1LL)

/* events: EPOLLIN, EPOLLOUT, ... as epoll_wait(2) gave them. */
typedef void mpib_io_fn(void *arg, uint32_t events);
typedef void mpib_timer_fn(void *arg);

/* Zeroed memory is a watch not added. */
struct mpib_io {
	int fd;
	bool added;
	mpib_io_fn *fn;
	void *arg;
};

/* Zeroed memory is a timer not armed. */
struct mpib_timer {
	struct mpib_timer *child, *next, *prev; /* pairing heap */
	uint64_t deadline, seq;
	bool armed;
	mpib_timer_fn *fn;
	void *arg;
};

#define MPIB_LOOP_BATCH 64

struct mpib_loop {
	int epfd;
	struct mpib_timer *timers; /* the one due first */
	uint64_t seq;
	struct epoll_event batch[MPIB_LOOP_BATCH];
	int at, taken; /* events of the batch: next, and how many */
	bool manual;
	uint64_t clock; /* of the last look, or set by hand */
	struct mpib_bell bell; /* dirty to stop it */
	struct mpib_io wake;
	atomic_bool stop;
};

/* -errno. */
int mpib_loop_init(struct mpib_loop *loop);
/* Watches and timers still in it are forgotten; their fds are not closed. */
void mpib_loop_fini(struct mpib_loop *loop);

/* Watch fd, which stays the caller's. events may be 0: errors and hang-up are
 * always told. -errno. */
int mpib_loop_add(struct mpib_loop *loop, struct mpib_io *watch, int fd,
		  uint32_t events, mpib_io_fn *fn, void *arg);
int mpib_loop_mod(struct mpib_loop *loop, struct mpib_io *watch,
		  uint32_t events);
/* Before the fd is closed. Nothing when it is not added. */
void mpib_loop_del(struct mpib_loop *loop, struct mpib_io *watch);

/*
 * Call fn(arg) once, after ns or later. Arming again moves it. Timers of one
 * deadline run in the order armed. ns == 0 means after the descriptors of this
 * turn, or, from a timer's callback, the next turn; so no chain of such timers
 * keeps the descriptors waiting. Never fails.
 */
void mpib_timer_arm(struct mpib_loop *loop, struct mpib_timer *timer,
		    uint64_t ns, mpib_timer_fn *fn, void *arg);
/* Nothing when it is not armed. */
void mpib_timer_disarm(struct mpib_loop *loop, struct mpib_timer *timer);

/* CLOCK_MONOTONIC, or the time set by hand. */
uint64_t mpib_loop_now(struct mpib_loop *loop);
/* For tests: from now on time moves only by this call. */
void mpib_loop_advance(struct mpib_loop *loop, uint64_t ns);

/*
 * Wait at most ns (MPIB_FOREVER: as long as it takes, 0: not at all) for
 * something to do, then run the callbacks of what is ready and due. Returns
 * how many ran, or -errno. With time set by hand it does not wait for timers.
 */
int mpib_loop_turn(struct mpib_loop *loop, int64_t ns);

/* Turns until mpib_loop_stop(). 0 or -errno. */
int mpib_loop_run(struct mpib_loop *loop);
/* Any thread, and signal handlers. Ends the present or the next run. */
void mpib_loop_stop(struct mpib_loop *loop);

#endif
