/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public functions of libibverbs over the software HCA, for programs that
 * know nothing of mpib. Built twice from the same files: without versions, to
 * be preloaded before the real library, and with the public versions, to take
 * its place.
 *
 * What libibverbs answers with a positive errno value is answered so here;
 * the software HCA's table speaks -errno, and sv_*() below turns it round.
 */
#ifndef MPIB_SOFTVERBS_SOFTVERBS_H
#define MPIB_SOFTVERBS_SOFTVERBS_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stddef.h>

#include "verbs/soft/soft.h"
#include "verbs/verbs.h"

#define SV_EXPORT __attribute__((visibility("default")))

/* GID table of the one port: one address, by its two RoCE versions. */
#define SV_GIDS 2

struct sv_device {
	struct ibv_device ibv; /* first: what programs hold points here */
	struct mpib_rail_spec spec;
	__be64 guid;
	int index;
};

static inline struct sv_device *to_sv_device(struct ibv_device *dev)
{
	return (struct sv_device *)dev;
}

/*
 * The devices of MPIB_SOFT_DEVICES, read once, and kept to the end of the
 * process. Their number, or -EINVAL, -ENOMEM after a line on stderr. Any
 * thread.
 */
int sv_devices(struct sv_device **devices);

/* attr.c: what the operations of verbs_context answer. Any thread. */
int sv_query_device_ex(struct ibv_context *ctx,
		       const struct ibv_query_device_ex_input *input,
		       struct ibv_device_attr_ex *attr, size_t size);
int sv_query_port(struct ibv_context *ctx, uint8_t port,
		  struct ibv_port_attr *attr, size_t size);

/* wr.c: a QP that is posted to by ibv_wr_*(). */
struct ibv_qp *sv_create_qp_ex(struct ibv_context *ctx,
			       struct ibv_qp_init_attr_ex *attr);
/* NULL is nothing. */
void sv_builder_free(struct sv_builder *b);

/* cq_ex.c */
struct ibv_cq_ex *sv_create_cq_ex(struct ibv_context *ctx,
				  struct ibv_cq_init_attr_ex *attr);
void sv_reader_free(struct sv_reader *r);
/* The clock of time stamps. */
int sv_query_rt_values(struct ibv_context *ctx, struct ibv_values_ex *values);

/* errno set and a positive value returned for -errno; else 0. */
static inline int sv_result(int rc)
{
	if (rc < 0)
		errno = -rc;
	return rc < 0 ? -rc : 0;
}

/* The same as -1 with errno, where libibverbs does it so. */
static inline int sv_minus_one(int rc)
{
	if (rc < 0)
		errno = -rc;
	return rc < 0 ? -1 : 0;
}

/* NULL with errno for -errno; else object. */
static inline void *sv_object(int rc, void *object)
{
	if (rc < 0)
		errno = -rc;
	return rc < 0 ? NULL : object;
}

#endif
