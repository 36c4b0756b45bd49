/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table on libibverbs, and the only place that calls its control verbs.
 * libibverbs reports by NULL and errno, by -1 and errno, or by a positive
 * errno; here it all becomes -errno.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "verbs/verbs.h"

static int err(void)
{
	return errno ? -errno : -EIO;
}

static int rdma_open(const struct mpib_rail_spec *spec,
		     struct ibv_context **ctx)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *c = NULL;
	int rc = -ENODEV;

	if (!list)
		return err();
	for (int i = 0; list[i]; i++) {
		if (strcmp(ibv_get_device_name(list[i]), spec->name))
			continue;
		errno = 0;
		c = ibv_open_device(list[i]);
		rc = c ? 0 : err();
		break;
	}
	ibv_free_device_list(list);
	if (rc == 0)
		*ctx = c;
	return rc;
}

static int rdma_close(struct ibv_context *ctx)
{
	return ibv_close_device(ctx) ? err() : 0;
}

/* Gb/s of one lane by active_speed; see ibv_port_attr in the verbs manual. */
static uint64_t lane_mbps(uint8_t speed)
{
	switch (speed) {
	case 1:
		return 2500;
	case 2:
		return 5000;
	case 4:
	case 8:
		return 10000;
	case 16:
		return 14000;
	case 32:
		return 25000;
	case 64:
		return 50000;
	case 128:
		return 100000;
	default:
		return 0;
	}
}

static uint64_t port_mbps(const struct ibv_port_attr *attr)
{
	unsigned width = attr->active_width == 16  ? 2
			 : attr->active_width == 1 ? 1
			 : attr->active_width == 2 ? 4
			 : attr->active_width == 4 ? 8
						   : 12;

	return width * lane_mbps(attr->active_speed);
}

static bool is_v4_mapped(const union ibv_gid *gid)
{
	static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(gid->raw, prefix, sizeof(prefix));
}

/* RoCE v2 with an IPv4 address first, then any RoCE v2, then index 0. */
static int find_gid(struct ibv_context *ctx, uint8_t port, int entries,
		    struct mpib_port_info *info)
{
	int best = 0;

	for (int i = 0; i < entries; i++) {
		struct ibv_gid_entry e;

		if (ibv_query_gid_ex(ctx, port, (uint32_t)i, &e, 0))
			continue;
		if (i == 0)
			info->gid = e.gid;
		if (e.gid_type != IBV_GID_TYPE_ROCE_V2)
			continue;
		if (best < (is_v4_mapped(&e.gid) ? 2 : 1)) {
			best = is_v4_mapped(&e.gid) ? 2 : 1;
			info->gid = e.gid;
			info->gid_index = (uint8_t)i;
		}
	}
	return best || entries ? 0 : -EADDRNOTAVAIL;
}

static int rdma_query_port(struct ibv_context *ctx, uint8_t port,
			   struct mpib_port_info *info)
{
	struct mpib_port_info out = { 0 };
	struct ibv_device_attr dev;
	struct ibv_port_attr attr;
	int rc = ibv_query_port(ctx, port, &attr);

	if (rc)
		return -rc;
	rc = ibv_query_device(ctx, &dev);
	if (rc)
		return -rc;
	out.speed_mbps = port_mbps(&attr);
	out.lid = attr.lid;
	out.link_layer = attr.link_layer;
	out.state = (uint8_t)attr.state;
	out.mtu = attr.active_mtu;
	/* What 64 bytes of inline cost, every device allows. */
	out.max_inline = 64;
	out.max_qp_wr = (uint32_t)dev.max_qp_wr;
	out.max_cqe = (uint32_t)dev.max_cqe;
	out.max_srq_wr = (uint32_t)dev.max_srq_wr;
	snprintf(out.pci_path, sizeof(out.pci_path), "%.110s/device",
		 ctx->device->ibdev_path);
	if (attr.link_layer == IBV_LINK_LAYER_ETHERNET) {
		rc = find_gid(ctx, port, attr.gid_tbl_len, &out);
		if (rc < 0)
			return rc;
	} else if (ibv_query_gid(ctx, port, 0, &out.gid)) {
		return err();
	}
	*info = out;
	return 0;
}

static int rdma_alloc_pd(struct ibv_context *ctx, struct ibv_pd **pd)
{
	struct ibv_pd *p;

	errno = 0;
	p = ibv_alloc_pd(ctx);
	if (!p)
		return err();
	*pd = p;
	return 0;
}

static int rdma_dealloc_pd(struct ibv_pd *pd)
{
	return -ibv_dealloc_pd(pd);
}

static int rdma_reg_mr(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
		       int access, struct ibv_mr **mr)
{
	struct ibv_mr *m;

	errno = 0;
	/* Drops optional flags where the kernel does not know them. */
	m = ibv_reg_mr_iova(pd, addr, len, iova, access);
	if (!m)
		return err();
	*mr = m;
	return 0;
}

static int rdma_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t len,
			      uint64_t iova, int fd, int access,
			      struct ibv_mr **mr)
{
	struct ibv_mr *m;

	errno = 0;
	m = ibv_reg_dmabuf_mr(pd, offset, len, iova, fd, access);
	if (!m)
		return err();
	*mr = m;
	return 0;
}

static int rdma_dereg_mr(struct ibv_mr *mr)
{
	return -ibv_dereg_mr(mr);
}

static int rdma_create_channel(struct ibv_context *ctx,
			       struct ibv_comp_channel **ch)
{
	struct ibv_comp_channel *c;

	errno = 0;
	c = ibv_create_comp_channel(ctx);
	if (!c)
		return err();
	*ch = c;
	return 0;
}

static int rdma_destroy_channel(struct ibv_comp_channel *ch)
{
	return -ibv_destroy_comp_channel(ch);
}

static int rdma_create_cq(struct ibv_context *ctx, int cqe, void *cq_context,
			  struct ibv_comp_channel *ch, struct ibv_cq **cq)
{
	struct ibv_cq *c;

	errno = 0;
	c = ibv_create_cq(ctx, cqe, cq_context, ch, 0);
	if (!c)
		return err();
	*cq = c;
	return 0;
}

static int rdma_destroy_cq(struct ibv_cq *cq)
{
	return -ibv_destroy_cq(cq);
}

static int rdma_get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq,
			     void **cq_context)
{
	return ibv_get_cq_event(ch, cq, cq_context) ? err() : 0;
}

static int rdma_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr,
			   struct ibv_srq **srq)
{
	struct ibv_srq *s;

	errno = 0;
	s = ibv_create_srq(pd, attr);
	if (!s)
		return err();
	*srq = s;
	return 0;
}

static int rdma_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr,
			   int mask)
{
	return -ibv_modify_srq(srq, attr, mask);
}

static int rdma_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	return -ibv_query_srq(srq, attr);
}

static int rdma_destroy_srq(struct ibv_srq *srq)
{
	return -ibv_destroy_srq(srq);
}

static int rdma_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
			  struct ibv_qp **qp)
{
	struct ibv_qp *q;

	errno = 0;
	q = ibv_create_qp(pd, attr);
	if (!q)
		return err();
	*qp = q;
	return 0;
}

static int rdma_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	return -ibv_modify_qp(qp, attr, mask);
}

static int rdma_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
			 struct ibv_qp_init_attr *init)
{
	return -ibv_query_qp(qp, attr, mask, init);
}

static int rdma_destroy_qp(struct ibv_qp *qp)
{
	return -ibv_destroy_qp(qp);
}

static int rdma_get_async_event(struct ibv_context *ctx,
				struct ibv_async_event *ev)
{
	return ibv_get_async_event(ctx, ev) ? err() : 0;
}

const struct mpib_verbs mpib_verbs_rdma = {
	.name = "rdma",
	.open = rdma_open,
	.close = rdma_close,
	.query_port = rdma_query_port,
	.alloc_pd = rdma_alloc_pd,
	.dealloc_pd = rdma_dealloc_pd,
	.reg_mr = rdma_reg_mr,
	.reg_dmabuf_mr = rdma_reg_dmabuf_mr,
	.dereg_mr = rdma_dereg_mr,
	.create_comp_channel = rdma_create_channel,
	.destroy_comp_channel = rdma_destroy_channel,
	.create_cq = rdma_create_cq,
	.destroy_cq = rdma_destroy_cq,
	.get_cq_event = rdma_get_cq_event,
	.ack_cq_events = ibv_ack_cq_events,
	.create_srq = rdma_create_srq,
	.modify_srq = rdma_modify_srq,
	.query_srq = rdma_query_srq,
	.destroy_srq = rdma_destroy_srq,
	.create_qp = rdma_create_qp,
	.modify_qp = rdma_modify_qp,
	.query_qp = rdma_query_qp,
	.destroy_qp = rdma_destroy_qp,
	.get_async_event = rdma_get_async_event,
	.ack_async_event = ibv_ack_async_event,
};
