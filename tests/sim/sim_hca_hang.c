/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulate devices whose firmware does not answer for a while. To the engine,
 * these devices behave like HCAs behind runtime/verbs/hca. A call waits for at
 * most two seconds. If the firmware does not answer within this time, the
 * process loses all its objects on the device, and cannot use the device until
 * the firmware answers again. Calls that destroy an object succeed. The
 * simulator cannot run the code of runtime/verbs/hca. That code uses threads,
 * and all simulated proxies share one real process.
 */

#include "sim_hca.h"
#include "sim_task.h"

#define PATIENCE (2 * SIM_S)

static bool is_hung(const struct sim_device *d)
{
	return d->hangs_until > sim_now;
}

static void hang_give_up(struct sim_device *d)
{
	struct sim_ctx *ctx;

	d->given_up_by = sim_proc_self();
	sim_trace("device %u of node %u hangs", d->rail, d->node);
	LIST_FOREACH(ctx, &d->contexts, link)
	{
		if (ctx->owner != d->given_up_by || ctx->dead)
			continue;
		sim_ctx_die(ctx);
		ctx->hung = ctx->told = true;
		sim_counter_add(ctx->async, 1);
	}
}

bool sim_device_answers(struct sim_device *d)
{
	uint64_t until = sim_now + PATIENCE;

	if (!is_hung(d) || !sim_task_self())
		return true;
	if (d->given_up_by == sim_proc_self())
		return false;
	sim_wait(until < d->hangs_until ? until : d->hangs_until);
	if (is_hung(d) && d->given_up_by != sim_proc_self())
		hang_give_up(d);
	return !is_hung(d);
}

void sim_device_hang(struct sim_device *d, uint64_t until)
{
	d->hangs_until = until;
	d->given_up_by = NULL;
}

static void ask(struct ibv_context *c)
{
	struct sim_ctx *ctx = sim_ctx(c);

	/* The loss of a dead device has been reported already. */
	if (!ctx->dead && ctx->device->calls && !--ctx->device->calls)
		sim_device_lose(ctx->device, ctx->device->told_late);
	if (!ctx->dead)
		sim_device_answers(ctx->device);
}

int sim_asks_reg_mr(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
		    int access, struct ibv_mr **mr)
{
	ask(pd->context);
	return sim_reg_mr(pd, addr, len, iova, access, mr);
}

int sim_asks_dereg_mr(struct ibv_mr *mr)
{
	ask(mr->context);
	return sim_dereg_mr(mr);
}

int sim_asks_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
		       struct ibv_qp **qp)
{
	ask(pd->context);
	return sim_create_qp(pd, attr, qp);
}

int sim_asks_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct sim_ctx *ctx = sim_ctx(qp->context);

	/* Remove the device before the QP is flushed. After a flush, the engine
	 * would wrongly assume that earlier writes are in memory. */
	if (ctx->device->forgets && ctx->device->dies && mask & IBV_QP_STATE &&
	    attr->qp_state == IBV_QPS_ERR)
		sim_device_lose(ctx->device, 0);
	ask(qp->context);
	return sim_modify_qp(qp, attr, mask);
}

int sim_asks_destroy_qp(struct ibv_qp *qp)
{
	ask(qp->context);
	return sim_destroy_qp(qp);
}
