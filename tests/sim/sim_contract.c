/* SPDX-License-Identifier: Apache-2.0 */
/* Run the conformance suite for verbs on the simulated HCA. */
#include <stdbool.h>

#include "sim_hca.h"

bool vt_sim_link(struct ibv_context *ctx, bool up);

bool vt_sim_link(struct ibv_context *ctx, bool up)
{
	sim_device_link(sim_ctx(ctx)->device, up);
	return true;
}
