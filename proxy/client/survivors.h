/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients that outlive the proxy, recorded for the next proxy in the file
 * RUNDIR/clients. The file says which processes were attached: the next proxy
 * serves these before new ones. The file also names the process for which the
 * proxy was working when it crashed, so that no process can crash the proxy
 * again and again. Processes are identified by data from the kernel, so that
 * none can pose as another. Control thread, except that any thread may record a
 * crash.
 */
#ifndef MPIB_CLIENT_SURVIVORS_H
#define MPIB_CLIENT_SURVIVORS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define MPIB_SURVIVORS_FILE "clients"

/* A process, and the device that it uses. */
struct mpib_process {
	uint32_t uid;
	uint32_t pid; /* 0: of another pid namespace */
	uint32_t device;
	/* The thread that attaches to the next proxy; 0: unknown. If the
	 * process is alive but this thread has ended, the client has
	 * detached. */
	uint32_t thread;
	uint64_t inode; /* of its pidfd if that is unique (Linux 6.9), else 0 */
};

enum mpib_survivor_state {
	MPIB_SURVIVOR_FREE, /* no client; crashes may be recorded, though */
	MPIB_SURVIVOR_ATTACHED,
	/* The process was attached to the last proxy. */
	MPIB_SURVIVOR_EXPECTED,
	/* The process has attached again, but has not resumed all its
	 * connections. */
	MPIB_SURVIVOR_RESUMING,
};

struct mpib_survivor {
	_Atomic uint32_t client; /* the client's id, while it is attached */
	uint32_t state;
	struct mpib_process process;
	uint64_t crashed[2]; /* CLOCK_BOOTTIME, ns; the latest first */
};

struct mpib_survivors {
	struct mpib_survivor *record; /* the mapped file; NULL: none */
	uint64_t until; /* CLOCK_BOOTTIME, ns: when new clients may attach */
	unsigned told; /* number of expected clients in the last log line */
	/* The last proxy may have had clients that are not in the file. */
	bool blind;
};

/* Open the file in the directory `dir`, and expect the clients of the last
 * proxy for grace_ns. -errno: the file cannot be used, and no client is
 * expected. */
int mpib_survivors_open(struct mpib_survivors *v, int dir, uint64_t grace_ns);
/* Return the process of pidfd (-1: no pidfd). Its `thread` is 0. */
struct mpib_process mpib_process_of(uid_t uid, uint32_t pid, int pidfd,
				    uint32_t device);
/* Note the thread that the client names, if that thread belongs to the
 * process. */
void mpib_process_thread(struct mpib_process *p, uint32_t thread);
/* Return 0 if the process may attach now. Return -EPERM if the proxy crashed
 * twice within a minute while it worked for the process. Return -EINPROGRESS if
 * the process must wait for at most *ms ms, because *others processes of the
 * last proxy come first. */
int mpib_survivors_admit(struct mpib_survivors *v, const struct mpib_process *p,
			 unsigned *others, unsigned *ms);
/* Record the process as the attached client of that id. NULL: it is not
 * recorded. */
struct mpib_survivor *mpib_survivors_take(struct mpib_survivors *v,
					  const struct mpib_process *p,
					  uint32_t client);
/* Note the thread that will attach to the next proxy. `returned`: the client
 * was attached to an earlier proxy, and has now resumed all its connections.
 * `record` may be NULL, also below. */
void mpib_survivors_resumed(struct mpib_survivor *record, uint32_t thread,
			    bool returned);
/* Return whether each client of the last proxy has resumed, or has ended. */
bool mpib_survivors_are_back(struct mpib_survivors *v);
/* Note that the client leaves. If the client has not resumed, expect it
 * again. */
void mpib_survivors_leave(struct mpib_survivor *record);

#endif
