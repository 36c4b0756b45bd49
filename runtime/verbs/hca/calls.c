/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs table of the provider on libibverbs. Calls that the firmware
 * answers are jobs for the HCA's thread. Calls that libibverbs answers itself
 * (events, ECE, a new completion channel) and queries that only tests make are
 * direct calls. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "verbs/hca/hca.h"
#include "verbs/rdma/rdma.h"

/* Store the object that libibverbs created as the job's result. The caller must
 * set errno to 0 before the libibverbs call. */
static int job_made(struct hca_job *job, void *object)
{
	job->made = object;
	return object ? 0 : mpib_rdma_err();
}

/* Free the job after its result was read. Return rc. */
static int job_over(struct hca_job *job, int rc)
{
	if (job && job->fd >= 0)
		close(job->fd);
	free(job);
	return rc;
}

/* Run hca_job_do(), then free the job. Return the result of hca_job_do();
 * -ENOMEM if job is NULL. */
static int job_run(struct hca_job *job)
{
	int rc = job ? hca_job_do(&job) : -ENOMEM;

	return job_over(job, rc);
}

/* Like job_run(), for a call that creates an object. */
static int job_make(struct hca_job *job, void **made)
{
	int rc = job ? hca_job_do(&job) : -ENOMEM;

	if (rc == 0)
		*made = job->made;
	return job_over(job, rc);
}

/* Like hca_job_new(), for a call on an object. */
static struct hca_job *job_on(struct ibv_context *ctx, void *on,
			      const char *call, enum hca_kind kind,
			      int (*run)(struct hca_job *), int (*end)(void *))
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

/* Create a job that destroys an object of ctx. */
static struct hca_job *job_ending(struct ibv_context *ctx, void *on,
				  const char *call, int (*end)(void *))
{
	return job_on(ctx, on, call, HCA_ENDS, run_end, end);
}

static int run_open(struct hca_job *job)
{
	struct ibv_context *ctx;
	int rc = mpib_rdma_open(&job->spec, &ctx);

	if (rc == 0)
		job->made = ctx;
	return rc;
}

static int end_open(void *ctx)
{
	return mpib_rdma_close(ctx);
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
	return job_over(job, rc);
}

static int run_close(struct hca_job *job)
{
	struct hca_context *known = hca_known(job->ctx);
	int rc = mpib_rdma_close(job->ctx);

	if (rc == 0)
		hca_forget(known);
	return rc;
}

static int calls_close(struct ibv_context *ctx)
{
	return job_run(hca_job_new(ctx, "ibv_close_device", HCA_ENDS, run_close,
				   NULL));
}

static int run_query_port(struct hca_job *job)
{
	return mpib_rdma_query_port(job->ctx, (uint8_t)job->mask, &job->port);
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
	return job_over(job, rc);
}

static int run_alloc_pd(struct hca_job *job)
{
	errno = 0;
	return job_made(job, ibv_alloc_pd(job->ctx));
}

static int end_pd(void *pd)
{
	return -ibv_dealloc_pd(pd);
}

static int calls_alloc_pd(struct ibv_context *ctx, struct ibv_pd **pd)
{
	return job_make(hca_job_new(ctx, "ibv_alloc_pd", HCA_MAKES,
				    run_alloc_pd, end_pd),
			(void **)pd);
}

static int calls_dealloc_pd(struct ibv_pd *pd)
{
	return job_run(job_ending(pd->context, pd, "ibv_dealloc_pd", end_pd));
}

/*
 * After a refused registration, clear IBV_ACCESS_RELAXED_ORDERING. Return
 * whether this flag may be the cause of the refusal: then try again. The flag
 * only makes transfers faster, but a kernel or device that does not know the
 * flag refuses the whole call. (ibv_reg_mr_iova2 itself drops the flag only if
 * the kernel says that flags may be dropped.)
 */
static bool again_without(struct hca_job *job)
{
	bool wished = job->mask & IBV_ACCESS_RELAXED_ORDERING;

	job->mask &= ~IBV_ACCESS_RELAXED_ORDERING;
	return wished && (errno == EINVAL || errno == EOPNOTSUPP);
}

static int run_reg_mr(struct hca_job *job)
{
	struct ibv_mr *mr;

	do {
		errno = 0;
		mr = ibv_reg_mr_iova2(job->on, job->addr, job->bytes, job->iova,
				      (unsigned)job->mask);
	} while (!mr && again_without(job));
	return job_made(job, mr);
}

static int run_reg_dmabuf_mr(struct hca_job *job)
{
	struct ibv_mr *mr;

	do {
		errno = 0;
		mr = ibv_reg_dmabuf_mr(job->on, job->offset, job->bytes,
				       job->iova, job->fd, job->mask);
	} while (!mr && again_without(job));
	return job_made(job, mr);
}

static int end_mr(void *mr)
{
	return -ibv_dereg_mr(mr);
}

static int calls_reg_mr(struct ibv_pd *pd, void *addr, size_t len,
			uint64_t iova, int access, struct ibv_mr **mr)
{
	struct hca_job *job = job_on(pd->context, pd, "ibv_reg_mr", HCA_MAKES,
				     run_reg_mr, end_mr);

	if (job) {
		job->addr = addr;
		job->bytes = len;
		job->iova = iova;
		job->mask = access;
	}
	return job_make(job, (void **)mr);
}

/* Use a copy of fd, because the caller may close fd while the call still
 * hangs. */
static int calls_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t len,
			       uint64_t iova, int fd, int access,
			       struct ibv_mr **mr)
{
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	struct hca_job *job;

	/* If fd is not open, make the call anyway: the error of the call shows
	 * whether the device supports dma-bufs. */
	if (own < 0 && errno != EBADF)
		return -errno;
	job = job_on(pd->context, pd, "ibv_reg_dmabuf_mr", HCA_MAKES,
		     run_reg_dmabuf_mr, end_mr);
	if (!job) {
		if (own >= 0)
			close(own);
		return -ENOMEM;
	}
	job->fd = own;
	job->offset = offset;
	job->bytes = len;
	job->iova = iova;
	job->mask = access;
	return job_make(job, (void **)mr);
}

static int calls_dereg_mr(struct ibv_mr *mr)
{
	struct hca_job *job =
		job_ending(mr->context, mr, "ibv_dereg_mr", end_mr);

	if (job)
		job->bytes = mr->length;
	return job_run(job);
}

static int calls_create_channel(struct ibv_context *ctx,
				struct ibv_comp_channel **ch)
{
	errno = 0;
	*ch = ibv_create_comp_channel(ctx);
	return *ch ? 0 : mpib_rdma_err();
}

static int end_channel(void *ch)
{
	return -ibv_destroy_comp_channel(ch);
}

static int calls_destroy_channel(struct ibv_comp_channel *ch)
{
	return job_run(job_ending(ch->context, ch, "ibv_destroy_comp_channel",
				  end_channel));
}

/* Return the device's next completion vector, so that the interrupts of
 * different shards go to different CPUs. Return 0 if the device has fewer than
 * two vectors. */
static int next_vector(const struct ibv_context *ctx)
{
	static atomic_uint next;

	if (ctx->num_comp_vectors < 2)
		return 0;
	/* Relaxed: this counter publishes no other data. */
	return (int)(atomic_fetch_add_explicit(&next, 1, memory_order_relaxed) %
		     (unsigned)ctx->num_comp_vectors);
}

static int run_create_cq(struct hca_job *job)
{
	errno = 0;
	return job_made(job,
			ibv_create_cq(job->ctx, job->cq.cqe, job->cq.context,
				      job->cq.channel, next_vector(job->ctx)));
}

static int end_cq(void *cq)
{
	return -ibv_destroy_cq(cq);
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
	return job_make(job, (void **)cq);
}

static int calls_destroy_cq(struct ibv_cq *cq)
{
	return job_run(job_ending(cq->context, cq, "ibv_destroy_cq", end_cq));
}

static bool calls_disarm_cq(struct ibv_cq *cq, bool spoke)
{
	(void)cq; /* the CQ stays armed: it raises at most one event */
	return spoke;
}

static int calls_get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq,
			      void **cq_context)
{
	return ibv_get_cq_event(ch, cq, cq_context) ? mpib_rdma_err() : 0;
}

static int calls_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	return -ibv_query_srq(srq, attr);
}

static int calls_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
			  struct ibv_qp_init_attr *init)
{
	return -ibv_query_qp(qp, attr, mask, init);
}

static int calls_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	return -ibv_query_ece(qp, ece);
}

static int calls_set_ece(struct ibv_qp *qp, const struct ibv_ece *ece)
{
	struct ibv_ece copy = *ece;

	return -ibv_set_ece(qp, &copy);
}

static int calls_get_async_event(struct ibv_context *ctx,
				 struct ibv_async_event *ev)
{
	if (hca_is_lost(ctx))
		return -ETIMEDOUT;
	return ibv_get_async_event(ctx, ev) ? mpib_rdma_err() : 0;
}

/* Queue pairs and shared receive queues, through the HCA's thread. */

static int run_create_srq(struct hca_job *job)
{
	errno = 0;
	return job_made(job, ibv_create_srq(job->on, &job->srq_init));
}

static int end_srq(void *srq)
{
	return -ibv_destroy_srq(srq);
}

static int calls_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr,
			    struct ibv_srq **srq)
{
	struct hca_job *job = job_on(pd->context, pd, "ibv_create_srq",
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
	return job_over(job, rc);
}

static int run_modify_srq(struct hca_job *job)
{
	return -ibv_modify_srq(job->on, &job->srq, job->mask);
}

static int calls_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr,
			    int mask)
{
	struct hca_job *job = job_on(srq->context, srq, "ibv_modify_srq",
				     HCA_MAKES, run_modify_srq, NULL);

	if (job) {
		job->srq = *attr;
		job->mask = mask;
	}
	return job_run(job);
}

static int calls_destroy_srq(struct ibv_srq *srq)
{
	return job_run(
		job_ending(srq->context, srq, "ibv_destroy_srq", end_srq));
}

static int run_create_qp(struct hca_job *job)
{
	errno = 0;
	return job_made(job, ibv_create_qp(job->on, &job->qp_init));
}

static int end_qp(void *qp)
{
	return -ibv_destroy_qp(qp);
}

static int calls_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
			   struct ibv_qp **qp)
{
	struct hca_job *job = job_on(pd->context, pd, "ibv_create_qp",
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
	return job_over(job, rc);
}

static int run_modify_qp(struct hca_job *job)
{
	return -ibv_modify_qp(job->on, &job->qp, job->mask);
}

/* A QP is moved to ERR so that its peer can no longer write data. If the device
 * does not answer in time, this function returns -EIO, but the HCA's thread
 * still makes the call later. The same thread deregisters memory, but only
 * after this call. So until the QP is in ERR, its peer writes only to memory
 * that is still pinned and reserved. */
static int calls_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr,
			   int mask)
{
	bool ends = mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_ERR;
	struct hca_job *job =
		job_on(qp->context, qp, "ibv_modify_qp",
		       ends ? HCA_ENDS : HCA_MAKES, run_modify_qp, NULL);

	if (job) {
		job->qp = *attr;
		job->mask = mask;
	}
	return job_run(job);
}

static int calls_destroy_qp(struct ibv_qp *qp)
{
	return job_run(job_ending(qp->context, qp, "ibv_destroy_qp", end_qp));
}

const struct mpib_verbs mpib_verbs_rdma = {
	.name = "rdma",
	.open = calls_open,
	.close = calls_close,
	.query_port = calls_query_port,
	.alloc_pd = calls_alloc_pd,
	.dealloc_pd = calls_dealloc_pd,
	.reg_mr = calls_reg_mr,
	.reg_dmabuf_mr = calls_reg_dmabuf_mr,
	.dereg_mr = calls_dereg_mr,
	.create_comp_channel = calls_create_channel,
	.destroy_comp_channel = calls_destroy_channel,
	.create_cq = calls_create_cq,
	.disarm_cq = calls_disarm_cq,
	.destroy_cq = calls_destroy_cq,
	.get_cq_event = calls_get_cq_event,
	.ack_cq_events = ibv_ack_cq_events,
	.create_srq = calls_create_srq,
	.modify_srq = calls_modify_srq,
	.query_srq = calls_query_srq,
	.destroy_srq = calls_destroy_srq,
	.create_qp = calls_create_qp,
	.modify_qp = calls_modify_qp,
	.query_qp = calls_query_qp,
	.destroy_qp = calls_destroy_qp,
	.query_ece = calls_query_ece,
	.set_ece = calls_set_ece,
	.get_async_event = calls_get_async_event,
	.ack_async_event = ibv_ack_async_event,
	.bell = hca_bell,
};

/* Discovery. The thread of each device queries that device. */

/* maximum number of ports of a device; real devices have fewer */
#define PORTS_OF_ONE 4

struct hca_ports {
	unsigned n;
	struct mpib_rdma_port port[PORTS_OF_ONE];
};

static int run_ask(struct hca_job *job)
{
	struct hca_ports *ports = calloc(1, sizeof(*ports));

	if (!ports)
		return -ENOMEM;
	job->made = ports;
	ports->n = mpib_rdma_ask(&job->spec, ports->port, PORTS_OF_ONE);
	return 0;
}

static int end_ports(void *ports)
{
	free(ports);
	return 0;
}

static unsigned no_port(const struct mpib_rail_spec *spec,
			struct mpib_rdma_port *port, int error)
{
	*port = (struct mpib_rdma_port){ .port = 1, .error = error };
	memcpy(port->name, spec->name, sizeof(port->name));
	return 1;
}

/* Fill at most PORTS_OF_ONE entries of `port`. Return their number. */
static unsigned ask_device(const struct mpib_rail_spec *spec,
			   struct mpib_rdma_port *port)
{
	struct hca_job *job = hca_job_new(NULL, "ibv_open_device", HCA_MAKES,
					  run_ask, end_ports);
	const struct hca_ports *ports;
	int rc = -ENOMEM;
	unsigned n;

	if (job) {
		job->spec = *spec;
		rc = hca_visit(&job);
	}
	if (rc < 0) {
		job_over(job, rc);
		return no_port(spec, port, rc == -EIO ? -ETIMEDOUT : rc);
	}
	ports = job->made;
	n = ports->n;
	memcpy(port, ports->port, n * sizeof(*port));
	end_ports(job->made);
	job_over(job, 0);
	return n;
}

int mpib_rdma_ports(struct mpib_rdma_port **port)
{
	struct mpib_rail_spec *spec = NULL;
	int devices = mpib_rdma_list(&spec), n = 0;

	if (devices > 0) {
		*port = calloc((size_t)devices * PORTS_OF_ONE, sizeof(**port));
		for (int i = 0; *port && i < devices; i++)
			n += (int)ask_device(&spec[i], *port + n);
		devices = *port ? n : -ENOMEM;
	}
	free(spec);
	return devices;
}
