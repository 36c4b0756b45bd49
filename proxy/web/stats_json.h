/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MPIB_WEB_STATS_JSON_H
#define MPIB_WEB_STATS_JSON_H

#include "view/view.h"

/*
 * The answers of several stats socket commands in one JSON object: {"time":
 * seconds since the epoch, "info": ..., "rails": ..., "clients": ..., ...}. The
 * caller frees the text; NULL when memory is short. Control thread.
 */
char *mpib_stats_json(const struct mpib_view *v);

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
