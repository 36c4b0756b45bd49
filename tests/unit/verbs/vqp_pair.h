/* SPDX-License-Identifier: Apache-2.0 */
/* Two nodes of two devices each over real verbs, with a virtual QP between
 * them. */
#ifndef VQP_PAIR_H
#define VQP_PAIR_H

#include <mpib/vqp.h>

#include "vt.h"

#define VV_QPS 8
#define VV_CAP 16
#define VV_FRAG 4096u
#define VV_BYTES (2u << 20)

struct vv_side {
	struct mpib_wr_pool pool;
	struct mpib_vcq *vcq;
	struct mpib_vqp *vqp;
	struct ibv_qp *data[VV_QPS], *notify[MPIB_VQP_DEVICES];
	struct ibv_mr *mr[MPIB_VQP_DEVICES];
	uint8_t *mem;
	uint64_t done; /* number of completions */
	unsigned failed;
};

/* The devices. End `a` of each device belongs to vv_tx, and end `b` to
 * vv_rx. */
extern struct vt *vv_dev[MPIB_VQP_DEVICES];
extern struct vv_side vv_tx, vv_rx;
extern struct vt_opt vv_opt; /* attributes of the QPs that vv_start() makes */

int vv_setup(void **state);
int vv_teardown(void **state);
/* Start with `n` data QPs, distributed over the devices. */
void vv_start(enum mpib_vqp_mode mode, unsigned n, uint32_t depth, bool replay);
/* Stop, and check that all WRs are back in the pools. */
void vv_stop(void);

/* Return a WRITE_WITH_IMM of `len` bytes at offset `off` in both memories. */
struct mpib_vsend vv_send_of(uint64_t wr_id, size_t off, uint64_t len);
int vv_post(uint64_t wr_id, size_t off, uint64_t len);
int vv_want(uint64_t wr_id);
/* Poll one side once. Return whether there was a completion, which must be that
 * of the oldest request. */
bool vv_poll_side(struct vv_side *s, struct mpib_vwc *wc);
/* Poll until both sides have had `n` completions. */
void vv_finish(uint64_t n, bool replay);

#endif
