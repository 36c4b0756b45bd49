/* SPDX-License-Identifier: Apache-2.0 */
/* Latency histograms of a connection's requests. The time of an event is the
 * start of the shard's turn, so an interval within one turn is 0. The control
 * thread reads the histograms concurrently and keeps the sums of closed
 * connections. */
#ifndef MPIB_ENGINE_TIMES_H
#define MPIB_ENGINE_TIMES_H

#include <stdbool.h>

#include "base/hist.h"

struct engine_client;
struct mpib_engine;

enum mpib_time {
	/* From the descriptor in the ring to the first post (send) or to the
	 * post of the CTS (receive). */
	MPIB_TIME_SUBMIT_POST,
	/* By rail. Send: from the post of a chain to its completion. Receive:
	 * from the post of the CTS to the arrival of the rail's IMM. */
	MPIB_TIME_POST_SOUT,
	MPIB_TIME_POST_SUP,
	/* From the descriptor in the ring to the completion word. */
	MPIB_TIME_SUBMIT_DONE,
	MPIB_TIMES,
};

struct mpib_times {
	struct mpib_hist hist[MPIB_TIMES];
};

/* Sum up the histograms of all sending ends, or of all receiving ends, and add
 * the result to *sum. Closed connections are included. Control thread. */
void mpib_engine_times(const struct mpib_engine *engine, bool sender,
		       enum mpib_time which, struct mpib_hist_counts *sum);

/* Add to *sum the histogram of the times (MPIB_TIME_SUBMIT_DONE) of all sends,
 * or of all receives, of one client. Control thread. */
void mpib_engine_client_times(const struct engine_client *client, bool sender,
			      struct mpib_hist_counts *sum);

/* Add to *sum the histogram of one connection of a client. Return -ENOENT if
 * the client has no such connection. The call searches MPIB_INDEXES_MAX
 * entries. Control thread. */
int mpib_engine_conn_times(const struct engine_client *client, uint32_t index,
			   enum mpib_time which, struct mpib_hist_counts *sum);

#endif
