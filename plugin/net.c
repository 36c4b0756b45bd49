/* SPDX-License-Identifier: Apache-2.0 */
#include "net.h"

#include <errno.h>
#include <fcntl.h>
#include <mpib/client.h>
#include <mpib/control.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "profile.h"
#include "session.h"

MPIB_ABI_ASSERT(sizeof(struct mpib_handle) == NCCL_NET_HANDLE_MAXSIZE);

/* NCCL's send, receive and listen comms. */
struct net_comm {
	struct mpib_conn *conn;
	struct net_phandle phandle;
	struct net_profile *profile;
	struct session *session;
	struct mpib_listener *listener;
	struct mpib_conn *accepting; /* of a listener */
	/* Of a connect that is pending. */
	const struct net_ctx *ctx;
	const void *handle; /* whose memory this is */
	uint64_t nonce;
	LIST_ENTRY(net_comm) link;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, net_comm) connecting = LIST_HEAD_INITIALIZER(connecting);

void net_in_child(void)
{
	pthread_mutex_init(&lock, NULL);
	LIST_INIT(&connecting);
}

static struct net_comm *new_comm(struct session *s)
{
	struct net_comm *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	session_ref(s);
	c->session = s;
	return c;
}

static void free_comm(struct net_comm *c)
{
	session_put(c->session);
	free(c);
}

/* What NCCL gave up to connect goes with its context. */
enum nccl_result mpib_net_finalize(void *ctx)
{
	struct net_ctx *n = ctx;
	struct net_comm *c, *next;

	if (!n)
		return NCCL_SUCCESS;
	pthread_mutex_lock(&lock);
	for (c = LIST_FIRST(&connecting); c; c = next) {
		next = LIST_NEXT(c, link);
		if (c->ctx != n)
			continue;
		LIST_REMOVE(c, link);
		mpib_close(c->conn);
		free_comm(c);
	}
	pthread_mutex_unlock(&lock);
	session_put(n->session);
	free(n);
	return NCCL_SUCCESS;
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
		return net_fail_local("listen", rc);
	}
	*listen_comm = c;
	return NCCL_SUCCESS;
}

/* The comm that an earlier call began for this handle. NCCL passes the same
 * memory on every retry; the nonce tells a later use of that memory. */
static struct net_comm *find_connecting(const struct net_ctx *n,
					const struct mpib_handle *handle)
{
	struct net_comm *c;

	pthread_mutex_lock(&lock);
	LIST_FOREACH(c, &connecting, link)
	{
		if (c->handle == handle && c->nonce == handle->nonce &&
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
	c->ctx = n;
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
	c = find_connecting(n, handle);
	if (!c) {
		rc = begin_connect(n, handle, traffic_class, &c);
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
	c = new_comm(l->session);
	if (!c)
		return NCCL_SYSTEM_ERROR;
	c->conn = l->accepting;
	l->accepting = NULL;
	c->profile = net_profile_new(c->conn, &c->phandle);
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
		net_say(false, "regMr: GPU memory is taken as a dma-buf only, "
			       "which NCCL did not offer (set "
			       "NCCL_DMABUF_ENABLE=1, or "
			       "NCCL_NET_GDR_LEVEL=LOC to go by host memory)");
		return NCCL_INVALID_USAGE;
	}
	rc = mpib_reg(c->session->client, data, size, &region);
	if (rc < 0)
		return net_fail_local("regMr", rc);
	rc = mpib_prepare(c->conn, region);
	if (rc < 0) {
		mpib_dereg(region);
		return net_fail_local("regMr", rc);
	}
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

/* A completion is seen only after the data is in place in host memory. To GPU
 * memory PCIe keeps the order of writes, and NCCL does not ask from Hopper on. */
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

	return __builtin_expect(rc < 0, 0) ? net_fail("test", rc)
					   : NCCL_SUCCESS;
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
	if (c->accepting)
		mpib_close(c->accepting);
	mpib_close_listen(c->listener);
	free_comm(c);
	return NCCL_SUCCESS;
}
