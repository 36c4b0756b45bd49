/* SPDX-License-Identifier: Apache-2.0 */
/* What ibv_modify_qp() may be asked of an RC queue pair. The simulated HCA of
 * the tests has the same rules. Any thread. */
#ifndef MPIB_VERBS_SOFT_MODIFY_H
#define MPIB_VERBS_SOFT_MODIFY_H

#include <infiniband/verbs.h>

/* 0, or -EINVAL: a QP in state from may not be asked for this. */
int soft_modify_check(int from, const struct ibv_qp_attr *attr, int mask);
/* Into q what mask names of a. */
void soft_modify_apply(struct ibv_qp_attr *q, const struct ibv_qp_attr *a,
		       int mask);

#endif
