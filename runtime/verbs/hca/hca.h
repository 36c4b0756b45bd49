/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verbs calls that an HCA's firmware answers, with a bound. Each HCA has a thread
 * that makes such calls of it, one after the other; the caller waits for the
 * answer, but not for long. A call without an answer by then gives the HCA up:
 * every context of it that is open counts as lost (get_async_event() returns
 * -ETIMEDOUT), calls on them that make or ask something fail at once, and those
 * that end something are left to the thread. So an HCA whose firmware hangs
 * costs the caller one wait, and the other HCAs nothing. When the call is over
 * after all, the thread throws away what it made and carries out what was left to
 * it, in order; from then on the HCA can be opened anew.
 *
 * Any thread may call; all of this is under one lock, which no call is made under.
 */
#ifndef MPIB_VERBS_HCA_HCA_H
#define MPIB_VERBS_HCA_HCA_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "verbs/verbs.h"

/* How long a call may take; while who waits does not run himself, as in a process
 * that is stopped, no time passes. Registering memory may take longer, by its
 * length. Tests change it. */
#define HCA_WAIT_MS 2000u
extern _Atomic unsigned mpib_hca_wait_ms;
/* Called each 5 s by who waits longer than that, which is for as long as healthy
 * devices may take: he is no reason to end the process. NULL at first. */
extern void (*_Atomic mpib_hca_waits)(void);

enum hca_kind {
	HCA_MAKES, /* something that is thrown away if nobody waits any more */
	HCA_ENDS /* something that has to end whoever waits */
};

struct hca;
struct hca_context;

struct hca_job {
	TAILQ_ENTRY(hca_job) link;
	struct hca *hca;
	const char *call; /* "ibv_create_qp" */
	enum hca_kind kind;
	/* On the HCA's thread: make the call; end what it made, NULL if it made
	 * nothing. */
	int (*run)(struct hca_job *job);
	int (*end)(void *made);
	int rc;
	bool done, left; /* the caller waits no more */
	uint64_t bytes; /* of a registration, or of its end */
	uint64_t began_ns; /* 0: it waits for the jobs before it */
	/* What the call is about, and what it made. */
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

/* A job on an object of ctx; NULL without memory. fd is -1. */
struct hca_job *hca_job_new(struct ibv_context *ctx, const char *call,
			    enum hca_kind kind, int (*run)(struct hca_job *),
			    int (*end)(void *));
/* Have it run, and wait. What the call returned, and then *job is the caller's to
 * read and to free; or -EIO without one: if *job is NULL then, the thread frees
 * it. */
int hca_job_do(struct hca_job **job);

/* The same for a call that has no context yet: the thread of the HCA named is
 * started if need be, and what was opened belongs to it. */
int hca_open(struct hca_job **job);
/* Likewise, for one that leaves nothing open. */
int hca_visit(struct hca_job **job);
/* What is known of an open context, and the end of that. HCA's thread. */
struct hca_context *hca_known(const struct ibv_context *ctx);
void hca_forget(struct hca_context *c);

/* calls.c: hca_job_new() for an object. */
struct hca_job *hca_job_on(struct ibv_context *ctx, void *on, const char *call,
			   enum hca_kind kind, int (*run)(struct hca_job *),
			   int (*end)(void *));
/* In a run function: what libibverbs made, errno being 0 before it. */
int hca_job_made(struct hca_job *job, void *object);
/* A job that ends an object of ctx, as one does that nobody wanted any more. */
struct hca_job *hca_job_ending(struct ibv_context *ctx, void *on,
			       const char *call, int (*end)(void *));
/* hca_job_do() and the job's end, also if it is NULL for there is no memory. What
 * the call returned, or as above. */
int hca_job_run(struct hca_job *job);
/* The caller has read what it wanted. Returns rc. */
int hca_job_end(struct hca_job *job, int rc);

/* calls.c: of the table. */
int hca_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr,
		   struct ibv_srq **srq);
int hca_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
int hca_destroy_srq(struct ibv_srq *srq);
int hca_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
		  struct ibv_qp **qp);
int hca_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int hca_destroy_qp(struct ibv_qp *qp);

/* Whether the HCA of the context was given up since it was opened. */
bool hca_is_lost(const struct ibv_context *ctx);
/* Readable, edge-triggered, when a context was lost; -errno. */
int hca_bell(void);

#endif
