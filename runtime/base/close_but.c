/* SPDX-License-Identifier: Apache-2.0 */
#include "base/close_but.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

static int by_number(const void *a, const void *b)
{
	const int *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

void mpib_close_but(int *stay, size_t n)
{
	int at = STDERR_FILENO + 1;

	qsort(stay, n, sizeof(*stay), by_number);
	for (size_t i = 0; i < n; i++) {
		if (stay[i] > at)
			close_range((unsigned)at, (unsigned)stay[i] - 1, 0);
		if (stay[i] >= at)
			at = stay[i] + 1;
	}
	close_range((unsigned)at, INT_MAX, 0);
}
