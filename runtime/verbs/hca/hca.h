/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verbs calls that an HCA's firmware answers, with a time limit. Each HCA has a
 * thread that makes the calls one after another. The caller waits for the
 * answer, but not longer than the limit. After the limit the HCA and all its
 * open contexts count as lost. From then on get_async_event() returns
 * -ETIMEDOUT, calls that create or query objects fail immediately, and calls
 * that destroy objects are queued for the thread. So an HCA with hanging
 * firmware delays its caller once, and does not affect other HCAs. If the late
 * call returns, the thread destroys the object that the call created. Then the
 * thread makes the queued calls, in order. Then the HCA can be opened again.
 *
 * Any thread may call. One lock protects all jobs and records; no thread holds
 * the lock during a verbs call.
 */
#ifndef MPIB_VERBS_HCA_HCA_H
#define MPIB_VERBS_HCA_HCA_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "verbs/verbs.h"

/* The time limit of a call. The limit applies to the time in which the waiting
 * thread can run. Time in which the process is stopped does not count. For
 * registering and deregistering memory, the limit grows with the length of the
 * memory. Tests change mpib_hca_wait_ms. */
#define HCA_WAIT_MS 2000u
extern _Atomic unsigned mpib_hca_wait_ms;
/* A thread that waits for longer than 5 s calls this function every 5 s, so
 * that the watchdog does not kill the process. Even healthy devices can cause
 * such long waits. NULL at first. */
extern void (*_Atomic mpib_hca_waits)(void);

enum hca_kind {
	/* The call creates, changes or queries an object. If the caller stops
	 * waiting before the call begins, the thread does not make the call. If
	 * the caller stops waiting later, the thread destroys the object that
	 * the call created. */
	HCA_MAKES,
	/* The call destroys an object or moves a QP to ERR. The thread makes
	 * the call even if the caller has stopped waiting. */
	HCA_ENDS
};

struct hca;
struct hca_context;

struct hca_job {
	TAILQ_ENTRY(hca_job) link;
	struct hca *hca;
	const char *call; /* "ibv_create_qp" */
	enum hca_kind kind;
	/* Both run on the HCA's thread: `run` makes the call, and `end`
	 * destroys the object that the call created. `end` is NULL if the call
	 * creates no object. */
	int (*run)(struct hca_job *job);
	int (*end)(void *made);
	int rc;
	bool done, left; /* `left`: the caller no longer waits */
	uint64_t bytes; /* length to register or deregister */
	uint64_t began_ns; /* 0: queued behind other jobs */
	/* The object on which the call is made, and the object that the call
	 * created. */
	struct ibv_context *ctx;
	void *on, *made;
	int mask, fd;
	void *addr;
	uint64_t offset, iova;
	union {
		struct mpib_rail_spec spec;
		struct mpib_port_info port;
		struct ibv_qp_init_attr qp_init;
		struct ibv_qp_attr qp;
		struct ibv_srq_init_attr srq_init;
		struct ibv_srq_attr srq;
		struct {
			int cqe;
			void *context;
			struct ibv_comp_channel *channel;
		} cq;
	};
};

/* Create a job, with `fd` -1, for a call on an object of `ctx`. NULL: no
 * memory. */
struct hca_job *hca_job_new(struct ibv_context *ctx, const char *call,
			    enum hca_kind kind, int (*run)(struct hca_job *),
			    int (*end)(void *));
/* Run the job and wait. Return the call's result, or -EIO if the HCA is lost or
 * did not answer in time. If *job is not NULL afterwards, the caller reads and
 * frees the job. Otherwise the HCA's thread frees the job. */
int hca_job_do(struct hca_job **job);

/* Like hca_job_do(), for a call that opens a context: start the thread of the
 * named HCA if necessary. The opened context belongs to that thread. */
int hca_open(struct hca_job **job);
/* Like hca_open(), for a call that opens no context. */
int hca_visit(struct hca_job **job);
/* Find or free the record of an open context. HCA's thread. */
struct hca_context *hca_known(const struct ibv_context *ctx);
void hca_forget(struct hca_context *c);

/* Return whether the HCA was marked as lost since the context was opened. */
bool hca_is_lost(const struct ibv_context *ctx);
/* Return an fd that becomes readable (edge-triggered) when a context is lost,
 * or -errno. */
int hca_bell(void);

#endif
