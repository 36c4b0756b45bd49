/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A proxy that may refuse to start. It does so in one line and not by a signal,
 * or it serves and ends when it is asked to. Whatever else it does ends the test.
 */
#ifndef MPIB_TESTS_TRIAL_H
#define MPIB_TESTS_TRIAL_H

#include <stdbool.h>
#include <sys/types.h>

#define TRIAL_HANG_MS 60000

struct trial {
	char base[64], dir[80]; /* dir: the run directory */
	pid_t pid;
	int err; /* what it says; no file, whose size may be limited */
	bool ready; /* it serves */
};

void trial_init(struct trial *t);
void trial_fini(struct trial *t);
/* Start one with these arguments, up to a NULL, and wait until it serves or has
 * ended. prepare(arg) runs in the process before the program does. */
void trial_start(struct trial *t, const char *const *args,
		 void (*prepare)(const void *arg), const void *arg);
/* what says for messages how it was started. */
void trial_end(struct trial *t, const char *what);

#endif
