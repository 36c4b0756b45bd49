/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The traffic of the rails in the last hour, for the analysis of incidents. A
 * sample is taken every MPIB_HISTORY_PERIOD_S seconds. The memory is allocated
 * once. The history of the next proxy begins empty. Control thread.
 */
#ifndef MPIB_VIEW_HISTORY_H
#define MPIB_VIEW_HISTORY_H

#include <stdint.h>

#define MPIB_HISTORY_PERIOD_S 5
#define MPIB_HISTORY_KEPT 721u /* the samples of an hour, and one before */

/* Counters of one rail. */
struct mpib_history_rail {
	uint64_t tx, rx; /* payload bytes */
	uint32_t errors; /* completions with an error */
	uint32_t down; /* 1: the rail was down or drained */
};

struct mpib_history_sample {
	uint64_t time_ns; /* CLOCK_REALTIME */
	uint64_t oldest_ns; /* age of the oldest request; 0: none */
	uint32_t clients, connections;
};

struct mpib_history {
	uint32_t rails; /* of all devices */
	uint32_t next; /* number of samples so far; sample n is at n % KEPT */
	struct mpib_history_sample *sample; /* NULL: no samples are kept */
	struct mpib_history_rail *rail; /* `rails` entries for each sample */
};

struct mpib_view;

/* Allocate for the given number of rails. Returns 0 or -ENOMEM. */
int mpib_history_init(struct mpib_history *h, unsigned rails);
/* Add a sample of v's snapshot. */
void mpib_history_add(struct mpib_history *h, const struct mpib_view *v,
		      uint64_t time_ns);

#endif
