/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes that are made without a rail whose device an end has lost. Control
 * thread. */
#include "engine/rail/absent.h"

#include <errno.h>

#include "engine/lane/lane.h"

int mpib_lane_leave_out(struct mpib_lane *lane, uint8_t theirs)
{
	struct mpib_engine *e = lane->shard->engine;
	uint8_t ours = mpib_shard_absent(lane->shard) & lane->all;
	char rails[160];

	theirs &= lane->all;
	lane->away |= ours | theirs;
	if (!lane->away)
		return 0;
	mpib_absent_say(lane->shard, ours, theirs, rails, sizeof(rails));
	if (lane->away == lane->all)
		return mpib_last_error_set(
			e, -ENETDOWN,
			"no rail is left that both ends have, the device "
			"failed or was removed: %s (once it is there again, "
			"restart its mpib-proxy)",
			rails);
	if (!lane->failover)
		return mpib_last_error_set(
			e, -ENETDOWN,
			"both ends cannot go without a rail, and the device "
			"failed or was removed: %s (failover.enable)",
			rails);
	return 0;
}
