/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the virtual QP.
 *
 * Virtual WRs of a direction lie in a ring with three free-running indices:
 * head, where the next one goes; next, the first whose fragments are not all
 * posted; tail, the oldest not reported. Fragments in flight of a physical QP
 * are a list in the order posted, which is the order of their completions, the
 * failed ones too; so a completion is the list's first, and its wr_id, valid
 * on errors as well, must say so. The opcode is never looked at.
 */
#ifndef MPIB_VQP_INTERNAL_H
#define MPIB_VQP_INTERNAL_H

#include <uthash.h>

#include "vqp/seq.h"
#include "vqp/vqp.h"

/* wr_id: kind 8 | index of the physical QP 16 | count 40. */
enum mpib_vqp_kind {
	MPIB_VQP_DATA = 1, /* a fragment */
	MPIB_VQP_TELL, /* SPRAY's notice */
	MPIB_VQP_PASS, /* the virtual WR as it is */
	MPIB_VQP_RECV, /* an empty receive of the mode's */
	MPIB_VQP_RECV_PASS,
};

struct mpib_phys {
	struct mpib_vqp *vqp;
	struct ibv_qp *qp;
	uint16_t index;
	uint8_t device;
	bool dead;
	uint32_t inflight;
	uint32_t recvs; /* posted; at most cap */
	uint64_t count; /* WRs ever posted */
	struct mpib_wr_list wrs; /* in flight, oldest first */
	struct mpib_wr_chain chain; /* to be posted at the end of the turn */
	LIST_ENTRY(mpib_phys) ring_link; /* with a chain */
	bool dirty;
	struct mpib_phys_key {
		uint32_t device, qpn;
	} key;
	UT_hash_handle hh;
};

LIST_HEAD(mpib_phys_list, mpib_phys);

struct mpib_vwr {
	struct mpib_vsend wr;
	uint64_t offset; /* bytes given to physical QPs */
	uint32_t left; /* physical WRs in flight or lost */
	uint32_t seq; /* of SPLIT and SPRAY */
	uint8_t used; /* devices that carried something */
	uint8_t to_tell; /* devices whose notice is still to be posted */
	bool begun, dispatched;
	enum ibv_wc_status status;
	int error;
};

struct mpib_vrx {
	uint64_t wr_id;
	bool pass, done;
	enum ibv_wc_status status;
	int error;
	uint64_t bytes;
	uint32_t imm;
	bool has_imm;
};

struct mpib_vqp {
	struct mpib_vcq *vcq;
	/* qp, notify and via are copied; via tells whether there is any. */
	struct mpib_vqp_attr attr;
	bool multi;
	bool broken; /* an end misses a number, or may */
	unsigned devices; /* mask */
	unsigned alive; /* data QPs that are not dead */
	unsigned turn; /* round robin */
	unsigned turn_of[MPIB_VQP_DEVICES]; /* SPLIT's, per device */
	struct mpib_phys *data; /* attr.n */
	struct mpib_phys *notify[MPIB_VQP_DEVICES];
	struct mpib_phys *notifies; /* attr.notifies */
	uint32_t mask; /* depth - 1 */
	struct mpib_vwr *tx;
	uint64_t tx_head, tx_next, tx_tail;
	struct mpib_vrx *rx;
	uint64_t rx_head, rx_next, rx_tail; /* next: notices go to */
	uint32_t seq; /* SPLIT's and SPRAY's next, of messages */
	struct mpib_seq_sent out; /* DQPLB's, of fragments */
	struct mpib_seq *in;
	uint64_t late; /* of numbers before a reset */
	uint64_t bytes; /* of the message that is arriving */
	uint64_t arrived; /* whole messages without a receive */
	uint64_t *early; /* bytes of these; NULL via ports */
	uint64_t early_tail;
	uint32_t early_mask;
	bool held_back; /* receives, until somebody waits for notices */
	struct mpib_wr_list lost; /* for mpib_vqp_replay() */
	bool ready; /* on the CQ's list: perhaps something to report */
	bool busy; /* on the CQ's list: something was posted */
	struct mpib_vqp_via via;
	TAILQ_ENTRY(mpib_vqp) busy_link, ready_link;
};

TAILQ_HEAD(mpib_vqp_list, mpib_vqp);

struct mpib_vcq {
	struct ibv_cq *cq[MPIB_VQP_DEVICES];
	unsigned n;
	unsigned first; /* device that is polled first */
	struct mpib_wr_pool *pool;
	struct mpib_phys *known; /* by device and number */
	struct mpib_vqp_list busy, ready;
	struct mpib_phys_list dirty;
	struct mpib_vcq_counts counts;
};

static inline struct mpib_vwr *mpib_vqp_tx(struct mpib_vqp *v, uint64_t id)
{
	return &v->tx[id & v->mask];
}

static inline struct mpib_vrx *mpib_vqp_rx(struct mpib_vqp *v, uint64_t id)
{
	return &v->rx[id & v->mask];
}

static inline uint64_t mpib_vqp_wr_id(enum mpib_vqp_kind kind,
				      const struct mpib_phys *p)
{
	return (uint64_t)kind << 56 | (uint64_t)p->index << 40 |
	       (p->count & 0xffffffffffull);
}

static inline void mpib_vqp_add_sge(struct mpib_wr *w, uint64_t addr,
				    uint32_t len, uint32_t lkey)
{
	if (len)
		w->sge[w->wr.num_sge++] = (struct ibv_sge){ addr, len, lkey };
}

/* post.c */
/* A QP that may take one more, round robin over all, or of a device. */
struct mpib_phys *mpib_vqp_pick(struct mpib_vqp *v);
struct mpib_phys *mpib_vqp_pick_of(struct mpib_vqp *v, unsigned device);
bool mpib_vqp_room(const struct mpib_phys *p);
/* Bytes off..off+len of virtual WR id, onto the QP's chain. opcode WRITE, or
 * WRITE_WITH_IMM with imm. False: the pool is empty. */
bool mpib_vqp_fragment(struct mpib_phys *p, uint64_t id, uint64_t off,
		       uint32_t len, enum mpib_vqp_kind kind,
		       enum ibv_wr_opcode opcode, uint32_t imm);
/* A fragment that was posted is answered. */
void mpib_vqp_note_answer(struct mpib_vqp *v, const struct mpib_wr *w);
/* Onto the chain that the turn ends with, or through its port. */
void mpib_vqp_enqueue(struct mpib_phys *p, struct mpib_wr *w);
/* The oldest WR in flight. */
struct mpib_wr *mpib_vqp_pop(struct mpib_phys *p);
/* One doorbell per QP with a chain; a failed post fails its WRs. */
void mpib_vqp_flush(struct mpib_vcq *vcq);
/* Post what can be posted of what waits. */
void mpib_vqp_advance(struct mpib_vqp *v);
/* A send completion. */
void mpib_vqp_sent(struct mpib_phys *p, const struct ibv_wc *wc);
void mpib_vqp_make_ready(struct mpib_vqp *v);
/* It has something to post or to wait for. */
void mpib_vqp_make_busy(struct mpib_vqp *v);
/* It is on no list of its CQ's any more. */
void mpib_vqp_leave(struct mpib_vqp *v);

/* loss.c */
/* A WR of p ended badly. It is kept for a replay, or ends its virtual WR, with
 * its own error rather than what follows from it. */
void mpib_vqp_lose(struct mpib_phys *p, struct mpib_wr *w,
		   enum ibv_wc_status status, int error);
/* From bad on, the QP's WRs were not taken: they get no completion. */
void mpib_vqp_unpost(struct mpib_phys *p, const struct mpib_wr *bad, int error);
/* The QP is dead, and with it perhaps the virtual QP. */
void mpib_vqp_bury(struct mpib_phys *p);
/* The virtual QP is: what waits fails, with what is told of it. */
void mpib_vqp_end(struct mpib_vqp *v, enum ibv_wc_status status, int error);
void mpib_vwr_fail(struct mpib_vwr *w, enum ibv_wc_status status, int error);

/* The modes: post more of virtual WR id; true when all of it is posted. */
bool mpib_vqp_split(struct mpib_vqp *v, uint64_t id);
bool mpib_vqp_spray(struct mpib_vqp *v, uint64_t id);
bool mpib_vqp_dqplb(struct mpib_vqp *v, uint64_t id);
bool mpib_vqp_pass(struct mpib_vqp *v, uint64_t id);
/* SPRAY: all data of WR id is answered; post its notices. */
void mpib_vqp_tell(struct mpib_vqp *v, uint64_t id);

/* IMM of SPLIT and SPRAY: number 24 | all parts 4 | this part 4. */
static inline uint32_t mpib_vqp_part_imm(uint32_t seq, unsigned all,
					 unsigned part)
{
	return seq | all << 24 | part << 28;
}

/* via.c */
/* The caller's IMM and what is to be written with it. False: not now. */
bool mpib_vqp_tell_own(struct mpib_vqp *v, uint64_t id);

/* recv.c */
/* A receive completion. */
void mpib_vqp_received(struct mpib_phys *p, const struct ibv_wc *wc);
/* No QP is left: what waits has failed. */
void mpib_vqp_fail_recvs(struct mpib_vqp *v, enum ibv_wc_status status,
			 int error);

#endif
