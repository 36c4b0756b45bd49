/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds environment variables that look like settings of mpib and are not: a
 * misspelt setting has no effect and nobody would notice. Called by any thread
 * that may read the environment.
 */
#ifndef MPIB_BASE_ENVIRON_H
#define MPIB_BASE_ENVIRON_H

#include <stddef.h>

/* nearest is the known name most like name, NULL if none is near. */
typedef void mpib_environ_fn(void *arg, const char *name, const char *nearest);

/* Call fn(arg, ...) for each variable of env that begins with MPIB_ and that no
 * part of mpib reads. */
void mpib_environ_check(char **env, mpib_environ_fn *fn, void *arg);

/* Write the names in env that mpib-proxy reads and a client process does not
 * into text, separated by ", " and ending in "..." if they do not all fit.
 * Returns how many there are. */
unsigned mpib_environ_proxys(char **env, char *text, size_t len);

/* All names that some part of mpib reads, NULL-terminated. */
extern const char *const mpib_environ_names[];

#endif
