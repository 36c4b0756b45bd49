/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which shard a new client gets. Shards schedule independently, so weights only
 * count among the clients of one shard. Each user's clients are therefore
 * spread evenly over the shards: when every shard has an equal part of every
 * user, the weights hold for the rails as a whole.
 */
#ifndef MPIB_PROXY_CLIENT_PLACE_H
#define MPIB_PROXY_CLIENT_PLACE_H

#include <stdint.h>

/* The shard with the fewest clients of the new client's user (of_user); among
 * equals, the one with the fewest clients (of_all), then the first. Both arrays
 * are indexed by shard; shards is not 0. */
unsigned mpib_place(const uint32_t *of_user, const uint32_t *of_all,
		    unsigned shards);

#endif
