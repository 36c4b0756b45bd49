/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text tables for a terminal. Columns are as wide as their content; if a line
 * does not fit the width given, the widest text columns are cut (marked "~").
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
/* Longer text is cut, and marked "~". */
#define MPIB_CELL_MAX 512

/* Print text from column at on, and a newline; lines after the first start at indent.
 * A word that is longer than a line stays whole. */
void mpib_wrap(const char *text, unsigned at, unsigned indent, unsigned width,
	       FILE *out);
/* Sort the rows: compare() has pointers to json_t *. */
void mpib_rows_sort(json_t *rows, int (*compare)(const void *, const void *));
/* Remove the rows of which keep() is false. */
void mpib_rows_keep(json_t *rows, bool (*keep)(const json_t *row));

/* "12.3 M" or "999": at most 6 characters. */
const char *mpib_human_count(uint64_t n, char *buf, size_t len);
/* "1.23 ms". */
const char *mpib_human_duration(double ns, char *buf, size_t len);

/*
 * Text made of a JSON row by a template, and tables whose cells are such texts.
 *
 * {PATH} in a template is a field of the row, as in {tx_bytes.sout}, {rails.0.pci}.
 * A number per rail is their sum; true is the field's name, false nothing, a list its
 * texts with commas, and "-" what the row does not have. {A|B|=text} is the first
 * that says something, neither 0 nor empty; else the last. {PATH:FORM} formats a
 * number: bytes, count, gbps (of Mb/s), rate (Gb/s), percent, of seconds s, ms and
 * age, of nanoseconds ns and us, or a moment: time, date, since. inner is what is in
 * parentheses. Another FORM stands between the texts of a list. [...] is left out if a
 * field in it says nothing; {?PATH} is there for that alone.
 */

struct mpib_column {
	/* NULL: the columns end. '#' before it makes a column of numbers, '!' the last
	 * one a column whose text is wrapped and not cut. */
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

/* Which columns there are: wide ones and rates as asked for, and what gives way
 * to rates unless all of it is to be there. */
enum {
	MPIB_WHEN_WIDE = 1,
	MPIB_WHEN_RATES = 2,
	MPIB_WHEN_NO_RATES = 4
};
void mpib_columns_show(bool wide, bool rates);

/* Write the template with the fields of row into buf, as far as there is room. */
void mpib_fill_in(char *buf, size_t len, const char *text, const json_t *row);
/* Whether the field is there and neither 0, false nor empty. */
bool mpib_says(json_t *value);

/* Print a table with one line per row of the lists, except those of which the field
 * but is 0; more and but may be NULL. Ends the process when memory is short. */
void mpib_rows_print(const struct mpib_column *columns, const json_t *rows,
		     const json_t *more, const char *but, unsigned width,
		     FILE *out);

/* Option -o of mpibctl: chosen fields of an answer, for scripts. One line per
 * row, a tab between fields, numbers not rounded. */

/*
 * Print the fields of list, such as "name,tx_bytes.sout". data is one row or an
 * array of rows. False when no row has one of the fields; why then holds "what:
 * why (remedy)".
 */
bool mpib_fields_print(json_t *data, const char *list, FILE *out, char *why,
		       size_t len);

#endif
