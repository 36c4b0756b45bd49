/* SPDX-License-Identifier: Apache-2.0 */
/* Registration, isend, irecv and test. The latter three run on NCCL's Progress
 * thread and are the plugin's hot path. */
#include "net.h"

#include <fcntl.h>
#include <mpib/client.h>
#include <mpib/control.h>

#include "comm.h"

enum nccl_result mpib_net_reg(void *comm, void *data, size_t size, int type,
			      void **mhandle)
{
	struct net_comm *c = comm;
	struct mpib_region *region;
	int rc;

	/* NCCL tries regMr after a failed regMrDmaBuf, which has logged why. */
	if (type != NCCL_PTR_HOST &&
	    atomic_load_explicit(&c->refused, memory_order_relaxed) == data)
		return NCCL_INVALID_USAGE;
	if (type != NCCL_PTR_HOST) {
		net_say(false, "regMr: GPU memory is taken as a dma-buf only, "
			       "which NCCL did not offer (set "
			       "NCCL_DMABUF_ENABLE=1, or "
			       "NCCL_NET_GDR_LEVEL=LOC to go by host memory)");
		return NCCL_INVALID_USAGE;
	}
	/* No mpib_prepare(): NCCL registers the buffers of all its protocols on
	 * every connection and uses few of them. A window for each would pin 5
	 * GiB for 10 communicators. */
	rc = mpib_reg(c->client, data, size, &region);
	if (rc < 0)
		return net_fail_local("regMr", rc);
	*mhandle = region;
	return NCCL_SUCCESS;
}

/* A proxy that takes dma-bufs takes a sealed memfd for one, too, and flushes it
 * as memory of a device. For another it is memory that the proxy can map. */
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
	/* Relaxed: read by this same thread, in the mpib_net_reg() that NCCL
	 * calls next. */
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

/* All buffers of one receive lie in one GPU's memory, and a read of any of it
 * comes after all that its HCA has written there: so the last buffer with bytes
 * does, as in NCCL's own transport. In host memory the data is in place before
 * the completion is seen. */
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
