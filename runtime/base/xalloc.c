/* SPDX-License-Identifier: Apache-2.0 */
#include "base/xalloc.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

#define TRIES 1000

void *mpib_xcalloc(size_t size)
{
	void *p = calloc(1, size);

	for (int i = 0; !p && i < TRIES; i++) {
		usleep(1000);
		p = calloc(1, size);
	}
	if (!p) {
		mpib_err("out of memory: %zu bytes to take something down with",
			 size);
		abort();
	}
	return p;
}

void *mpib_xrealloc(void *p, size_t used, size_t size)
{
	void *more = mpib_xcalloc(size);

	if (used)
		memcpy(more, p, used);
	free(p);
	return more;
}
