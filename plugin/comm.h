/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to the plugin: the type behind NCCL's send, receive and listen
 * comms. */
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
	struct mpib_client *client; /* of the comm's device */
	struct mpib_listener *listener;
	struct mpib_conn *accepting; /* listen comm: accept not ready yet */
	/* Latest GPU memory that could not be registered as a dma-buf. */
	_Atomic(const void *) refused;
	/* Listen comms, and send comms whose connect is pending. */
	const struct net_ctx *ctx;
	LIST_ENTRY(net_comm) link;
	/* Pending connect: where NCCL keeps the handle, and its nonce. */
	const void *handle;
	uint64_t nonce;
};

#endif
