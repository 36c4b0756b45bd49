/* SPDX-License-Identifier: Apache-2.0 */
/* Option -r of mpibctl: rates, from two answers of the proxy. */
#ifndef MPIB_CTL_RATES_H
#define MPIB_CTL_RATES_H

#include <jansson.h>
#include <stdbool.h>

/* Whether the rows that this noun shows are compared. */
bool mpib_rates_of(const char *noun);
/*
 * Add tx_gbps and rx_gbps, payload in Gb/s, to each row of now; was are the rows
 * of some seconds before. A row that is new counts from 0, and one whose
 * counters began again has null.
 */
void mpib_rates_add(json_t *now, const json_t *was, double seconds);

#endif
