/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MPIB_CTL_VIEWS_H
#define MPIB_CTL_VIEWS_H

#include <jansson.h>

#include "ctl/table.h"

struct mpib_ctl_command;

/* The output for one noun: lines, a table, and more lines. */
struct mpib_ctl_view {
	const char *noun; /* or "NOUN VERB" */
	/* Convert the answer to the data to show. Returns a new reference.
	 * NULL: show the answer itself. */
	json_t *(*make)(const json_t *answer);
	const char *rows; /* key of the rows; NULL: the data are the rows */
	const char *table; /* key of the table's rows; NULL: rows */
	const char *more; /* key of more rows of the table, or NULL */
	/* Key of the number of faulty rows, or NULL. If the number is not 0,
	 * the exit status is 1. */
	const char *faulty;
	const char *but; /* skip rows where this field is 0; or NULL */
	const struct mpib_column *columns; /* of the table, or NULL */
	/* Templates of lines; NULL ends them. Empty lines are left out. */
	const char *const *above, *const *below;
	/* Prints text after everything else; or NULL. */
	void (*print)(const json_t *data, unsigned width, FILE *out);
};

/* Return the view for `noun`, or NULL. */
const struct mpib_ctl_view *mpib_ctl_view(const char *noun);
const struct mpib_ctl_view *
mpib_ctl_view_of(const struct mpib_ctl_command *command);
/* Return whether the view shows rates; `view` may be NULL. */
bool mpib_ctl_view_rates(const struct mpib_ctl_view *view);
void mpib_ctl_view_print(const struct mpib_ctl_view *view, const json_t *data,
			 unsigned width, FILE *out);

/* The latest answer for a noun, and its time. */
struct mpib_answer {
	json_t *data; /* NULL: none yet */
	uint64_t at; /* mpib_now_ns() */
};

/* Return the rows in `data`; `view` may be NULL. */
json_t *mpib_ctl_view_rows(const struct mpib_ctl_view *view, json_t *data);
/*
 * Replace the previous answer with `data`, and take over the reference. Each
 * row gets `tx_gbps` and `rx_gbps`: payload in Gb/s since the previous answer.
 * In a new row, the counters count from 0. In a row whose counters were reset,
 * the rates are null.
 */
void mpib_answer_put(struct mpib_answer *a, const struct mpib_ctl_view *view,
		     json_t *data);

#endif
