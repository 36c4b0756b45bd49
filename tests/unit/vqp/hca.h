/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices whose QPs the test connects and steps. The test chooses which QP
 * takes a step, which post fails, and which QP breaks. WRs of a QP keep their
 * order. WRs of different QPs have no order. In an error completion, all fields
 * except wr_id, status and qp_num are garbage, which verbs allow.
 */
#ifndef MPIB_TESTS_HCA_H
#define MPIB_TESTS_HCA_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#define HCA_QPS 256
#define HCA_DEPTH 4096 /* most WRs of a QP, and completions of a CQ */

struct hca_wr {
	struct ibv_send_wr wr;
	struct ibv_sge sge[2];
};

struct hca_qp {
	/* must be first, since the code under test has a pointer to it */
	struct ibv_qp qp;
	struct hca *hca;
	struct hca_qp *peer;
	struct hca_wr *sq;
	uint32_t sq_head, sq_tail;
	uint64_t *rq;
	uint32_t rq_head, rq_tail;
	bool err;
	int fail_post; /* errno of later sends; 0 means success */
	unsigned fail_at; /* number of WRs that are accepted before */
	int fail_recv; /* errno of later receives; 0 means success */
	/* number of doorbells, and of WRs posted by them */
	unsigned posts, wrs;
};

struct hca {
	struct ibv_context ctx; /* must be first */
	struct ibv_cq cq;
	struct ibv_wc *wc;
	uint32_t wc_head, wc_tail;
	struct hca_qp qp[HCA_QPS];
	unsigned qps;
	unsigned rnr; /* number of times that a receive was missing */
	bool fail_poll;
	/* Place data late, when an IMM of the same device arrives. */
	bool lazy;
	struct hca_wr *late;
	unsigned lates;
};

void hca_open(struct hca *h);
void hca_close(struct hca *h);
struct hca_qp *hca_qp(struct hca *h);
void hca_join(struct hca_qp *a, struct hca_qp *b);

/* Execute the QP's oldest WR. Return false if there is none, or no receive for
 * it. */
bool hca_step(struct hca_qp *q);
/* Step QPs that the seed draws, at most n times. Return the number of steps
 * that did something. */
unsigned hca_run(struct hca *h, unsigned *seed, unsigned n);
/* Put the QP into ERR and flush its WRs. */
void hca_break(struct hca_qp *q);
/* Add a completion that belongs to no WR. */
void hca_forge(struct hca *h, const struct ibv_wc *wc);

#endif
