/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The texts that readers by HTTP, or of the metrics socket, are told of a snapshot: each
 * is made once for all who wait for it, and the next snapshot's not at once, so that who
 * asks without end has the control thread for a part of the time. Control thread.
 */
#ifndef MPIB_METRICS_TEXTS_H
#define MPIB_METRICS_TEXTS_H

#include "metrics/gather.h"
#include "view/stats_json.h"

enum mpib_text {
	MPIB_TEXT_PROMETHEUS,
	MPIB_TEXT_OPENMETRICS,
	MPIB_TEXT_HISTORY,
	MPIB_TEXT_STATS,
	MPIB_TEXTS,
};

/* A text for all who asked for it and were told this ticket or a lower one. It is
 * fn's to free; NULL: no memory. */
typedef void mpib_texts_fn(void *arg, enum mpib_text which, uint64_t ticket,
			   char *text);

struct mpib_texts {
	struct mpib_gather *gather;
	mpib_texts_fn *fn;
	void *arg;
	struct mpib_gather_wait wait;
	struct mpib_timer timer; /* the next snapshot, or the next part */
	uint64_t begun; /* snapshots */
	uint64_t told_ns; /* when the last one was through; 0: none yet */
	uint8_t wanted; /* of the next snapshot, as a mask */
	uint8_t asked; /* of the one that is waited for, or that is kept */
	bool keeps;
	struct mpib_stats_json stats; /* what is made of it */
	struct mpib_history_text history;
};

/* Have fn called for the text, at a later turn of the loop: the ticket. */
uint64_t mpib_texts_ask(struct mpib_texts *t, enum mpib_text which);
/* fn will not be called. */
void mpib_texts_stop(struct mpib_texts *t);

#endif
