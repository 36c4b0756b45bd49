/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/recovery/cause.h"

const char *mpib_rail_cause_name(enum mpib_rail_cause cause)
{
	static const char *const name[MPIB_CAUSES] = {
		[MPIB_CAUSE_NONE] = "no cause",
		[MPIB_CAUSE_PORT] = "port down",
		[MPIB_CAUSE_ERROR] = "error completion",
		[MPIB_CAUSE_STUCK] = "black hole",
		[MPIB_CAUSE_PEER] = "the peer's notice",
		[MPIB_CAUSE_PROBE] = "probe without answer",
	};

	return cause < MPIB_CAUSES ? name[cause] : "?";
}
