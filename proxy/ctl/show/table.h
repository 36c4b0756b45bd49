/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text tables for a terminal: columns as wide as their content; the widest
 * ones of text are shortened (with "~") until a line fits the width given. A
 * column of numbers is right-aligned and never shortened.
 */
#ifndef MPIB_CTL_TABLE_H
#define MPIB_CTL_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define MPIB_TABLE_COLUMNS 12
#define MPIB_CELL_MAX 64

struct mpib_table {
	unsigned columns, rows, room;
	char head[MPIB_TABLE_COLUMNS][16];
	bool number[MPIB_TABLE_COLUMNS];
	char (*cell)[MPIB_TABLE_COLUMNS][MPIB_CELL_MAX];
};

/* heads ends with NULL; one that starts with '#' is a column of numbers. */
void mpib_table_init(struct mpib_table *t, const char *const *heads);
void mpib_table_fini(struct mpib_table *t);
/* Begin a row, all empty. Ends the process when memory is short. */
void mpib_table_row(struct mpib_table *t);
/* Set a cell of the last row. */
void mpib_table_set(struct mpib_table *t, unsigned column, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void mpib_table_print(const struct mpib_table *t, unsigned width, FILE *out);

/* "1.50 GiB", "512 B": at most 8 bytes of text. */
const char *mpib_human_bytes(uint64_t n, char *buf, size_t len);
/* "12.3 M", "999": at most 6. */
const char *mpib_human_count(uint64_t n, char *buf, size_t len);

#endif
