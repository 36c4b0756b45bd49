/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public functions of libibverbs over the software HCA, for programs that
 * do not know mpib. The same files are built into two libraries. The one
 * without symbol versions can be preloaded before the real libibverbs. The one
 * with libibverbs' symbol versions replaces it.
 *
 * Functions of the software HCA's table return -errno. The public functions
 * return what libibverbs does, often a positive errno. sv_result(),
 * sv_minus_one() and sv_object() convert the results.
 */
#ifndef MPIB_SOFTVERBS_SOFTVERBS_H
#define MPIB_SOFTVERBS_SOFTVERBS_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stddef.h>

#include "verbs/soft/soft.h"
#include "verbs/verbs.h"

#define SV_EXPORT __attribute__((visibility("default")))

/* Entries of the port's GID table: link-local, RoCE v1; IPv4, RoCE v2. */
#define SV_GIDS 2

struct sv_device {
	struct ibv_device ibv; /* first: programs hold pointers to it */
	struct mpib_rail_spec spec;
	__be64 guid;
	int index;
};

static inline struct sv_device *to_sv_device(struct ibv_device *dev)
{
	return (struct sv_device *)dev;
}

/* objects.c: queries that verbs_context.ops points to. Any thread. */
int sv_query_device_ex(struct ibv_context *ctx,
		       const struct ibv_query_device_ex_input *input,
		       struct ibv_device_attr_ex *attr, size_t size);
int sv_query_port(struct ibv_context *ctx, uint8_t port,
		  struct ibv_port_attr *attr, size_t size);

/* wr.c: create a QP that accepts ibv_wr_*(). */
struct ibv_qp *sv_create_qp_ex(struct ibv_context *ctx,
			       struct ibv_qp_init_attr_ex *attr);
/* b may be NULL. */
void sv_builder_free(struct sv_builder *b);

/* wr.c */
struct ibv_cq_ex *sv_create_cq_ex(struct ibv_context *ctx,
				  struct ibv_cq_init_attr_ex *attr);
void sv_reader_free(struct sv_reader *r);
/* Return the current time of the clock for completion time stamps. */
int sv_query_rt_values(struct ibv_context *ctx, struct ibv_values_ex *values);

/* If rc is -errno, set errno and return it as a positive value, else return
 * 0. */
static inline int sv_result(int rc)
{
	if (rc < 0)
		errno = -rc;
	return rc < 0 ? -rc : 0;
}

/* If rc is -errno, set errno and return -1, else return 0. */
static inline int sv_minus_one(int rc)
{
	if (rc < 0)
		errno = -rc;
	return rc < 0 ? -1 : 0;
}

/* If rc is -errno, set errno and return NULL, else return `object`. */
static inline void *sv_object(int rc, void *object)
{
	if (rc < 0)
		errno = -rc;
	return rc < 0 ? NULL : object;
}

#endif
