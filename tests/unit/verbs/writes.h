/* SPDX-License-Identifier: Apache-2.0 */
/* A buffer at each end and a pair of QPs, for WRITEs from end `a` to end
 * `b`. */
#ifndef WRITES_H
#define WRITES_H

#include "vt.h"

/* The buffers and QPs of a writes_test(). The test may change the buffers and
 * QPs. */
extern struct writes {
	struct vt_mem src, dst;
	struct ibv_qp *qa, *qb;
} writes;

#define writes_test(f) vt_test_of(f, writes_setup)
int writes_setup(void **state);

/* writes_post() posts a signalled WRITE of `sge`. writes_good() posts a correct
 * WRITE. */
int writes_post(uint64_t id, struct ibv_sge sge, uint64_t raddr, uint32_t rkey);
int writes_good(uint64_t id);
/* Check that the QP of end `a` is in ERR and flushes a new request. */
void writes_over(struct vt *t);

#endif
