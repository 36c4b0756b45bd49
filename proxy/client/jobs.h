/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs: clients of one user that say the same job, and what they moved in all.
 * What a job says of itself is a label that nobody trusts with anything. A table
 * of fixed size: the job that is over for longest gives way. A user has a quarter
 * of the places at most, so that nobody's many jobs push out all others. Control
 * thread.
 */
#ifndef MPIB_PROXY_JOBS_H
#define MPIB_PROXY_JOBS_H

#include <stdint.h>

#define MPIB_JOBS 64
#define MPIB_JOBS_OF_A_USER (MPIB_JOBS / 4) /* but root */
#define MPIB_JOB_LABEL 64

struct proxy_client;

struct mpib_job {
	uint32_t uid;
	uint32_t clients, attached; /* that it ever had, and has now */
	uint64_t number; /* NCCL's commId; 0: it has a label */
	char label[MPIB_JOB_LABEL]; /* "slurm 1234.0"; "": none */
	uint64_t began_ns, ended_ns; /* CLOCK_REALTIME; ended 0: it runs */
	/* What the clients have moved that have left. */
	uint64_t tx_bytes, rx_bytes, messages, replayed_bytes, stall_ns;
};

struct mpib_jobs {
	struct mpib_job job[MPIB_JOBS]; /* clients 0: a free place */
};

/* The client has attached: count it to its job, if it says one. */
void mpib_job_join(struct mpib_jobs *jobs, struct proxy_client *s);
/* The client has left, and s->moved says what it moved. The last client ends the
 * job, which is an event. */
void mpib_job_leave(struct mpib_jobs *jobs, struct proxy_client *s);

#endif
