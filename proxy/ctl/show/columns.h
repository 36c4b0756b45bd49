/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table that says itself what it shows: each column has a head, the key of
 * its field, and how that is written. A field that is missing, as an older
 * proxy has it, is nothing or 0.
 */
#ifndef MPIB_CTL_COLUMNS_H
#define MPIB_CTL_COLUMNS_H

#include <jansson.h>
#include <stdint.h>

#include "ctl/show/table.h"

/* Write what row has under key into a column of t's last row. */
typedef void mpib_cell_fn(struct mpib_table *t, unsigned column,
			  const json_t *row, const char *key);

struct mpib_column {
	const char *head; /* as in table.h; NULL: the columns end */
	mpib_cell_fn *cell; /* NULL: left empty */
	const char *key;
};

/* As they stand; sout, sup and both: of a field that has one of each rail. */
mpib_cell_fn mpib_cell_text, mpib_cell_number, mpib_cell_bytes, mpib_cell_count,
	mpib_cell_bytes_sout, mpib_cell_bytes_sup, mpib_cell_bytes_both,
	mpib_cell_number_both;

uint64_t mpib_json_num(const json_t *o, const char *key);
/* "" where it is none. */
const char *mpib_json_str(const json_t *o, const char *key);

void mpib_columns_init(struct mpib_table *t, const struct mpib_column *columns);
void mpib_columns_row(struct mpib_table *t, const struct mpib_column *columns,
		      const json_t *row);
/* All of it: a row for each of the array's. */
void mpib_columns_print(const struct mpib_column *columns, const json_t *rows,
			unsigned width, FILE *out);

#endif
