/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's calls: devices, registration, messages, comms. */
#include "net.h"

#include <errno.h>
#include <fcntl.h>
#include <mpib/client.h>
#include <mpib/control.h>
#include <mpib/segment.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/*
 * The properties of the plugin's network devices, each of which has one rail or
 * fuses two.
 */

/* NCCL keeps pointers to these strings, so the strings live as long as the
 * library. fill_names() writes them once, and again only if a restarted proxy
 * has other rails. */
static pthread_mutex_t device_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	char name[2 * 64 + 2];
	char path[128];
} device[MPIB_DEVICES];

static void set_once(char *to, size_t len, const char *text)
{
	if (strncmp(to, text, len) != 0)
		snprintf(to, len, "%s", text);
}

static void fill_names(int dev, const struct mpib_device_info *info)
{
	char name[sizeof(device[0].name)];

	snprintf(name, sizeof(name), "%s%s%s", info->rail[0].name,
		 info->rails > 1 ? "+" : "",
		 info->rails > 1 ? info->rail[1].name : "");
	pthread_mutex_lock(&device_lock);
	set_once(device[dev].name, sizeof(device[dev].name), name);
	set_once(device[dev].path, sizeof(device[dev].path),
		 info->rail[0].pci_path);
	pthread_mutex_unlock(&device_lock);
}

/* Return an id that is the same in all processes of a node and different on
 * each node. HCAs have the same names on every node, so the machine's boot id
 * is hashed too. */
static uint64_t device_guid(int dev)
{
	uint64_t h = net_hash(NET_HASH, device[dev].name);
	char boot[64];

	mpib_read_line(boot, sizeof(boot), "/proc/sys/kernel/random/boot_id");
	return net_hash(h, boot);
}

/* Return the sum of the speeds of the rails that carry payload, in Mbit/s. NCCL
 * divides by this sum, so it must not be 0: a rail of unknown speed counts as
 * 10 Gbit/s. */
static int device_speed(const struct mpib_device_info *info)
{
	uint32_t sum = 0;

	for (int r = 0; r < info->rails; r++) {
		uint32_t speed = info->rail[r].speed_mbps;

		if (info->carries >> r & 1)
			sum += speed ? speed : 10000;
	}
	return sum ? (int)sum : 10000;
}

enum nccl_result mpib_net_devices(int *ndev)
{
	struct mpib_node_info node;
	int devices = net_proxy_query(&node, -1, NULL);

	*ndev = devices ? devices : 1;
	return NCCL_SUCCESS;
}

enum nccl_result mpib_net_properties(int dev, mpib_net_props *props)
{
	struct mpib_device_info info;
	struct mpib_node_info node;
	int devices = net_proxy_query(&node, dev, &info);

	if (!devices) {
		net_say(false, "getProperties: called before init");
		return NCCL_INVALID_USAGE;
	}
	if (dev < 0 || dev >= devices) {
		net_say(false,
			"getProperties: there is no device %d (the node has "
			"%d, numbered from 0)",
			dev, devices);
		return NCCL_INVALID_ARGUMENT;
	}
	fill_names(dev, &info);
	*props = (mpib_net_props){
		.name = device[dev].name,
		.pciPath = device[dev].path[0] ? device[dev].path : NULL,
		.guid = device_guid(dev),
		.ptrSupport =
			NCCL_PTR_HOST | (node.dmabuf ? NCCL_PTR_DMABUF : 0),
		.regIsGlobal = 1, /* a region is valid for all comms */
		.speed = device_speed(&info),
		.port = 1,
		.latency = 2.0f, /* us, for the hops through both proxies */
		.maxComms = MPIB_CONNS_MAX,
		.maxRecvs = MPIB_GROUP_MAX,
		.netDeviceType = NCCL_NET_DEVICE_HOST,
		.netDeviceVersion = NCCL_NET_DEVICE_INVALID_VERSION,
		/*
		 * devs[] holds device indices that NCCL may pass to
		 * getProperties, not rails. For a device that NCCL did not
		 * fuse, devs[] holds only the device's own index.
		 */
		.vProps = { .ndevs = 1, .devs = { dev } },
		.maxP2pBytes = MPIB_SIZE_MAX,
		.maxCollBytes = MPIB_SIZE_MAX,
		.maxMultiRequestSize = 1,
		.railId = NCCL_NET_ID_UNDEF,
		.planeId = NCCL_NET_ID_UNDEF,
	};
	return NCCL_SUCCESS;
}

/* Registration, isend, irecv and test. NCCL's Progress thread calls the last
 * three; they are the plugin's hot path. */

enum nccl_result mpib_net_reg(void *comm, void *data, size_t size, int type,
			      void **mhandle)
{
	struct net_comm *c = comm;
	struct mpib_region *region;
	int rc;

	/* After a failed regMrDmaBuf, NCCL calls regMr for the same memory. The
	 * failure of regMrDmaBuf is in the log already. */
	if (type != NCCL_PTR_HOST &&
	    atomic_load_explicit(&c->refused, memory_order_relaxed) == data)
		return NCCL_INVALID_USAGE;
	if (type != NCCL_PTR_HOST) {
		net_say(false, "regMr: GPU memory must be a dma-buf, which "
			       "NCCL did not offer (set NCCL_DMABUF_ENABLE=1, "
			       "or NCCL_NET_GDR_LEVEL=LOC to use host memory)");
		return NCCL_INVALID_USAGE;
	}
	rc = mpib_reg(c->client, data, size, &region);
	if (rc < 0)
		return net_fail_local("regMr", rc);
	*mhandle = region;
	return NCCL_SUCCESS;
}

/* A proxy that accepts dma-bufs also accepts a sealed memfd as a dma-buf, and
 * flushes the memfd like device memory. A proxy that does not accept dma-bufs
 * maps the memfd. */
static uint32_t kind_of(const struct net_comm *c, int fd)
{
	int seals = c->proxy->node.dmabuf ? -1 : fcntl(fd, F_GET_SEALS);

	return seals >= 0 && seals & F_SEAL_SHRINK ? MPIB_REG_MEMFD
						   : MPIB_REG_DMABUF;
}

enum nccl_result mpib_net_reg_dmabuf(void *comm, void *data, size_t size,
				     int type, uint64_t offset, int fd,
				     void **mhandle)
{
	struct net_comm *c = comm;
	struct mpib_region *region;
	int rc;

	(void)type;
	rc = mpib_reg_fd(c->client, data, size, offset, fd, kind_of(c, fd),
			 &region);
	/* Relaxed: the same thread reads `refused`, in the mpib_net_reg() that
	 * NCCL calls next. */
	atomic_store_explicit(&c->refused, rc < 0 ? data : NULL,
			      memory_order_relaxed);
	if (rc < 0)
		return net_fail_local("regMrDmaBuf", rc);
	*mhandle = region;
	return NCCL_SUCCESS;
}

enum nccl_result mpib_net_dereg(void *comm, void *mhandle)
{
	int rc = mhandle ? mpib_dereg(mhandle) : 0;

	(void)comm;
	return rc < 0 ? net_fail_local("deregMr", rc) : NCCL_SUCCESS;
}

enum nccl_result mpib_net_isend(void *send_comm, void *data, size_t size,
				int tag, void *mhandle, void *phandle,
				void **request)
{
	struct net_comm *c = send_comm;
	int rc;

	c->phandle.one = phandle;
	rc = mpib_isend(c->conn, data, size, tag, mhandle,
			(struct mpib_request **)request);
	return __builtin_expect(rc < 0, 0) ? net_fail("isend", rc)
					   : NCCL_SUCCESS;
}

enum nccl_result mpib_net_irecv(void *recv_comm, int n, void **data,
				size_t *sizes, int *tags, void **mhandles,
				void **phandles, void **request)
{
	struct net_comm *c = recv_comm;
	int rc;

	c->phandle.each = phandles;
	rc = mpib_irecv(c->conn, n, data, sizes, tags,
			(struct mpib_region *const *)mhandles,
			(struct mpib_request **)request);
	return __builtin_expect(rc < 0, 0) ? net_fail("irecv", rc)
					   : NCCL_SUCCESS;
}

/* All buffers of one receive are in one GPU's memory, and a read of any byte
 * follows all earlier writes of the HCA to that GPU. So flushing the last
 * non-empty buffer is enough, as in NCCL's own transport. Host memory needs no
 * flush, because it has the data before the completion is visible. */
enum nccl_result mpib_net_iflush(void *recv_comm, int n, void **data,
				 int *sizes, void **mhandles, void **request)
{
	struct net_comm *c = recv_comm;
	int last = n - 1, rc;

	*request = NULL;
	while (last >= 0 && !sizes[last])
		last--;
	if (last < 0)
		return NCCL_SUCCESS;
	rc = mpib_iflush(c->conn, data[last], mhandles[last],
			 (struct mpib_request **)request);
	return __builtin_expect(rc < 0, 0) ? net_fail("iflush", rc)
					   : NCCL_SUCCESS;
}

enum nccl_result mpib_net_test(void *request, int *done, int *sizes)
{
	int rc = mpib_test_int(request, done, sizes);

	return __builtin_expect(rc < 0, 0) ? net_fail("test", rc)
					   : NCCL_SUCCESS;
}

/*
 * Comms: listen, connect, accept, close, and freeing comms that NCCL abandons.
 * Called by NCCL's Service threads.
 */

MPIB_ABI_ASSERT(sizeof(struct mpib_handle) == NCCL_NET_HANDLE_MAXSIZE);

LIST_HEAD(net_comms, net_comm);

/* Protects both lists. No thread holds it while a request to the proxy runs. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct net_comms connecting = LIST_HEAD_INITIALIZER(connecting);
static struct net_comms listening = LIST_HEAD_INITIALIZER(listening);

void net_in_child(void)
{
	pthread_mutex_init(&lock, NULL);
	pthread_mutex_init(&device_lock, NULL);
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

/* Under the lock. Move the comms of context `n` from `list` to `mine`. */
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
 * When NCCL aborts, it closes neither pending connects nor listen comms: close
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

/* Log why the device has no client, from the error `rc`. */
static enum nccl_result connect_no_device(const char *call, int dev, int rc)
{
	if (rc != -ENODEV)
		return net_fail_local(call, rc);
	net_say(false, "%s: there is no device %d (run mpibctl devices)", call,
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

/* NCCL keeps a handle in an array of char, so a handle may be unaligned. */
static uint64_t nonce_of(const void *handle)
{
	struct mpib_handle copy;

	memcpy(&copy, handle, sizeof(copy));
	return copy.nonce;
}

/* Find the comm that an earlier connect with this handle began. NCCL passes the
 * same memory on every retry. NCCL may later put another handle, with another
 * nonce, into this memory. */
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
		net_say(false, "accept: its context was finalized (listen on "
			       "a new context)");
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
