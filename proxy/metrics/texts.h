/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts about a snapshot for HTTP readers. Each text is made once for all
 * readers that wait for it, part by part. The control thread makes parts for
 * about 0.5 ms at a time, which is a slice. After each slice, it does other
 * work for as long as the slice took. The next snapshot is taken after a delay.
 * So a reader that asks again and again uses only a part of the control
 * thread's time. Control thread.
 */
#ifndef MPIB_METRICS_TEXTS_H
#define MPIB_METRICS_TEXTS_H

#include "metrics/gather.h"
#include "view/view.h"

enum mpib_text {
	MPIB_TEXT_METRICS,
	MPIB_TEXT_HISTORY, /* JSON of the command `history`: the last hour */
	/* Answers of stats socket commands in one JSON object: {"time": seconds
	 * since the epoch, "info": ..., "rails": ..., ...}. */
	MPIB_TEXT_STATS,
	MPIB_TEXTS,
};

/* Receive `text` for all readers that have asked for it so far, and free it.
 * `text` is NULL if memory is short. */
typedef void mpib_texts_fn(void *arg, enum mpib_text which, char *text);

struct mpib_texts {
	struct mpib_gather *gather;
	mpib_texts_fn *fn;
	void *arg;
	struct mpib_gather_wait wait;
	struct mpib_timer timer; /* until the next snapshot, or the next part */
	uint64_t told_ns; /* when the last texts were complete; 0: none yet */
	uint8_t wanted; /* mask of the texts of the next snapshot */
	uint8_t asked; /* mask of the texts of the current snapshot */
	bool keeps; /* holds a reference to the gather's snapshot */
	/* For MPIB_TEXT_STATS: index of the command whose answer is in
	 * progress. */
	unsigned key;
	struct mpib_view_part part; /* the text in progress */
};

/* Call `fn` with the text, in a later turn of the loop. */
void mpib_texts_ask(struct mpib_texts *t, enum mpib_text which);
/* Stop: `fn` is not called any more. */
void mpib_texts_stop(struct mpib_texts *t);

#endif
