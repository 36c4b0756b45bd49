/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's profiler, from v10 on: an event for each QP that a request uses, as
 * NCCL's own IB transport has them (plugin type IB, record version 1). The
 * shard does the work, so the plugin learns of it when test is called: an event
 * begins when test sees that a rail was given something, and ends when it sees
 * that the rail is through.
 *
 * Whether a profiler is loaded shows only when an event is begun. So the first
 * request of a comm asks, and then one every thousand tests that found nothing,
 * until somebody takes the event. What is not watched costs nothing.
 */
#ifndef MPIB_PLUGIN_PROFILE_H
#define MPIB_PLUGIN_PROFILE_H

#include <mpib/client.h>

#include "nccl_abi.h"

struct net_profile; /* a comm's */

/* What NCCL gave with the post that is being made. */
struct net_phandle {
	void *one; /* isend */
	void **each; /* irecv */
};

/* Any thread. Of init; NULL is remembered, too. */
void net_profile_set(nccl_profiler_fn fn);
/* Of a new comm over conn, whose posts have *ph. NULL when there is nobody to
 * tell. */
struct net_profile *net_profile_new(struct mpib_conn *conn,
				    const struct net_phandle *ph);
/* Before the connection is closed. NULL is nothing. */
void net_profile_free(struct net_profile *p);

#endif
