/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rehearsals: the admin command "fault" injects a fault into a rail for a
 * limited time, at most one per rail. This needs [fault] enable = yes. The
 * fault ends after its time, by the command "heal", or when the proxy exits.
 * Control thread.
 */
#ifndef MPIB_PROXY_STATS_PLAY_H
#define MPIB_PROXY_STATS_PLAY_H

#include "base/loop.h"
#include "config/config.h"
#include "engine/rehearse.h"

struct mpib_plays {
	struct mpib_loop *loop;
	struct mpib_engine *engine;
	const struct mpib_config *cfg;
	struct mpib_play {
		struct mpib_plays *all;
		const char *rail; /* the rail's label */
		struct mpib_fault fault; /* kind MPIB_FAULT_NONE: no fault */
		char what[32]; /* the fault as given: "rate=100" */
		uid_t uid; /* of the admin who gave the command */
		uint64_t until;
		struct mpib_timer timer;
	} play[MPIB_RAILS_MAX]; /* by the rail's number */
};

void mpib_plays_init(struct mpib_plays *all, struct mpib_loop *loop,
		     struct mpib_engine *engine, const struct mpib_config *cfg);
/* End all faults, and log `why` as the reason. Does nothing before
 * mpib_plays_init(). */
void mpib_plays_end(struct mpib_plays *all, const char *why);

#endif
