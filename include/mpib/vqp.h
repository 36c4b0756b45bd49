/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libmpib-vqp, a virtual QP: one queue pair made of many physical RC QPs,
 * perhaps on several devices, over plain libibverbs. A virtual WR becomes
 * fragments on the physical QPs, and the completions of the fragments become
 * one virtual completion. Three modes:
 *
 *   SPLIT  one part per device, each on one QP of the device and with an IMM,
 *          once all WRITEs without IMM before it are answered
 *   SPRAY  WRITEs of at most frag bytes over all QPs; when all are answered, an
 *          empty IMM (the notice) on the notify QP of each device that carried
 *          any
 *   DQPLB  WRITEs with IMM of at most frag bytes over all QPs, each numbered
 *
 * Virtual completions of one direction come in the order posted. An empty
 * virtual receive completes with the next whole message. The physical receives
 * that a mode needs are posted by mpib_vqp_prepare(), before the QPs are in
 * RTR, and replenished as they complete.
 *
 * A lost fragment leaves the receiver waiting for the fragment's number.
 * Without a replay that ends the virtual QP; the receiver ends its own one as
 * soon as one of its QPs fails, because it cannot know what was under way on
 * that QP. SPRAY numbers only its notices and so loses nothing but the message.
 * A number that no sound peer can have sent ends the receiver's virtual QP with
 * IBV_WC_GENERAL_ERR, -EPROTO.
 *
 * Ownership: the caller makes, connects and destroys the physical QPs and CQs,
 * which outlive what is made from them here; both ends are set up alike. Each
 * CQ must hold 2 * cap completions for each of its QPs. A QP that fails takes
 * no more work while the other QPs go on. With a single QP every virtual WR
 * passes through unchanged; in SPRAY SENDs do, on QP 0, when all before is
 * complete.
 *
 * Thread: one thread makes all calls on a virtual CQ, its virtual QPs and its
 * WR pool; it may be another one for each virtual CQ.
 *
 * Progress is made only inside calls: a WR that found no room is posted by a
 * later mpib_vcq_poll() of its end. Nothing blocks, makes a system call that
 * verbs do not make, or allocates, except in the create calls.
 *
 * Errors: calls return 0 or -errno, or a count where they say so.
 */
#ifndef MPIB_VQP_H
#define MPIB_VQP_H

#include <infiniband/verbs.h>
#include <mpib/wr_pool.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MPIB_VQP_DEVICES 2
#define MPIB_VQP_QPS 1024
#define MPIB_VQP_FRAG (512u << 10) /* default fragment size in bytes */
#define MPIB_VQP_FRAG_MAX (1u << 30)
#define MPIB_VQP_NOTIFY (1u << 31) /* DQPLB's IMM: last fragment of a message */

enum mpib_vqp_mode {
	MPIB_VQP_SPLIT,
	MPIB_VQP_SPRAY,
	MPIB_VQP_DQPLB,
};

struct mpib_vcq;
struct mpib_vqp;

/*
 * The caller's way to physical QPs that it posts to for other purposes as well.
 * A port is the virtual QP's number for one of them: ports 0..n-1 carry data,
 * the next ports carry notices. Two ports may lead to the same QP. The IMM is
 * then the caller's own, sent on a port that the caller names: in SPRAY when
 * all WRs posted before the IMM are answered, in DQPLB at once, where the
 * receiver has the n-th IMM wait for the end of the n-th numbered message. The
 * caller polls its CQs itself, says what completed, finds failures and drops
 * what was posted with mpib_vqp_reset().
 */
struct mpib_vqp_ports {
	/* Return how many WRs the port accepts now. */
	uint32_t (*room)(void *ctx, unsigned port);
	/* Post w, a part of virtual WR wr_id, after the port's earlier WRs. The
	 * callee may overwrite w->wr.wr_id. The virtual QP owns w and frees it
	 * in mpib_vqp_port_sent() or mpib_vqp_reset(). */
	void (*post)(void *ctx, unsigned port, struct mpib_wr *w,
		     uint64_t wr_id);
	void *ctx;
};

/* One physical QP of a virtual one. */
struct mpib_vqp_qp {
	struct ibv_qp *qp;
	uint8_t device; /* index into the keys of a virtual WR */
};

struct mpib_vqp_attr {
	enum mpib_vqp_mode mode;
	unsigned n; /* data QPs, 1..MPIB_VQP_QPS */
	const struct mpib_vqp_qp *qp; /* copied */
	/* SPRAY with more than one QP: one per device used; else NULL. */
	const struct mpib_vqp_qp *notify;
	unsigned notifies;
	/* Instead of qp and notify: ports, all on device 0. Not in SPLIT. */
	const struct mpib_vqp_ports *ports; /* copied */
	/* WRs in flight per QP, 1 or more; the QP's SQ and RQ must hold that
	 * many. Over all QPs together 2048 at most, so that the receiver can
	 * put all numbers on their way in order. */
	uint32_t cap;
	/* Bytes that each device accepts as one WR: max_msg_sz of its port, 128
	 * or more; 0: MPIB_VQP_FRAG_MAX. */
	uint32_t message;
	/* Bytes, a multiple of 128, at most message; 0: MPIB_VQP_FRAG, or
	 * message if that is less. */
	uint32_t frag;
	/* Virtual WRs per direction, a power of two; 0: 256. At most 8192 in
	 * SPLIT and SPRAY over more than one QP, which number messages, and
	 * 65536 in DQPLB. */
	uint32_t depth;
	/* SPLIT: each device's parts of 1024; all 0: equal. */
	uint32_t weight[MPIB_VQP_DEVICES];
	uint32_t number; /* qp_num of the virtual completions */
	/* Keep the fragments that a failed QP had in flight for
	 * mpib_vqp_replay() instead of failing their virtual WRs. */
	bool replay;
};

struct mpib_vqp_key {
	uint32_t lkey, rkey;
};

/* Bytes that precede the payload, gathered into the message's first WR: the QPs
 * need max_send_sge 2. */
struct mpib_vqp_head {
	uint64_t local;
	uint32_t length; /* 0: none */
	uint32_t lkey[MPIB_VQP_DEVICES];
};

/* Ports: data that the WR with the caller's IMM writes; length 0: nothing. */
struct mpib_vqp_control {
	uint64_t local, remote;
	uint32_t length, lkey, rkey;
	bool copied; /* IBV_SEND_INLINE */
};

/* WRITE, WRITE_WITH_IMM or SEND of one range. In DQPLB only WRITE_WITH_IMM;
 * SEND only in SPRAY and over a single QP. */
struct mpib_vsend {
	uint64_t wr_id;
	uint64_t local, remote;
	uint64_t length; /* 0 is allowed */
	enum ibv_wr_opcode opcode;
	unsigned flags; /* IBV_SEND_SIGNALED */
	uint32_t imm; /* host order; carried only by a single QP and on ports */
	unsigned devices; /* which keys are set: a bit per device */
	struct mpib_vqp_key key[MPIB_VQP_DEVICES];
	/* Precedes the payload at the receiver: the head is written to remote,
	 * the payload behind the head. Not in SPLIT. */
	struct mpib_vqp_head head;
	/* Ports: no IMM for this message, the next message's covers both. */
	bool more;
	uint16_t on; /* ports: which of the notice ports sends the IMM */
	struct mpib_vqp_control control; /* ports: written with the IMM */
};

struct mpib_vrecv {
	uint64_t wr_id;
	uint64_t addr; /* if length > 0: where a SEND goes, on QP 0 */
	uint32_t length;
	uint32_t lkey;
};

struct mpib_vwc {
	uint64_t wr_id;
	/* Status of the first fragment that failed, else IBV_WC_SUCCESS. */
	enum ibv_wc_status status;
	int error; /* -errno of a post that failed, else 0 */
	bool recv;
	uint32_t qp_num; /* attr.number */
	uint32_t imm; /* host order, valid if has_imm */
	bool has_imm;
	/* Receive: the message's length; 0 in SPRAY, because notices are
	 * empty. */
	uint64_t bytes;
};

/* Counters over all virtual QPs of a virtual CQ. */
struct mpib_vcq_counts {
	uint64_t cqes, doorbells, wrs, unknown, late, replayed;
};

/*
 * Make a virtual CQ over n CQs, indexed by device; n is 0 where all virtual QPs
 * use ports. Several virtual CQs of one thread may share a pool.
 *   -EINVAL  n is more than MPIB_VQP_DEVICES
 *   -ENOMEM
 */
int mpib_vcq_create(struct ibv_cq *const *cqs, unsigned n,
		    struct mpib_wr_pool *pool, struct mpib_vcq **vcq);
/* Destroy the virtual QPs of vcq first. */
void mpib_vcq_destroy(struct mpib_vcq *vcq);

/*
 * Poll the physical CQs, within a budget of completions, let the virtual QPs
 * post what waited, and return at most n virtual completions. A completion of
 * an unknown QP is counted and dropped.
 *   -EIO  a physical CQ could not be polled, and nothing else is to be told
 */
int mpib_vcq_poll(struct mpib_vcq *vcq, int n, struct mpib_vwc *wc);
/* Like mpib_vcq_poll(), without polling the physical CQs; no errors. */
int mpib_vcq_take(struct mpib_vcq *vcq, int n, struct mpib_vwc *wc);
/* False: the latest take found that every posted send had been reported. */
bool mpib_vcq_busy(const struct mpib_vcq *vcq);
void mpib_vcq_read_counts(const struct mpib_vcq *vcq,
			  struct mpib_vcq_counts *n);

/*
 * Make a virtual QP. On failure nothing is left behind.
 *   -EINVAL  the attributes do not fit together
 *   -EEXIST  one of the physical QPs already belongs to a virtual QP
 *   -ENOMEM
 */
int mpib_vqp_create(struct mpib_vcq *vcq, const struct mpib_vqp_attr *attr,
		    struct mpib_vqp **vqp);
/*
 *   -EBUSY  physical WRs are in flight: move the physical QPs to ERR and poll
 *           until their WRs are flushed
 */
int mpib_vqp_destroy(struct mpib_vqp *vqp);

/* Post the physical receives that the mode needs. The physical QPs are in INIT
 * or later. Returns 0, or what ibv_post_recv() failed with: call again. */
int mpib_vqp_prepare(struct mpib_vqp *vqp);

/*
 * Post a virtual WR. Its memory belongs to the virtual QP until the completion,
 * *wr stays the caller's.
 *   -EINVAL    an opcode that the mode cannot carry (DQPLB has no WRITE without
 *              IMM, only SPRAY and a single QP have SENDs), flags but
 *              IBV_SEND_SIGNALED, an unsignalled WRITE_WITH_IMM, a head in
 *              SPLIT, a member for ports where there are none, or no key for a
 *              device
 *   -EMSGSIZE  a SEND, a part of SPLIT, what a single QP passes, or a head with
 *              the first fragment is longer than one WR may be
 *   -EAGAIN    depth WRs are outstanding
 *   -ENETDOWN  no QP is left, or the virtual QP has ended
 * Later failures are reported by the completion.
 */
int mpib_vqp_post_send(struct mpib_vqp *vqp, const struct mpib_vsend *wr);
/*
 * Post a virtual receive: of a SEND where length is not 0, else of the next
 * whole message; of the next WR that wants a receive on a single QP. Whole
 * messages that come before their receive wait for it, as many as depth; then
 * those that follow wait at the sender.
 *   -EINVAL    of a SEND, where the mode has none, or the virtual QP has ports
 *   -EAGAIN    depth receives are outstanding
 *   -ENETDOWN  no QP is left, or the virtual QP has ended
 * and what ibv_post_recv() fails with for a receive that passes through.
 */
int mpib_vqp_post_recv(struct mpib_vqp *vqp, const struct mpib_vrecv *wr);

/*
 * Post the fragments that failed QPs had in flight again, in the WRs that they
 * had, on the QPs that are left. Call this only when none of these fragments
 * can arrive any more: the failed QPs are in ERR at both ends. A fragment that
 * did arrive is posted unchanged: the receiver drops its number, but its bytes
 * are written again, in SPLIT and DQPLB even if the message has completed there.
 *   -EAGAIN    the QPs that are left are full: poll and call again
 *   -ENETDOWN  no QP is left, or the virtual QP has ended
 */
int mpib_vqp_replay(struct mpib_vqp *vqp);

/* Return how many physical QPs still accept work; 0 if the virtual QP has
 * ended. */
unsigned mpib_vqp_healthy(const struct mpib_vqp *vqp);
/* Return how many virtual sends may be posted now. */
uint32_t mpib_vqp_send_room(const struct mpib_vqp *vqp);
/* Return how many WRs a message of length becomes in SPRAY and DQPLB, without
 * the one that carries the notice. */
uint32_t mpib_vqp_wrs(const struct mpib_vqp *vqp, uint64_t length);
/* Return how many numbers came late or twice and were dropped. */
uint64_t mpib_vqp_late(const struct mpib_vqp *vqp);

/*
 * The calls from here on are for virtual QPs with ports. The oldest WR of the
 * port completed. If it failed (!ok), only the WR is freed: its virtual WR
 * never completes, and mpib_vqp_reset() drops it.
 */
void mpib_vqp_port_sent(struct mpib_vqp *vqp, unsigned port, bool ok);
/*
 * DQPLB's receiver: a numbered fragment came. 1: taken; 0: the fragment is late
 * or a duplicate, and is counted and dropped.
 *   -EPROTO  a correct peer does not send it, so fragments may be lost: the
 *            caller must end the connection
 */
int mpib_vqp_port_fragment(struct mpib_vqp *vqp, uint32_t imm, uint32_t bytes);
/* An IMM arrived that must wait for its message. False: more IMMs wait than a
 * correct peer can have in flight. */
bool mpib_vqp_port_imm(struct mpib_vqp *vqp, uint32_t imm, uint32_t bytes);
/* Take the next IMM whose message is complete; false: none. */
bool mpib_vqp_port_take(struct mpib_vqp *vqp, uint32_t *imm, uint32_t *bytes);
/* Drop all virtual WRs and start the numbers at 0 again. The caller guarantees
 * that nothing is in flight at either end. */
void mpib_vqp_reset(struct mpib_vqp *vqp);

#ifdef __cplusplus
}
#endif

#endif
