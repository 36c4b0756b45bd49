/* SPDX-License-Identifier: Apache-2.0 */
/* Rates, from two answers of the proxy: of option -r of mpibctl, and of mpib-top. */
#ifndef MPIB_CTL_RATES_H
#define MPIB_CTL_RATES_H

#include <jansson.h>

/* The row of was that is of the same thing as row, or NULL. *from is 0 at first, and
 * the rows of an answer are looked for in their order. */
const json_t *mpib_rates_find(const json_t *was, const json_t *row,
			      size_t *from);
/*
 * Add tx_gbps and rx_gbps, payload in Gb/s, to each row of now; was are the rows
 * of some seconds before. A row that is new counts from 0, and one whose
 * counters began again has null.
 */
void mpib_rates_add(json_t *now, const json_t *was, double seconds);

#endif
