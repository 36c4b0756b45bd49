/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table: calls that the firmware answers, as jobs of the HCA's thread. What
 * libibverbs answers by itself (events, ECE, a new completion channel) is called
 * as it is, and so are queries that only tests make.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "verbs/hca/hca.h"
#include "verbs/rdma/internal.h"

static const struct mpib_verbs *const v = &mpib_verbs_rdma;

int hca_job_end(struct hca_job *job, int rc)
{
	if (job && job->fd >= 0)
		close(job->fd);
	free(job);
	return rc;
}

int hca_job_run(struct hca_job *job)
{
	int rc = job ? hca_job_do(&job) : -ENOMEM;

	return hca_job_end(job, rc);
}

/* The same with what the call made. */
static int hca_job_make(struct hca_job *job, void **made)
{
	int rc = job ? hca_job_do(&job) : -ENOMEM;

	if (rc == 0)
		*made = job->made;
	return hca_job_end(job, rc);
}

struct hca_job *hca_job_on(struct ibv_context *ctx, void *on, const char *call,
			   enum hca_kind kind, int (*run)(struct hca_job *),
			   int (*end)(void *))
{
	struct hca_job *job = hca_job_new(ctx, call, kind, run, end);

	if (job)
		job->on = on;
	return job;
}

static int run_end(struct hca_job *job)
{
	return job->end(job->on);
}

struct hca_job *hca_job_ending(struct ibv_context *ctx, void *on,
			       const char *call, int (*end)(void *))
{
	return hca_job_on(ctx, on, call, HCA_ENDS, run_end, end);
}

static int run_open(struct hca_job *job)
{
	struct ibv_context *ctx;
	int rc = v->open(&job->spec, &ctx);

	if (rc == 0)
		job->made = ctx;
	return rc;
}

static int end_open(void *ctx)
{
	return v->close(ctx);
}

static int calls_open(const struct mpib_rail_spec *spec,
		      struct ibv_context **ctx)
{
	struct hca_job *job = hca_job_new(NULL, "ibv_open_device", HCA_MAKES,
					  run_open, end_open);
	int rc;

	if (!job)
		return -ENOMEM;
	job->spec = *spec;
	rc = hca_open(&job);
	if (rc == 0)
		*ctx = job->made;
	return hca_job_end(job, rc);
}

static int run_close(struct hca_job *job)
{
	struct hca_context *known = hca_known(job->ctx);
	int rc = v->close(job->ctx);

	if (rc == 0)
		hca_forget(known);
	return rc;
}

static int calls_close(struct ibv_context *ctx)
{
	return hca_job_run(hca_job_new(ctx, "ibv_close_device", HCA_ENDS,
				       run_close, NULL));
}

static int run_query_port(struct hca_job *job)
{
	return v->query_port(job->ctx, (uint8_t)job->mask, &job->port);
}

static int calls_query_port(struct ibv_context *ctx, uint8_t port,
			    struct mpib_port_info *info)
{
	struct hca_job *job = hca_job_new(ctx, "ibv_query_port", HCA_MAKES,
					  run_query_port, NULL);
	int rc;

	if (!job)
		return -ENOMEM;
	job->mask = port;
	rc = hca_job_do(&job);
	if (rc == 0)
		*info = job->port;
	return hca_job_end(job, rc);
}

static int run_alloc_pd(struct hca_job *job)
{
	return v->alloc_pd(job->ctx, (struct ibv_pd **)&job->made);
}

static int end_pd(void *pd)
{
	return v->dealloc_pd(pd);
}

static int calls_alloc_pd(struct ibv_context *ctx, struct ibv_pd **pd)
{
	return hca_job_make(hca_job_new(ctx, "ibv_alloc_pd", HCA_MAKES,
					run_alloc_pd, end_pd),
			    (void **)pd);
}

static int calls_dealloc_pd(struct ibv_pd *pd)
{
	return hca_job_run(
		hca_job_ending(pd->context, pd, "ibv_dealloc_pd", end_pd));
}

static int run_reg_mr(struct hca_job *job)
{
	struct ibv_mr **mr = (struct ibv_mr **)&job->made;

	if (job->fd >= 0)
		return v->reg_dmabuf_mr(job->on, job->offset, job->bytes,
					job->iova, job->fd, job->mask, mr);
	return v->reg_mr(job->on, job->addr, job->bytes, job->iova, job->mask,
			 mr);
}

static int end_mr(void *mr)
{
	return v->dereg_mr(mr);
}

static int calls_reg_mr(struct ibv_pd *pd, void *addr, size_t len,
			uint64_t iova, int access, struct ibv_mr **mr)
{
	struct hca_job *job = hca_job_on(pd->context, pd, "ibv_reg_mr",
					 HCA_MAKES, run_reg_mr, end_mr);

	if (job) {
		job->addr = addr;
		job->bytes = len;
		job->iova = iova;
		job->mask = access;
	}
	return hca_job_make(job, (void **)mr);
}

/* The caller may close fd while the call still hangs. */
static int calls_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t len,
			       uint64_t iova, int fd, int access,
			       struct ibv_mr **mr)
{
	struct hca_job *job;
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	/* A device is asked by a wrong fd whether it knows the call. */
	if (own < 0 && errno != EBADF)
		return -errno;
	if (own < 0)
		return v->reg_dmabuf_mr(pd, offset, len, iova, fd, access, mr);
	job = hca_job_on(pd->context, pd, "ibv_reg_dmabuf_mr", HCA_MAKES,
			 run_reg_mr, end_mr);
	if (!job) {
		close(own);
		return -ENOMEM;
	}
	job->fd = own;
	job->offset = offset;
	job->bytes = len;
	job->iova = iova;
	job->mask = access;
	return hca_job_make(job, (void **)mr);
}

static int calls_dereg_mr(struct ibv_mr *mr)
{
	struct hca_job *job =
		hca_job_ending(mr->context, mr, "ibv_dereg_mr", end_mr);

	if (job)
		job->bytes = mr->length;
	return hca_job_run(job);
}

static int end_channel(void *ch)
{
	return v->destroy_comp_channel(ch);
}

static int calls_destroy_channel(struct ibv_comp_channel *ch)
{
	return hca_job_run(hca_job_ending(
		ch->context, ch, "ibv_destroy_comp_channel", end_channel));
}

static int run_create_cq(struct hca_job *job)
{
	return v->create_cq(job->ctx, job->cq.cqe, job->cq.context,
			    job->cq.channel, (struct ibv_cq **)&job->made);
}

static int end_cq(void *cq)
{
	return v->destroy_cq(cq);
}

static int calls_create_cq(struct ibv_context *ctx, int cqe, void *cq_context,
			   struct ibv_comp_channel *ch, struct ibv_cq **cq)
{
	struct hca_job *job = hca_job_new(ctx, "ibv_create_cq", HCA_MAKES,
					  run_create_cq, end_cq);

	if (job) {
		job->cq.cqe = cqe;
		job->cq.context = cq_context;
		job->cq.channel = ch;
	}
	return hca_job_make(job, (void **)cq);
}

static int calls_destroy_cq(struct ibv_cq *cq)
{
	return hca_job_run(
		hca_job_ending(cq->context, cq, "ibv_destroy_cq", end_cq));
}

static int calls_get_async_event(struct ibv_context *ctx,
				 struct ibv_async_event *ev)
{
	return hca_is_lost(ctx) ? -ETIMEDOUT : v->get_async_event(ctx, ev);
}

/* The others are those of mpib_verbs_rdma, which take no firmware's time. */
const struct mpib_verbs mpib_verbs_hca = {
	.name = "rdma",
	.open = calls_open,
	.close = calls_close,
	.query_port = calls_query_port,
	.alloc_pd = calls_alloc_pd,
	.dealloc_pd = calls_dealloc_pd,
	.reg_mr = calls_reg_mr,
	.reg_dmabuf_mr = calls_reg_dmabuf_mr,
	.dereg_mr = calls_dereg_mr,
	.create_comp_channel = mpib_rdma_create_channel,
	.destroy_comp_channel = calls_destroy_channel,
	.create_cq = calls_create_cq,
	.disarm_cq = mpib_rdma_disarm_cq,
	.destroy_cq = calls_destroy_cq,
	.get_cq_event = mpib_rdma_get_cq_event,
	.ack_cq_events = ibv_ack_cq_events,
	.create_srq = hca_create_srq,
	.modify_srq = hca_modify_srq,
	.query_srq = mpib_rdma_query_srq,
	.destroy_srq = hca_destroy_srq,
	.create_qp = hca_create_qp,
	.modify_qp = hca_modify_qp,
	.query_qp = mpib_rdma_query_qp,
	.destroy_qp = hca_destroy_qp,
	.query_ece = mpib_rdma_query_ece,
	.set_ece = mpib_rdma_set_ece,
	.get_async_event = calls_get_async_event,
	.ack_async_event = ibv_ack_async_event,
	.bell = hca_bell,
};
