/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The texts that readers by HTTP are told of a snapshot: each is made once for all
 * who wait for it, a part at a time, with as long a pause after each slice of parts.
 * The next snapshot is not taken at once. So who asks without end has the control
 * thread for a part of the time. Control thread.
 */
#ifndef MPIB_METRICS_TEXTS_H
#define MPIB_METRICS_TEXTS_H

#include "metrics/gather.h"
#include "view/view.h"

enum mpib_text {
	MPIB_TEXT_METRICS,
	MPIB_TEXT_HISTORY, /* the last hour, as the command history has it */
	/* Answers of stats socket commands in one JSON object: {"time": seconds
	 * since the epoch, "info": ..., "rails": ..., ...}. */
	MPIB_TEXT_STATS,
	MPIB_TEXTS,
};

/* A text for all who have asked for it until now. It is fn's to free; NULL: no
 * memory. */
typedef void mpib_texts_fn(void *arg, enum mpib_text which, char *text);

struct mpib_texts {
	struct mpib_gather *gather;
	mpib_texts_fn *fn;
	void *arg;
	struct mpib_gather_wait wait;
	struct mpib_timer timer; /* the next snapshot, or the next part */
	uint64_t told_ns; /* when the last one was through; 0: none yet */
	uint8_t wanted; /* of the next snapshot, as a mask */
	uint8_t asked; /* of the one that is waited for, or that is kept */
	bool keeps;
	unsigned key; /* of MPIB_TEXT_STATS: the answer that is made */
	struct mpib_view_part part; /* at: of its list */
};

/* Have fn called for the text, at a later turn of the loop. */
void mpib_texts_ask(struct mpib_texts *t, enum mpib_text which);
/* fn will not be called. */
void mpib_texts_stop(struct mpib_texts *t);

#endif
