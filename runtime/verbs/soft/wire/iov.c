/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs poll the end of a message in memory and take it for the whole, or
 * find several records in one WRITE by the last word of each, since HCAs write
 * upwards. The kernel and memcpy() write in any order, and where a thread
 * makes progress, or a process polls memory of another's registration, that
 * shows. So what came in with a header is written by mpib_copy_up(), and of
 * what is too big for that at least the end is not left to the kernel.
 */
#include "verbs/soft/wire/conn.h"

size_t soft_iov_trim(struct iovec *iov, int *n, size_t by)
{
	size_t left = by;

	while (left && *n) {
		struct iovec *last = &iov[*n - 1];
		size_t part = last->iov_len < left ? last->iov_len : left;

		last->iov_len -= part;
		left -= part;
		if (!last->iov_len)
			--*n;
	}
	return by - left;
}
