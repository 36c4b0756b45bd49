/* SPDX-License-Identifier: Apache-2.0 */
/* A buffer at each end and a pair of QPs, for WRITEs from a to b. */
#ifndef WRITES_H
#define WRITES_H

#include "vt.h"

/* What a writes_test() begins with, and may change. */
extern struct writes {
	struct vt_mem src, dst;
	struct ibv_qp *qa, *qb;
} writes;

#define writes_test(f) TEST_OF(f, writes_setup, vt_teardown)
int writes_setup(void **state);

/* A signalled WRITE of sge; and one that nothing is wrong with. */
int writes_post(uint64_t id, struct ibv_sge sge, uint64_t raddr, uint32_t rkey);
int writes_good(uint64_t id);
/* End a is in error, and flushes. */
void writes_over(struct vt *t);

#endif
