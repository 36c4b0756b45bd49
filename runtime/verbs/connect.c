/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/connect.h"

int mpib_qp_init(const struct mpib_verbs *v, struct ibv_qp *qp, uint8_t port,
		 uint16_t pkey_index, int access)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = port,
		.pkey_index = pkey_index,
		.qp_access_flags = (unsigned)access,
	};

	return v->modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				    IBV_QP_ACCESS_FLAGS);
}

int mpib_qp_connect(const struct mpib_verbs *v, struct ibv_qp *qp,
		    struct ibv_qp_attr *attr)
{
	int rc;

	attr->qp_state = IBV_QPS_RTR;
	attr->max_dest_rd_atomic = attr->max_rd_atomic = 1;
	rc = v->modify_qp(qp, attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				  IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				  IBV_QP_MAX_DEST_RD_ATOMIC |
				  IBV_QP_MIN_RNR_TIMER);
	if (rc < 0)
		return rc;
	attr->qp_state = IBV_QPS_RTS;
	return v->modify_qp(qp, attr,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				    IBV_QP_MAX_QP_RD_ATOMIC);
}

struct ibv_ah_attr mpib_path_to_self(const struct mpib_port_info *port,
				     uint8_t number, uint8_t service_level)
{
	return (struct ibv_ah_attr){
		.dlid = port->lid,
		.sl = service_level,
		.port_num = number,
		.is_global = port->link_layer == IBV_LINK_LAYER_ETHERNET ||
			     port->grh_required || port->lid == 0,
		.grh = { .dgid = port->gid,
			 .sgid_index = port->gid_index,
			 .hop_limit = 255 },
	};
}
