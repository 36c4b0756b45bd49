/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The adaptive split of one lane.
 *
 * A rail's rate is the bytes it completed per busy time, from ack to ack, so
 * that an idle moment does not count as slowness. The share in force follows
 * the ratio of the two rates and does not change while it is nearly right. A
 * send op's split then departs from the share by what each rail still has in
 * flight, so that both rails end together: even under a wrong share neither
 * rail runs dry while the other has a queue, and the measured rates are those
 * of busy rails. A rail that gets nothing is given a few bytes now and then to
 * measure it.
 *
 * A small message goes over one rail: the one that acks small messages sooner,
 * counting the bytes queued there.
 *
 * Shard thread, integers only; the caller passes the time.
 */
#ifndef MPIB_ENGINE_ADAPT_H
#define MPIB_ENGINE_ADAPT_H

#include <mpib/abi.h>

#include "engine/split/tracker.h"

#define MPIB_ADAPT_SMALL MPIB_TRACK_SMALL
/* Fewer bytes than this are not worth a WR and a completion of their own. */
#define MPIB_ADAPT_LEAST 4096u

struct mpib_adapt {
	uint32_t share; /* in force, SUP's parts per 1024 */
	uint64_t since; /* when share last changed, ns */
	struct mpib_adapt_rail {
		uint64_t rate; /* bytes per ms, smoothed; 0: unknown */
		uint64_t mark, acked, acked_bytes, busy; /* at the begin of the
							    window */
		uint64_t tried; /* when it was last given bytes to measure it */
	} rail[MPIB_RAILS];
	uint8_t fast; /* the rail for small messages */
};

void mpib_adapt_init(struct mpib_adapt *a, uint64_t now);

/* SUP's parts per 1024 of a send op of len bytes that belongs to a message of
 * total bytes. track has one entry per rail. */
uint32_t mpib_adapt_share(struct mpib_adapt *a,
			  const struct mpib_tracker *track, uint32_t total,
			  uint32_t len, uint64_t now);

#endif
