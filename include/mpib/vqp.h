/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libmpib-vqp, a virtual QP: one queue pair made of many physical RC QPs,
 * perhaps on several devices, over plain libibverbs. A virtual WR becomes
 * fragments on the physical QPs, and the completions of the fragments become
 * one virtual completion. Three modes:
 *
 *   SPLIT  one part per device, each on one QP of the device and with an IMM,
 *          once all earlier WRITEs without IMM are complete
 *   SPRAY  WRITEs of at most `frag` bytes over all QPs; when all are complete,
 *          an empty WRITE with IMM (the notice) on the notify QP of each
 *          device that carried some of them
 *   DQPLB  WRITEs with IMM of at most `frag` bytes over all QPs, each numbered
 *
 * In each direction virtual completions come in the order posted. An empty
 * virtual receive completes with the next whole message. The physical receives
 * that a mode needs are posted by mpib_vqp_prepare(), before the QPs are in
 * RTR, and replenished as they complete.
 *
 * If a fragment is lost, the receiver waits for the fragment's number, and the
 * virtual QP fails unless the fragment is replayed. The receiver fails its own
 * virtual QP as soon as one of its QPs fails, because it cannot know what was
 * in flight on that QP. In SPRAY only notices are numbered. So a lost fragment
 * costs only its own message, and the receiver does not wait for a number. A
 * number that a correct peer cannot have sent fails the receiver's virtual QP
 * with IBV_WC_GENERAL_ERR, -EPROTO.
 *
 * Ownership: the caller makes, connects and destroys the physical QPs and CQs.
 * They must outlive the virtual QPs and CQs made from them. Both ends need the
 * same set-up. Each CQ must hold 2 * `cap` completions for each of its QPs. If
 * a QP fails, it accepts no more work, but the other QPs continue. With a
 * single QP every virtual WR passes through unchanged. In SPRAY a SEND passes
 * through on QP 0, after all earlier WRs are complete.
 *
 * Threads: one thread makes all calls on a virtual CQ, its virtual QPs and its
 * WR pool. Different virtual CQs may have different threads.
 *
 * Progress is made only inside calls: a WR for which the QPs had no room is
 * posted by a later mpib_vcq_poll() at the same end. No call blocks or makes a
 * system call besides those of verbs. Only the create calls allocate.
 *
 * Errors: calls return 0 or -errno. Some return a count, as their comments say.
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
 * The caller's interface to physical QPs to which it also posts other WRs. A
 * port is the virtual QP's number for one of these QPs: ports 0..n-1 carry
 * data, the next ports carry notices. Two ports may lead to the same QP. With
 * ports, the IMM is the caller's own, sent on a port that the caller names.
 * SPRAY sends the IMM when all WRs posted earlier are complete. DQPLB sends the
 * IMM at once; at the receiver the n-th IMM waits for the end of the n-th
 * numbered message. The caller polls its CQs itself, reports completions,
 * detects failures, and drops posted WRs by mpib_vqp_reset().
 */
struct mpib_vqp_ports {
	/* Return how many WRs the port accepts now. */
	uint32_t (*room)(void *ctx, unsigned port);
	/* Post `w`, a part of the virtual WR `wr_id`, after the port's earlier
	 * WRs. The callee may overwrite w->wr.wr_id. The virtual QP owns `w`
	 * and frees it in mpib_vqp_port_sent() or mpib_vqp_reset(). */
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
	unsigned n; /* number of data QPs, 1..MPIB_VQP_QPS */
	const struct mpib_vqp_qp *qp; /* copied */
	/* Notify QPs: in SPRAY with more than one QP, one per device used; else
	 * NULL. */
	const struct mpib_vqp_qp *notify;
	unsigned notifies;
	/* Ports, all on device 0, instead of `qp` and `notify`. Not in
	 * SPLIT. */
	const struct mpib_vqp_ports *ports; /* copied */
	/* WRs in flight per QP, 1 or more; the QP's SQ and RQ must hold that
	 * many. At most 2048 over all QPs together, so that the receiver can
	 * sort all numbers in flight. */
	uint32_t cap;
	/* Bytes that each device accepts as one WR: max_msg_sz of its port, 128
	 * or more; 0: MPIB_VQP_FRAG_MAX. */
	uint32_t message;
	/* Bytes of a fragment: a multiple of 128, at most `message`; 0: the
	 * smaller of MPIB_VQP_FRAG and `message`. */
	uint32_t frag;
	/* Virtual WRs per direction, a power of two; 0: 256. At most 65536. At
	 * most 8192 in SPLIT and SPRAY over more than one QP, because they
	 * number messages. */
	uint32_t depth;
	/* SPLIT: each device's share in parts of 1024; all 0: equal shares. */
	uint32_t weight[MPIB_VQP_DEVICES];
	uint32_t number; /* qp_num of the virtual completions */
	/* Keep the fragments that a failed QP had in flight for
	 * mpib_vqp_replay() instead of failing their virtual WRs. */
	bool replay;
};

struct mpib_vqp_key {
	uint32_t lkey, rkey;
};

/* Bytes that precede the payload. The message's first WR gathers both, so the
 * QPs need max_send_sge 2. */
struct mpib_vqp_head {
	uint64_t local;
	uint32_t length; /* 0: none */
	uint32_t lkey[MPIB_VQP_DEVICES];
};

/* Ports: data that the WR with the caller's IMM writes; length 0: none. */
struct mpib_vqp_control {
	uint64_t local, remote;
	uint32_t length, lkey, rkey;
	bool copied; /* IBV_SEND_INLINE */
};

/* WRITE, WRITE_WITH_IMM or SEND of one range. A virtual QP with a single QP
 * allows all three. With several QPs SPRAY allows all three, SPLIT all but
 * SEND, and DQPLB only WRITE_WITH_IMM. */
struct mpib_vsend {
	uint64_t wr_id;
	uint64_t local, remote;
	uint64_t length; /* 0 is allowed */
	enum ibv_wr_opcode opcode;
	unsigned flags; /* IBV_SEND_SIGNALED */
	uint32_t imm; /* host order; carried only by a single QP and on ports */
	unsigned devices; /* mask of the devices whose key is set */
	struct mpib_vqp_key key[MPIB_VQP_DEVICES];
	/* Precedes the payload at the receiver: the head is written to
	 * `remote`, the payload behind the head. Not in SPLIT. */
	struct mpib_vqp_head head;
	/* Ports: send no IMM for this message; the next message's IMM covers
	 * both. */
	bool more;
	uint16_t on; /* ports: index of the notice port that sends the IMM */
	struct mpib_vqp_control control; /* ports: written with the IMM */
};

struct mpib_vrecv {
	uint64_t wr_id;
	uint64_t addr; /* if `length` > 0: buffer for a SEND, on QP 0 */
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
	uint32_t imm; /* host order, valid if `has_imm` */
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
 * Make a virtual CQ over `n` CQs, indexed by device. `n` is 0 if all virtual
 * QPs use ports. Several virtual CQs of one thread may share a pool.
 *   -EINVAL  `n` is more than MPIB_VQP_DEVICES
 *   -ENOMEM
 */
int mpib_vcq_create(struct ibv_cq *const *cqs, unsigned n,
		    struct mpib_wr_pool *pool, struct mpib_vcq **vcq);
/* The virtual QPs of `vcq` must have been destroyed. */
void mpib_vcq_destroy(struct mpib_vcq *vcq);

/*
 * Poll the physical CQs for a limited number of completions, post waiting WRs
 * of the virtual QPs, and return at most `n` virtual completions. A completion
 * of an unknown QP is counted and dropped.
 *   -EIO  a physical CQ could not be polled, and no virtual completion is ready
 */
int mpib_vcq_poll(struct mpib_vcq *vcq, int n, struct mpib_vwc *wc);
/* Like mpib_vcq_poll(), without polling the physical CQs; no errors. */
int mpib_vcq_take(struct mpib_vcq *vcq, int n, struct mpib_vwc *wc);
/* Return whether the latest mpib_vcq_take() left posted sends that are not
 * reported yet. */
bool mpib_vcq_busy(const struct mpib_vcq *vcq);
void mpib_vcq_read_counts(const struct mpib_vcq *vcq,
			  struct mpib_vcq_counts *n);

/*
 * Make a virtual QP. On failure nothing is left behind.
 *   -EINVAL  the attributes contradict each other
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

/* Post the physical receives that the mode needs. The physical QPs must be in
 * INIT or later. Returns 0 or the error of ibv_post_recv(); after an error call
 * again. */
int mpib_vqp_prepare(struct mpib_vqp *vqp);

/*
 * Post a virtual WR. Its memory belongs to the virtual QP until the completion.
 * The caller may reuse *wr at once.
 *   -EINVAL    an opcode that the mode cannot carry (DQPLB has no WRITE without
 *              IMM, only SPRAY and a single QP have SENDs), flags other than
 *              IBV_SEND_SIGNALED, an unsignalled WRITE_WITH_IMM, a head in
 *              SPLIT, a field for ports on a virtual QP without ports, or no
 *              key for a device
 *   -EMSGSIZE  too long for one WR: a SEND, a part in SPLIT, any WR over a
 *              single QP, or a head with the first fragment
 *   -EAGAIN    `depth` WRs are outstanding
 *   -ENETDOWN  no QP is left, or the virtual QP has ended
 * Later failures are reported by the completion.
 */
int mpib_vqp_post_send(struct mpib_vqp *vqp, const struct mpib_vsend *wr);
/*
 * Post a virtual receive. With a length other than 0 it receives a SEND, else
 * the next whole message. On a single QP it receives the next WR that needs a
 * receive. Up to `depth` whole messages may wait for their receives; further
 * messages wait at the sender.
 *   -EINVAL    a receive for a SEND in a mode without SENDs, or the virtual QP
 *              has ports
 *   -EAGAIN    `depth` receives are outstanding
 *   -ENETDOWN  no QP is left, or the virtual QP has ended
 * and the errors of ibv_post_recv() for a receive that passes through.
 */
int mpib_vqp_post_recv(struct mpib_vqp *vqp, const struct mpib_vrecv *wr);

/*
 * Post again the fragments that failed QPs had in flight, as the same WRs, on
 * the healthy QPs. Call this only when the failed QPs are in ERR at both ends,
 * so that none of these fragments can still arrive. Fragments that did arrive
 * are posted again, too. The receiver drops their numbers, but their bytes are
 * written again: in SPLIT and DQPLB even if the message has completed there.
 *   -EAGAIN    the healthy QPs are full: poll and call again
 *   -ENETDOWN  no QP is left, or the virtual QP has ended
 */
int mpib_vqp_replay(struct mpib_vqp *vqp);

/* Return the number of physical QPs that accept work; 0 if the virtual QP has
 * ended. */
unsigned mpib_vqp_healthy(const struct mpib_vqp *vqp);
/* Return how many virtual sends may be posted now. */
uint32_t mpib_vqp_send_room(const struct mpib_vqp *vqp);
/* Return the number of WRs for a message of `length` bytes in SPRAY and DQPLB,
 * without the WR that carries the notice. */
uint32_t mpib_vqp_wrs(const struct mpib_vqp *vqp, uint64_t length);
/* Return the number of fragments that came late or twice and were dropped. */
uint64_t mpib_vqp_late(const struct mpib_vqp *vqp);

/*
 * All functions below are for virtual QPs with ports. Report that the oldest WR
 * of the port completed. If it failed (`ok` is false), only the WR is freed:
 * its virtual WR never completes, and mpib_vqp_reset() drops it.
 */
void mpib_vqp_port_sent(struct mpib_vqp *vqp, unsigned port, bool ok);
/*
 * DQPLB's receiver: report that a numbered fragment arrived. 1: accepted; 0:
 * late or a duplicate, counted and dropped.
 *   -EPROTO  a correct peer does not send this number, so fragments may be
 *            lost: the caller must end the connection
 */
int mpib_vqp_port_fragment(struct mpib_vqp *vqp, uint32_t imm, uint32_t bytes);
/* Report an IMM, which waits until its message is complete. False: more IMMs
 * wait than a correct peer can have in flight. */
bool mpib_vqp_port_imm(struct mpib_vqp *vqp, uint32_t imm, uint32_t bytes);
/* Return the next IMM whose message is complete. False: none. */
bool mpib_vqp_port_take(struct mpib_vqp *vqp, uint32_t *imm, uint32_t *bytes);
/* Drop all virtual WRs and start the numbers at 0 again. The caller guarantees
 * that nothing is in flight at either end. */
void mpib_vqp_reset(struct mpib_vqp *vqp);

#ifdef __cplusplus
}
#endif

#endif
