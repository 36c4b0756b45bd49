/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The software HCA beyond verbs: which engine moves its bytes, and the fault
 * points that stand in for a failing network.
 */
#ifndef MPIB_VERBS_SOFT_H
#define MPIB_VERBS_SOFT_H

#include <infiniband/verbs.h>
#include <stdint.h>

enum mpib_soft_engine {
	MPIB_SOFT_AUTO, /* io_uring, or epoll where io_uring is refused */
	MPIB_SOFT_IO_URING,
	MPIB_SOFT_EPOLL,
};

/* Engine of contexts opened from now on, for the process. Not thread safe:
 * call before the first open. Also set by MPIB_SOFT_ENGINE=io_uring|epoll. */
void mpib_soft_set_engine(enum mpib_soft_engine engine);
/* "io_uring" or "epoll". */
const char *mpib_soft_engine_name(struct ibv_context *ctx);

/*
 * As mpib_verbs_soft.open(), but a thread of the context's own makes the
 * progress: a process that only looks at its memory still is a target.
 * Data verbs then may be called from any thread and take the context's lock;
 * mpib_soft_turn() does nothing. Close it as any other. Any thread.
 */
struct mpib_rail_spec;
int mpib_soft_open_threaded(const struct mpib_rail_spec *spec,
			    struct ibv_context **out);

/*
 * Close a context that still has objects, as the kernel does with what a
 * process left: the QPs fall silent, and the memory of the objects is lost.
 * Nobody may use them any more. Any thread.
 */
void mpib_soft_abandon(struct ibv_context *ctx);

/*
 * What every QP and CQ of the software HCA begins with: room for the extended
 * form, which the HCA itself leaves alone, zero from the start.
 */
struct sv_builder;
struct sv_reader;
struct mpib_soft_qp_ex {
	struct ibv_qp_ex ex;
	struct sv_builder *builder;
};

struct mpib_soft_cq_ex {
	struct ibv_cq_ex ex;
	struct sv_reader *reader;
};

/* From now on entries of cq carry the time at which they are made. Before the
 * first entry; any thread. */
void mpib_soft_stamp(struct ibv_cq *cq);
/* As ibv_poll_cq(cq, 1, wc), with that time, CLOCK_MONOTONIC in ns. */
int mpib_soft_poll_stamped(struct ibv_cq *cq, struct ibv_wc *wc, uint64_t *ns);

/* How many requests ibv_post_send() takes now. Any thread in threaded mode. */
unsigned mpib_soft_send_room(struct ibv_qp *qp);

/* Every limit of a context, and zero for what identifies a device. Any
 * thread. */
void mpib_soft_limits(struct ibv_device_attr *attr);

/*
 * Faults of one context's port. All may be changed at any time from any
 * thread; zero is a healthy port. A random fault draws from seed, so a run
 * can be repeated.
 */
struct mpib_soft_fault {
	uint64_t seed;
	uint8_t link_down; /* PORT_ERR, nothing passes; 0 again: PORT_ACTIVE */
	uint8_t black_hole; /* link up, nothing passes, no event */
	uint32_t delay_turns; /* hold every outgoing message for up to so many
				 progress turns, drawn by seed per message */
	uint64_t rate_bytes_per_s; /* 0: unlimited */
	uint64_t drop_at; /* lose the n-th outgoing message from now, 1-based:
			     its QP ends in RETRY_EXC_ERR */
	uint8_t gone; /* the device is lost for good: DEVICE_FATAL, and then
			 nothing, see gone.c. 0 again changes nothing */
	uint8_t forgets; /* writes that come are acknowledged and then lost,
			    with their completions: as a device that dies
			    between the two. Follow it by link_down */
};

int mpib_soft_set_fault(struct ibv_context *ctx,
			const struct mpib_soft_fault *fault);
/* Writes that were lost so. Any thread. */
uint64_t mpib_soft_forgotten(struct ibv_context *ctx);

/*
 * One bounded progress turn without polling a CQ; ibv_poll_cq() does the same
 * before it looks at the queue. Returns the number of things that moved.
 * Owner thread of the context.
 */
int mpib_soft_turn(struct ibv_context *ctx);

#endif
