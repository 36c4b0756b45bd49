/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declarations shared by the files of the virtual QP.
 *
 * The virtual WRs of a direction are in a ring with three free-running indices.
 * `head`: where the next WR will be stored. `next`: the first WR whose
 * fragments are not all posted. `tail`: the oldest WR whose completion is not
 * reported. Each physical QP has a list of its fragments in flight, in the
 * order posted. Fragments complete in this order, even if they fail. So a
 * completion must have the wr_id of the list's first fragment. On errors
 * `wr_id` is valid, but `opcode` is not, so `opcode` is never used.
 */
#ifndef MPIB_VQP_INTERNAL_H
#define MPIB_VQP_INTERNAL_H

#include <mpib/vqp.h>
#include <uthash.h>

#include "vqp/seq.h"

/* Bits of wr_id: kind 8 | index of the physical QP 16 | count 40. */
enum mpib_vqp_kind {
	MPIB_VQP_DATA = 1, /* a fragment */
	MPIB_VQP_TELL, /* a notice in SPRAY, or the caller's IMM on a port */
	MPIB_VQP_PASS, /* a virtual WR that passes through unchanged */
	MPIB_VQP_RECV, /* an empty receive that the mode needs */
	MPIB_VQP_RECV_PASS, /* a receive that passes through */
};

struct mpib_phys {
	struct mpib_vqp *vqp;
	struct ibv_qp *qp;
	uint16_t index;
	uint8_t device;
	bool dead;
	uint32_t inflight;
	/* Number of posted receives: at most `cap` empty receives, or receives
	 * that pass through. */
	uint32_t recvs;
	uint64_t count; /* WRs ever posted */
	struct mpib_wr_list wrs; /* in flight, oldest first */
	struct mpib_wr_chain chain; /* to be posted by mpib_vqp_flush() */
	LIST_ENTRY(mpib_phys) ring_link; /* on vcq->dirty */
	bool dirty; /* on vcq->dirty: chain is not empty */
	struct mpib_phys_key {
		uint32_t device, qpn;
	} key;
	UT_hash_handle hh;
};

LIST_HEAD(mpib_phys_list, mpib_phys);

struct mpib_vwr {
	struct mpib_vsend wr;
	uint64_t offset; /* bytes posted to physical QPs so far */
	uint32_t left; /* number of physical WRs in flight or lost */
	uint32_t seq; /* SPLIT and SPRAY: the message's number */
	uint8_t used; /* mask of devices that carried a part of the message */
	uint8_t to_tell; /* mask of devices with a notice still to post */
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
	/* The caller owns the memory that these pointers refer to, so do not
	 * dereference them after the create call. `ports` only tells whether
	 * this virtual QP uses ports. */
	struct mpib_vqp_attr attr;
	bool multi; /* several QPs, or ports: WRs do not pass through */
	/* the virtual QP has failed: a sequence number may never arrive at this
	 * end or the other */
	bool broken;
	unsigned devices; /* mask of devices with data QPs */
	unsigned alive; /* data QPs that are not dead */
	unsigned turn; /* index of the data QP to try next (round robin) */
	unsigned turn_of[MPIB_VQP_DEVICES]; /* SPLIT: like turn, per device */
	struct mpib_phys *data; /* attr.n QPs or ports */
	struct mpib_phys *notify[MPIB_VQP_DEVICES];
	struct mpib_phys *notifies; /* attr.notifies QPs or ports */
	uint32_t mask; /* depth - 1 */
	struct mpib_vwr *tx;
	uint64_t tx_head, tx_next, tx_tail;
	/* Index after the newest WR that a later WR could overtake. In SPLIT,
	 * WRITEs can be overtaken. In SPRAY, all WRs except SENDs can. */
	uint64_t unordered;
	/* SPLIT and SPRAY: mask of devices with data that no IMM has covered
	 * yet. The next message posts an IMM on each of these devices. */
	uint8_t untold;
	struct mpib_vrx *rx;
	/* rx_next: index of the receive that the next whole message
	 * completes. */
	uint64_t rx_head, rx_next, rx_tail;
	uint32_t seq; /* SPLIT and SPRAY: number of the next message */
	struct mpib_seq_sent out; /* DQPLB: numbers of fragments */
	/* received numbers; NULL: the mode has no numbers */
	struct mpib_seq *in;
	uint64_t late; /* numbers that were dropped before the last reset */
	uint64_t bytes; /* bytes of the message that is arriving */
	uint64_t arrived; /* whole messages that have no receive yet */
	/* ring with the sizes of the `arrived` messages; NULL with ports */
	uint64_t *early;
	uint64_t early_tail;
	uint32_t early_mask;
	/* True: post no empty receives until the caller posts receives. */
	bool held_back;
	struct mpib_wr_list lost; /* for mpib_vqp_replay() */
	bool ready; /* on vcq->ready: may have completions to report */
	bool busy; /* on vcq->busy: a send is not reported yet */
	struct mpib_vqp_ports ports;
	TAILQ_ENTRY(mpib_vqp) busy_link, ready_link;
};

TAILQ_HEAD(mpib_vqp_list, mpib_vqp);

struct mpib_vcq {
	struct ibv_cq *cq[MPIB_VQP_DEVICES];
	unsigned n;
	unsigned first; /* device that the next poll polls first */
	struct mpib_wr_pool *pool;
	struct mpib_phys *known; /* hash of QPs by device and QP number */
	struct mpib_vqp_list busy, ready;
	struct mpib_phys_list dirty;
	struct mpib_vcq_counts counts;
};

/* Return whether SENDs pass through on QP 0. In SPLIT and DQPLB, SENDs cannot
 * pass through: a SEND would use up one of the empty receives that the IMMs on
 * QP 0 need. */
static inline bool mpib_vqp_passes(const struct mpib_vqp *v)
{
	return !v->multi || (v->attr.mode == MPIB_VQP_SPRAY && !v->attr.ports);
}

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
/* Return a QP with room for one more WR: round robin over all data QPs, or over
 * the data QPs of one device. NULL: no QP has room. */
struct mpib_phys *mpib_vqp_pick(struct mpib_vqp *v);
struct mpib_phys *mpib_vqp_pick_of(struct mpib_vqp *v, unsigned device);
bool mpib_vqp_room(const struct mpib_phys *p);
/* Enqueue on p the `len` bytes at offset `off` of virtual WR `id`. `opcode` is
 * WRITE, WRITE_WITH_IMM with `imm`, or the opcode of a WR that passes through.
 * Return false if the WR pool is empty. */
bool mpib_vqp_fragment(struct mpib_phys *p, uint64_t id, uint64_t off,
		       uint32_t len, enum mpib_vqp_kind kind,
		       enum ibv_wr_opcode opcode, uint32_t imm);
/* DQPLB: record that fragment w is complete, so that the span can advance. */
void mpib_vqp_note_answer(struct mpib_vqp *v, const struct mpib_wr *w);
/* Add w to p's chain, which mpib_vqp_flush() posts, or pass w to p's port. */
void mpib_vqp_enqueue(struct mpib_phys *p, struct mpib_wr *w);
/* Remove and return p's oldest WR in flight. */
struct mpib_wr *mpib_vqp_pop(struct mpib_phys *p);
/* Post the chains, one doorbell per QP; refused WRs go to mpib_vqp_unpost(). */
void mpib_vqp_flush(struct mpib_vcq *vcq);
/* Return whether a WR is outstanding that a WR posted later could overtake. */
bool mpib_vqp_unsettled(const struct mpib_vqp *v);
/* Post as many of the waiting virtual WRs as fit. */
void mpib_vqp_advance(struct mpib_vqp *v);
/* Handle a send completion of p. */
void mpib_vqp_sent(struct mpib_phys *p, const struct ibv_wc *wc);
/* Put v on vcq->ready: it may have completions to report. */
void mpib_vqp_make_ready(struct mpib_vqp *v);
/* Put v on vcq->busy: it has sends to post or to wait for. */
void mpib_vqp_make_busy(struct mpib_vqp *v);
/* Remove v from both lists. */
void mpib_vqp_leave(struct mpib_vqp *v);

/* loss.c */
/* Handle the failure of WR w of p: keep w for a replay, or fail its virtual WR
 * with w's error. A failure causes flush errors, which come later. So the first
 * error is the cause. */
void mpib_vqp_lose(struct mpib_phys *p, struct mpib_wr *w,
		   enum ibv_wc_status status, int error);
/* The device refused the WRs of p from `bad` on, so these WRs will not
 * complete: mark them as lost. */
void mpib_vqp_unpost(struct mpib_phys *p, const struct mpib_wr *bad, int error);
/* Mark p dead. If the mode cannot continue without p, end the virtual QP. */
void mpib_vqp_bury(struct mpib_phys *p);
/* End the virtual QP: waiting sends and receives fail with status and error. */
void mpib_vqp_end(struct mpib_vqp *v, enum ibv_wc_status status, int error);
/* Set the error of virtual WR `id`, unless it already has an error, and stop
 * posting the WR. */
void mpib_vwr_fail(struct mpib_vqp *v, uint64_t id, enum ibv_wc_status status,
		   int error);

/* One function per mode: post more of virtual WR `id`. Return true when all of
 * it is posted. */
bool mpib_vqp_split(struct mpib_vqp *v, uint64_t id);
/* SPLIT: return the size of the largest part of a message. */
uint64_t mpib_vqp_largest(const struct mpib_vqp *v, uint64_t length);
bool mpib_vqp_spray(struct mpib_vqp *v, uint64_t id);
bool mpib_vqp_dqplb(struct mpib_vqp *v, uint64_t id);
/* SPRAY: post the notices of virtual WR `id`, whose data is complete. */
void mpib_vqp_tell(struct mpib_vqp *v, uint64_t id);

/* The IMM in SPLIT and SPRAY has three fields: the number (24 bits), the mask
 * of all parts (4 bits) and the bit of this part (4 bits). */
static inline uint32_t mpib_vqp_part_imm(uint32_t seq, unsigned all,
					 unsigned part)
{
	return seq | all << 24 | part << 28;
}

/* vqp.c */
/* Post the WR with the caller's IMM and control bytes. Return false if the port
 * or the WR pool has no room. */
bool mpib_vqp_tell_own(struct mpib_vqp *v, uint64_t id);

/* recv.c */
/* Fail the virtual receives that are not done, but not the receives that pass
 * through. */
void mpib_vqp_fail_recvs(struct mpib_vqp *v, enum ibv_wc_status status,
			 int error);

#endif
