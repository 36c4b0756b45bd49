/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the plugin: what NCCL's send, receive and listen comms are. */
#ifndef MPIB_PLUGIN_COMM_H
#define MPIB_PLUGIN_COMM_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/queue.h>

#include "profile.h"
#include "proxy.h"

struct net_comm {
	struct mpib_conn *conn;
	struct net_phandle phandle;
	struct net_profile *profile;
	struct net_proxy *proxy;
	struct mpib_listener *listener;
	struct mpib_conn *accepting; /* of a listener */
	/* Latest GPU memory that could not be registered as a dma-buf. */
	_Atomic(const void *) refused;
	/* Of a listener, and a connect that is pending. */
	const struct net_ctx *ctx;
	LIST_ENTRY(net_comm) link;
	/* Of such a connect. */
	const void *handle; /* whose memory this is */
	uint64_t nonce;
};

#endif
