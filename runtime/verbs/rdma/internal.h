/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the provider on libibverbs is made of, but for its thread of each HCA, by
 * which hca/ has its table. Only these two rooms call libibverbs' control verbs,
 * which report failures by NULL and errno, by -1 and errno, or by a positive errno;
 * the functions here return -errno. They have the rules of struct mpib_verbs.
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

/* discover.c: name the devices that have RC with WRITE_WITH_IMM. Returns how many,
 * or -errno; the caller frees *spec if there are some. */
int mpib_rdma_list(struct mpib_rail_spec **spec);
/* The ports of one, at most max, at least one. Opens it for a moment. Returns how
 * many. */
unsigned mpib_rdma_ask(const struct mpib_rail_spec *spec,
		       struct mpib_rdma_port *port, unsigned max);

/* port.c */
bool mpib_rdma_is_function(const struct ibv_device *device);
int mpib_rdma_query_port(struct ibv_context *ctx, uint8_t port,
			 struct mpib_port_info *info);

/*
 * gid.c: choose the GID that new QPs of the port use, and set info's gid,
 * gid_index and gid_type. -EADDRNOTAVAIL: the port has no usable GID.
 */
int mpib_rdma_choose_gid(struct ibv_context *ctx, uint8_t port,
			 const struct ibv_port_attr *attr,
			 struct mpib_port_info *info);

#endif
