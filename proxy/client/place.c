/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing the shard of a new client. */
#include "client/place.h"

unsigned mpib_place(const uint32_t *of_user, const uint32_t *of_all,
		    unsigned shards)
{
	unsigned best = 0;

	for (unsigned i = 1; i < shards; i++) {
		if (of_user[i] < of_user[best] ||
		    (of_user[i] == of_user[best] && of_all[i] < of_all[best]))
			best = i;
	}
	return best;
}
