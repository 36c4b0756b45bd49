/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs and shared receive queues, by the HCA's thread. */
#include <errno.h>

#include "verbs/hca/hca.h"

static int run_create_srq(struct hca_job *job)
{
	errno = 0;
	return hca_job_made(job, ibv_create_srq(job->on, &job->srq_init));
}

static int end_srq(void *srq)
{
	return -ibv_destroy_srq(srq);
}

int hca_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr,
		   struct ibv_srq **srq)
{
	struct hca_job *job = hca_job_on(pd->context, pd, "ibv_create_srq",
					 HCA_MAKES, run_create_srq, end_srq);
	int rc;

	if (!job)
		return -ENOMEM;
	job->srq_init = *attr;
	rc = hca_job_do(&job);
	if (rc == 0) {
		*attr = job->srq_init;
		*srq = job->made;
	}
	return hca_job_end(job, rc);
}

static int run_modify_srq(struct hca_job *job)
{
	return -ibv_modify_srq(job->on, &job->srq, job->mask);
}

int hca_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	struct hca_job *job = hca_job_on(srq->context, srq, "ibv_modify_srq",
					 HCA_MAKES, run_modify_srq, NULL);

	if (job) {
		job->srq = *attr;
		job->mask = mask;
	}
	return hca_job_run(job);
}

int hca_destroy_srq(struct ibv_srq *srq)
{
	return hca_job_run(
		hca_job_ending(srq->context, srq, "ibv_destroy_srq", end_srq));
}

static int run_create_qp(struct hca_job *job)
{
	errno = 0;
	return hca_job_made(job, ibv_create_qp(job->on, &job->qp_init));
}

static int end_qp(void *qp)
{
	return -ibv_destroy_qp(qp);
}

int hca_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
		  struct ibv_qp **qp)
{
	struct hca_job *job = hca_job_on(pd->context, pd, "ibv_create_qp",
					 HCA_MAKES, run_create_qp, end_qp);
	int rc;

	if (!job)
		return -ENOMEM;
	job->qp_init = *attr;
	rc = hca_job_do(&job);
	if (rc == 0) {
		*attr = job->qp_init;
		*qp = job->made;
	}
	return hca_job_end(job, rc);
}

static int run_modify_qp(struct hca_job *job)
{
	return -ibv_modify_qp(job->on, &job->qp, job->mask);
}

/* To ERR a QP goes whoever waits: what its peer still sends must not land. After
 * -EIO without an answer it does so yet, but the thread deregisters memory in
 * order: what lands is pinned then and nobody else's. */
int hca_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	bool ends = mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_ERR;
	struct hca_job *job =
		hca_job_on(qp->context, qp, "ibv_modify_qp",
			   ends ? HCA_ENDS : HCA_MAKES, run_modify_qp, NULL);

	if (job) {
		job->qp = *attr;
		job->mask = mask;
	}
	return hca_job_run(job);
}

int hca_destroy_qp(struct ibv_qp *qp)
{
	return hca_job_run(
		hca_job_ending(qp->context, qp, "ibv_destroy_qp", end_qp));
}
