/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop of the control thread: descriptors (epoll, level-triggered)
 * and timers. All callbacks run inside mpib_loop_turn(), on the thread that
 * calls it. Watches and timers are members of the objects that use them.
 * Watches and timers must not move in memory while they are added or armed. A
 * callback may add, change or remove any watch or timer, including its own, and
 * may free the object that holds it. A removed watch is not called again, even
 * if epoll has already returned an event for it.
 *
 * Only the loop's thread may call these functions. Only mpib_loop_turn() and
 * mpib_loop_run() block. Times are nanoseconds.
 */
#ifndef MPIB_BASE_LOOP_H
#define MPIB_BASE_LOOP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#define MPIB_MSEC 1000000ull
#define MPIB_SEC 1000000000ull
#define MPIB_FOREVER (-1LL)

/* `events` are those of epoll_wait(2): EPOLLIN, EPOLLOUT, ... */
typedef void mpib_io_fn(void *arg, uint32_t events);
typedef void mpib_timer_fn(void *arg);

/* A watched descriptor. In zeroed memory, the watch is not added. */
struct mpib_io {
	int fd;
	bool added;
	mpib_io_fn *fn;
	void *arg;
};

/* Zeroed memory is a timer that is not armed. */
struct mpib_timer {
	struct mpib_timer *child, *next, *prev; /* in the pairing heap */
	uint64_t deadline, seq;
	bool armed;
	mpib_timer_fn *fn;
	void *arg;
};

#define MPIB_LOOP_BATCH 64

struct mpib_loop {
	int epfd;
	struct mpib_timer *timers; /* root of the heap: the timer due first */
	uint64_t seq;
	struct epoll_event batch[MPIB_LOOP_BATCH];
	/* index of the next event in the batch, and size of the batch */
	int at, taken;
	bool manual;
	uint64_t clock; /* time last read, or set by mpib_loop_advance() */
	bool stop; /* set by a handler: end mpib_loop_run() */
};

/* 0 or -errno. */
int mpib_loop_init(struct mpib_loop *loop);
/* Drop watches and timers that are still in the loop; their fds stay open. */
void mpib_loop_fini(struct mpib_loop *loop);

/* Watch `fd`, which the caller still owns. `events` may be 0: errors and
 * hang-ups are always reported. Return 0 or -errno. */
int mpib_loop_add(struct mpib_loop *loop, struct mpib_io *watch, int fd,
		  uint32_t events, mpib_io_fn *fn, void *arg);
/* Change the events. This takes effect at once, also for the rest of the
 * current turn. Errors and hang-ups are always reported. */
int mpib_loop_mod(struct mpib_loop *loop, struct mpib_io *watch,
		  uint32_t events);
/* Stop watching; call this before closing the fd. No effect if the watch is not
 * added. */
void mpib_loop_del(struct mpib_loop *loop, struct mpib_io *watch);

/*
 * Call fn(arg) once, after `ns` nanoseconds or a little later. Arming a timer
 * that is already armed changes its deadline. Timers with the same deadline run
 * in the order in which they were armed. With ns == 0, fn() runs after the
 * descriptors of this turn. A timer that is armed by a timer's callback runs in
 * the next turn at the earliest, so timers that arm each other cannot starve
 * the descriptors. Never fails.
 */
void mpib_timer_arm(struct mpib_loop *loop, struct mpib_timer *timer,
		    uint64_t ns, mpib_timer_fn *fn, void *arg);
/* No effect if the timer is not armed. */
void mpib_timer_disarm(struct mpib_loop *loop, struct mpib_timer *timer);

/* Return CLOCK_MONOTONIC, or the time set by mpib_loop_advance(). */
uint64_t mpib_loop_now(struct mpib_loop *loop);
/* Advance the time by `ns`, for tests. After the first call, only this function
 * changes the time. */
void mpib_loop_advance(struct mpib_loop *loop, uint64_t ns);

/* Wait up to `ns` nanoseconds for an event or a due timer (MPIB_FOREVER:
 * without limit; 0: do not wait), then run the callbacks of ready descriptors
 * and due timers. Return how many callbacks ran, or -errno. If
 * mpib_loop_advance() has ever been called, this function does not wait for
 * timers. */
int mpib_loop_turn(struct mpib_loop *loop, int64_t ns);

/* Make turns until loop->stop, and clear it. Return 0 or -errno. */
int mpib_loop_run(struct mpib_loop *loop);

#endif
