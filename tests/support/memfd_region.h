/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MPIB_TESTS_MEMFD_REGION_H
#define MPIB_TESTS_MEMFD_REGION_H

#include <mpib/client.h>

/* Register a sealed memfd of `size` bytes, which stays mapped. Returns the
 * result of mpib_reg_fd(). */
int memfd_region(struct mpib_client *c, size_t size);

#endif
