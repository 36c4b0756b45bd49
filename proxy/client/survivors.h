/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients that outlive the proxy, in the file RUNDIR/clients, which the next proxy
 * reads: who was attached, so that those who come back find room before newcomers
 * do; and in whose work the proxy crashed, so that no process keeps it in a loop of
 * crashes. A process is known by what the kernel says of it, so that none can speak
 * for another. Control thread, but for the note of a crash.
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
	uint32_t rsvd;
	uint64_t
		inode; /* of its pidfd, where the kernel has one for each (6.9) */
};

enum mpib_survivor_state {
	MPIB_SURVIVOR_FREE, /* but for its crashes */
	MPIB_SURVIVOR_ATTACHED,
	MPIB_SURVIVOR_EXPECTED, /* at the last proxy */
	/* Attached again; has not asked for all its connections yet. */
	MPIB_SURVIVOR_RESUMING,
};

struct mpib_survivor {
	_Atomic uint32_t client; /* its id, while attached */
	uint32_t state;
	struct mpib_process process;
	uint64_t crashed[2]; /* CLOCK_BOOTTIME, ns; the newest first */
};

struct mpib_survivors {
	struct mpib_survivor *record; /* the file; NULL: there is none */
	uint64_t until; /* CLOCK_BOOTTIME, ns: how long newcomers wait */
	unsigned told; /* how many it was logged that they wait for */
	/* The last proxy may have had clients that the file does not name. */
	bool blind;
};

/* Open the file in the directory. For grace_ns the proxy expects the clients that
 * the last proxy had. -errno: the file cannot be used, and no client is expected. */
int mpib_survivors_open(struct mpib_survivors *v, int dir, uint64_t grace_ns);
/* The process behind a pidfd, which may be -1. */
struct mpib_process mpib_process_of(uid_t uid, uint32_t pid, int pidfd,
				    uint32_t device);
/* Whether the process may attach now. 0; -EPERM: two crashes within a minute were in
 * its work; -EINPROGRESS: *others come first, for *ms at most. */
int mpib_survivors_admit(struct mpib_survivors *v, const struct mpib_process *p,
			 unsigned *others, unsigned *ms);
/* The process attached, as the client of that id. NULL: it is not recorded. */
struct mpib_survivor *mpib_survivors_take(struct mpib_survivors *v,
					  const struct mpib_process *p,
					  uint32_t client);
/* It has asked for all its connections; record may be NULL, also below. */
void mpib_survivors_resumed(struct mpib_survivor *record);
/* Return whether each client of the last proxy has resumed, or has ended. */
bool mpib_survivors_are_back(struct mpib_survivors *v);
/* It leaves. One that has not resumed is expected again. */
void mpib_survivors_leave(struct mpib_survivor *record);

#endif
