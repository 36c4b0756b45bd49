/* SPDX-License-Identifier: Apache-2.0 */
/* What the proxy said at one moment, and what became of it since another. */
#ifndef MPIB_TOP_SAMPLE_H
#define MPIB_TOP_SAMPLE_H

#include "ctl/dial.h"

struct top_sample {
	double time; /* seconds of CLOCK_MONOTONIC, 0: nothing was taken */
	json_t *info, *rails, *clients, *conns;
};

/* As dial.h. *s is empty after a failure. */
int top_sample_take(struct mpib_dial *d, struct top_sample *s);
void top_sample_free(struct top_sample *s);

/* A number of an object: key "tx_bytes", or "tx_bytes.sup". 0 without. */
double top_num(const json_t *o, const char *key);
const char *top_str(const json_t *o, const char *key);
/* The row of list that has the numbers of like under these keys (b may be
 * NULL); NULL: there is none. */
const json_t *top_match(const json_t *list, const json_t *like, const char *a,
			const char *b);

/* Two moments; was.time is 0 for the first one. */
struct top_span {
	struct top_sample was, now;
};

/* How fast a counter of a row grew, a second; 0 over no time. */
double top_rate(const struct top_span *s, const json_t *was, const json_t *now,
		const char *key);

#endif
