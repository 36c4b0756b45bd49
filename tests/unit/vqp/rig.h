/* SPDX-License-Identifier: Apache-2.0 */
/* Two nodes with up to two devices each, a virtual QP between the nodes, and
 * memory. */
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
	struct mpib_vqp_attr attr; /* rig_up() sets `qp` and `notify` */
	unsigned devices;
	size_t bytes;
	unsigned seed;
};

extern struct rig rig; /* the only rig of the test program */

/* Make the QPs that `attr` describes, distribute them over the devices, and
 * connect and prepare the virtual QPs. */
void rig_up(struct rig *r, const struct mpib_vqp_attr *attr, unsigned devices,
	    size_t bytes);
/* Call rig_up() with `n` QPs of 8 WRs each, fragments of 4096 bytes, and 2 MiB
 * of memory. */
void rig_start(struct rig *r, enum mpib_vqp_mode mode, unsigned n,
	       unsigned devices, bool replay);
/* If the rig is up, break and drain all QPs and free everything. */
void rig_down(struct rig *r);
int teardown(void **state); /* calls rig_down() for `rig` */

/* Post a WRITE_WITH_IMM of `len` bytes at offset `off` in both memories. Return
 * 0 or -errno. */
int rig_write(struct rig *r, uint64_t wr_id, uint64_t off, uint64_t len);
int rig_post(struct rig *r, uint64_t wr_id, enum ibv_wr_opcode opcode,
	     unsigned flags, uint64_t off, uint64_t len);
void rig_recv(struct rig *r, uint64_t wr_id);

/* Poll at most `n` virtual completions of one side into `wc`. */
int rig_poll(struct side *s, struct mpib_vwc *wc, int n);
/* Call hca_run() with `n` for each sending device. */
unsigned rig_steps(struct rig *r, unsigned n);
/* Run until the sending side has a completion, and return the completion. Fail
 * the test if no completion comes. */
struct mpib_vwc rig_sent(struct rig *r);
struct mpib_vwc rig_got(struct rig *r);
void rig_fill(char *p, uint64_t len, unsigned seed);

#endif
