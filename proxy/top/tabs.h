/* SPDX-License-Identifier: Apache-2.0 */
/* The tabs of mpib-top as text. */
#ifndef MPIB_TOP_TABS_H
#define MPIB_TOP_TABS_H

#include "top/sample.h"

#define TOP_COLUMNS 10

struct top_row {
	char cell[TOP_COLUMNS][64];
	double key[TOP_COLUMNS]; /* to sort by */
};

struct top_tab {
	const char *name;
	const char *head[TOP_COLUMNS]; /* '#' first: of numbers */
	unsigned columns;
	unsigned sort; /* column to sort by at first */
	/* The rows' list in what the proxy said. */
	const json_t *(*list)(const struct top_sample *s);
	void (*fill)(const struct top_span *s, const json_t *item,
		     struct top_row *row);
};

#define TOP_TABS 3
extern const struct top_tab top_tabs[TOP_TABS];

struct top_order {
	unsigned column;
	bool ascending;
};

/* The largest first, but of text the first. */
struct top_order top_order(const struct top_tab *tab, unsigned column);

/* A line of heads, with a mark at the sorted one, then a line a row. */
void top_tab_print(const struct top_tab *tab, const struct top_span *s,
		   struct top_order order, unsigned width, FILE *out);

/* One line: versions and sums; at most width. */
void top_summary(const struct top_span *s, char *buf, size_t width);

#endif
