/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin's one implementation of NCCL's network calls over the client
 * library. vtable.c adapts it to each version of the ABI. All calls return
 * NCCL_SUCCESS or an error, never NCCL_IN_PROGRESS. The errors of the client
 * library are also written to NCCL's log.
 *
 * `phandle` and `phandles` are handles of NCCL's profiler, NULL before v10.
 *
 * Threads: NCCL's Service and Progress threads (nccl_abi.h) may make calls on
 * one comm at the same time, and one process may have several such pairs of
 * threads.
 */
#ifndef MPIB_PLUGIN_NET_H
#define MPIB_PLUGIN_NET_H

#include <mpib/client.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "nccl_abi.h"

/* Properties of a device, in the newest version's layout. */
typedef struct nccl_net_properties_v12 mpib_net_props;

/* *ctx holds a reference to the client until mpib_net_finalize(). If NCCL uses
 * a table older than v11, the process has one context, mpib_net_default(). */
enum nccl_result mpib_net_init(void **ctx, uint64_t comm_id, int traffic_class,
			       nccl_log_fn log);
enum nccl_result mpib_net_init_default(nccl_log_fn log);
void *mpib_net_default(void);
enum nccl_result mpib_net_finalize(void *ctx);

enum nccl_result mpib_net_devices(int *ndev);
enum nccl_result mpib_net_properties(int dev, mpib_net_props *props);

enum nccl_result mpib_net_listen(void *ctx, int dev, void *handle,
				 void **listen_comm);
enum nccl_result mpib_net_connect(void *ctx, int dev, int traffic_class,
				  void *handle, void **send_comm,
				  struct nccl_net_device_handle **send_dev);
enum nccl_result mpib_net_accept(void *listen_comm, void **recv_comm,
				 struct nccl_net_device_handle **recv_dev);
enum nccl_result mpib_net_reg(void *comm, void *data, size_t size, int type,
			      void **mhandle);
enum nccl_result mpib_net_reg_dmabuf(void *comm, void *data, size_t size,
				     int type, uint64_t offset, int fd,
				     void **mhandle);
enum nccl_result mpib_net_dereg(void *comm, void *mhandle);
enum nccl_result mpib_net_isend(void *send_comm, void *data, size_t size,
				int tag, void *mhandle, void *phandle,
				void **request);
enum nccl_result mpib_net_irecv(void *recv_comm, int n, void **data,
				size_t *sizes, int *tags, void **mhandles,
				void **phandles, void **request);
enum nccl_result mpib_net_iflush(void *recv_comm, int n, void **data,
				 int *sizes, void **mhandles, void **request);
enum nccl_result mpib_net_test(void *request, int *done, int *sizes);
enum nccl_result mpib_net_close(void *comm);
enum nccl_result mpib_net_close_listen(void *listen_comm);

/* The rest of this file is internal: the process's clients of mpib-proxy,
 * NCCL's contexts and comms, log lines, and events for NCCL's profiler. */

/*
 * The process has one client of the proxy for each device in use. The contexts
 * share these clients, with their registrations and staging memory, because
 * NCCL registers the same buffers on every comm. Clients are dead if the proxy
 * has ended and they could not attach to the next proxy. In a forked child, all
 * clients of the parent are dead. If the clients are dead, a new context gets
 * new clients. Older contexts keep the dead clients, whose calls fail.
 */
struct net_proxy {
	/* Indexed by device. Device 0 has a client from the start, which also
	 * asks the proxy about the other devices. Any other device gets its
	 * client when its first comm is made. */
	_Atomic(struct mpib_client *) client[MPIB_DEVICES];
	struct mpib_node_info node;
	struct mpib_device_info device[MPIB_DEVICES];
	uint64_t job;
	/* Number of contexts and comms that use the proxy. context.c's lock
	 * protects it. */
	unsigned refs;
};

/* NCCL's context, one per communicator. */
struct net_ctx {
	struct net_proxy *proxy;
	int traffic_class; /* the communicator's; -1: undefined */
	/* default context: the dead context that this one replaced */
	struct net_ctx *older;
};

/* Add a text to the FNV-1a hash `h` and return the new hash. For the first
 * text, `h` is NET_HASH. */
#define NET_HASH 0xcbf29ce484222325ull
static inline uint64_t net_hash(uint64_t h, const char *text)
{
	for (; *text; text++)
		h = (h ^ (uint8_t)*text) * 0x100000001b3ull;
	return h;
}

void net_proxy_ref(struct net_proxy *s);
void net_proxy_put(struct net_proxy *s);
/* Get the device's client. Return -ENODEV if the node has no such device. After
 * any other failure, return -errno and set the thread's error text. */
int net_proxy_client(struct net_proxy *s, int dev, struct mpib_client **client);
/* Write to *node what the newest client learned about its node when it
 * attached, and to *info the properties of the node's device `dev`. Return the
 * number of devices, or 0 if no client is attached. If the node has no device
 * `dev`, *info remains unchanged. */
int net_proxy_query(struct mpib_node_info *node, int dev,
		    struct mpib_device_info *info);

/* net.c: reset locks and lists in the child after fork(). */
void net_in_child(void);

void net_log_set(nccl_log_fn log);
/* Write a line to NCCL's log: INFO if `ok`, else WARN. */
void net_say(bool ok, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Log why the call named `call` failed, with the client library's text for this
 * thread, and return the result for NCCL. Each text is logged once until the
 * next init, because NCCL may repeat a failing call for ever. net_fail() is for
 * calls that wait for the peer, and returns NCCL_REMOTE_ERROR for errors that
 * the peer causes.
 */
enum nccl_result net_fail(const char *call, int rc);
enum nccl_result net_fail_local(const char *call, int rc);

/*
 * Events for NCCL's profiler, v10 and newer, in the format of NCCL's own IB
 * transport (plugin type IB, record version 1). Each handle of a request has
 * one event per rail that the request uses. The proxy's shard moves the data,
 * and the plugin notices this only in test. An event begins when test sees
 * that a rail has posted something for the request, and ends when test sees
 * that the rail is done. The callback has no argument for a time, so a profiler
 * uses the time of the call.
 *
 * The plugin learns whether a profiler is loaded only when it begins an event.
 * So the comm's first request begins an event. Until a profiler accepts an
 * event, the plugin tries one more request after every 1000 or so tests that
 * return "not complete". Requests that are not watched cost nothing.
 */

struct net_profile; /* one per comm */

/* NCCL's handles for the profiler, as passed to the current isend or irecv. */
struct net_phandle {
	void *one; /* isend */
	void **each; /* irecv */
};

/* Any thread. Remember the callback that NCCL gave to init, even if it is
 * NULL. */
void net_profile_set(nccl_profiler_fn fn);
/* Watch the requests of a new comm over `conn`. The comm sets *ph before each
 * post. Return NULL if NCCL gave no callback or the proxy cannot report. */
struct net_profile *net_profile_new(struct mpib_conn *conn,
				    const struct net_phandle *ph);
/* Call before the connection is closed. `p` may be NULL. */
void net_profile_free(struct net_profile *p);

/* The type behind NCCL's send, receive and listen comms. */
struct net_comm {
	struct mpib_conn *conn;
	struct net_phandle phandle;
	struct net_profile *profile;
	struct net_proxy *proxy;
	struct mpib_client *client; /* client of the comm's device */
	struct mpib_listener *listener;
	struct mpib_conn *accepting; /* listen comm: not ready yet */
	/* Address of the latest GPU memory that could not be registered as a
	 * dma-buf. */
	_Atomic(const void *) refused;
	/* Set for listen comms, and for send comms whose connect is pending. */
	const struct net_ctx *ctx;
	LIST_ENTRY(net_comm) link;
	/* Pending connect: the address at which NCCL keeps the handle, and the
	 * handle's nonce. */
	const void *handle;
	uint64_t nonce;
};

#endif
