/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the plugin: attachments to the proxy, NCCL's contexts on them, and
 * how failures are told.
 */
#ifndef MPIB_PLUGIN_PROXY_H
#define MPIB_PLUGIN_PROXY_H

#include <mpib/client.h>
#include <stdbool.h>
#include <stdint.h>

#include "nccl_abi.h"

/*
 * One client of the proxy serves all contexts of the process, so that they share its
 * registrations and staging memory: NCCL registers the same pool on every
 * comm. A context made after the proxy was restarted, or in a forked child,
 * gets a new one; older contexts keep the dead one and its errors.
 */
struct net_proxy {
	struct mpib_client *client;
	unsigned refs; /* contexts and comms; under client.c's lock */
};

/* NCCL's context. */
struct net_ctx {
	struct net_proxy *proxy;
	int traffic_class; /* of its communicator, -1 undefined */
	struct net_ctx *older; /* of the default: dead ones that it replaced */
};

void net_proxy_ref(struct net_proxy *s);
void net_proxy_put(struct net_proxy *s);
/* The newest client's node into *info. False when there is none. */
bool net_proxy_query(struct mpib_node_info *info);

/* connect.c, device.c: after fork(), in the child. */
void connect_in_child(void);
void device_in_child(void);

void net_log_set(nccl_log_fn log);
/* A line for NCCL's log: WARN, or INFO when ok. */
void net_say(bool ok, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Tell why call failed, in the client library's words, and give the result for
 * NCCL. Each sentence is told once until the next init: NCCL may call again
 * and again. Who waits for the peer gets NCCL_REMOTE_ERROR where the peer is
 * to blame.
 */
enum nccl_result net_fail(const char *call, int rc);
enum nccl_result net_fail_local(const char *call, int rc);

#endif
