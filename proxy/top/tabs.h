/* SPDX-License-Identifier: Apache-2.0 */
/* The tabs of mpib-top (rails, clients, connections), printed as tables. */
#ifndef MPIB_TOP_TABS_H
#define MPIB_TOP_TABS_H

#include "top/sample.h"

#define TOP_COLUMNS 10

struct top_row {
	char cell[TOP_COLUMNS][64];
	double key[TOP_COLUMNS]; /* number to sort by */
};

struct top_tab {
	const char *name;
	const char *head[TOP_COLUMNS]; /* as in table.h: '#' marks numbers */
	unsigned columns;
	unsigned sort; /* default column to sort by */
	/* The JSON array of the sample that has an item per row. */
	const json_t *(*list)(const struct top_sample *s);
	/* was: the same item in the sample before, or NULL. */
	void (*fill)(const struct top_span *s, const json_t *item,
		     const json_t *was, struct top_row *row);
};

#define TOP_TABS 3
extern const struct top_tab top_tabs[TOP_TABS];

struct top_order {
	unsigned column;
	bool ascending;
};

/* The default order of a column: numbers descending, text ascending. */
struct top_order top_order(const struct top_tab *tab, unsigned column);

/* Print a line of heads, with a mark at the column sorted by, and the rows. */
void top_tab_print(const struct top_tab *tab, const struct top_span *s,
		   struct top_order order, unsigned width, FILE *out);

/* Write one line, at most width characters: version, uptime and totals. */
void top_summary(const struct top_span *s, char *buf, size_t width);

#endif
