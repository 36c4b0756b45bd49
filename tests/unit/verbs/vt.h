/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ports and the common steps of the verbs tests, for any provider.
 * MPIB_TEST_RAIL_A and MPIB_TEST_RAIL_B name the ports, by default two ports of
 * the software HCA. MPIB_TEST_SAME=1 puts both ends into one context. Requests
 * make progress only while a function below waits, because only waiting polls
 * the completion queues.
 */
#ifndef VT_H
#define VT_H

#include <stdbool.h>

#include "test.h"
#include "verbs/verbs.h"

#define VT_CQE 4096
#define VT_LOCAL IBV_ACCESS_LOCAL_WRITE
#define VT_ALL                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |                    \
	 IBV_ACCESS_REMOTE_READ)

/* All attributes that query_qp() may return. */
#define VT_QUERY (IBV_QP_RATE_LIMIT - 1)

/* A completion queue, and the completions that were polled but not returned. */
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
	/* end `b` of the ports, while `b` is in threaded mode */
	struct vt_end plain_b;
	bool same; /* both ends are in one context */
	bool can_fault; /* faults of the software HCA can be injected */
	bool soft; /* the software HCA, perhaps through libibverbs */
	/* The device is soft-RoCE of Linux 6.1. Where it differs from verbs
	 * (see docs/providers.md), tests expect the behaviour of rxe. */
	bool rxe;
	/* false for the simulated HCA, which uses one thread for all ends */
	bool has_threads;
	/* QPs of vt_qp(), the SRQ of vt_srq() and memory of vt_mem() that are
	 * not freed yet */
	struct ibv_qp **qp;
	struct ibv_srq *srq;
	struct vt_mem *mem;
	unsigned qps, mems;
};

/* vt_link() of the simulated HCA. Only the simulator defines this function. */
bool vt_sim_link(struct ibv_context *ctx, bool up) __attribute__((weak));

/* Attributes of a test's QPs. */
struct vt_opt {
	uint32_t send_wr, recv_wr, sge, inline_data;
	struct ibv_srq *srq;
	bool sig_all;
	unsigned access; /* access flags of the QP */
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer, rd_atomic;
};
extern const struct vt_opt vt_usual;
/* Return the usual attributes with a short timeout and one retry. */
struct vt_opt vt_quick(void);

/* Define a test with the argument `struct vt *t`, whose ports are open. No
 * other test uses them at the same time. QPs, memory and an SRQ that the test
 * leaves are freed afterwards. In a vt_threaded_test(), end `b` is in threaded
 * mode. A vt_pair_test() also has the arguments `qa` and `qb`, which are a
 * connected pair of QPs with the usual attributes. */
#define vt_test(f) vt_test_of(f, vt_setup)
#define vt_threaded_test(f) vt_test_of(f, vt_threaded_setup)
#define vt_test_of(f, setup)                                                   \
	static void f##_in(struct vt *t);                                      \
	TEST_OF(f, setup, vt_teardown)                                         \
	{                                                                      \
		f##_in(*state);                                                \
	}                                                                      \
	static void f##_in(struct vt *t)
#define vt_pair_test(f)                                                        \
	static void f##_of(struct vt *t, struct ibv_qp *qa,                    \
			   struct ibv_qp *qb);                                 \
	vt_test(f)                                                             \
	{                                                                      \
		struct ibv_qp *qa, *qb;                                        \
                                                                               \
		vt_pair(t, &vt_usual, &qa, &qb);                               \
		f##_of(t, qa, qb);                                             \
	}                                                                      \
	static void f##_of(struct vt *t, struct ibv_qp *qa, struct ibv_qp *qb)
int vt_setup(void **state);
int vt_threaded_setup(void **state);
int vt_teardown(void **state);

/* Unplug the cable of the end's port, or plug it in. For a real device, the
 * program that MPIB_TEST_LINK names does this. Its arguments are the device and
 * "up" or "down". Without that variable the test is skipped, so call this first
 * with `up` set. */
void vt_link(struct vt *t, struct vt_end *e, bool up);

struct vt_mem vt_mem(struct vt *t, struct vt_end *e, size_t len, int access);
/* Free memory. If the memory is already deregistered, m->mr must be NULL. */
void vt_mem_free(struct vt *t, struct vt_mem *m);

struct ibv_qp *vt_qp(struct vt *t, struct vt_end *e, const struct vt_opt *o);
/* Return the end to which `qp` belongs. */
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
/* Do not free `qp` after the test, because its context is closed. */
void vt_forget(struct vt *t, const struct ibv_qp *qp);

/* A test may have one SRQ. */
struct ibv_srq *vt_srq(struct vt *t, struct vt_end *e, uint32_t wr);
struct ibv_sge vt_sge(const struct vt_mem *m, size_t off, size_t len);

int vt_send(struct ibv_qp *qp, enum ibv_wr_opcode op, uint64_t id,
	    unsigned flags, struct ibv_sge *sge, int nsge);
int vt_send_imm(struct ibv_qp *qp, uint64_t id, uint32_t imm,
		struct ibv_sge *sge, int nsge);
int vt_rdma(struct ibv_qp *qp, enum ibv_wr_opcode op, uint64_t id,
	    unsigned flags, struct ibv_sge *sge, int nsge, uint64_t raddr,
	    uint32_t rkey);
/* Post a signalled request, which the device must accept. vt_write() posts a
 * WRITE of `sge` to the beginning of `m`, vt_read() posts a READ from there
 * into `sge`, and vt_nothing() posts an empty WRITE. */
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
/* Return the next completion of `q`. Fail the test after a minute. */
struct ibv_wc vt_wait(struct vt *t, struct vt_cq *q);
/* Do the same as vt_wait(), and check the wr_id and status of the
 * completion. */
struct ibv_wc vt_expect(struct vt *t, struct vt_cq *q, uint64_t id,
			enum ibv_wc_status status);
bool vt_try(struct vt *t, struct vt_cq *q, struct ibv_wc *wc);
/* Make `n` turns. Check that no completion arrives at `q`. */
void vt_quiet(struct vt *t, struct vt_cq *q, int n);
/* Return the next asynchronous event of `e`. Fail the test after a minute. */
enum ibv_event_type vt_event(struct vt *t, struct vt_end *e);
bool vt_no_event(struct vt *t, struct vt_end *e);
/* Check that `qp` has refused a request: it must be in ERR and have this
 * event. */
void vt_refused(struct vt *t, struct ibv_qp *qp, enum ibv_event_type event);

uint64_t vt_rand(uint64_t *state);
void vt_fill(uint8_t *p, size_t len, uint64_t seed);
uint64_t vt_addr(const struct vt_mem *m);
int64_t vt_ms(void);

#endif
