/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events for NCCL's profiler, v10 and newer: one for each rail that a request
 * uses and each of its handles, in the format of NCCL's own IB transport (plugin
 * type IB, record version 1). The proxy's shard does the work, so the plugin
 * learns of it only in test: an event begins when test sees that a rail has
 * posted something for the request, and ends when test sees that the rail is
 * done. The callback takes no time: a profiler notes when it is called.
 *
 * Whether a profiler is loaded shows only when an event is begun. So the first
 * request of a comm tries, and then one request in a thousand fruitless tests,
 * until a profiler takes the event. Requests that are not watched cost nothing.
 */
#ifndef MPIB_PLUGIN_PROFILE_H
#define MPIB_PLUGIN_PROFILE_H

#include <mpib/client.h>

#include "nccl_abi.h"

struct net_profile; /* one per comm */

/* The profiler handles that NCCL passed to the isend or irecv that is running.
 */
struct net_phandle {
	void *one; /* isend */
	void **each; /* irecv */
};

/* Any thread. Remember the callback that NCCL gave to init, NULL too. */
void net_profile_set(nccl_profiler_fn fn);
/* For a new comm over conn; *ph is what each of its posts sets. NULL when NCCL
 * gave no callback or the proxy cannot report. */
struct net_profile *net_profile_new(struct mpib_conn *conn,
				    const struct net_phandle *ph);
/* Call before the connection is closed. p may be NULL. */
void net_profile_free(struct net_profile *p);

#endif
