/* SPDX-License-Identifier: Apache-2.0 */
/* What the bounded tables of a proxy have in common: who may take the last
 * place. Any thread. */
#ifndef MPIB_PLACES_H
#define MPIB_PLACES_H

#include <stdint.h>
#include <sys/types.h>

/* How many of a table's places may be taken when one of the user comes: a few
 * are root's, who is to get in when users have taken all others. */
static inline uint32_t mpib_places_for(uint32_t places, uid_t uid)
{
	return uid == 0 ? places : places - places / 32;
}

#endif
