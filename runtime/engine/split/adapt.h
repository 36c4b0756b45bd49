/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The adaptive split of one lane.
 *
 * Each rail's rate is what it completed per busy time, from ack to ack, so that
 * an idle moment is no sign of slowness. The share in force follows the ratio
 * of the rates and stays where it is while it is nearly right. A transfer then
 * departs from the share by what the rails still have in flight, so that both
 * end together: even under a wrong share neither rail runs dry while the other
 * has a queue, and the rates are those of busy rails. A rail that gets nothing
 * is tried with a little now and then.
 *
 * A small message goes over one rail: the one that answers small messages
 * sooner, counting what is queued there.
 *
 * Shard thread, integers only, time as an argument.
 */
#ifndef MPIB_ENGINE_ADAPT_H
#define MPIB_ENGINE_ADAPT_H

#include <mpib/abi.h>

#include "engine/split/tracker.h"

#define MPIB_ADAPT_SMALL MPIB_TRACK_SMALL
/* Less than this is not worth a WR and a completion of its own. */
#define MPIB_ADAPT_LEAST 4096u

struct mpib_adapt {
	uint32_t share; /* in force, SUP's parts per 1024 */
	uint64_t since; /* when it became so, ns */
	struct mpib_adapt_rail {
		uint64_t rate; /* bytes per ms, smoothed; 0: unknown */
		uint64_t mark, acked, acked_bytes, busy; /* window's begin */
		uint64_t tried; /* last probe */
	} rail[MPIB_RAILS];
	uint8_t fast; /* rail of small messages */
};

void mpib_adapt_init(struct mpib_adapt *a, uint64_t now);

/* SUP's parts per 1024 of a send op of len bytes of a message of total. track is
 * of both rails. */
uint32_t mpib_adapt_share(struct mpib_adapt *a,
			  const struct mpib_tracker *track, uint32_t total,
			  uint32_t len, uint64_t now);

#endif
