/* SPDX-License-Identifier: Apache-2.0 */
/* Finds environment variables that look like settings of mpib but are not.
 * Otherwise a misspelt setting would have no effect and cause no message. Call
 * these functions only while no other thread can change the environment. */
#ifndef MPIB_BASE_ENVIRON_H
#define MPIB_BASE_ENVIRON_H

#include <stdbool.h>
#include <stddef.h>

/* `nearest` is the known name that is most similar to `name`, or NULL. */
typedef void mpib_environ_fn(void *arg, const char *name, const char *nearest);

/* Call fn(arg, ...) for each variable of env that begins with MPIB_ and that no
 * part of mpib reads. */
void mpib_environ_check(char **env, mpib_environ_fn *fn, void *arg);

typedef bool mpib_environ_want(const char *name);

/* Write into `text` the names in `env` for which want() returns true, separated
 * by ", ". The text ends in "..." if not all fit. Return the number of
 * names. */
unsigned mpib_environ_list(char **env, mpib_environ_want *want, char *text,
			   size_t len);

/* Return whether Kubernetes set the variable for a Service: with a Service
 * named mpib-peer in the namespace, pods get MPIB_PEER_PORT=tcp://10.96.0.7:80.
 * No setting has such a value, so these variables are ignored. */
bool mpib_environ_is_link(const char *value);

/* Return whether mpib-proxy reads the variable but client processes do not. */
mpib_environ_want mpib_environ_is_proxys;

/* All names that some part of mpib reads, NULL-terminated. They include the
 * proxy's settings, because a rank and the proxy may be started with the same
 * environment. cmake/environ_names.awk makes the list. */
extern const char *const mpib_environ_names[];

#endif
