/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long the requests of a connection take, as histograms. The shard records, with
 * the time at which its turn began, so an interval within one turn is 0; the
 * control thread reads meanwhile and adds up what closed connections had.
 */
#ifndef MPIB_ENGINE_TIMES_H
#define MPIB_ENGINE_TIMES_H

#include <mpib/abi.h>
#include <stdbool.h>

#include "base/hist.h"

struct mpib_engine;

enum mpib_time {
	/* Send: from the ring to the first post; receive: to its CTS. */
	MPIB_TIME_SUBMIT_POST,
	/* Send: a chain's post to its completion, by rail; receive: a CTS's
	 * post to the rail's immediate value. */
	MPIB_TIME_POST_SOUT,
	MPIB_TIME_POST_SUP,
	/* From the ring to the completion word. */
	MPIB_TIME_SUBMIT_DONE,
	MPIB_TIMES,
};

struct mpib_times {
	struct mpib_hist hist[MPIB_TIMES];
};

/* All connections there ever were, sending or receiving, added to sum. Control
 * thread. */
void mpib_engine_times(const struct mpib_engine *engine, bool sender,
		       enum mpib_time which, struct mpib_hist_counts *sum);

/* What a connection has, or -ENOENT. Control thread. */
int mpib_engine_conn_times(const struct mpib_engine *engine, uint32_t client,
			   uint32_t index, enum mpib_time which,
			   struct mpib_hist_counts *sum);

#endif
