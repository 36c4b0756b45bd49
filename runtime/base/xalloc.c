/* SPDX-License-Identifier: Apache-2.0 */
#include "base/xalloc.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"

#define TRIES 1000

static _Noreturn void no_memory(size_t size)
{
	mpib_err("out of memory: %zu bytes to take something down with", size);
	abort();
}

void *mpib_xcalloc(size_t size)
{
	void *p = calloc(1, size);

	for (int i = 0; !p && i < TRIES; i++) {
		usleep(1000);
		p = calloc(1, size);
	}
	if (!p)
		no_memory(size);
	return p;
}

void *mpib_xrealloc(void *p, size_t size)
{
	void *more = realloc(p, size);

	for (int i = 0; !more && i < TRIES; i++) {
		usleep(1000);
		more = realloc(p, size);
	}
	if (!more)
		no_memory(size);
	return more;
}
