/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses that no other test uses: tests run at the same time, and a proxy
 * listens at the address of its rail. addr.sh does the same for scripts.
 */
#ifndef MPIB_TESTS_ADDR_H
#define MPIB_TESTS_ADDR_H

#include <stdint.h>
#include <unistd.h>

/* 127.A.B.host in host byte order; A (128 to 227) and B follow from the pid. */
static inline uint32_t test_addr(unsigned host)
{
	unsigned pid = (unsigned)getpid();

	return 127u << 24 | (128 + pid / 250 % 100) << 16 | pid % 250 << 8 |
	       host;
}

#endif
