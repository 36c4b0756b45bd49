/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pairs of QPs, the requests that are posted to them, and the allowed results.
 * Requests of all kinds are drawn from a seed, and their completions are
 * checked.
 */
#ifndef MODEL_H
#define MODEL_H

#include "vt.h"

enum {
	PAIRS = 4,
	WINDOW = 24, /* maximum number of outstanding requests of a QP */
	RECVS = 32,
	/* bytes of a slot: a little more than three segments of 64 KiB */
	BIG = 200000,
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
	uint64_t was; /* if not 0: the counter's expected value, plus 1 */
};

/* One half of a pair. A side's memory has slots for the data of the side's own
 * requests, for the peer's writes, and for receives. The source of the peer's
 * reads, and a counter, follow the slots. */
struct side {
	struct side *peer;
	struct ibv_qp *qp;
	struct vt_end *end;
	struct vt_mem mem;
	struct request sent[WINDOW];
	uint64_t posted, done;
	/* The peer's requests that consume a receive of this side. */
	struct request expected[4 * WINDOW];
	uint64_t first, last;
	uint64_t recv_posted, recv_done;
	uint64_t counter;
};

struct model {
	struct vt *t;
	uint64_t rng;
	struct side side[PAIRS][2];
	struct ibv_srq *srq; /* SRQ of the second half of the last pair */
	unsigned breaks, broken, turns;
};

uint64_t model_draw(struct model *m, uint64_t n);
void model_post_receive(struct model *m, struct side *s);
void model_post_request(struct model *m, struct side *s);
/* Post two requests: one reads the peer's counter, the other changes it. */
void model_post_counter(struct model *m, struct side *s);
/* Post a last request. The completion of this request shows that all requests
 * are done. */
void model_post_last(struct side *s);
/* Check a completion of one half of the pair. */
void model_take_sent(struct model *m, const struct ibv_wc *wc, int half);
void model_take_received(struct model *m, const struct ibv_wc *wc, int half);

#endif
