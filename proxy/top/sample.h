/* SPDX-License-Identifier: Apache-2.0 */
/* The proxy's answers at one moment, and rates between two such moments. */
#ifndef MPIB_TOP_SAMPLE_H
#define MPIB_TOP_SAMPLE_H

#include "ctl/dial.h"

struct top_sample {
	double time; /* seconds of CLOCK_MONOTONIC; 0: no sample */
	json_t *info, *rails, *clients, *conns;
};

/* Returns an exit status like the calls of dial.h. *s is empty on failure. */
int top_sample_take(struct mpib_dial *d, struct top_sample *s);
void top_sample_free(struct top_sample *s);

/* The number at key of o, or the sum of one per rail; key is "tx_bytes" or
 * "tx_bytes.sup". 0 if missing. */
double top_num(const json_t *o, const char *key);
/* Two successive samples; was.time is 0 while there is only one. */
struct top_span {
	struct top_sample was, now;
};

/* How much a row's counter grew per second between s->was and s->now; 0 if
 * there is only one sample. */
double top_rate(const struct top_span *s, const json_t *was, const json_t *now,
		const char *key);

#endif
