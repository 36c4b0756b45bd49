/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rehearsals: faults that the admin commands "fault" and "heal" play on a rail
 * for a time, one at once on each rail. Only with [fault] enable = yes. They end
 * with their time, by "heal" and with the proxy. Control thread.
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
		const char *rail; /* its label */
		struct mpib_fault fault; /* kind MPIB_FAULT_NONE: nothing */
		char what[32]; /* as it was asked for: "rate=100" */
		uid_t uid; /* who asked */
		uint64_t until;
		struct mpib_timer timer;
	} play[MPIB_RAILS_MAX]; /* by the rail's number */
};

void mpib_plays_init(struct mpib_plays *all, struct mpib_loop *loop,
		     struct mpib_engine *engine, const struct mpib_config *cfg);
/* End all of them; why is for the log. Does nothing before the init. */
void mpib_plays_end(struct mpib_plays *all, const char *why);

#endif
