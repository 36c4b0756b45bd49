/* SPDX-License-Identifier: Apache-2.0 */
/* Let devices behave like software HCAs, which make progress only while their
 * process polls them. */
#include "sim_hca.h"
#include "verbs/verbs.h"

static bool soft;

void sim_hca_soft(bool on)
{
	soft = on;
}

bool sim_hca_is_soft(void)
{
	return soft;
}

bool sim_motion(struct ibv_context *c, struct ibv_qp *qp,
		struct mpib_motion *motion)
{
	const struct sim_ctx *ctx = sim_ctx(c);

	motion->turns = soft ? ctx->turns + 1 : 0;
	if (qp)
		motion->came += ((struct sim_qp *)qp)->taken;
	return ctx->device->still_until <= sim_now;
}

bool sim_stands_still(const struct sim_ctx *ctx, struct sim_event *e,
		      sim_event_fn *fn, struct sim_qp *qp)
{
	uint64_t until = ctx->device->still_until;

	if (until <= sim_now)
		return false;
	sim_event_arm(e, until + 1, fn, qp);
	return true;
}
