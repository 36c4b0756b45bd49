/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of split modes and sources, for logs and tools. Any thread.
 */
#include "engine/split/policy.h"

const char *mpib_mode_name(enum mpib_mode mode)
{
	static const char *const name[] = {
		[MPIB_MODE_VANILLA] = "vanilla",
		[MPIB_MODE_ADVANCED] = "advanced",
		[MPIB_MODE_ADAPTIVE] = "adaptive",
		[MPIB_MODE_STATIC] = "static",
	};

	return mode <= MPIB_MODE_STATIC ? name[mode] : "?";
}

const char *mpib_split_source_name(enum mpib_split_source source)
{
	static const char *const name[] = {
		[MPIB_SPLIT_STATIC] = "static",
		[MPIB_SPLIT_HINT] = "hint",
		[MPIB_SPLIT_ISOLATION] = "isolation",
		[MPIB_SPLIT_ADAPTIVE] = "adaptive",
		[MPIB_SPLIT_FAILOVER] = "fail-over",
		[MPIB_SPLIT_DRAIN] = "drain",
		[MPIB_SPLIT_ONE_RAIL] = "one rail",
	};

	return source <= MPIB_SPLIT_ONE_RAIL ? name[source] : "?";
}
