/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libmpib-vqp, a virtual QP: one queue pair made of many physical RC QPs on one
 * or two devices. The library uses only libibverbs. A virtual WR becomes
 * fragments on the physical QPs, and the completions of the fragments become
 * one virtual completion. There are three modes:
 *
 *   SPLIT  A message is cut into one part per device. Each part is one WR on
 *          one QP of the device. If the message has an IMM, each part carries
 *          an IMM, and is posted when all earlier WRITEs without IMM are
 *          complete.
 *
 *   SPRAY  A message becomes WRITEs of at most `frag` bytes over all QPs. When
 *          these WRITEs are complete, each device that carried any of them
 *          sends a notice on its notify QP. A notice is an empty
 *          WRITE_WITH_IMM.
 *
 *   DQPLB  A message becomes WRITEs of at most `frag` bytes over all QPs. Each
 *          WRITE has an IMM with the number of the fragment.
 *
 * If the virtual QP has a single QP, every virtual WR is posted unchanged on
 * this QP, in any mode. In SPRAY, a SEND is posted unchanged on QP 0, after all
 * earlier WRs are complete.
 *
 * In each direction virtual WRs complete in the order posted. A virtual receive
 * of length 0 completes when the next whole message has arrived. Call
 * mpib_vqp_prepare() before the QPs are in RTR: it posts the physical receives
 * that the mode needs. When a physical receive completes, the virtual QP posts
 * another.
 *
 * Failures: a failed QP accepts no more work, and the other QPs continue. If a
 * fragment with a number is lost, the receiver cannot complete later messages.
 * So the virtual QP fails, unless the sender replays the fragment (attribute
 * `replay`). Without `replay`, the receiver's virtual QP fails as soon as one
 * of its QPs with posted receives fails, because the receiver cannot know which
 * numbers were in flight on this QP. In SPRAY only notices have numbers, so the
 * loss of a WRITE with payload fails only its own message. If the receiver gets
 * a number that a correct peer cannot have sent, its virtual QP fails with the
 * status IBV_WC_GENERAL_ERR and the error -EPROTO.
 *
 * Ownership: the caller makes, connects and destroys the physical QPs and CQs.
 * The caller must destroy the virtual QPs and CQs before the physical ones.
 * Both ends must use the same attributes. Each CQ must have room for 2 * `cap`
 * completions for each of its QPs.
 *
 * Threads: one thread makes all calls on a virtual CQ, its virtual QPs and its
 * WR pool. Different virtual CQs may have different threads.
 *
 * The library makes progress only inside calls. If the QPs have no room for a
 * WR, a later mpib_vcq_poll() at the same end posts the WR. No call blocks. The
 * library makes no system calls, but the verbs that it calls may make some.
 * Only the create functions and mpib_wr_pool_init() allocate memory.
 *
 * Errors: functions of type int return -errno on failure. On success they
 * return 0, or the value that their comment describes.
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

#define MPIB_VQP_DEVICES 2 /* maximum number of devices */
#define MPIB_VQP_QPS 1024 /* maximum number of data QPs */
#define MPIB_VQP_FRAG (512u << 10) /* default fragment size in bytes */
#define MPIB_VQP_FRAG_MAX (1u << 30) /* maximum fragment size in bytes */
/* Bit of the IMM in DQPLB: the fragment is the last one of its message. */
#define MPIB_VQP_NOTIFY (1u << 31)

enum mpib_vqp_mode {
	MPIB_VQP_SPLIT,
	MPIB_VQP_SPRAY,
	MPIB_VQP_DQPLB,
};

struct mpib_vcq;
struct mpib_vqp;

/*
 * Physical QPs that the virtual QP shares with its caller: both post WRs to
 * them. These QPs are called ports, and the virtual QP uses them only through
 * callbacks. Ports 0 to `n` - 1 carry data, and the following `notifies` ports
 * carry notices (`n` and `notifies` of struct mpib_vqp_attr). Two ports may be
 * the same QP.
 *
 * With ports, the caller chooses the IMM of each message and the port that
 * sends the IMM. SPRAY sends the IMM when all WRs posted earlier are complete.
 * DQPLB sends the IMM at once, without a number, and the receiver holds back
 * the n-th IMM until the n-th message is complete.
 *
 * The caller polls the CQs, detects failures, and reports completions by
 * mpib_vqp_port_sent(), mpib_vqp_port_fragment() and mpib_vqp_port_imm(). After
 * a failure the caller drops posted WRs by mpib_vqp_reset().
 */
struct mpib_vqp_ports {
	/* Return whether the port can accept one more WR. */
	bool (*room)(void *ctx, unsigned port);
	/* Post `w` after the port's earlier WRs. `w` is a part of the virtual
	 * WR with the id `wr_id`. The callback may overwrite w->wr.wr_id. The
	 * virtual QP owns `w` and returns it to the pool in
	 * mpib_vqp_port_sent() or mpib_vqp_reset(). */
	void (*post)(void *ctx, unsigned port, struct mpib_wr *w,
		     uint64_t wr_id);
	void *ctx; /* first argument of both callbacks */
};

/* One physical QP of a virtual QP. */
struct mpib_vqp_qp {
	struct ibv_qp *qp;
	/* index of the device in `cqs` of mpib_vcq_create() and in `key` of
	 * struct mpib_vsend */
	uint8_t device;
};

struct mpib_vqp_attr {
	enum mpib_vqp_mode mode;
	unsigned n; /* number of data QPs or data ports, 1..MPIB_VQP_QPS */
	const struct mpib_vqp_qp *qp; /* array of `n` data QPs; copied */
	/* Array of `notifies` notify QPs; copied. In SPRAY with more than one
	 * QP: one notify QP for each device in `qp`. Otherwise NULL. */
	const struct mpib_vqp_qp *notify;
	unsigned notifies; /* number of notify QPs or notice ports */
	/* If not NULL: the virtual QP uses these ports instead of `qp` and
	 * `notify`. All ports are on device 0. Copied. Not allowed in SPLIT. */
	const struct mpib_vqp_ports *ports;
	/* Maximum number of WRs in flight per QP, at least 1. The SQ and the RQ
	 * of each QP must have room for this number of WRs. `n` * `cap` must
	 * not exceed 2048, so that the receiver can sort all numbers in
	 * flight. */
	uint32_t cap;
	/* Maximum bytes of a physical WR, at least 128. Set it to the smallest
	 * max_msg_sz of the devices' ports. 0 means MPIB_VQP_FRAG_MAX. */
	uint32_t message;
	/* Bytes of a fragment: a multiple of 128, at most `message`. 0 means
	 * the smaller of MPIB_VQP_FRAG and `message`. */
	uint32_t frag;
	/* Maximum number of outstanding virtual WRs per direction: a power of
	 * two, at most 65536. 0 means 256. SPLIT and SPRAY with more than one
	 * QP allow at most 8192, because they number messages. */
	uint32_t depth;
	/* SPLIT: each device's share of a message, in 1024ths. The sum must be
	 * 1024. All 0: equal shares. */
	uint32_t weight[MPIB_VQP_DEVICES];
	uint32_t number; /* `qp_num` of the virtual completions */
	/* True: fragments that were in flight on a failed QP wait for
	 * mpib_vqp_replay(). False: their virtual WRs fail. */
	bool replay;
};

/* Memory keys of a virtual WR on one device: local and remote. */
struct mpib_vqp_key {
	uint32_t lkey, rkey;
};

/* Local bytes that the message's first WR writes in front of the payload. This
 * WR has two SGEs, so the QPs need a max_send_sge of 2. */
struct mpib_vqp_head {
	uint64_t local; /* address */
	uint32_t length; /* bytes; 0: no head */
	uint32_t lkey[MPIB_VQP_DEVICES]; /* for each device */
};

/* Only with ports: memory of the WRITE that carries the caller's IMM. */
struct mpib_vqp_control {
	uint64_t local, remote; /* addresses */
	uint32_t length, lkey, rkey; /* `length` in bytes; 0: none */
	bool copied; /* post with IBV_SEND_INLINE */
};

/* A virtual send WR: WRITE, WRITE_WITH_IMM or SEND of one range. A virtual QP
 * with a single QP allows all three in any mode. With several QPs, SPRAY allows
 * all three, SPLIT allows no SEND, and DQPLB allows only WRITE_WITH_IMM. */
struct mpib_vsend {
	uint64_t wr_id; /* chosen by the caller, for the completion */
	uint64_t local, remote; /* addresses */
	uint64_t length; /* bytes; 0 is allowed */
	enum ibv_wr_opcode opcode;
	unsigned flags; /* 0 or IBV_SEND_SIGNALED */
	/* Host order. Sent only by a virtual QP with a single QP or with
	 * ports. */
	uint32_t imm;
	unsigned devices; /* mask of the devices whose `key` is set */
	struct mpib_vqp_key key[MPIB_VQP_DEVICES];
	/* The head is written at `remote`, and the payload follows the head.
	 * Not allowed in SPLIT. */
	struct mpib_vqp_head head;
	/* Only with ports: send no IMM for this message, because the next
	 * message's IMM covers both. */
	bool more;
	/* Only with ports: the IMM is sent on port `n` + `on`. `n` is a field
	 * of struct mpib_vqp_attr. */
	uint16_t on;
	struct mpib_vqp_control control; /* only with ports */
};

/* A virtual receive WR. */
struct mpib_vrecv {
	uint64_t wr_id; /* chosen by the caller, for the completion */
	uint64_t addr; /* buffer for a SEND, if `length` is not 0 */
	uint32_t length; /* bytes; 0: receive a whole message */
	uint32_t lkey; /* for the device of QP 0, which receives SENDs */
};

/* A virtual completion. */
struct mpib_vwc {
	uint64_t wr_id;
	/* Status of the first fragment that failed, else IBV_WC_SUCCESS. */
	enum ibv_wc_status status;
	/* -errno if a post failed or the virtual QP has ended, else 0 */
	int error;
	bool recv; /* true: a virtual receive; false: a virtual send */
	uint32_t qp_num; /* `number` of struct mpib_vqp_attr */
	uint32_t imm; /* host order, valid if `has_imm` */
	bool has_imm;
	/* Receives: bytes of the message; 0 in SPRAY, because notices are
	 * empty. */
	uint64_t bytes;
};

/*
 * Counters over all virtual QPs of a virtual CQ.
 *
 *   cqes       completions polled from physical CQs
 *   doorbells  chains of WRs posted to physical QPs
 *   wrs        send WRs posted to physical QPs or ports
 *   unknown    completions that belong to no outstanding WR
 *   late       fragments and notices dropped, see mpib_vqp_late()
 *   replayed   WRs posted by mpib_vqp_replay()
 */
struct mpib_vcq_counts {
	uint64_t cqes, doorbells, wrs, unknown, late, replayed;
};

/*
 * Make a virtual CQ over `n` CQs. cqs[i] is the CQ of device i. `n` is 0 if all
 * virtual QPs use ports. Several virtual CQs of one thread may share a pool,
 * which must outlive them.
 *
 *   -EINVAL  `n` is more than MPIB_VQP_DEVICES
 *   -ENOMEM  no memory
 */
int mpib_vcq_create(struct ibv_cq *const *cqs, unsigned n,
		    struct mpib_wr_pool *pool, struct mpib_vcq **vcq);
/* Destroy a virtual CQ. Destroy its virtual QPs first. */
void mpib_vcq_destroy(struct mpib_vcq *vcq);

/*
 * Poll the physical CQs for a limited number of completions, post waiting WRs
 * of the virtual QPs, and write at most `n` virtual completions to wc[]. Return
 * the number of virtual completions. A physical completion of an unknown QP is
 * counted and dropped.
 *
 *   -EIO  a physical CQ could not be polled, and no virtual completion is ready
 */
int mpib_vcq_poll(struct mpib_vcq *vcq, int n, struct mpib_vwc *wc);
/* Like mpib_vcq_poll(), but do not poll the physical CQs. Never fails. */
int mpib_vcq_take(struct mpib_vcq *vcq, int n, struct mpib_vwc *wc);
/* Return whether virtual sends are outstanding. After the last virtual send has
 * completed, the result is still true until the next call of mpib_vcq_poll() or
 * mpib_vcq_take(). */
bool mpib_vcq_busy(const struct mpib_vcq *vcq);
/* Copy the counters to *n. */
void mpib_vcq_read_counts(const struct mpib_vcq *vcq,
			  struct mpib_vcq_counts *n);

/*
 * Make a virtual QP. On failure the call changes nothing.
 *
 *   -EINVAL  an attribute is out of range, or attributes contradict each other
 *   -EEXIST  one of the physical QPs already belongs to a virtual QP
 *   -ENOMEM  no memory
 */
int mpib_vqp_create(struct mpib_vcq *vcq, const struct mpib_vqp_attr *attr,
		    struct mpib_vqp **vqp);
/*
 * Destroy a virtual QP. The caller still owns the physical QPs.
 *
 *   -EBUSY  physical WRs are in flight: move the physical QPs to ERR and poll
 *           until their WRs are flushed
 */
int mpib_vqp_destroy(struct mpib_vqp *vqp);

/* Post the physical receives that the mode needs. The physical QPs must be in
 * INIT or a later state. Return 0, or -errno of ibv_post_recv(). After an
 * error, call this function again. */
int mpib_vqp_prepare(struct mpib_vqp *vqp);

/*
 * Post a virtual send WR. The memory of the message belongs to the virtual QP
 * until the WR completes. The caller may reuse *wr after the call.
 *
 *   -EINVAL    one of:
 *              - the mode cannot send this opcode (DQPLB cannot send a WRITE
 *                without IMM; only SPRAY and a single QP can send a SEND)
 *              - `flags` has a flag other than IBV_SEND_SIGNALED
 *              - a WRITE_WITH_IMM is not signalled
 *              - a WR in SPLIT has a head
 *              - a field that is only for ports is set, without ports
 *              - a device has no key
 *   -EMSGSIZE  one of these is longer than `message` of struct mpib_vqp_attr:
 *              a SEND, a part in SPLIT, any WR of a single QP, or a head and
 *              the first fragment together
 *   -EAGAIN    `depth` WRs are outstanding
 *   -ENETDOWN  all QPs have failed, or the virtual QP has ended
 *
 * The WR's completion reports failures that occur after the call.
 */
int mpib_vqp_post_send(struct mpib_vqp *vqp, const struct mpib_vsend *wr);
/*
 * Post a virtual receive. If `length` is not 0, the receive completes with the
 * next SEND; otherwise it completes with the next whole message. On a single QP
 * a receive completes with the next SEND or WRITE_WITH_IMM. If `depth` whole
 * messages have arrived and wait for receives, further messages wait at the
 * sender.
 *
 *   -EINVAL    the receive is for a SEND, but the mode has no SENDs; or the
 *              virtual QP has ports
 *   -EAGAIN    `depth` receives are outstanding
 *   -ENETDOWN  all QPs have failed, or the virtual QP has ended
 *
 * If the receive is for a SEND, or the virtual QP has a single QP, the call may
 * also return -errno of ibv_post_recv().
 */
int mpib_vqp_post_recv(struct mpib_vqp *vqp, const struct mpib_vrecv *wr);

/*
 * Post again, on the healthy QPs, all fragments that were in flight on failed
 * QPs. Call this only when the failed QPs are in ERR at both ends, so that none
 * of the original fragments can still arrive. If a fragment had arrived before
 * its QP failed, the receiver drops the repeated number, but the bytes are
 * written again. In SPLIT and DQPLB, the bytes may be written again after the
 * receiver has completed the message.
 *
 *   -EAGAIN    the healthy QPs are full: poll and call again
 *   -ENETDOWN  all QPs have failed, or the virtual QP has ended
 */
int mpib_vqp_replay(struct mpib_vqp *vqp);

/* Return the number of data QPs that accept work; 0 if the virtual QP has
 * ended. */
unsigned mpib_vqp_healthy(const struct mpib_vqp *vqp);
/* Return how many virtual sends may be posted before `depth` is reached. */
uint32_t mpib_vqp_send_room(const struct mpib_vqp *vqp);
/* Return the number of physical WRs for a message of `length` bytes in SPRAY
 * and DQPLB. WRs that carry notices or the caller's IMM are not counted. */
uint32_t mpib_vqp_wrs(const struct mpib_vqp *vqp, uint64_t length);
/* Return how many fragments and notices arrived late or twice. The receiver has
 * dropped their numbers. */
uint64_t mpib_vqp_late(const struct mpib_vqp *vqp);

/* The functions below are only for virtual QPs with ports. */
/*
 * Report that the oldest WR of the port completed. If the WR failed (`ok` is
 * false), this function only returns it to the pool. The virtual WR never
 * completes, and mpib_vqp_reset() drops it.
 */
void mpib_vqp_port_sent(struct mpib_vqp *vqp, unsigned port, bool ok);
/*
 * In DQPLB: report that a fragment of `bytes` bytes arrived with the IMM `imm`.
 * Return 1 if the fragment is accepted. If the fragment is late or a duplicate,
 * count and drop it, and return 0.
 *
 *   -EPROTO  a correct peer cannot have sent this number: the caller must end
 *            the connection, because fragments may be lost
 */
int mpib_vqp_port_fragment(struct mpib_vqp *vqp, uint32_t imm, uint32_t bytes);
/* In DQPLB: report that an IMM of the peer's caller arrived. `bytes` is the
 * `byte_len` of its completion. The IMM waits until its message is complete.
 * Return false if more IMMs wait than a correct peer can have in flight. */
bool mpib_vqp_port_imm(struct mpib_vqp *vqp, uint32_t imm, uint32_t bytes);
/* If the message of the oldest waiting IMM is complete, take this IMM: set *imm
 * and *bytes, and return true. Otherwise return false. */
bool mpib_vqp_port_take(struct mpib_vqp *vqp, uint32_t *imm, uint32_t *bytes);
/* Drop all virtual WRs and restart the numbers at 0. Call this only when
 * nothing is in flight at either end. */
void mpib_vqp_reset(struct mpib_vqp *vqp);

#ifdef __cplusplus
}
#endif

#endif
