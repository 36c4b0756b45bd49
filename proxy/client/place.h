/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which shard a new client gets. Shards do not know of each other, so weights
 * count among the clients of one. Each user's clients are therefore dealt out
 * evenly: where every shard has a like part of every user, what weights make of
 * each shard they make of the rails.
 */
#ifndef MPIB_PROXY_CLIENT_PLACE_H
#define MPIB_PROXY_CLIENT_PLACE_H

#include <stdint.h>

/* Of the shards with the fewest of its user's clients the one with the fewest
 * of all; the first such. Both by shard; shards is not 0. */
unsigned mpib_place(const uint32_t *of_user, const uint32_t *of_all,
		    unsigned shards);

#endif
