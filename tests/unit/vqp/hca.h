/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulated HCAs. The test decides which QP executes a WR (a step), which post
 * fails, and which QP breaks. The WRs of a QP keep their order, while WRs of
 * different QPs have no order. In an error completion, all fields except wr_id,
 * status and qp_num are garbage, which verbs allow.
 */
#ifndef MPIB_TESTS_HCA_H
#define MPIB_TESTS_HCA_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#define HCA_QPS 256
/* maximum number of WRs of a QP, and of completions of a CQ */
#define HCA_DEPTH 4096

struct hca_wr {
	struct ibv_send_wr wr;
	struct ibv_sge sge[2];
};

struct hca_qp {
	/* must be first, because the tested code has a pointer to it */
	struct ibv_qp qp;
	struct hca *hca;
	struct hca_qp *peer;
	struct hca_wr *sq;
	uint32_t sq_head, sq_tail;
	uint64_t *rq;
	uint32_t rq_head, rq_tail;
	bool err;
	int fail_post; /* errno of later sends; 0: success */
	/* number of WRs that are accepted before the failure */
	unsigned fail_at;
	int fail_recv; /* errno of later receives; 0: success */
	/* number of post_send() calls, and of the WRs that they posted */
	unsigned posts, wrs;
};

struct hca {
	/* must be first, because hca.c casts its address to struct hca */
	struct ibv_context ctx;
	struct ibv_cq cq;
	struct ibv_wc *wc;
	uint32_t wc_head, wc_tail;
	struct hca_qp qp[HCA_QPS];
	unsigned qps;
	bool fail_poll;
	/* place data only when an IMM arrives at this device */
	bool lazy;
	struct hca_wr *late;
	unsigned lates;
};

void hca_open(struct hca *h);
void hca_close(struct hca *h);
struct hca_qp *hca_qp(struct hca *h);
void hca_join(struct hca_qp *a, struct hca_qp *b);

/* Execute the QP's oldest WR. Return false if there is no WR, or no receive for
 * the WR. */
bool hca_step(struct hca_qp *q);
/* Let randomly drawn QPs make steps, of which at most `n` execute a WR. Return
 * the number of these steps. */
unsigned hca_run(struct hca *h, unsigned *seed, unsigned n);
/* Put the QP into ERR and flush its WRs. */
void hca_break(struct hca_qp *q);
/* Add a completion that belongs to no WR. */
void hca_forge(struct hca *h, const struct ibv_wc *wc);

#endif
