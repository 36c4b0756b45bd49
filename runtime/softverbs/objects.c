/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Public functions for protection domains, memory regions, completion channels
 * and queues, and queue pairs. Each calls the software HCA's table.
 */
#include "softverbs/softverbs.h"

#include <string.h>

#include "verbs/soft/soft.h"

static const struct mpib_verbs *const soft = &mpib_verbs_soft;

SV_EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *ctx)
{
	struct ibv_pd *pd = NULL;
	int rc = soft->alloc_pd(ctx, &pd);

	return sv_object(rc, pd);
}

SV_EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
	return sv_result(soft->dealloc_pd(pd));
}

SV_EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr,
					  size_t length, uint64_t iova,
					  unsigned access)
{
	struct ibv_mr *mr = NULL;
	int rc = soft->reg_mr(pd, addr, length, iova, (int)access, &mr);

	return sv_object(rc, mr);
}

#undef ibv_reg_mr
SV_EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr,
				    size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr,
				(unsigned)access);
}

#undef ibv_reg_mr_iova
SV_EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr,
					 size_t length, uint64_t iova,
					 int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned)access);
}

SV_EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset,
					   size_t length, uint64_t iova, int fd,
					   int access)
{
	struct ibv_mr *mr = NULL;
	int rc = soft->reg_dmabuf_mr(pd, offset, length, iova, fd, access, &mr);

	return sv_object(rc, mr);
}

SV_EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
	return sv_result(soft->dereg_mr(mr));
}

SV_EXPORT struct ibv_comp_channel *
ibv_create_comp_channel(struct ibv_context *ctx)
{
	struct ibv_comp_channel *ch = NULL;
	int rc = soft->create_comp_channel(ctx, &ch);

	return sv_object(rc, ch);
}

SV_EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *ch)
{
	return sv_result(soft->destroy_comp_channel(ch));
}

SV_EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int cqe,
				       void *cq_context,
				       struct ibv_comp_channel *ch, int vector)
{
	struct ibv_cq *cq = NULL;
	int rc = -EINVAL;

	if (vector >= 0 && vector < ctx->num_comp_vectors)
		rc = soft->create_cq(ctx, cqe, cq_context, ch, &cq);
	return sv_object(rc, cq);
}

SV_EXPORT int ibv_destroy_cq(struct ibv_cq *cq)
{
	struct sv_reader *reader = ((struct mpib_soft_cq_ex *)cq)->reader;
	int rc = soft->destroy_cq(cq);

	if (!rc)
		sv_reader_free(reader);
	return sv_result(rc);
}

SV_EXPORT int ibv_get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq,
			       void **cq_context)
{
	return sv_minus_one(soft->get_cq_event(ch, cq, cq_context));
}

SV_EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned nevents)
{
	soft->ack_cq_events(cq, nevents);
}

SV_EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd,
					 struct ibv_srq_init_attr *attr)
{
	struct ibv_srq *srq = NULL;
	int rc = soft->create_srq(pd, attr, &srq);

	return sv_object(rc, srq);
}

SV_EXPORT int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr,
			     int mask)
{
	return sv_result(soft->modify_srq(srq, attr, mask));
}

SV_EXPORT int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	return sv_result(soft->query_srq(srq, attr));
}

SV_EXPORT int ibv_destroy_srq(struct ibv_srq *srq)
{
	return sv_result(soft->destroy_srq(srq));
}

SV_EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd,
				       struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *qp = NULL;
	int rc = soft->create_qp(pd, attr, &qp);

	return sv_object(rc, qp);
}

SV_EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr,
			    int mask)
{
	return sv_result(soft->modify_qp(qp, attr, mask));
}

SV_EXPORT int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr,
			   int mask, struct ibv_qp_init_attr *init)
{
	return sv_result(soft->query_qp(qp, attr, mask, init));
}

SV_EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
	struct sv_builder *b = ((struct mpib_soft_qp_ex *)qp)->builder;
	int rc = soft->destroy_qp(qp);

	if (!rc)
		sv_builder_free(b);
	return sv_result(rc);
}

/* Queries: attributes of devices, ports, GIDs and P_Keys. */

#define DEFAULT_PKEY 0xffff
/* 4 lanes of 10 Gb/s, in the encodings of InfiniBand's PortInfo. */
#define WIDTH_4X 2
#define SPEED_QDR 4
#define PHYS_DISABLED 3
#define PHYS_LINK_UP 5

SV_EXPORT int ibv_query_device(struct ibv_context *ctx,
			       struct ibv_device_attr *attr)
{
	*attr = mpib_soft_limits(ctx)->dev;
	attr->node_guid = to_sv_device(ctx->device)->guid;
	attr->sys_image_guid = attr->node_guid;
	return 0;
}

int sv_query_device_ex(struct ibv_context *ctx,
		       const struct ibv_query_device_ex_input *input,
		       struct ibv_device_attr_ex *attr, size_t size)
{
	if ((input && input->comp_mask) || size < sizeof(attr->orig_attr))
		return EINVAL;
	memset(attr, 0, size);
	ibv_query_device(ctx, &attr->orig_attr);
	if (size > offsetof(struct ibv_device_attr_ex, hca_core_clock)) {
		/* Time stamps are in ns; hca_core_clock is in kHz. */
		attr->completion_timestamp_mask = UINT64_MAX;
		attr->hca_core_clock = 1000000;
	}
	if (size > offsetof(struct ibv_device_attr_ex, phys_port_cnt_ex))
		attr->phys_port_cnt_ex = attr->orig_attr.phys_port_cnt;
	return 0;
}

int sv_query_port(struct ibv_context *ctx, uint8_t port,
		  struct ibv_port_attr *out, size_t size)
{
	struct mpib_port_info info;
	struct ibv_port_attr attr;
	int rc = mpib_verbs_soft.query_port(ctx, port, &info);

	if (rc < 0)
		return sv_result(rc);
	attr = (struct ibv_port_attr){
		.state = (enum ibv_port_state)info.state,
		.max_mtu = info.mtu,
		.active_mtu = info.mtu,
		.gid_tbl_len = SV_GIDS,
		.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
		.max_msg_sz = info.max_msg_sz,
		.pkey_tbl_len = 1,
		.max_vl_num = 1,
		.active_width = WIDTH_4X,
		.active_speed = SPEED_QDR,
		.phys_state = info.state == IBV_PORT_ACTIVE ? PHYS_LINK_UP
							    : PHYS_DISABLED,
		.link_layer = info.link_layer,
	};
	memset(out, 0, size);
	memcpy(out, &attr, size < sizeof(attr) ? size : sizeof(attr));
	return 0;
}

/* Called by programs built before struct ibv_port_attr had port_cap_flags2. */
#undef ibv_query_port
SV_EXPORT int ibv_query_port(struct ibv_context *ctx, uint8_t port,
			     struct _compat_ibv_port_attr *attr)
{
	return sv_query_port(ctx, port, (struct ibv_port_attr *)attr,
			     offsetof(struct ibv_port_attr, port_cap_flags2));
}

static int gid_entry(struct ibv_context *ctx, uint32_t port, uint32_t index,
		     struct ibv_gid_entry *entry)
{
	struct mpib_port_info info;
	struct in_addr addr;
	int rc;

	if (port != 1 || index >= SV_GIDS)
		return -EINVAL;
	rc = mpib_verbs_soft.query_port(ctx, 1, &info);
	if (rc < 0)
		return rc;
	soft_gid_addr(&info.gid, &addr);
	*entry = (struct ibv_gid_entry){
		.gid = index == info.gid_index ? info.gid
					       : soft_gid_link_local(addr),
		.gid_index = index,
		.port_num = port,
		.gid_type = index == info.gid_index ? IBV_GID_TYPE_ROCE_V2
						    : IBV_GID_TYPE_ROCE_V1,
	};
	return 0;
}

SV_EXPORT int ibv_query_gid(struct ibv_context *ctx, uint8_t port, int index,
			    union ibv_gid *gid)
{
	struct ibv_gid_entry entry;
	int rc = gid_entry(ctx, port, (uint32_t)index, &entry);

	if (!rc)
		*gid = entry.gid;
	return sv_minus_one(rc);
}

SV_EXPORT int _ibv_query_gid_ex(struct ibv_context *ctx, uint32_t port,
				uint32_t index, struct ibv_gid_entry *out,
				uint32_t flags, size_t size)
{
	struct ibv_gid_entry entry;
	int rc;

	if (flags)
		return EOPNOTSUPP;
	if (size < sizeof(entry))
		return EINVAL;
	rc = gid_entry(ctx, port, index, &entry);
	if (rc < 0)
		return -rc;
	memset(out, 0, size);
	*out = entry;
	return 0;
}

SV_EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *ctx,
				       struct ibv_gid_entry *entries,
				       size_t max, uint32_t flags, size_t size)
{
	ssize_t n;

	if (flags || size < sizeof(*entries) || max < SV_GIDS)
		return -EINVAL;
	for (n = 0; n < SV_GIDS; n++) {
		char *entry = (char *)entries + (size_t)n * size;
		int rc = _ibv_query_gid_ex(ctx, 1, (uint32_t)n,
					   (struct ibv_gid_entry *)entry, 0,
					   size);

		if (rc)
			return -rc;
	}
	return n;
}

/*
 * Called by ibv_devinfo; declared in no public header of libibverbs. *type is
 * not enum ibv_gid_type: 0 is IB or RoCE v1, 1 is RoCE v2.
 */
int ibv_query_gid_type(struct ibv_context *ctx, uint8_t port, unsigned index,
		       unsigned *type);
SV_EXPORT int ibv_query_gid_type(struct ibv_context *ctx, uint8_t port,
				 unsigned index, unsigned *type)
{
	struct ibv_gid_entry entry;
	int rc = gid_entry(ctx, port, index, &entry);

	if (!rc)
		*type = entry.gid_type == IBV_GID_TYPE_ROCE_V2;
	return sv_minus_one(rc);
}

SV_EXPORT int ibv_query_pkey(struct ibv_context *ctx, uint8_t port, int index,
			     __be16 *pkey)
{
	(void)ctx;
	if (port != 1 || index != 0)
		return sv_minus_one(-EINVAL);
	*pkey = DEFAULT_PKEY;
	return 0;
}

SV_EXPORT int ibv_get_pkey_index(struct ibv_context *ctx, uint8_t port,
				 __be16 pkey)
{
	(void)ctx;
	return port == 1 && pkey == DEFAULT_PKEY ? 0 : sv_minus_one(-EINVAL);
}

/* Functions that the software HCA does not support. They exist so that the real
 * libibverbs' functions are never called with an object of the software HCA.
 * Each fails with EOPNOTSUPP, in the form that libibverbs uses for this
 * function. None reads its arguments, so functions with the same result share
 * one body. */

#define REFUSED(function, how)                                                 \
	SV_EXPORT extern __typeof__(function)(function)                        \
		__attribute__((alias(#how)))

static void *refused_object(void)
{
	errno = EOPNOTSUPP;
	return NULL;
}

REFUSED(ibv_create_ah, refused_object);
REFUSED(ibv_create_ah_from_wc, refused_object);
REFUSED(ibv_import_device, refused_object);
REFUSED(ibv_import_pd, refused_object);
REFUSED(ibv_import_mr, refused_object);
REFUSED(ibv_import_dm, refused_object);

static int refused_error(void)
{
	return sv_result(-EOPNOTSUPP);
}

REFUSED(ibv_destroy_ah, refused_error);
REFUSED(ibv_attach_mcast, refused_error);
REFUSED(ibv_detach_mcast, refused_error);
REFUSED(ibv_resolve_eth_l2_from_gid, refused_error);
REFUSED(ibv_resize_cq, refused_error);
REFUSED(ibv_query_ece, refused_error);
REFUSED(ibv_set_ece, refused_error);

static int refused_minus_one(void)
{
	return sv_minus_one(-EOPNOTSUPP);
}

REFUSED(ibv_init_ah_from_wc, refused_minus_one);

static int refused_rereg(void)
{
	errno = EOPNOTSUPP;
	/* This result tells the program that the old region remains valid. */
	return IBV_REREG_MR_ERR_INPUT;
}

REFUSED(ibv_rereg_mr, refused_rereg);

/* For unimport functions: nothing can have been imported. For the query of
 * write ordering: no order is guaranteed, because a repeated message is written
 * again from its beginning. */
static int refused_nothing(void)
{
	return 0;
}

REFUSED(ibv_unimport_pd, refused_nothing);
REFUSED(ibv_unimport_mr, refused_nothing);
REFUSED(ibv_unimport_dm, refused_nothing);
REFUSED(ibv_query_qp_data_in_order, refused_nothing);
