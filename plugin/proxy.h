/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internal to the plugin: the process's client of mpib-proxy, the NCCL contexts
 * that use it, and how failures get into NCCL's log.
 */
#ifndef MPIB_PLUGIN_PROXY_H
#define MPIB_PLUGIN_PROXY_H

#include <mpib/client.h>
#include <stdbool.h>
#include <stdint.h>

#include "nccl_abi.h"

/*
 * One client of the proxy for each device in use serves all contexts of the
 * process, so that they share its registrations and staging memory: NCCL
 * registers the same buffers on every comm. A context made after the proxy was
 * restarted, or in a forked child, gets new clients; older contexts keep the
 * dead ones and their errors.
 */
struct net_proxy {
	/* By device. Device 0 has one from the start, by which the proxy is
	 * asked for the others; these get theirs with their first comm. */
	struct mpib_client *client[MPIB_DEVICES];
	struct mpib_node_info node;
	struct mpib_device_info device[MPIB_DEVICES];
	uint64_t job;
	unsigned refs; /* contexts and comms; under proxy.c's lock */
};

/* NCCL's context, one per communicator. */
struct net_ctx {
	struct net_proxy *proxy;
	int traffic_class; /* of the communicator; -1: undefined */
	struct net_ctx *older; /* default context: the dead one it replaced */
};

/* FNV-1a of a text behind one whose hash is h, NET_HASH where there is none. */
#define NET_HASH 0xcbf29ce484222325ull
static inline uint64_t net_hash(uint64_t h, const char *text)
{
	for (; *text; text++)
		h = (h ^ (uint8_t)*text) * 0x100000001b3ull;
	return h;
}

void net_proxy_ref(struct net_proxy *s);
void net_proxy_put(struct net_proxy *s);
/* The device's client. -errno, with a text. */
int net_proxy_client(struct net_proxy *s, int dev, struct mpib_client **client);
/* Describe the newest client's node, as of its init, and one of its devices.
 * Returns how many devices there are; 0 when there is no client. info is left
 * alone if there is no device dev. */
int net_proxy_query(struct mpib_node_info *node, int dev,
		    struct mpib_device_info *info);

/* connect.c, device.c: reset locks and lists in the child after fork(). */
void connect_in_child(void);
void device_in_child(void);

void net_log_set(nccl_log_fn log);
/* Write a line to NCCL's log: INFO when ok, else WARN. */
void net_say(bool ok, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Log why call failed, with the client library's text for this thread, and
 * return the result for NCCL. Each text is logged once until the next init:
 * NCCL may repeat a failing call for ever. net_fail() is for calls that wait
 * for the peer, and returns NCCL_REMOTE_ERROR for errors that the peer causes.
 */
enum nccl_result net_fail(const char *call, int rc);
enum nccl_result net_fail_local(const char *call, int rc);

#endif
