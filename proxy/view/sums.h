/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums over a snapshot, for all who show them: what connections moved, open and
 * closed ones, adds up to what the rails did. Any thread that has the snapshot.
 */
#ifndef MPIB_PROXY_SUMS_H
#define MPIB_PROXY_SUMS_H

#include "engine/measure/snapshot.h"

/* Of one client. All zero: the snapshot does not have it. */
struct mpib_client_sums {
	uint32_t connections; /* open */
	uint64_t messages; /* of open and closed ones */
	uint64_t limited; /* rounds in which a limit held it back */
	struct mpib_rail_counts closed[MPIB_RAILS];
	struct mpib_rail_counts n[MPIB_RAILS]; /* of open and closed ones */
};

/* Both rails' of n on top of sum's. */
void mpib_sums_add(struct mpib_rail_counts *sum,
		   const struct mpib_rail_counts *n);
void mpib_sums_of_client(const struct mpib_snapshot *snap, uint32_t client,
			 struct mpib_client_sums *sums);
/* What all closed connections moved, those of clients that left as well. */
void mpib_sums_closed(const struct mpib_snapshot *snap,
		      struct mpib_rail_counts *closed);

#endif
