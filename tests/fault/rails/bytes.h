/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of messages, which are known from a seed. */
#ifndef MPIB_TESTS_FAULT_BYTES_H
#define MPIB_TESTS_FAULT_BYTES_H

#include <stdint.h>

/* Another number for each number. */
uint64_t bytes_mix(uint64_t z);
void bytes_fill(char *p, uint32_t len, uint64_t seed);
/* Where 8 bytes begin that are not those of seed; len: nowhere. */
uint32_t bytes_wrong(const char *p, uint32_t len, uint64_t seed);

#endif
