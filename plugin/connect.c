/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comms: listen, connect, accept, close, and freeing those that NCCL gives up.
 * Called by NCCL's Service threads.
 */
#include <errno.h>
#include <mpib/client.h>
#include <mpib/control.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "comm.h"
#include "net.h"

MPIB_ABI_ASSERT(sizeof(struct mpib_handle) == NCCL_NET_HANDLE_MAXSIZE);

LIST_HEAD(net_comms, net_comm);

/* Protects both lists. Never held across a request to the proxy. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct net_comms connecting = LIST_HEAD_INITIALIZER(connecting);
static struct net_comms listening = LIST_HEAD_INITIALIZER(listening);

void connect_in_child(void)
{
	pthread_mutex_init(&lock, NULL);
	LIST_INIT(&connecting);
	LIST_INIT(&listening);
}

static struct net_comm *new_comm(struct net_proxy *s,
				 struct mpib_client *client)
{
	struct net_comm *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	net_proxy_ref(s);
	c->proxy = s;
	c->client = client;
	return c;
}

static void free_comm(struct net_comm *c)
{
	net_proxy_put(c->proxy);
	free(c);
}

/* Under the lock. Move the comms of context n from list to mine. */
static void connect_take_out(struct net_comms *list, const struct net_ctx *n,
			     struct net_comms *mine)
{
	struct net_comm *c, *next;

	for (c = LIST_FIRST(list); c; c = next) {
		next = LIST_NEXT(c, link);
		if (c->ctx != n)
			continue;
		LIST_REMOVE(c, link);
		LIST_INSERT_HEAD(mine, c, link);
	}
}

static void end_listener(struct net_comm *l)
{
	if (l->accepting)
		mpib_close(l->accepting);
	mpib_close_listen(l->listener);
	net_proxy_put(l->proxy);
	l->proxy = NULL;
}

/*
 * An NCCL that aborts closes neither pending connects nor listen comms: close
 * the context's connections and listeners here. A listen comm itself is kept
 * without its listener, so that NCCL may still call closeListen on it.
 */
enum nccl_result mpib_net_finalize(void *ctx)
{
	struct net_comms conns = LIST_HEAD_INITIALIZER(conns);
	struct net_comms listeners = LIST_HEAD_INITIALIZER(listeners);
	struct net_ctx *n = ctx;
	struct net_comm *c;

	if (!n)
		return NCCL_SUCCESS;
	pthread_mutex_lock(&lock);
	connect_take_out(&connecting, n, &conns);
	connect_take_out(&listening, n, &listeners);
	pthread_mutex_unlock(&lock);
	while ((c = LIST_FIRST(&conns))) {
		LIST_REMOVE(c, link);
		mpib_close(c->conn);
		free_comm(c);
	}
	while ((c = LIST_FIRST(&listeners))) {
		end_listener(c);
		pthread_mutex_lock(&lock);
		LIST_REMOVE(c, link);
		c->ctx = NULL;
		LIST_INSERT_HEAD(&listening, c, link);
		pthread_mutex_unlock(&lock);
	}
	net_proxy_put(n->proxy);
	free(n);
	return NCCL_SUCCESS;
}

/* The device has no client, and rc says why. */
static enum nccl_result connect_no_device(const char *call, int dev, int rc)
{
	if (rc != -ENODEV)
		return net_fail_local(call, rc);
	net_say(false, "%s: there is no device %d (mpibctl devices)", call,
		dev);
	return NCCL_INVALID_ARGUMENT;
}

enum nccl_result mpib_net_listen(void *ctx, int dev, void *handle,
				 void **listen_comm)
{
	struct mpib_client *client;
	struct net_ctx *n = ctx;
	struct net_comm *c;
	int rc;

	if (!n)
		return NCCL_INVALID_ARGUMENT;
	rc = net_proxy_client(n->proxy, dev, &client);
	if (rc < 0)
		return connect_no_device("listen", dev, rc);
	c = new_comm(n->proxy, client);
	if (!c)
		return NCCL_SYSTEM_ERROR;
	rc = mpib_listen(client, handle, &c->listener);
	if (rc < 0) {
		free_comm(c);
		return net_fail_local("listen", rc);
	}
	c->ctx = n;
	pthread_mutex_lock(&lock);
	LIST_INSERT_HEAD(&listening, c, link);
	pthread_mutex_unlock(&lock);
	*listen_comm = c;
	return NCCL_SUCCESS;
}

/* NCCL keeps a handle in an array of char, wherever that lies. */
static uint64_t nonce_of(const void *handle)
{
	struct mpib_handle copy;

	memcpy(&copy, handle, sizeof(copy));
	return copy.nonce;
}

/* The comm that an earlier connect with this handle began. NCCL passes the same
 * memory on every retry; the nonce tells a retry from another handle that is
 * put into the same memory later. */
static struct net_comm *find_connecting(const struct net_ctx *n,
					const struct mpib_handle *handle)
{
	struct net_comm *c;

	pthread_mutex_lock(&lock);
	LIST_FOREACH(c, &connecting, link)
	{
		if (c->handle == handle && c->nonce == nonce_of(handle) &&
		    c->ctx == n)
			break;
	}
	pthread_mutex_unlock(&lock);
	return c;
}

static void forget_connecting(struct net_comm *c)
{
	pthread_mutex_lock(&lock);
	LIST_REMOVE(c, link);
	pthread_mutex_unlock(&lock);
}

static int begin_connect(struct net_ctx *n, struct mpib_client *client,
			 const struct mpib_handle *handle, int traffic_class,
			 struct net_comm **comm)
{
	struct net_comm *c = new_comm(n->proxy, client);
	int rc;

	if (!c)
		return -ENOMEM;
	if (traffic_class < 0)
		traffic_class = n->traffic_class;
	rc = mpib_connect(client, handle, traffic_class, &c->conn);
	if (rc < 0) {
		free_comm(c);
		return rc;
	}
	c->ctx = n;
	c->handle = handle;
	c->nonce = nonce_of(handle);
	pthread_mutex_lock(&lock);
	LIST_INSERT_HEAD(&connecting, c, link);
	pthread_mutex_unlock(&lock);
	*comm = c;
	return 0;
}

enum nccl_result mpib_net_connect(void *ctx, int dev, int traffic_class,
				  void *handle, void **send_comm,
				  struct nccl_net_device_handle **send_dev)
{
	struct mpib_client *client;
	struct net_ctx *n = ctx;
	struct net_comm *c;
	int rc;

	*send_comm = NULL;
	if (send_dev)
		*send_dev = NULL;
	if (!n)
		return NCCL_INVALID_ARGUMENT;
	c = find_connecting(n, handle);
	if (!c) {
		rc = net_proxy_client(n->proxy, dev, &client);
		if (rc < 0)
			return connect_no_device("connect", dev, rc);
		rc = begin_connect(n, client, handle, traffic_class, &c);
		if (rc < 0)
			return net_fail("connect", rc);
	}
	rc = mpib_ready(c->conn);
	if (rc == 0)
		return NCCL_SUCCESS;
	forget_connecting(c);
	if (rc < 0) {
		enum nccl_result res = net_fail("connect", rc);

		mpib_close(c->conn);
		free_comm(c);
		return res;
	}
	c->profile = net_profile_new(c->conn, &c->phandle);
	*send_comm = c;
	return NCCL_SUCCESS;
}

enum nccl_result mpib_net_accept(void *listen_comm, void **recv_comm,
				 struct nccl_net_device_handle **recv_dev)
{
	struct net_comm *l = listen_comm, *c;
	int rc;

	*recv_comm = NULL;
	if (recv_dev)
		*recv_dev = NULL;
	if (!l->proxy) {
		net_say(false, "accept: its context was finalized (a new one "
			       "listens anew)");
		return NCCL_INVALID_USAGE;
	}
	if (!l->accepting) {
		rc = mpib_accept(l->listener, &l->accepting);
		if (rc < 0)
			return net_fail("accept", rc);
	}
	rc = mpib_ready(l->accepting);
	if (rc == 0)
		return NCCL_SUCCESS;
	if (rc < 0) {
		enum nccl_result res = net_fail("accept", rc);

		mpib_close(l->accepting);
		l->accepting = NULL;
		return res;
	}
	c = new_comm(l->proxy, l->client);
	if (!c)
		return NCCL_SYSTEM_ERROR;
	c->conn = l->accepting;
	l->accepting = NULL;
	c->profile = net_profile_new(c->conn, &c->phandle);
	*recv_comm = c;
	return NCCL_SUCCESS;
}

enum nccl_result mpib_net_close(void *comm)
{
	struct net_comm *c = comm;

	if (!c)
		return NCCL_SUCCESS;
	net_profile_free(c->profile);
	mpib_close(c->conn);
	free_comm(c);
	return NCCL_SUCCESS;
}

enum nccl_result mpib_net_close_listen(void *listen_comm)
{
	struct net_comm *c = listen_comm;

	if (!c)
		return NCCL_SUCCESS;
	pthread_mutex_lock(&lock);
	LIST_REMOVE(c, link);
	pthread_mutex_unlock(&lock);
	if (c->proxy)
		end_listener(c);
	free(c);
	return NCCL_SUCCESS;
}
