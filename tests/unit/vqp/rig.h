/* SPDX-License-Identifier: Apache-2.0 */
/* Two nodes of up to two devices, a virtual QP between them, and memory. */
#ifndef MPIB_TESTS_VQP_RIG_H
#define MPIB_TESTS_VQP_RIG_H

#include <mpib/vqp.h>

#include "hca.h"

struct side {
	struct hca hca[MPIB_VQP_DEVICES];
	struct mpib_wr_pool pool;
	struct mpib_vcq *vcq;
	struct mpib_vqp *vqp;
	struct hca_qp *data[HCA_QPS], *notify[MPIB_VQP_DEVICES];
	char *mem;
};

struct rig {
	bool up;
	struct side tx, rx;
	struct mpib_vqp_attr attr; /* qp and notify are set by rig_up() */
	unsigned devices;
	size_t bytes;
	unsigned seed;
};

extern struct rig rig; /* the only rig of the test program */

/* Make n QPs, distributed over the devices, connected and prepared. */
void rig_up(struct rig *r, const struct mpib_vqp_attr *attr, unsigned devices,
	    size_t bytes);
/* Start with n QPs of 8 WRs each, fragments of 4096 bytes, and 2 MiB of
 * memory. */
void rig_start(struct rig *r, enum mpib_vqp_mode mode, unsigned n,
	       unsigned devices, bool replay);
/* Break and drain all QPs and take everything down, if it is up. */
void rig_down(struct rig *r);
int teardown(void **state); /* teardown for the rig above */

/* Post a WRITE_WITH_IMM of len bytes at off in both memories. Return 0 or
 * -errno. */
int rig_write(struct rig *r, uint64_t wr_id, uint64_t off, uint64_t len);
int rig_post(struct rig *r, uint64_t wr_id, enum ibv_wr_opcode opcode,
	     unsigned flags, uint64_t off, uint64_t len);
void rig_recv(struct rig *r, uint64_t wr_id);

/* Poll at most n virtual completions of one side into wc. */
int rig_poll(struct side *s, struct mpib_vwc *wc, int n);
/* Take n steps of the sending devices. */
unsigned rig_steps(struct rig *r, unsigned n);
/* Run until the sending side has a completion. Fail if none comes. */
struct mpib_vwc rig_sent(struct rig *r);
struct mpib_vwc rig_got(struct rig *r);
void rig_fill(char *p, uint64_t len, unsigned seed);

#endif
