/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One queue pair made of many, perhaps on several devices: a virtual WR becomes
 * fragments on physical QPs, their completions become one virtual completion.
 *
 *   SPLIT  one part per device, each on one QP of it, each with an IMM
 *   SPRAY  WRITEs of at most frag bytes over all QPs; when all are answered, an
 *          empty IMM on the notify QP of each device that carried any
 *   DQPLB  WRITEs with IMM of at most frag bytes over all QPs, each numbered
 *
 * Virtual completions of a direction come in the order posted. Receives are
 * notices: an empty receive completes with the next whole message. What a mode
 * needs of physical receives is posted by mpib_vqp_prepare(), before the QPs
 * are in RTR, and replenished.
 *
 * A fragment that is lost leaves the receiver waiting for its number: without
 * a replay that ends the virtual QP, at the receiver as soon as one of its QPs
 * fails, for it cannot know what was under way there. Only SPRAY, which numbers
 * its notices, loses nothing but the message. Of a number that no sound peer
 * can have sent the receiver's end is IBV_WC_GENERAL_ERR, -EPROTO.
 *
 * The caller makes, connects and destroys the QPs; both ends are made alike. A
 * QP that fails takes no more work, others go on. With a single QP everything
 * passes through, SENDs always do, on QP 0.
 *
 * QPs that others post to as well are reached through struct mpib_vqp_via. Then
 * the caller's own IMM is told, on a QP that the caller names: by SPRAY when all
 * is answered that was posted before it, by DQPLB at once, and the receiver has
 * the n-th IMM wait for the end of the n-th numbered message (mpib_vqp_told()).
 * Failures are the caller's to find; he gives up what was posted by
 * mpib_vqp_reset().
 *
 * Owner thread of the virtual CQ; nothing blocks, and nothing allocates but
 * mpib_vqp_create(). Calls return 0 or -errno.
 */
#ifndef MPIB_VQP_VQP_H
#define MPIB_VQP_VQP_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "vqp/wr_pool.h"

#define MPIB_VQP_DEVICES 2
#define MPIB_VQP_QPS 1024
#define MPIB_VQP_POLL 32 /* completions taken from a physical CQ at once */
#define MPIB_VQP_FRAG (512u << 10) /* default */
#define MPIB_VQP_FRAG_MAX (1u << 30)
#define MPIB_VQP_NOTIFY (1u << 31) /* DQPLB's IMM: last of its message */

enum mpib_vqp_mode {
	MPIB_VQP_SPLIT,
	MPIB_VQP_SPRAY,
	MPIB_VQP_DQPLB,
};

struct mpib_vcq;
struct mpib_vqp;

/*
 * Ports are physical QPs as the virtual one numbers them: n for data, then those
 * for notices. Two ports may lead to one QP.
 */
struct mpib_vqp_via {
	/* WRs that the port takes now. */
	uint32_t (*room)(void *ctx, unsigned port);
	/* Post w, a part of virtual WR wr_id, after what the port was given
	 * before. Its own wr_id is free to use. w is the virtual QP's, until
	 * mpib_vqp_answered() or mpib_vqp_reset(). */
	void (*post)(void *ctx, unsigned port, struct mpib_wr *w,
		     uint64_t wr_id);
	void *ctx;
};

/* One physical QP of a virtual one. */
struct mpib_vqp_qp {
	struct ibv_qp *qp;
	uint8_t device; /* index of its keys */
};

struct mpib_vqp_attr {
	enum mpib_vqp_mode mode;
	unsigned n; /* data QPs, 1..MPIB_VQP_QPS */
	const struct mpib_vqp_qp *qp; /* copied */
	/* SPRAY with more than one QP: one a device used, else NULL. */
	const struct mpib_vqp_qp *notify;
	unsigned notifies;
	/* In place of qp and notify: ports of device 0. Not SPLIT. */
	const struct mpib_vqp_via *via; /* copied */
	/* WRs in flight per QP, 1 or more; its SQ holds them. Of all of them
	 * 2048 at most, see seq.h. */
	uint32_t cap;
	uint32_t frag; /* bytes, a multiple of 128; 0: MPIB_VQP_FRAG */
	/* Virtual WRs a direction, a power of two; 0: 256. Where these are
	 * numbered, SPLIT and SPRAY over more than one QP, 8192 at most. */
	uint32_t depth;
	/* SPLIT: each device's parts of 1024; all 0: equal. */
	uint32_t weight[MPIB_VQP_DEVICES];
	uint32_t number; /* qp_num of its completions */
	/* Keep what a failed QP had in flight for mpib_vqp_replay(), in place
	 * of failing the virtual WR. */
	bool replay;
};

struct mpib_vqp_key {
	uint32_t lkey, rkey;
};

/* Bytes that go along: gathered into a WR of the same message. */
struct mpib_vqp_head {
	uint64_t local;
	uint32_t length; /* 0: none */
	uint32_t lkey[MPIB_VQP_DEVICES];
};

/* What a notice that is told writes; length 0: nothing. */
struct mpib_vqp_control {
	uint64_t local, remote;
	uint32_t length, lkey, rkey;
	bool copied; /* IBV_SEND_INLINE */
};

/* WRITE, WRITE_WITH_IMM or SEND of one range. */
struct mpib_vsend {
	uint64_t wr_id;
	uint64_t local, remote;
	uint64_t length; /* 0 is allowed */
	enum ibv_wr_opcode opcode;
	unsigned flags; /* IBV_SEND_SIGNALED */
	uint32_t imm; /* host order; only a single QP and via carry it */
	unsigned devices; /* keys given: a bit per device */
	struct mpib_vqp_key key[MPIB_VQP_DEVICES];
	/* In front of the bytes, here and there: remote is where it goes. Not
	 * in SPLIT. */
	struct mpib_vqp_head head;
	/* Via: the next message's notice tells of this one, too. */
	bool more;
	uint16_t on; /* via: which of the ports for notices tells */
	struct mpib_vqp_control control; /* via: of the notice */
};

struct mpib_vrecv {
	uint64_t wr_id;
	uint64_t addr; /* length > 0: a SEND's, on QP 0 */
	uint32_t length;
	uint32_t lkey;
};

struct mpib_vwc {
	uint64_t wr_id;
	enum ibv_wc_status status; /* the first that was not SUCCESS */
	int error; /* -errno of a post that failed, else 0 */
	bool recv;
	uint32_t qp_num; /* attr.number */
	uint32_t imm; /* host order, valid if has_imm */
	bool has_imm;
	uint64_t bytes; /* receive: payload that the QPs tell of */
};

/* What all virtual QPs of a virtual CQ did. */
struct mpib_vcq_counts {
	uint64_t cqes, doorbells, wrs, unknown, late, replayed;
};

/* cqs stay the caller's and outlive it; index is the device. n is 0 where all
 * virtual QPs go via ports. */
int mpib_vcq_create(struct ibv_cq *const *cqs, unsigned n,
		    struct mpib_wr_pool *pool, struct mpib_vcq **vcq);
/* After its virtual QPs. */
void mpib_vcq_destroy(struct mpib_vcq *vcq);

/*
 * Take what the physical CQs have, within a budget of completions, let the
 * virtual QPs go on, and return at most n virtual completions. A completion of
 * an unknown QP is counted and dropped.
 */
int mpib_vcq_poll(struct mpib_vcq *vcq, int n, struct mpib_vwc *wc);
/* The same without looking at physical CQs. */
int mpib_vcq_take(struct mpib_vcq *vcq, int n, struct mpib_vwc *wc);
/* False: all that was posted was reported, a take ago. */
bool mpib_vcq_busy(const struct mpib_vcq *vcq);
void mpib_vcq_counts(const struct mpib_vcq *vcq, struct mpib_vcq_counts *n);

/* -EINVAL: the attributes do not fit together. -EEXIST: one of the QPs belongs
 * to another already. */
int mpib_vqp_create(struct mpib_vcq *vcq, const struct mpib_vqp_attr *attr,
		    struct mpib_vqp **vqp);
/* -EBUSY while physical WRs are in flight: move the QPs to ERR and poll. */
int mpib_vqp_destroy(struct mpib_vqp *vqp);

/* Post the physical receives that the mode needs. QPs in INIT or later. */
int mpib_vqp_prepare(struct mpib_vqp *vqp);

/*
 * -EINVAL: an opcode that the mode cannot carry, an unsignalled
 * WRITE_WITH_IMM, or no key for a device; -EMSGSIZE: longer than the parts may
 * be; -EAGAIN: depth are outstanding; -ENETDOWN: no QP is left, or the virtual
 * one has ended. Later failures are the completion's.
 */
int mpib_vqp_post_send(struct mpib_vqp *vqp, const struct mpib_vsend *wr);
int mpib_vqp_post_recv(struct mpib_vqp *vqp, const struct mpib_vrecv *wr);

/*
 * Post again what failed QPs had in flight, on those that are left. Only when
 * nothing can arrive of it any more: the QPs are in ERR at both ends. WRs that
 * may have arrived are the same again, and the receiver drops them by their
 * number.
 */
int mpib_vqp_replay(struct mpib_vqp *vqp);

/* QPs that still take work; 0 when the virtual QP has ended. */
unsigned mpib_vqp_healthy(const struct mpib_vqp *vqp);

/*
 * Via. Virtual WRs that may be posted now.
 */
uint32_t mpib_vqp_free(const struct mpib_vqp *vqp);
/* WRs that so many bytes become, without that of an IMM that is told. */
uint32_t mpib_vqp_wrs(const struct mpib_vqp *vqp, uint64_t length);
/* The oldest WR of the port came to its end. Of one that failed nothing more is
 * done, and its virtual WR never ends. */
void mpib_vqp_answered(struct mpib_vqp *vqp, unsigned port, bool ok);
/* DQPLB's receiver: a numbered fragment came. 1: taken; 0: it is late or came
 * twice, and is counted and dropped; -EPROTO: no sound peer sends that number,
 * so the connection has to fail, for others may be lost. */
int mpib_vqp_numbered(struct mpib_vqp *vqp, uint32_t imm, uint32_t bytes);
/* An IMM that waits for its message came. False: more wait than a sound peer
 * can have on its way. */
bool mpib_vqp_told(struct mpib_vqp *vqp, uint32_t imm, uint32_t bytes);
/* The next IMM whose message is whole. */
bool mpib_vqp_whole(struct mpib_vqp *vqp, uint32_t *imm, uint32_t *bytes);
/* Forget everything, numbers too. Nothing is in flight any more, at either
 * end. */
void mpib_vqp_reset(struct mpib_vqp *vqp);
uint64_t mpib_vqp_late(const struct mpib_vqp *vqp);

#endif
