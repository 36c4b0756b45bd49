/* SPDX-License-Identifier: Apache-2.0 */
#include "base/admin_dir.h"

#include <limits.h>
#include <mpib/control.h>
#include <stdio.h>
#include <stdlib.h>

bool mpib_admin_dir(const char *run_dir, char *buf, size_t len)
{
	char whole[PATH_MAX];

	return realpath(run_dir, whole) &&
	       snprintf(buf, len, "%s" MPIB_ADMIN_SUFFIX, whole) < (int)len;
}
