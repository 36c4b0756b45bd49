/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulated RDMA device with one port, behind struct mpib_verbs. The device
 * has RC queue pairs, which run in virtual time. Every behaviour that the verbs
 * specification allows occurs in some seed. Messages of one QP arrive in order,
 * messages of different QPs in any order. A poll can return a completion long
 * after the message was acknowledged. The device reads the buffer of a send as
 * late as a real device is allowed to. A part of a failed message can already
 * be in memory. The sender cannot distinguish a lost acknowledgement from a
 * lost message.
 */
#ifndef SIM_HCA_H
#define SIM_HCA_H

#include <infiniband/verbs.h>
#include <sys/queue.h>

#include "sim_file.h"
#include "sim_world.h"

#define SIM_RAILS 2
#define SIM_SGE 8
#define SIM_INLINE 256
#define SIM_WR 32768
#define SIM_CQE (1 << 20)

struct sim_proc;
TAILQ_HEAD(sim_posted_list, sim_posted);

/* A device's current faults. Each fault can change at any time. */
struct sim_device {
	unsigned node, rail;
	bool there; /* the device exists, so a process can open it */
	bool down; /* the port is in state PORT_ERR */
	bool hole; /* the port is up, but no packet passes */
	/* the device acknowledges WRITEs and SENDs, but does not execute
	 * them */
	bool forgets;
	/* together with `forgets`: the device is lost when a QP is set to
	 * ERR */
	bool dies;
	/* until `lag_until`, messages take up to `lag` ns longer */
	uint64_t lag_until, lag;
	uint64_t delay; /* current extra delay of each message in ns */
	uint64_t rate; /* bytes per s; 0 means no limit */
	/* the device makes no progress before this time */
	uint64_t still_until;
	/* event that tells the contexts that the device was removed */
	struct sim_event tells;
	/* number of firmware calls until the device is removed; 0 means that no
	 * call removes the device */
	unsigned calls;
	/* ns between this removal and `tells` */
	uint64_t told_late;
	/* number of requests not executed because of `forgets` */
	uint64_t forgotten;
	/* the firmware answers no call before this time */
	uint64_t hangs_until;
	const struct sim_proc *given_up_by;
	/* Writes in flight to GPU memory. */
	struct sim_posted_list posted;
	struct sim_event places;
	LIST_HEAD(, sim_ctx) contexts;
};

struct sim_note {
	TAILQ_ENTRY(sim_note) link;
	struct ibv_async_event event;
};

struct sim_ctx {
	struct verbs_context vctx; /* must be first */
	struct ibv_device dev;
	struct sim_device *device;
	struct sim_proc *owner;
	LIST_ENTRY(sim_ctx) link;
	bool dead; /* the device is lost, or the process has ended */
	bool ended; /* the process of this context has ended */
	bool told; /* the process has been told that the device is lost */
	/* the process gave up the device, because its firmware did not
	 * answer */
	bool hung;
	struct sim_file *async;
	TAILQ_HEAD(, sim_note) notes;
	uint64_t turns; /* number of polls in which the device made progress */
	unsigned pds, cqs, srqs, qps, mrs, channels;
	LIST_HEAD(, sim_qp) all_qps;
	struct sim_mr **mr;
	uint32_t mr_room, mr_hint;
};

struct sim_pd {
	struct ibv_pd ibv;
	unsigned refs;
};

struct sim_mr {
	struct ibv_mr ibv;
	uint64_t iova;
	int access;
	/* the region is GPU memory, mapped at `map` */
	bool is_gpu;
	void *map;
	size_t map_len;
};

struct sim_channel {
	struct ibv_comp_channel ibv;
	struct sim_file *file;
	struct sim_cq *cq; /* the CQ that was created with this channel */
};

struct sim_cqe {
	struct ibv_wc wc;
	struct sim_qp *qp; /* NULL if the CQ was destroyed with its entries */
	/* earliest time at which a poll can return this completion */
	uint64_t at;
	/* For a send: a poll that returns this completion frees all entries of
	 * the send queue below `done`. */
	uint32_t done;
	bool sent, solicited;
};

struct sim_cq {
	struct ibv_cq ibv;
	struct sim_cqe *ring;
	uint32_t room, head, shown, made;
	bool armed, solicited_only, overrun, told;
	unsigned refs;
	struct sim_event show;
};

struct sim_rwqe {
	uint64_t id;
	int sges;
	struct ibv_sge *sge;
};

struct sim_rq {
	struct sim_rwqe *ring;
	/* `most_sge` entries for each receive; NULL until a receive has an
	 * SGE */
	struct ibv_sge *sge;
	uint32_t room, most_sge, head, tail;
};

struct sim_srq {
	struct ibv_srq ibv;
	struct sim_rq rq;
	uint32_t limit;
	unsigned refs;
};

struct sim_wqe {
	uint64_t id, raddr, arrive, acked;
	uint32_t rkey, imm, len;
	enum ibv_wr_opcode op;
	unsigned flags;
	int sges;
	struct ibv_sge sge[SIM_SGE];
	uint8_t *copied; /* inline data */
	enum ibv_wc_status status;
	bool torn; /* a part of the message was written to memory */
};

struct sim_qp {
	struct ibv_qp ibv;
	struct sim_ctx *ctx;
	LIST_ENTRY(sim_qp) link;
	struct ibv_qp_attr attr;
	struct ibv_qp_cap cap;
	bool all_signaled, halted, ack_lost;
	bool established;
	struct sim_wqe *sq; /* NULL until the first post */
	uint32_t sq_made; /* number of entries of `sq` used so far */
	uint32_t sq_room, sq_free, sq_una, sq_next, sq_tail;
	/* Number of messages that their destination has handled. `sent`: from
	 * this QP to the peer. `taken`: from the peer to this QP. */
	uint32_t sent, taken;
	uint64_t last_arrive, last_ack, stuck_since;
	/* no byte from this QP arrives before this time */
	uint64_t stands_until;
	unsigned rnr_tries;
	struct sim_rq rq;
	struct sim_event arrive, ack, fatal;
};

static inline bool sim_device_open(const struct sim_device *d)
{
	return d->there && !d->down && !d->hole;
}

extern const struct mpib_verbs sim_verbs;

void sim_hca_seed(uint64_t seed);
/* Set the max_msg_sz of each device to `most`, 2 * `most` or 4 * `most`. If
 * `most` is 0, set the maximum that verbs allow. */
void sim_hca_messages(uint32_t most);
uint32_t sim_device_message(const struct sim_device *d);
/* If `on` is set, the devices can register GPU memory. */
void sim_hca_dmabuf(bool on);
uint64_t sim_hca_draw(uint64_t n);
/* sim_hca_still.c: if `on` is set, the devices behave like software HCAs. */
void sim_hca_soft(bool on);
bool sim_hca_is_soft(void);
struct mpib_motion;
bool sim_motion(struct ibv_context *c, struct ibv_qp *qp,
		struct mpib_motion *motion);
/* Return whether the context's device is stalled. If so, arm `e` to call `fn`
 * when the device continues. */
bool sim_stands_still(const struct sim_ctx *ctx, struct sim_event *e,
		      sim_event_fn *fn, struct sim_qp *qp);
struct sim_device *sim_device(unsigned node, unsigned rail);
/* Connect or disconnect the port's cable. */
void sim_device_link(struct sim_device *d, bool up);
/* Remove the device. The device's open contexts never work again. After `later`
 * ns, tell these contexts about the removal. */
void sim_device_lose(struct sim_device *d, uint64_t later);
/* If `calls` is 0, remove the device now. Otherwise remove it when its firmware
 * is called for the `calls`-th time from now. `later` is as for
 * sim_device_lose(). */
void sim_device_lose_at(struct sim_device *d, unsigned calls, uint64_t later);
/* sim_hca_hang.c: the firmware of the device stops answering calls until the
 * time `until`. */
void sim_device_hang(struct sim_device *d, uint64_t until);
/* Destroy the contexts of a process that has ended, as the kernel does. */
void sim_hca_proc_ended(struct sim_proc *proc);
/* Return a random QP that is in use on the device, or NULL if there is none. */
struct sim_qp *sim_device_qp(struct sim_device *d);
/* Return the number of open contexts of `proc`, or of all processes if `proc`
 * is NULL. */
unsigned sim_hca_open_contexts(const struct sim_proc *proc);

static inline struct sim_ctx *sim_ctx(struct ibv_context *c)
{
	return (struct sim_ctx *)((char *)c -
				  offsetof(struct sim_ctx, vctx.context));
}

/* sim_hca.c */
void sim_hca_note(struct sim_ctx *ctx, enum ibv_event_type type, void *element);
void sim_hca_forget_notes(struct sim_ctx *ctx, const void *element);

void sim_ctx_die(struct sim_ctx *ctx);

/* sim_hca_hang.c: wait for the firmware for a limited time. Return false if the
 * firmware hangs. */
bool sim_device_answers(struct sim_device *d);
/* These verbs wait until the firmware answers. */
int sim_asks_reg_mr(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
		    int access, struct ibv_mr **mr);
int sim_asks_dereg_mr(struct ibv_mr *mr);
int sim_asks_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
		       struct ibv_qp **qp);
int sim_asks_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int sim_asks_destroy_qp(struct ibv_qp *qp);

/* sim_hca_mr.c */
int sim_alloc_pd(struct ibv_context *c, struct ibv_pd **pd);
int sim_dealloc_pd(struct ibv_pd *pd);
int sim_reg_mr(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
	       int access, struct ibv_mr **mr);
int sim_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t len,
		      uint64_t iova, int fd, int access, struct ibv_mr **mr);
int sim_dereg_mr(struct ibv_mr *mr);
/* If one region of `pd` allows this access to all `len` bytes, return the
 * memory at `addr`. Otherwise return NULL. */
uint8_t *sim_mr_at(struct sim_ctx *ctx, struct ibv_pd *pd, uint32_t key,
		   uint64_t addr, uint64_t len, int access);
/* Write `len` bytes from a peer to the address `at`. sim_mr_at() must have
 * returned this address for the same key. */
void sim_mr_write(struct sim_ctx *ctx, uint32_t key, uint8_t *at,
		  const uint8_t *bytes, size_t len);

/* sim_hca_posted.c: sim_posted_write() starts a write into GPU memory.
 * sim_posted_push() delivers all writes in flight. */
void sim_posted_write(struct sim_device *d, uint8_t *to, const uint8_t *bytes,
		      size_t len);
void sim_posted_push(struct sim_device *d);

/* sim_hca_cq.c */
int sim_create_channel(struct ibv_context *c, struct ibv_comp_channel **ch);
int sim_destroy_channel(struct ibv_comp_channel *ch);
int sim_create_cq(struct ibv_context *c, int cqe, void *context,
		  struct ibv_comp_channel *ch, struct ibv_cq **cq);
int sim_destroy_cq(struct ibv_cq *cq);
int sim_get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq,
		     void **context);
void sim_ack_cq_events(struct ibv_cq *cq, unsigned n);
int sim_req_notify_cq(struct ibv_cq *cq, int solicited_only);
int sim_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
void sim_cq_push(struct ibv_cq *cq, struct sim_qp *qp, const struct ibv_wc *wc,
		 bool sent, uint32_t done, bool solicited);
void sim_cq_forget(struct ibv_cq *cq, const struct sim_qp *qp);

/* sim_hca_rq.c */
int sim_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr,
		   struct ibv_srq **srq);
int sim_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
int sim_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr);
int sim_destroy_srq(struct ibv_srq *srq);
int sim_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
		      struct ibv_recv_wr **bad);
int sim_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
		  struct ibv_recv_wr **bad);
void sim_rq_init(struct sim_rq *rq, uint32_t wr, uint32_t sge);
void sim_rq_fini(struct sim_rq *rq);
/* Return the next receive of `qp` without removing it, or NULL if there is
 * none. */
struct sim_rwqe *sim_recv_next(struct sim_qp *qp);
void sim_recv_taken(struct sim_qp *qp);

/* sim_hca_qp.c */
int sim_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
		  struct ibv_qp **qp);
int sim_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init);
int sim_destroy_qp(struct ibv_qp *qp);
struct sim_qp *sim_qp_find(uint32_t number);
void sim_qp_unlist(struct sim_qp *qp);

/* sim_hca_state.c */
int sim_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
void sim_qp_error(struct sim_qp *qp);
void sim_qp_quiet(struct sim_qp *qp);
/* Call this if the CQ has no room for a completion of `qp`. The QP fails after
 * the caller has returned. */
void sim_qp_fatal(struct sim_qp *qp);

/* sim_hca_post.c */
enum ibv_wc_opcode sim_wc_op(enum ibv_wr_opcode op);
int sim_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		  struct ibv_send_wr **bad);

/* sim_hca_wire.c */
void sim_wire_start(struct sim_qp *qp);
/* Complete one request. */
void sim_wqe_end(struct sim_qp *qp, enum ibv_wc_status status);

#endif
