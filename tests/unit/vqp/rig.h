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
	struct mpib_vqp_attr attr; /* qp and notify are filled in */
	unsigned devices;
	size_t bytes;
	unsigned seed;
};

extern struct rig rig; /* of the test program */

/* n QPs dealt out over the devices; joined, prepared. */
void rig_up(struct rig *r, const struct mpib_vqp_attr *attr, unsigned devices,
	    size_t bytes);
/* Of n QPs that take 8 WRs each, in fragments of 4096 bytes, and 2 MiB. */
void rig_start(struct rig *r, enum mpib_vqp_mode mode, unsigned n,
	       unsigned devices, bool replay);
/* Breaks all QPs, drains them and takes everything down, if it is up. */
void rig_down(struct rig *r);
int teardown(void **state); /* of rig */

/* WRITE_WITH_IMM of len bytes at off in both memories; 0 or -errno. */
int rig_write(struct rig *r, uint64_t wr_id, uint64_t off, uint64_t len);
int rig_post(struct rig *r, uint64_t wr_id, enum ibv_wr_opcode opcode,
	     unsigned flags, uint64_t off, uint64_t len);
void rig_recv(struct rig *r, uint64_t wr_id);

/* Virtual completions of one side into wc, at most n. */
int rig_poll(struct side *s, struct mpib_vwc *wc, int n);
/* Some steps of the sending devices. */
unsigned rig_steps(struct rig *r, unsigned n);
/* Until the sending side reports one; dies if it never does. */
struct mpib_vwc rig_sent(struct rig *r);
struct mpib_vwc rig_got(struct rig *r);
void rig_fill(char *p, uint64_t len, unsigned seed);

#endif
