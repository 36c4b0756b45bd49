/* SPDX-License-Identifier: Apache-2.0 */
/* Queries: attributes of devices, ports, GIDs and P_Keys. */
#include "softverbs/softverbs.h"

#include <string.h>

#include "verbs/soft/gid.h"

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
