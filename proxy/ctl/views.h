/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MPIB_CTL_VIEWS_H
#define MPIB_CTL_VIEWS_H

#include <jansson.h>

#include "ctl/table.h"

/* How mpibctl prints the proxy's answer for one noun: lines, a table, and lines. */
struct mpib_ctl_view {
	const char *noun;
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

extern const struct mpib_ctl_view mpib_ctl_views[];
extern const unsigned mpib_ctl_view_count;

/* NULL when there is no view for noun. */
const struct mpib_ctl_view *mpib_ctl_view(const char *noun);
/* Whether its rows are compared with those of before; view may be NULL. */
bool mpib_ctl_view_rates(const struct mpib_ctl_view *view);
void mpib_ctl_view_print(const struct mpib_ctl_view *view, const json_t *data,
			 unsigned width, FILE *out);

/* Print a table with one line per row of the lists; more may be NULL. */
void mpib_ctl_rows_print(const struct mpib_column *columns, const json_t *rows,
			 const json_t *more, const char *but, unsigned width,
			 FILE *out);

/* views_text.c */
void mpib_ctl_print_hist(const json_t *data, unsigned width, FILE *out);
void mpib_ctl_print_events(const json_t *data, unsigned width, FILE *out);

/* Rates, from two answers of the proxy: of option -r of mpibctl, and of mpib-top. */

/* The row of was that is of the same thing as row, or NULL. *from is 0 at first, and
 * the rows of an answer are looked for in their order. */
const json_t *mpib_rates_find(const json_t *was, const json_t *row,
			      size_t *from);
/*
 * Add tx_gbps and rx_gbps, payload in Gb/s, to each row of now; was are the rows
 * of some seconds before. A row that is new counts from 0, and one whose
 * counters began again has null.
 */
void mpib_rates_add(json_t *now, const json_t *was, double seconds);

#endif
