/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing of rail specifications, and the choice of a provider's verbs
 * table. */
#include "verbs/verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

static int verbs_refuse(const char *text, const char *what, char *why,
			unsigned why_len)
{
	snprintf(why, why_len, "\"%s\": %s", text, what);
	return -EINVAL;
}

static int parse_soft(const char *text, const char *addr,
		      struct mpib_rail_spec *spec, char *why, unsigned why_len)
{
	struct in_addr in;

	if (inet_pton(AF_INET, addr, &in) != 1)
		return verbs_refuse(text,
				    "soft: wants an IPv4 address of this "
				    "machine, as in soft:127.0.0.1",
				    why, why_len);
	*spec = (struct mpib_rail_spec){ .provider = MPIB_PROVIDER_SOFT,
					 .port = 1 };
	inet_ntop(AF_INET, &in, spec->name, sizeof(spec->name));
	return 0;
}

static int parse_rdma(const char *text, const char *name,
		      struct mpib_rail_spec *spec, char *why, unsigned why_len)
{
	const char *colon = strchr(name, ':');
	size_t len = colon ? (size_t)(colon - name) : strlen(name);
	uint64_t port = 1;

	if (len == 0 || len >= sizeof(spec->name) ||
	    (colon && !mpib_number(colon + 1, 1, 255, &port)))
		return verbs_refuse(text,
				    "rdma: wants a device and perhaps a port, "
				    "as in rdma:mlx5_0:1",
				    why, why_len);
	*spec = (struct mpib_rail_spec){ .provider = MPIB_PROVIDER_RDMA,
					 .port = (uint8_t)port };
	memcpy(spec->name, name, len);
	return 0;
}

int mpib_rail_spec_parse(const char *text, struct mpib_rail_spec *spec,
			 char *why, unsigned why_len)
{
	if (!strncmp(text, "soft:", 5))
		return parse_soft(text, text + 5, spec, why, why_len);
	if (!strncmp(text, "rdma:", 5))
		return parse_rdma(text, text + 5, spec, why, why_len);
	return verbs_refuse(text, "a rail is soft:IPv4 or rdma:DEVICE[:PORT]",
			    why, why_len);
}

const struct mpib_verbs *mpib_verbs_of(const struct mpib_rail_spec *spec)
{
	return spec->provider == MPIB_PROVIDER_SOFT ? &mpib_verbs_soft
						    : &mpib_verbs_rdma;
}

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
	/* The values of NCCL's own transport: after an RNR NAK, retry every
	 * 0.64 ms, without limit. So a peer that posts its receives late causes
	 * no failure. */
	attr->min_rnr_timer = 12;
	attr->rnr_retry = 7;
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
