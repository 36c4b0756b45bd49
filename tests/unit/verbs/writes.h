/* SPDX-License-Identifier: Apache-2.0 */
/* A buffer at each end and a pair of QPs, for WRITEs from a to b. */
#ifndef WRITES_H
#define WRITES_H

#include "vt.h"

struct writes {
	struct vt_mem src, dst;
	struct ibv_qp *qa, *qb;
};

void writes_begin(struct vt *t, struct writes *f);
/* A signalled WRITE of sge; and one that nothing is wrong with. */
int writes_post(struct writes *f, uint64_t id, struct ibv_sge sge,
		uint64_t raddr, uint32_t rkey);
int writes_good(struct writes *f, uint64_t id);
/* End a is in error, and flushes. */
void writes_over(struct vt *t, struct writes *f);

#endif
