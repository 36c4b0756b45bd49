/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verbs calls that an HCA's firmware answers, with a time limit. Each HCA has a
 * thread that makes its calls, one after the other. The caller waits for the
 * answer, up to the limit. After that the HCA counts as lost, with all its open
 * contexts: get_async_event() returns -ETIMEDOUT, calls that create or query
 * fail immediately, and calls that destroy are left to the thread. So an HCA
 * with hanging firmware costs the caller one wait, and the other HCAs nothing.
 * If the call returns later, the thread destroys the object that it created,
 * then makes the calls that were left to it, in order. After that the HCA can
 * be opened again.
 *
 * Any thread may call. One lock protects all of this; it is not held during
 * calls.
 */
#ifndef MPIB_VERBS_HCA_HCA_H
#define MPIB_VERBS_HCA_HCA_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "verbs/verbs.h"

/* The time limit of a call. Time in which the waiting thread does not run, as
 * in a stopped process, does not count. Registering memory may take longer,
 * depending on its length. Tests change it. */
#define HCA_WAIT_MS 2000u
extern _Atomic unsigned mpib_hca_wait_ms;
/* Called every 5 s by a thread that waits for longer, which healthy devices can
 * cause. It keeps the watchdog from killing the process. NULL at first. */
extern void (*_Atomic mpib_hca_waits)(void);

enum hca_kind {
	/* Creates an object; destroy it if the caller has stopped waiting. */
	HCA_MAKES,
	/* Destroys an object, even if the caller has stopped waiting. */
	HCA_ENDS
};

struct hca;
struct hca_context;

struct hca_job {
	TAILQ_ENTRY(hca_job) link;
	struct hca *hca;
	const char *call; /* "ibv_create_qp" */
	enum hca_kind kind;
	/* Run on the HCA's thread: make the call, or destroy the object that it
	 * created; NULL if it created none. */
	int (*run)(struct hca_job *job);
	int (*end)(void *made);
	int rc;
	bool done, left; /* the caller no longer waits */
	uint64_t bytes; /* bytes to register or deregister */
	uint64_t began_ns; /* 0: queued behind other jobs */
	/* The object of the call, and the object that it created. */
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

/* Create a job for an object of ctx; NULL without memory. Sets fd to -1. */
struct hca_job *hca_job_new(struct ibv_context *ctx, const char *call,
			    enum hca_kind kind, int (*run)(struct hca_job *),
			    int (*end)(void *));
/* Run the job and wait. Return the call's result; the caller then reads and
 * frees *job. -EIO: no answer in time. If *job is NULL then, the thread frees
 * the job. */
int hca_job_do(struct hca_job **job);

/* The same for a call that has no context yet: start the thread of the named
 * HCA if needed. The opened context belongs to that thread. */
int hca_open(struct hca_job **job);
/* The same for a call that opens no context. */
int hca_visit(struct hca_job **job);
/* Find or free the record of an open context. HCA's thread. */
struct hca_context *hca_known(const struct ibv_context *ctx);
void hca_forget(struct hca_context *c);

/* Return whether the HCA was given up since the context was opened. */
bool hca_is_lost(const struct ibv_context *ctx);
/* Return an fd that becomes readable (edge-triggered) when a context is lost;
 * -errno. */
int hca_bell(void);

#endif
