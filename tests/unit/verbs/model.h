/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pairs of QPs, the requests posted to them, and their possible results: posts
 * of all kinds drawn from a seed, and checks of their completions.
 */
#ifndef MODEL_H
#define MODEL_H

#include "vt.h"

enum {
	PAIRS = 4,
	WINDOW = 24, /* outstanding requests of a QP */
	RECVS = 32,
	BIG = 200000, /* bytes of a slot: three segments and some */
	PIECES = 5
};

/* Offsets in a side's memory, after the slots. */
enum {
	READABLE = (2 * WINDOW + RECVS) * BIG,
	COUNTER = READABLE + 2 * BIG,
	ALL = COUNTER + 64
};

struct request {
	enum ibv_wr_opcode op;
	uint32_t len;
	uint64_t seed;
	bool signaled;
	uint64_t was; /* its value when it was read, + 1 */
};

/* Half of a pair. Its memory has a slot for each local request's data, one for
 * the peer's writes and one for receives; then the source of the peer's reads,
 * and a counter. */
struct side {
	struct side *peer;
	struct ibv_qp *qp;
	struct vt_end *end;
	struct vt_mem mem;
	struct request sent[WINDOW];
	uint64_t posted, done;
	/* The peer's requests that take a receive. */
	struct request expected[4 * WINDOW];
	uint64_t first, last;
	uint64_t recv_posted, recv_done;
	uint64_t counter;
};

struct model {
	struct vt *t;
	uint64_t rng;
	struct side side[PAIRS][2];
	struct ibv_srq *srq; /* used by the last pair's second half */
	unsigned breaks, broken, turns;
};

uint64_t model_draw(struct model *m, uint64_t n);
void model_post_receive(struct model *m, struct side *s);
void model_post_request(struct model *m, struct side *s);
/* Two requests: one reads a counter, one writes it. */
void model_post_counter(struct model *m, struct side *s);
/* A last request, whose completion shows that all are done. */
void model_post_last(struct side *s);
/* Check completions of one of the two ends. */
void model_take_sent(struct model *m, const struct ibv_wc *wc, int half);
void model_take_received(struct model *m, const struct ibv_wc *wc, int half);

#endif
