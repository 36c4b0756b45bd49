/* SPDX-License-Identifier: Apache-2.0 */
#include "net.h"

#include <errno.h>
#include <fcntl.h>
#include <mpib/client.h>
#include <mpib/control.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

MPIB_ABI_ASSERT(sizeof(struct mpib_handle) == NCCL_NET_HANDLE_MAXSIZE);

/*
 * One attachment serves all contexts of the process, so that they share its
 * registrations and staging memory; a context made after the proxy was
 * restarted gets a new one, while older contexts keep the dead one and its
 * errors.
 */
struct session {
	struct mpib_client *client;
	unsigned refs;
};

/* NCCL's context. */
struct net_ctx {
	struct session *session;
	int traffic_class; /* of its communicator, -1 undefined */
};

/* NCCL's send, receive and listen comms. */
struct net_comm {
	struct session *session;
	struct mpib_conn *conn;
	struct mpib_listener *listener;
	struct mpib_conn *accepting; /* of a listener */
	const void *handle; /* a pending connect: whose memory this is */
	uint64_t nonce;
	LIST_ENTRY(net_comm) link;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct session *current;
static struct net_ctx *default_ctx;
static LIST_HEAD(, net_comm) connecting = LIST_HEAD_INITIALIZER(connecting);
static nccl_log_fn nccl_log;

#define warn(...)                                                              \
	nccl_log(NCCL_LOG_WARN, NCCL_SUBSYS_NET, __FILE__, __LINE__,           \
		 "NET/MPIB : " __VA_ARGS__)

static enum nccl_result result_of(int rc)
{
	switch (rc) {
	case -ECONNRESET:
	case -ECONNREFUSED:
	case -EHOSTUNREACH:
	case -ETIMEDOUT:
	case -EIO:
		return NCCL_REMOTE_ERROR;
	case -EMSGSIZE:
		return NCCL_INVALID_USAGE;
	case -EINVAL:
	case -EFAULT:
		return NCCL_INVALID_ARGUMENT;
	default:
		return NCCL_SYSTEM_ERROR;
	}
}

/* The slow end of every call: say what failed, in the library's words. */
static enum nccl_result fail(const char *call, int rc)
{
	warn("%s: %s", call, mpib_strerror());
	return result_of(rc);
}

static int attach(uint64_t job, struct session **out)
{
	struct mpib_attach_opts opts = { .size = sizeof(opts), .job = job };
	struct session *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return -ENOMEM;
	rc = mpib_attach(&opts, &s->client);
	if (rc < 0) {
		free(s);
		return rc;
	}
	*out = s;
	return 0;
}

static void put_session(struct session *s)
{
	if (--s->refs > 0)
		return;
	if (current == s)
		current = NULL;
	mpib_detach(s->client);
	free(s);
}

/* Under the lock. */
static int get_session(uint64_t job, struct session **out)
{
	struct session *s = current;
	int rc;

	if (!s || mpib_alive(s->client) < 0) {
		rc = attach(job, &s);
		if (rc < 0)
			return rc;
		current = s;
	}
	s->refs++;
	*out = s;
	return 0;
}

enum nccl_result mpib_net_init(void **ctx, uint64_t comm_id, int traffic_class,
			       nccl_log_fn log)
{
	struct net_ctx *c = calloc(1, sizeof(*c));
	int rc;

	nccl_log = log;
	if (!c)
		return NCCL_SYSTEM_ERROR;
	c->traffic_class = traffic_class;
	pthread_mutex_lock(&lock);
	rc = get_session(comm_id, &c->session);
	pthread_mutex_unlock(&lock);
	if (rc < 0) {
		free(c);
		return fail("init", rc);
	}
	*ctx = c;
	return NCCL_SUCCESS;
}

enum nccl_result mpib_net_init_default(nccl_log_fn log)
{
	void *ctx;
	enum nccl_result res = mpib_net_init(&ctx, 0, -1, log);

	if (res == NCCL_SUCCESS)
		default_ctx = ctx;
	return res;
}

void *mpib_net_default(void)
{
	return default_ctx;
}

enum nccl_result mpib_net_finalize(void *ctx)
{
	struct net_ctx *c = ctx;

	pthread_mutex_lock(&lock);
	put_session(c->session);
	pthread_mutex_unlock(&lock);
	free(c);
	return NCCL_SUCCESS;
}

enum nccl_result mpib_net_devices(int *ndev)
{
	*ndev = 1; /* both rails behind one device */
	return NCCL_SUCCESS;
}

/* Alike in all processes of a node, different between nodes. */
static uint64_t guid_of(const char *name)
{
	uint64_t h = 0xcbf29ce484222325ull; /* FNV-1a */

	for (; *name; name++)
		h = (h ^ (uint8_t)*name) * 0x100000001b3ull;
	return h;
}

/* NCCL keeps the pointers, so they live as long as the library. */
static char device_name[2 * 64 + 2];
static char device_path[128];

static void fill_names(const struct mpib_node_info *info)
{
	snprintf(device_path, sizeof(device_path), "%s",
		 info->rail[0].pci_path);
	if (info->rails > 1)
		snprintf(device_name, sizeof(device_name), "%s+%s",
			 info->rail[0].name, info->rail[1].name);
	else
		snprintf(device_name, sizeof(device_name), "%s",
			 info->rail[0].name);
}

enum nccl_result mpib_net_properties(int dev, mpib_net_props *props)
{
	struct mpib_node_info info;

	if (dev != 0) {
		warn("getProperties: there is no device %d, only 0", dev);
		return NCCL_INVALID_ARGUMENT;
	}
	pthread_mutex_lock(&lock);
	if (!current) {
		pthread_mutex_unlock(&lock);
		return NCCL_INVALID_USAGE;
	}
	mpib_query(current->client, &info);
	fill_names(&info);
	pthread_mutex_unlock(&lock);

	memset(props, 0, sizeof(*props));
	props->name = device_name;
	props->pciPath = device_path[0] ? device_path : NULL;
	props->guid = guid_of(device_name);
	props->ptrSupport = NCCL_PTR_HOST | (info.dmabuf ? NCCL_PTR_DMABUF : 0);
	props->regIsGlobal = 1;
	for (int r = 0; r < info.rails; r++)
		props->speed += (int)info.rail[r].speed_mbps;
	props->port = 1;
	props->latency = 2.0f; /* a hop through the proxy each way */
	props->maxComms = 65536;
	props->maxRecvs = MPIB_GROUP_MAX;
	props->netDeviceType = NCCL_NET_DEVICE_HOST;
	props->netDeviceVersion = NCCL_NET_DEVICE_INVALID_VERSION;
	/* NCCL sees a plain device, which lists itself: the rails have no
	 * indices of their own that it could ask about. */
	props->vProps.ndevs = 1;
	props->maxP2pBytes = MPIB_SIZE_MAX;
	props->maxCollBytes = MPIB_SIZE_MAX;
	props->maxMultiRequestSize = 1;
	props->railId = NCCL_NET_ID_UNDEF;
	props->planeId = NCCL_NET_ID_UNDEF;
	return NCCL_SUCCESS;
}

enum nccl_result mpib_net_no_vdevice(void)
{
	return NCCL_INVALID_USAGE; /* the rails are fused already */
}

static struct net_comm *new_comm(struct session *s)
{
	struct net_comm *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	pthread_mutex_lock(&lock);
	s->refs++;
	pthread_mutex_unlock(&lock);
	c->session = s;
	return c;
}

static void free_comm(struct net_comm *c)
{
	pthread_mutex_lock(&lock);
	put_session(c->session);
	pthread_mutex_unlock(&lock);
	free(c);
}

enum nccl_result mpib_net_listen(void *ctx, int dev, void *handle,
				 void **listen_comm)
{
	struct net_ctx *n = ctx;
	struct net_comm *c;
	int rc;

	if (!n || dev != 0)
		return NCCL_INVALID_ARGUMENT;
	c = new_comm(n->session);
	if (!c)
		return NCCL_SYSTEM_ERROR;
	rc = mpib_listen(c->session->client, handle, &c->listener);
	if (rc < 0) {
		free_comm(c);
		return fail("listen", rc);
	}
	*listen_comm = c;
	return NCCL_SUCCESS;
}

/* The comm that an earlier call began for this handle. NCCL passes the same
 * memory on every retry; the nonce tells a later use of that memory. */
static struct net_comm *find_connecting(const struct mpib_handle *handle)
{
	struct net_comm *c;

	pthread_mutex_lock(&lock);
	LIST_FOREACH(c, &connecting, link)
	{
		if (c->handle == handle && c->nonce == handle->nonce)
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

static int begin_connect(struct net_ctx *n, const struct mpib_handle *handle,
			 int traffic_class, struct net_comm **comm)
{
	struct net_comm *c = new_comm(n->session);
	int rc;

	if (!c)
		return -ENOMEM;
	if (traffic_class < 0)
		traffic_class = n->traffic_class;
	rc = mpib_connect(c->session->client, handle, traffic_class, &c->conn);
	if (rc < 0) {
		free_comm(c);
		return rc;
	}
	c->handle = handle;
	c->nonce = handle->nonce;
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
	struct net_ctx *n = ctx;
	struct net_comm *c;
	int rc;

	*send_comm = NULL;
	if (send_dev)
		*send_dev = NULL;
	if (!n || dev != 0)
		return NCCL_INVALID_ARGUMENT;
	c = find_connecting(handle);
	if (!c) {
		rc = begin_connect(n, handle, traffic_class, &c);
		if (rc < 0)
			return fail("connect", rc);
	}
	rc = mpib_ready(c->conn);
	if (rc == 0)
		return NCCL_SUCCESS;
	forget_connecting(c);
	if (rc < 0) {
		enum nccl_result res = fail("connect", rc);

		mpib_close(c->conn);
		free_comm(c);
		return res;
	}
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
	if (!l->accepting) {
		rc = mpib_accept(l->listener, &l->accepting);
		if (rc < 0)
			return fail("accept", rc);
	}
	rc = mpib_ready(l->accepting);
	if (rc == 0)
		return NCCL_SUCCESS;
	if (rc < 0) {
		enum nccl_result res = fail("accept", rc);

		mpib_close(l->accepting);
		l->accepting = NULL;
		return res;
	}
	c = new_comm(l->session);
	if (!c)
		return NCCL_SYSTEM_ERROR;
	c->conn = l->accepting;
	l->accepting = NULL;
	*recv_comm = c;
	return NCCL_SUCCESS;
}

enum nccl_result mpib_net_reg(void *comm, void *data, size_t size, int type,
			      void **mhandle)
{
	struct net_comm *c = comm;
	struct mpib_region *region;
	int rc;

	if (type != NCCL_PTR_HOST) {
		warn("regMr: memory of type %d needs a dma-buf, which %s", type,
		     "NCCL did not offer; set NCCL_DMABUF_ENABLE=1 or "
		     "NCCL_NET_GDR_LEVEL=LOC");
		return NCCL_INVALID_USAGE;
	}
	rc = mpib_reg(c->session->client, data, size, &region);
	if (rc < 0)
		return fail("regMr", rc);
	*mhandle = region;
	return NCCL_SUCCESS;
}

/* A sealed memfd is memory that the proxy can map, HCA or not. */
static uint32_t kind_of(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

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
	rc = mpib_reg_fd(c->session->client, data, size, offset, fd,
			 kind_of(fd), &region);
	if (rc < 0)
		return fail("regMrDmaBuf", rc);
	*mhandle = region;
	return NCCL_SUCCESS;
}

enum nccl_result mpib_net_dereg(void *comm, void *mhandle)
{
	int rc = mhandle ? mpib_dereg(mhandle) : 0;

	(void)comm;
	return rc < 0 ? fail("deregMr", rc) : NCCL_SUCCESS;
}

enum nccl_result mpib_net_isend(void *send_comm, void *data, size_t size,
				int tag, void *mhandle, void **request)
{
	struct net_comm *c = send_comm;
	int rc = mpib_isend(c->conn, data, size, tag, mhandle,
			    (struct mpib_request **)request);

	return __builtin_expect(rc < 0, 0) ? fail("isend", rc) : NCCL_SUCCESS;
}

enum nccl_result mpib_net_irecv(void *recv_comm, int n, void **data,
				size_t *sizes, int *tags, void **mhandles,
				void **request)
{
	struct net_comm *c = recv_comm;
	int rc = mpib_irecv(c->conn, n, data, sizes, tags,
			    (struct mpib_region *const *)mhandles,
			    (struct mpib_request **)request);

	return __builtin_expect(rc < 0, 0) ? fail("irecv", rc) : NCCL_SUCCESS;
}

/* A completion is seen only after the data is in place: host memory needs no
 * flush, and PCIe keeps the order to GPU memory. */
enum nccl_result mpib_net_iflush(void *recv_comm, int n, void **data,
				 int *sizes, void **mhandles, void **request)
{
	(void)recv_comm;
	(void)n;
	(void)data;
	(void)sizes;
	(void)mhandles;
	*request = NULL;
	return NCCL_SUCCESS;
}

enum nccl_result mpib_net_test(void *request, int *done, int *sizes)
{
	int rc = mpib_test_int(request, done, sizes);

	return __builtin_expect(rc < 0, 0) ? fail("test", rc) : NCCL_SUCCESS;
}

enum nccl_result mpib_net_close(void *comm)
{
	struct net_comm *c = comm;

	mpib_close(c->conn);
	free_comm(c);
	return NCCL_SUCCESS;
}

enum nccl_result mpib_net_close_listen(void *listen_comm)
{
	struct net_comm *c = listen_comm;

	if (c->accepting)
		mpib_close(c->accepting);
	mpib_close_listen(c->listener);
	free_comm(c);
	return NCCL_SUCCESS;
}
