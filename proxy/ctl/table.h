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

/* Print `text`, wrapped to `width` columns, and a newline. The text starts at
 * column `at`; its next lines start at column `indent`. A word that is longer
 * than a line is not split. */
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
 * Templates make text from a JSON row, for example for the cells of tables.
 *
 * {PATH} prints a field of the row, such as {tx_bytes.sout} or {rails.0.pci}.
 * If the field is an object with a number for each rail or cause, {PATH} prints
 * the sum of the numbers. For a boolean, it prints the field's name if the
 * field is true, and nothing if the field is false. For a list, it prints the
 * texts of the list with commas. For a missing field, it prints "-".
 * {A|B|=text} prints the first alternative that is neither 0 nor empty, else
 * the last one. {PATH:FORM} formats a number or a point in time. FORM is bytes,
 * count, gbps (from Mb/s), rate (Gb/s) or percent; s, ms or age (from seconds);
 * ns or us (from nanoseconds); time, date or since (points in time). The FORM
 * `inner` prints only the part of the text that is in parentheses. Any other
 * FORM is the separator between the texts of a list. [...] is left out if a
 * field inside the brackets is 0 or empty; {?PATH} tests a field without
 * printing it.
 */

struct mpib_column {
	/* NULL ends the columns. A leading '#' marks a column of numbers. A
	 * leading '!' marks a last column whose text is wrapped, not cut. */
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

/* When a column is shown: only with --wide, only with rates, or only without
 * rates. */
enum {
	MPIB_WHEN_WIDE = 1,
	MPIB_WHEN_RATES = 2,
	MPIB_WHEN_NO_RATES = 4
};
void mpib_columns_show(bool wide, bool rates);

/* Fill in the template `text` with the fields of `row`, and write the result
 * into `buf`, truncated to `len` bytes. */
void mpib_fill_in(char *buf, size_t len, const char *text, const json_t *row);

/* Print a table with one line for each element of the arrays `rows` and `more`.
 * Rows whose field `but` is 0 are left out. `more` and `but` may be NULL. Exits
 * the process if memory is short. */
void mpib_rows_print(const struct mpib_column *columns, const json_t *rows,
		     const json_t *more, const char *but, unsigned width,
		     FILE *out);

/* Option -o of mpibctl: print chosen fields of an answer for scripts, one line
 * per row. Tabs separate the fields, and numbers are not rounded. */

/*
 * Print the fields that `list` names, such as "name,tx_bytes.sout". `data` is
 * one row or an array of rows. If a field is missing in all rows, writes "what:
 * why (remedy)" into `why` and returns false.
 */
bool mpib_fields_print(json_t *data, const char *list, FILE *out, char *why,
		       size_t len);

#endif
