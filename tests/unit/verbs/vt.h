/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ports and the common steps of the verbs tests. These files do not depend
 * on the provider. MPIB_TEST_RAIL_A and _B name the ports, by default two soft
 * ones. MPIB_TEST_SAME=1 puts both ends into one context. Only waits make
 * progress. Each wait polls all completion queues.
 */
#ifndef VT_H
#define VT_H

#include <stdbool.h>
/* cmocka needs the headers above this line. */

#include "test.h"
#include "verbs/verbs.h"

#define VT_CQE 4096
#define VT_LOCAL IBV_ACCESS_LOCAL_WRITE
#define VT_ALL                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |                    \
	 IBV_ACCESS_REMOTE_READ)

/* All attributes that query_qp() may return. */
#define VT_QUERY (IBV_QP_RATE_LIMIT - 1)

/* A completion queue, and the completions polled from it but not read yet. */
struct vt_cq {
	struct ibv_cq *cq;
	struct ibv_wc *wc;
	unsigned head, tail;
};

struct vt_end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct vt_cq send, recv;
	struct mpib_port_info info;
};

/* A buffer with its registration. */
struct vt_mem {
	uint8_t *p;
	size_t len;
	struct ibv_mr *mr;
};

struct vt {
	const struct mpib_verbs *v;
	struct mpib_rail_spec spec_a, spec_b;
	struct vt_end a, b;
	bool same; /* both ends are in one context */
	bool can_fault; /* the soft HCA's fault points work */
	bool soft; /* the soft HCA, perhaps through libibverbs */
	/* The device is Linux 6.1's soft-RoCE. A test that depends on one of
	 * its gaps (see docs/providers.md) expects the behaviour of rxe. */
	bool rxe;
	/* false for the simulated HCA, which uses one thread for all ends */
	bool has_threads;
	/* The QPs of vt_qp() and the memory of vt_mem() that are not freed
	 * yet. */
	struct ibv_qp **qp;
	struct vt_mem *mem;
	unsigned qps, mems;
};

/* This is defined for the simulated HCA, so that vt_link() works there. */
bool vt_sim_link(struct ibv_context *ctx, bool up) __attribute__((weak));

/* The attributes in which a test differs from the usual ones. */
struct vt_opt {
	uint32_t send_wr, recv_wr, sge, inline_data;
	struct ibv_srq *srq;
	bool sig_all;
	unsigned access; /* access flags of the QP */
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer, rd_atomic;
};
extern const struct vt_opt vt_usual;
/* Return attributes whose retries end soon. */
struct vt_opt vt_quick(void);

/* Each test opens both ports. No other test uses them meanwhile. QPs and memory
 * that a test leaves are freed with the ports. */
#define vt_test(f) TEST_OF(f, vt_setup, vt_teardown)
int vt_setup(void **state);
int vt_teardown(void **state);

/* Replace the end b of vt_setup() by an end in threaded mode, and restore
 * it. */
void vt_thread_b(struct vt *t, struct vt_end *saved);
void vt_unthread_b(struct vt *t, const struct vt_end *saved);

/* Unplug the cable of e's port, or plug it in. For a real device the program in
 * MPIB_TEST_LINK does this ("PROGRAM DEVICE up|down"). Without that variable
 * the test is skipped, so call this first with up. */
void vt_link(struct vt *t, struct vt_end *e, bool up);

struct vt_mem vt_mem(struct vt *t, struct vt_end *e, size_t len, int access);
/* Free memory. m->mr is NULL if it is already deregistered. */
void vt_mem_free(struct vt *t, struct vt_mem *m);

struct ibv_qp *vt_qp(struct vt *t, struct vt_end *e, const struct vt_opt *o);
/* Return the end to which qp belongs. */
struct vt_end *vt_end_of(struct vt *t, struct ibv_qp *qp);
int vt_to_init(struct vt *t, struct ibv_qp *qp, unsigned access);
int vt_to_rtr(struct vt *t, struct ibv_qp *qp, const struct vt_end *peer,
	      uint32_t dest, uint32_t rq_psn, const struct vt_opt *o);
int vt_to_rts(struct vt *t, struct ibv_qp *qp, uint32_t sq_psn,
	      const struct vt_opt *o);
int vt_to(struct vt *t, struct ibv_qp *qp, enum ibv_qp_state state);
enum ibv_qp_state vt_state(struct vt *t, struct ibv_qp *qp);
/* Move both QPs from RESET to RTS. */
void vt_connect(struct vt *t, struct ibv_qp *qa, struct ibv_qp *qb,
		const struct vt_opt *o);
/* Make a connected pair of QPs. */
void vt_pair(struct vt *t, const struct vt_opt *o, struct ibv_qp **qa,
	     struct ibv_qp **qb);
void vt_destroy(struct vt *t, struct ibv_qp *qa, struct ibv_qp *qb);
/* Drop a QP whose context was closed. */
void vt_forget(struct vt *t, const struct ibv_qp *qp);

struct ibv_srq *vt_srq(struct vt *t, struct vt_end *e, uint32_t wr);
struct ibv_sge vt_sge(const struct vt_mem *m, size_t off, size_t len);

int vt_send(struct ibv_qp *qp, enum ibv_wr_opcode op, uint64_t id,
	    unsigned flags, struct ibv_sge *sge, int nsge);
int vt_send_imm(struct ibv_qp *qp, uint64_t id, uint32_t imm,
		struct ibv_sge *sge, int nsge);
int vt_rdma(struct ibv_qp *qp, enum ibv_wr_opcode op, uint64_t id,
	    unsigned flags, struct ibv_sge *sge, int nsge, uint64_t raddr,
	    uint32_t rkey);
/* Post a signalled request, which must be accepted. It sends all of sge to the
 * beginning of m or to an offset from there. It may be an empty WRITE. */
void vt_write(struct ibv_qp *qp, uint64_t id, struct ibv_sge *sge,
	      const struct vt_mem *m);
void vt_read(struct ibv_qp *qp, uint64_t id, struct ibv_sge *sge,
	     const struct vt_mem *m);
void vt_nothing(struct ibv_qp *qp, uint64_t id);
int vt_write_imm(struct ibv_qp *qp, uint64_t id, unsigned flags, uint32_t imm,
		 struct ibv_sge *sge, int nsge, uint64_t raddr, uint32_t rkey);
int vt_recv(struct ibv_qp *qp, uint64_t id, struct ibv_sge *sge, int nsge);
int vt_srq_recv(struct ibv_srq *srq, uint64_t id, struct ibv_sge *sge,
		int nsge);

/* Poll all queues once. */
void vt_turn(struct vt *t);
/* Return the next completion of q. Fail the test after ten seconds. */
struct ibv_wc vt_wait(struct vt *t, struct vt_cq *q);
/* Do the same as vt_wait(), and check that the completion is a success. */
struct ibv_wc vt_expect(struct vt *t, struct vt_cq *q, uint64_t id,
			enum ibv_wc_status status);
bool vt_try(struct vt *t, struct vt_cq *q, struct ibv_wc *wc);
/* Make n turns. Check that no completion arrives at q. */
void vt_quiet(struct vt *t, struct vt_cq *q, int n);
/* Return the next asynchronous event of e. Fail after ten seconds. */
enum ibv_event_type vt_event(struct vt *t, struct vt_end *e);
bool vt_no_event(struct vt *t, struct vt_end *e);
/* Check that qp, which refused a request of its peer, has this event and is in
 * ERR. */
void vt_refused(struct vt *t, struct ibv_qp *qp, enum ibv_event_type event);

uint64_t vt_rand(uint64_t *state);
void vt_fill(uint8_t *p, size_t len, uint64_t seed);
uint64_t vt_addr(const struct vt_mem *m);
int64_t vt_ms(void);

#endif
