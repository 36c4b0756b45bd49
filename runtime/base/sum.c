/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sum.h"

#include <stdlib.h>

#include "base/log.h"

void mpib_sum_abort(const char *whose, const struct mpib_sum *wrong)
{
	mpib_err("%s: %s: %llu are owed, and their owners have %llu", whose,
		 wrong->what, (unsigned long long)wrong->owed,
		 (unsigned long long)wrong->have);
	abort();
}
