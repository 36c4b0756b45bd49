/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text tables for a terminal. Columns are as wide as their content; if a line
 * does not fit the width given, the widest text columns are cut (marked "~").
 * Columns of numbers are right-aligned and never cut.
 */
#ifndef MPIB_CTL_TABLE_H
#define MPIB_CTL_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define MPIB_TABLE_COLUMNS 24
/* Longer text is cut, and marked "~". */
#define MPIB_CELL_MAX 512

struct mpib_table {
	unsigned columns, rows, room;
	char head[MPIB_TABLE_COLUMNS][16];
	bool number[MPIB_TABLE_COLUMNS];
	char (*cell)[MPIB_CELL_MAX]; /* row by row */
};

/* heads ends with NULL; a head that starts with '#' makes its column one of
 * numbers. */
void mpib_table_init(struct mpib_table *t, const char *const *heads);
void mpib_table_fini(struct mpib_table *t);
/* Begin a row of empty cells. Ends the process when memory is short. */
void mpib_table_row(struct mpib_table *t);
/* Set a cell of the last row, to plain text. */
void mpib_table_set(struct mpib_table *t, unsigned column, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void mpib_table_print(const struct mpib_table *t, unsigned width, FILE *out);

/* Make control characters of UTF-8 text '?': a terminal obeys them, and who wrote
 * the text may be somebody else than who looks at it. */
void mpib_plain(char *text);

/* "1.50 GiB" or "512 B": at most 8 characters. */
const char *mpib_human_bytes(uint64_t n, char *buf, size_t len);
/* "12.3 M" or "999": at most 6 characters. */
const char *mpib_human_count(uint64_t n, char *buf, size_t len);
/* "1.23 ms". */
const char *mpib_human_duration(double ns, char *buf, size_t len);

#endif
