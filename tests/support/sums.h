/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that each counter of a shard, of a broker and of the proxy's clients
 * equals the sum over the objects that the counter counts. Call these functions
 * between two turns, or at the end.
 */
#ifndef MPIB_TEST_SUMS_H
#define MPIB_TEST_SUMS_H

#include <stdbool.h>
#include <stdint.h>

struct mpib_broker;
struct mpib_shard;
struct proxy_clients;

/* A counter that differs from the sum over its objects. */
struct sum {
	const char *what;
	uint64_t owed, have;
};

/* Return whether the counter, whose value is `owed`, equals the sum `have`. If
 * they differ, set *`wrong` to the counter. */
static inline bool sum_fits(struct sum *wrong, const char *what, uint64_t owed,
			    uint64_t have)
{
	if (owed == have)
		return true;
	*wrong = (struct sum){ what, owed, have };
	return false;
}

/* Return whether all counters are correct. Otherwise set *`wrong` to the first
 * wrong counter. engine_sums.c, peer_sums.c and client_sums.c define these
 * functions. */
bool sums_of_shard(const struct mpib_shard *s, struct sum *wrong);
bool sums_of_broker(const struct mpib_broker *broker, struct sum *wrong);
bool sums_of_clients(const struct proxy_clients *all, struct sum *wrong);

#endif
