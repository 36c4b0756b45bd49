/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MPIB_CTL_VIEWS_H
#define MPIB_CTL_VIEWS_H

#include <jansson.h>

#include "ctl/table.h"

struct mpib_ctl_command;

/* How mpibctl prints the proxy's answer for one noun: lines, a table, and lines. */
struct mpib_ctl_view {
	const char *noun; /* or "NOUN VERB" */
	/* Make the data to be shown of the answer: a new reference. NULL: it is
	 * the answer. */
	json_t *(*make)(const json_t *answer);
	const char *rows; /* key of the rows in data; NULL: data is the rows */
	const char *table; /* key of those of the table; NULL: rows */
	const char *more; /* key of more rows of the table, or NULL */
	const char *faulty; /* key of how many have faults, by which the tool
			       ends with 1, too; NULL: none */
	const char
		*but; /* rows of which this field is 0 are left out, or NULL */
	const struct mpib_column *columns; /* of a table of the rows, or NULL */
	/* Templates of lines, up to NULL; a line with nothing in it is left out. */
	const char *const *above, *const *below;
	/* What comes behind all of it, or NULL. */
	void (*print)(const json_t *data, unsigned width, FILE *out);
};

/* NULL when there is no view for noun. */
const struct mpib_ctl_view *mpib_ctl_view(const char *noun);
const struct mpib_ctl_view *
mpib_ctl_view_of(const struct mpib_ctl_command *command);
/* Whether its rows are compared with those of before; view may be NULL. */
bool mpib_ctl_view_rates(const struct mpib_ctl_view *view);
void mpib_ctl_view_print(const struct mpib_ctl_view *view, const json_t *data,
			 unsigned width, FILE *out);

/* The latest answer for a noun, and when it came. */
struct mpib_answer {
	json_t *data; /* NULL: none yet */
	uint64_t at; /* mpib_now_ns() */
};

/* Return the rows in data; view may be NULL. */
json_t *mpib_ctl_view_rows(const struct mpib_ctl_view *view, json_t *data);
/*
 * Put data, whose reference is taken, in place of the answer before. Each row gets
 * tx_gbps and rx_gbps, payload in Gb/s since that answer. A row that is new counts
 * from 0, and one whose counters began again has null.
 */
void mpib_answer_put(struct mpib_answer *a, const struct mpib_ctl_view *view,
		     json_t *data);

#endif
