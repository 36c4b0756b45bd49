/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names in the environment that look like ours and are not: a misspelt setting
 * does nothing, and nobody would notice. Any thread that may read the
 * environment.
 */
#ifndef MPIB_BASE_ENVIRON_H
#define MPIB_BASE_ENVIRON_H

#include <stddef.h>

/* nearest is a name there is, NULL when none is near. */
typedef void mpib_environ_fn(void *arg, const char *name, const char *nearest);

/* Call fn(arg, ...) for each variable of env that begins with MPIB_ and that no part of
 * mpib reads. */
void mpib_environ_check(char **env, mpib_environ_fn *fn, void *arg);

/* The names in env that mpib-proxy reads and a process attached to it does not,
 * separated by ", ", into text; "..." where there are too many. How many. */
unsigned mpib_environ_proxys(char **env, char *text, size_t len);

/* All names that something reads, NULL-ended. */
extern const char *const mpib_environ_names[];

#endif
