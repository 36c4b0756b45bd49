/* SPDX-License-Identifier: Apache-2.0 */
#include "base/xalloc.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

#define TRIES 1000

void *mpib_xrealloc(void *p, size_t size)
{
	void *more = realloc(p, size);

	for (int i = 0; !more && i < TRIES; i++) {
		usleep(1000);
		more = realloc(p, size);
	}
	if (!more) {
		mpib_err(
			"out of memory: %zu bytes needed to shut something down",
			size);
		abort();
	}
	return more;
}

void *mpib_xcalloc(size_t size)
{
	return memset(mpib_xrealloc(NULL, size), 0, size);
}
