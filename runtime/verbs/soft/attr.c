/* SPDX-License-Identifier: Apache-2.0 */
/* The limits of the software HCA, as struct ibv_device_attr. */
#include "verbs/soft/soft.h"

#include <stdio.h>

#include "verbs/soft/cq.h"
#include "verbs/soft/mr.h"
#include "verbs/soft/qp.h"
#include "verbs/soft/srq.h"

/* An OUI, locally administered, as that of the MAC that the GUID is made of. */
#define VENDOR_LOCAL 0x020000

void mpib_soft_limits(struct ibv_device_attr *attr)
{
	*attr = (struct ibv_device_attr){
		.max_mr_size = UINT64_MAX,
		.page_size_cap = UINT64_MAX & ~0xfffull,
		.vendor_id = VENDOR_LOCAL,
		.vendor_part_id = 1,
		.hw_ver = 1,
		.max_qp = SOFT_NQP - 2,
		.max_qp_wr = SOFT_MAX_WR,
		.device_cap_flags = IBV_DEVICE_SYS_IMAGE_GUID |
				    IBV_DEVICE_RC_RNR_NAK_GEN |
				    IBV_DEVICE_PORT_ACTIVE_EVENT,
		.max_sge = SOFT_MAX_SGE,
		.max_sge_rd = SOFT_MAX_SGE,
		.max_cq = SOFT_NQP,
		.max_cqe = SOFT_MAX_CQE,
		.max_mr = SOFT_MAX_MR,
		.max_pd = SOFT_NQP,
		.max_qp_rd_atom = SOFT_MAX_RD,
		.max_res_rd_atom = SOFT_MAX_RD * (SOFT_NQP - 2),
		.max_qp_init_rd_atom = SOFT_MAX_RD,
		.atomic_cap = IBV_ATOMIC_GLOB,
		.max_srq = SOFT_NQP,
		.max_srq_wr = SOFT_MAX_WR,
		.max_srq_sge = SOFT_MAX_SGE,
		.max_pkeys = 1,
		.phys_port_cnt = 1,
	};
	snprintf(attr->fw_ver, sizeof(attr->fw_ver), "soft.1");
}
