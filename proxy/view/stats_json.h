/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MPIB_VIEW_STATS_JSON_H
#define MPIB_VIEW_STATS_JSON_H

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

#endif
