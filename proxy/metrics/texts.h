/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The texts that readers by HTTP are told of a snapshot: each
 * is made once for all who wait for it, and the next snapshot's not at once, so that who
 * asks without end has the control thread for a part of the time. Control thread.
 */
#ifndef MPIB_METRICS_TEXTS_H
#define MPIB_METRICS_TEXTS_H

#include "metrics/gather.h"
#include "view/view.h"

/*
 * The answers of several stats socket commands in one JSON object: {"time":
 * seconds since the epoch, "info": ..., "rails": ..., "clients": ..., ...}, made
 * in parts. All zero: none is being made.
 */
struct mpib_stats_json {
	unsigned key; /* the one that is made */
	struct mpib_view_part part; /* at: of its list */
};
/* Make one more part, of the same snapshot. False: there is no more. Control
 * thread. */
bool mpib_stats_json_part(struct mpib_stats_json *j, const struct mpib_view *v);
/* The text, which the caller frees; NULL when memory was short, or none was made.
 * *j is all zero again. */
char *mpib_stats_json_end(struct mpib_stats_json *j);

/* What /history.json answers: with 32 rails 46,000 numbers, which many pages may
 * ask for and which change with a sample alone. All zero: there is none yet; its
 * owner frees text. */
struct mpib_history_text {
	char *text;
	uint32_t next; /* of the history that it is of */
};
/* The last hour. The text is good until the next call; NULL: no memory. */
const char *mpib_history_text(struct mpib_history_text *t,
			      const struct mpib_view *v);

enum mpib_text {
	MPIB_TEXT_METRICS,
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
