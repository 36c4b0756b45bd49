/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums over a snapshot, for JSON and metrics. What open and closed connections
 * moved adds up to what the rails moved. May be called by any thread that owns
 * the snapshot.
 */
#ifndef MPIB_PROXY_SUMS_H
#define MPIB_PROXY_SUMS_H

#include "engine/measure/snapshot.h"

/* Sums of one client; all zero if the snapshot does not have the client. */
struct mpib_client_sums {
	uint32_t connections; /* open ones only */
	uint64_t messages; /* of open and closed connections */
	uint64_t limited; /* rounds in which a limit held the client back */
	struct mpib_rail_counts closed[MPIB_RAILS];
	struct mpib_rail_counts n[MPIB_RAILS]; /* open and closed */
};

/* Add n to sum, for both rails. */
void mpib_sums_add(struct mpib_rail_counts *sum,
		   const struct mpib_rail_counts *n);
/* In a pass over all connections: for many clients take mpib_sums_all(). */
void mpib_sums_of_client(const struct mpib_snapshot *snap, uint32_t client,
			 struct mpib_client_sums *sums);
/* The sums of all clients of the snapshot, which stays meanwhile; NULL: no memory. */
struct mpib_sums;
struct mpib_sums *mpib_sums_all(const struct mpib_snapshot *snap);
const struct mpib_client_sums *mpib_sums_get(const struct mpib_sums *all,
					     uint32_t client);
void mpib_sums_free(struct mpib_sums *all);
/* What all closed connections moved, including those of clients that left. */
void mpib_sums_closed(const struct mpib_snapshot *snap,
		      struct mpib_rail_counts *closed);

#endif
