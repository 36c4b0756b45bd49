/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which shard a new client gets. Shards schedule independently, so weights only
 * count among the clients of one shard. Each user's clients are therefore
 * spread evenly over the shards: when every shard has an equal part of every
 * user, the weights hold for the rails as a whole. Or a user's clients are kept
 * together, so that its flood keeps one thread busy and not all of them.
 */
#ifndef MPIB_PROXY_CLIENT_PLACE_H
#define MPIB_PROXY_CLIENT_PLACE_H

#include <stdint.h>

enum mpib_place {
	/* The shard with the fewest clients of the new client's user. */
	MPIB_PLACE_ALL,
	/* Where the user's clients are, or else the emptiest shard: while there
	 * are no more users than shards, none waits for another's messages. */
	MPIB_PLACE_OWN,
};

/* The shard of a new client. Of several, the one with the fewest clients
 * (of_all), then the first. of_user counts the clients of the new client's user;
 * both arrays are indexed by shard; shards is not 0. */
unsigned mpib_place(enum mpib_place how, const uint32_t *of_user,
		    const uint32_t *of_all, unsigned shards);

#endif
