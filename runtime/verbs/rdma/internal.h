/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the provider on libibverbs share. Only this room calls
 * libibverbs' control verbs. libibverbs reports failures by NULL and errno, by
 * -1 and errno, or by a positive errno; the functions here return -errno. They
 * are the members of struct mpib_verbs, with the same rules.
 */
#ifndef MPIB_VERBS_RDMA_INTERNAL_H
#define MPIB_VERBS_RDMA_INTERNAL_H

#include <errno.h>

#include "verbs/rdma/rdma.h"
#include "verbs/verbs.h"

/* -errno of a failed call that may not have set errno. Set errno to 0 before
 * the call; if it still is 0, the result is -EIO. */
static inline int mpib_rdma_err(void)
{
	return errno ? -errno : -EIO;
}

/* open.c */
int mpib_rdma_open(const struct mpib_rail_spec *spec, struct ibv_context **ctx);
int mpib_rdma_close(struct ibv_context *ctx);

/* discover.c: name the devices that have RC with WRITE_WITH_IMM, at most max.
 * How many, or -errno. */
int mpib_rdma_list(struct mpib_rail_spec *spec, unsigned max);
/* The ports of one, at most max, at least one. Opens it for a moment. Returns how
 * many. */
unsigned mpib_rdma_ask(const struct mpib_rail_spec *spec,
		       struct mpib_rdma_port *port, unsigned max);

/* port.c */
int mpib_rdma_query_port(struct ibv_context *ctx, uint8_t port,
			 struct mpib_port_info *info);

/*
 * gid.c: choose the GID that new QPs of the port use, and set info's gid,
 * gid_index and gid_type. -EADDRNOTAVAIL: the port has no usable GID.
 */
int mpib_rdma_choose_gid(struct ibv_context *ctx, uint8_t port,
			 const struct ibv_port_attr *attr,
			 struct mpib_port_info *info);

/* rdma.c: what hca/ calls as it is. */
int mpib_rdma_create_channel(struct ibv_context *ctx,
			     struct ibv_comp_channel **ch);
bool mpib_rdma_disarm_cq(struct ibv_cq *cq, bool spoke);
int mpib_rdma_get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq,
			   void **cq_context);
int mpib_rdma_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr);
int mpib_rdma_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		       struct ibv_qp_init_attr *init);
int mpib_rdma_query_ece(struct ibv_qp *qp, struct ibv_ece *ece);
int mpib_rdma_set_ece(struct ibv_qp *qp, const struct ibv_ece *ece);

#endif
