/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces uring.c if liburing is absent or too old. Its open() fails as on a
 * kernel without io_uring. */
#include <errno.h>

#include "verbs/soft/wire/soft_conn.h"

static int no_uring_open(struct soft_ctx *ctx)
{
	(void)ctx;
	return -ENOSYS;
}

const struct soft_engine soft_engine_uring = {
	.name = "io_uring",
	.open = no_uring_open,
};
