/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper: a thread of the client that finds out that the proxy is gone, attaches
 * to the next one, and asks there for what the client has; docs/recovery.md. There is
 * none where nothing can be resumed.
 */
#ifndef MPIB_IPC_HELPER_H
#define MPIB_IPC_HELPER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct mpib_client;

struct mpib_helper {
	/* The client continues at another proxy when this one ends. */
	atomic_bool resumes;
	bool runs;
	pthread_t thread;
	int wake, stop; /* eventfds; -1: there is no helper */
	/* keep.c, under the client's lock; -1: nothing is kept. */
	int keeper;
	pthread_t keeping;
	/* Under the client's lock. */
	uint64_t until; /* ms: the end of the grace; 0: the proxy lives */
	uint32_t grace_ms;
	uint32_t pause_ms; /* before the next attempt */
	char tried[256]; /* why the last attempt failed */
	/* Number of the proxy's upgrade, 0: none, and whether the client has to
	 * attach for it. */
	uint32_t upgrade;
	bool attach;
	/* Written before resumes becomes false: why the client cannot continue;
	 * "": it never could. */
	char why[512];
};

/* When the client has attached. After a failure the client has no helper. */
void mpib_helper_start(struct mpib_client *c);
/* In the process that attached; then nothing else runs in the client. */
void mpib_helper_stop(struct mpib_client *c);
/* Any thread: have it look at all. */
void mpib_helper_wake(struct mpib_client *c);
/* Under the client's lock: what the proxy says of an upgrade. */
struct mpib_ctl_next;
void mpib_helper_upgrade(struct mpib_client *c,
			 const struct mpib_ctl_next *next);
/* Under the client's lock: a late answer, maybe to what the helper asked. */
struct mpib_message;
void mpib_helper_answered(struct mpib_client *c, struct mpib_message *m);
/* Under the client's lock: give up what was prepared at another proxy. */
void mpib_successor_drop(struct mpib_client *c);
/* Under the client's lock: a descriptor that a resume needs cannot be kept, -errno. */
void mpib_helper_gives_up(struct mpib_client *c, int rc);

/* keep.c, under the client's lock. Keep a copy of fd, which stays the caller's. 0:
 * it is not kept. */
uint32_t mpib_keep(struct mpib_client *c, int fd);
/* Return the kept memory as a descriptor that the caller closes. -errno. */
int mpib_keep_lend(const struct mpib_client *c, uint32_t kept);
/* It is closed when this returns. 0: nothing. */
void mpib_keep_close(const struct mpib_client *c, uint32_t kept);
void mpib_keep_stop(struct mpib_client *c);

/* helper_thread.c. Start a thread with all signals blocked: they are the program's. */
int mpib_thread_start(pthread_t *thread, void *(*run)(void *), void *arg);
void mpib_thread_join(pthread_t thread);
/* pthread_mutex_trylock(). True: this thread has the mutex now. */
bool mpib_mutex_try(pthread_mutex_t *mutex);

#endif
