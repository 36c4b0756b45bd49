/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices whose QPs the test connects and whose every step it takes: which QP
 * goes on next, which post fails, which QP breaks. A QP keeps its order; QPs
 * keep none among each other. On an error completion everything but wr_id,
 * status and qp_num is rubbish, as verbs allow.
 */
#ifndef MPIB_TESTS_HCA_H
#define MPIB_TESTS_HCA_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#define HCA_QPS 256
#define HCA_DEPTH 4096 /* WRs of a QP, completions of a CQ */

struct hca_wr {
	struct ibv_send_wr wr;
	struct ibv_sge sge[2];
};

struct hca_qp {
	struct ibv_qp qp; /* first: what the code under test has */
	struct hca *hca;
	struct hca_qp *peer;
	struct hca_wr *sq;
	uint32_t sq_head, sq_tail;
	uint64_t *rq;
	uint32_t rq_head, rq_tail;
	bool err;
	int fail_post; /* errno of the posts from the next one on */
	unsigned fail_at; /* that many WRs are still taken */
	int fail_recv; /* errno of posted receives */
	unsigned posts, wrs; /* doorbells, and what they brought */
};

struct hca {
	struct ibv_context ctx; /* first */
	struct ibv_cq cq;
	struct ibv_wc *wc;
	uint32_t wc_head, wc_tail;
	struct hca_qp qp[HCA_QPS];
	unsigned qps;
	unsigned rnr; /* times that no receive was there */
	bool fail_poll;
	/* Data is placed late: when an IMM of the same device comes. */
	bool lazy;
	struct hca_wr *late;
	unsigned lates;
};

void hca_open(struct hca *h);
void hca_close(struct hca *h);
struct hca_qp *hca_qp(struct hca *h);
void hca_join(struct hca_qp *a, struct hca_qp *b);

/* Carry out the QP's oldest WR. False: nothing to do, or no receive there. */
bool hca_step(struct hca_qp *q);
/* Steps of QPs that the seed picks, at most n; how many did something. */
unsigned hca_run(struct hca *h, unsigned *seed, unsigned n);
/* Into ERR: what is posted is flushed. */
void hca_break(struct hca_qp *q);
/* A completion out of nowhere. */
void hca_forge(struct hca *h, const struct ibv_wc *wc);

#endif
