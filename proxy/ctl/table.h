/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text tables for a terminal. Columns are as wide as their content. If a line
 * is wider than the given width, the widest text columns are cut (marked "~").
 * Columns of numbers are right-aligned and never cut.
 */
#ifndef MPIB_CTL_TABLE_H
#define MPIB_CTL_TABLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define MPIB_TABLE_COLUMNS 24
/* Longer text is cut and marked "~". */
#define MPIB_CELL_MAX 512

/* Print text and a newline. The text starts at column `at`; its next lines
 * start at indent. A word that is longer than a line is not split. */
void mpib_wrap(const char *text, unsigned at, unsigned indent, unsigned width,
	       FILE *out);
/* Sort the rows; compare() gets pointers to json_t *. */
void mpib_rows_sort(json_t *rows, int (*compare)(const void *, const void *));
/* Remove the rows for which keep() is false. */
void mpib_rows_keep(json_t *rows, bool (*keep)(const json_t *row));

/* Return "12.3 M" or "999": at most 6 characters. */
const char *mpib_human_count(uint64_t n, char *buf, size_t len);
/* Return "1.23 ms". */
const char *mpib_human_duration(double ns, char *buf, size_t len);

/*
 * Text made of a JSON row by a template, and tables whose cells are such texts.
 *
 * {PATH} is a field of the row, such as {tx_bytes.sout} or {rails.0.pci}. A
 * number per rail prints as the sum, true as the field's name, false as
 * nothing, a list as its texts with commas, a missing field as "-". {A|B|=text}
 * prints the first alternative that is neither 0 nor empty, else the last one.
 * {PATH:FORM} formats a number: bytes, count, gbps (from Mb/s), rate (Gb/s),
 * percent; s, ms and age (from seconds); ns and us (from nanoseconds); or a
 * moment: time, date, since. The form inner prints the text in parentheses. Any
 * other FORM separates the texts of a list. [...] is left out if a field in it
 * is 0 or empty; {?PATH} tests a field without printing it.
 */

struct mpib_column {
	/* NULL ends the columns. A leading '#' marks a column of numbers, a '!'
	 * before the last head a column whose text is wrapped, not cut. */
	const char *head;
	const char *text; /* template of a cell */
	unsigned when; /* MPIB_WHEN_..., 0: always */
};

#define MPIB_COLUMN(head, text, when)                                          \
	{                                                                      \
		head, text, when                                               \
	}
#define SHOWN(head, text) MPIB_COLUMN(head, text, 0)
#define WIDE(head, text) MPIB_COLUMN(head, text, MPIB_WHEN_WIDE)
#define RATES(head, text) MPIB_COLUMN(head, text, MPIB_WHEN_RATES)
#define NO_RATES(head, text) MPIB_COLUMN(head, text, MPIB_WHEN_NO_RATES)

/* The conditions of a column: shown with --wide, with rates, or left out to
 * make room for rates. */
enum {
	MPIB_WHEN_WIDE = 1,
	MPIB_WHEN_RATES = 2,
	MPIB_WHEN_NO_RATES = 4
};
void mpib_columns_show(bool wide, bool rates);

/* Write the template with the fields of row into buf, truncated to its size. */
void mpib_fill_in(char *buf, size_t len, const char *text, const json_t *row);

/* Print a table with one line per row of the lists, without the rows whose
 * field `but` is 0. more and but may be NULL. Exits the process if memory is
 * short. */
void mpib_rows_print(const struct mpib_column *columns, const json_t *rows,
		     const json_t *more, const char *but, unsigned width,
		     FILE *out);

/* Option -o of mpibctl: chosen fields of an answer, for scripts. One line per
 * row, a tab between fields, numbers not rounded. */

/*
 * Print the fields of list, such as "name,tx_bytes.sout". data is one row or an
 * array of rows. Returns false if no row has one of the fields, with "what: why
 * (remedy)" in why.
 */
bool mpib_fields_print(json_t *data, const char *list, FILE *out, char *why,
		       size_t len);

#endif
