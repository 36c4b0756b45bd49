/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault.late: WRITEs that are acknowledged and completed while their bytes are
 * still on the way, as on PCIe to a GPU, until a READ pushes them. Only into
 * regions that may be read. The caller holds ctx->lock.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bus.h"
#include "verbs/soft/ctx.h"
#include "verbs/soft/qp.h"

struct soft_late {
	TAILQ_ENTRY(soft_late) link;
	struct soft_pd *pd;
	uint32_t rkey, len;
	uint64_t addr;
	uint8_t data[];
};

void soft_late_drop(struct soft_qp *qp)
{
	free(qp->late);
	qp->late = NULL;
}

bool soft_late_begin(struct soft_qp *qp)
{
	const struct soft_hdr *h = &qp->rx;

	soft_late_drop(qp);
	if (!qp->ctx->fault.late || !h->len ||
	    !soft_mr_remote(qp->ctx, qp->pd, h->rkey, h->addr, h->len,
			    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ))
		return false;
	qp->late = malloc(sizeof(*qp->late) + h->len);
	if (!qp->late)
		return false;
	qp->late->pd = qp->pd;
	qp->late->rkey = h->rkey;
	qp->late->len = h->len;
	qp->late->addr = h->addr;
	return true;
}

uint8_t *soft_late_data(struct soft_qp *qp)
{
	return qp->late->data;
}

void soft_late_end(struct soft_qp *qp)
{
	TAILQ_INSERT_TAIL(&qp->ctx->late, qp->late, link);
	qp->late = NULL;
}

void soft_late_place(struct soft_ctx *ctx)
{
	struct soft_late *late;

	while ((late = TAILQ_FIRST(&ctx->late))) {
		/* The region may be gone: then nobody looks for the bytes. */
		uint8_t *to =
			soft_mr_remote(ctx, late->pd, late->rkey, late->addr,
				       late->len, IBV_ACCESS_REMOTE_WRITE);

		TAILQ_REMOVE(&ctx->late, late, link);
		if (to) {
			mpib_bus_begin(to, late->data, late->len);
			memcpy(to, late->data, late->len);
			mpib_bus_end();
		}
		free(late);
	}
}

void soft_late_forget(struct soft_ctx *ctx)
{
	struct soft_late *late;

	while ((late = TAILQ_FIRST(&ctx->late))) {
		TAILQ_REMOVE(&ctx->late, late, link);
		free(late);
	}
}
