/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/policy.h"

#include "engine/flow.h"

uint32_t mpib_get_sup_bw(const struct mpib_flow *flow, uint32_t size)
{
	(void)size;
	if (flow->lane->rails < MPIB_RAILS)
		return 0;
	return flow->shard->engine->cfg.sup_bw;
}

void mpib_split(const struct mpib_flow *flow, uint32_t len, uint32_t *rail)
{
	uint32_t sup = mpib_sup_bytes(mpib_get_sup_bw(flow, len), len);

	rail[MPIB_RAIL_SUP] = sup;
	rail[MPIB_RAIL_SOUT] = len - sup;
}
