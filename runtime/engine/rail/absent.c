/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which rails the shard or the peer has lost, and how to say so. Control
 * thread.
 */
#include "engine/rail/absent.h"

#include <errno.h>
#include <stdio.h>

uint8_t mpib_shard_absent(const struct mpib_shard *s)
{
	uint8_t away = 0;

	for (unsigned r = 0; r < s->engine->cfg.rails; r++)
		away |= (uint8_t)(s->rail[r].dead << r);
	return away;
}

const char *mpib_absent_say(const struct mpib_shard *s, uint8_t ours,
			    uint8_t theirs, char *buf, size_t len)
{
	size_t at = 0;

	buf[0] = '\0';
	for (unsigned r = 0; r < MPIB_RAILS && at < len; r++) {
		const char *and = at ? " and " : "";

		if (ours >> r & 1)
			at += (size_t)snprintf(buf + at, len - at, "%s%s (%s)",
					       and, mpib_rail_name(r),
					       mpib_rail_spec(s, r)->name);
		else if (theirs >> r & 1)
			at += (size_t)snprintf(buf + at, len - at,
					       "%s%s at the other end", and,
					       mpib_rail_name(r));
	}
	return buf;
}

int mpib_rail_made(struct mpib_shard *s, unsigned rail, const char *call,
		   int rc)
{
	if (rc < 0 && mpib_rail_is_gone(s, rail, rc))
		return mpib_shard_some_rail(s);
	return mpib_last_error(s, rail, call, rc);
}

int mpib_shard_some_rail(const struct mpib_shard *s)
{
	struct mpib_engine *e = s->engine;
	uint8_t away = mpib_shard_absent(s);
	char rails[160];

	if (away != (1u << e->cfg.rails) - 1)
		return 0;
	return mpib_last_error_set(
		e, -ENETDOWN,
		"no rail is left, the device failed or was removed: %s (once "
		"it is there again, restart mpib-proxy)",
		mpib_absent_say(s, away, 0, rails, sizeof(rails)));
}
