/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Choose addresses that no other test or bench uses, because tests run at the
 * same time, and a proxy listens at the address of its rail. addr.sh does the
 * same for scripts.
 */
#ifndef MPIB_TESTS_ADDR_H
#define MPIB_TESTS_ADDR_H

#include <stdint.h>

/* Return 127.A.B.host in host byte order. The first call claims 127.A.*.* with
 * a file lock, which is released when the process ends. Call this from only one
 * thread. */
uint32_t test_addr(unsigned host);

#endif
