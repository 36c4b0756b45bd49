/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing the shard of a new client. */
#include "client/place.h"

#include <stdbool.h>

unsigned mpib_place(enum mpib_place how, const uint32_t *of_user,
		    const uint32_t *of_all, unsigned shards)
{
	unsigned best = 0;

	for (unsigned i = 1; i < shards; i++) {
		bool better = how == MPIB_PLACE_OWN
				      ? of_user[i] > of_user[best]
				      : of_user[i] < of_user[best];

		if (better ||
		    (of_user[i] == of_user[best] && of_all[i] < of_all[best]))
			best = i;
	}
	return best;
}
