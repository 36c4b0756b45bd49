/* SPDX-License-Identifier: Apache-2.0 */
/* Which users have room for one more reader, of any socket that shows
 * statistics. */
#ifndef MPIB_VIEW_READERS_H
#define MPIB_VIEW_READERS_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Whether user uid, who has of_user readers, may have one more: of max a user has
 * a quarter, and others counts all users' readers; root has for_root places
 * beside these, if that is not 0.
 */
static inline bool mpib_reader_fits(uid_t uid, unsigned of_user,
				    unsigned others, unsigned max,
				    unsigned for_root)
{
	if (uid == 0 && for_root)
		return of_user < for_root;
	return others < max && of_user < (max + 3) / 4;
}

#endif
