/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A description of a table: each column has a head, the key of a JSON field and
 * a function that formats the field. A field that is missing, since the proxy
 * is older than this tool, shows as empty or 0.
 */
#ifndef MPIB_CTL_COLUMNS_H
#define MPIB_CTL_COLUMNS_H

#include "ctl/dial.h"
#include "ctl/show/table.h"

/* Format row's field key into a cell of t's last row. */
typedef void mpib_cell_fn(struct mpib_table *t, unsigned column,
			  const json_t *row, const char *key);

struct mpib_column {
	const char *head; /* as in table.h; NULL: the columns end */
	mpib_cell_fn *cell; /* NULL: left empty */
	const char *key;
	unsigned when; /* MPIB_WHEN_..., 0: always */
};

/* Which columns there are: wide ones and rates as asked for, and what gives way
 * to rates unless all of it is to be there. */
enum {
	MPIB_WHEN_WIDE = 1,
	MPIB_WHEN_RATES = 2,
	MPIB_WHEN_NO_RATES = 4
};
void mpib_columns_show(bool wide, bool rates);
bool mpib_columns_have_rates(void);

/* Formats. _sout and _sup take a field that is an object with a number per rail. */
mpib_cell_fn mpib_cell_text, mpib_cell_number, mpib_cell_bytes, mpib_cell_count,
	mpib_cell_bytes_sout, mpib_cell_bytes_sup, mpib_cell_rate;
/* "-" where there is no number. */
mpib_cell_fn mpib_cell_number_known;

/* Append to buf, as far as there is room, the texts of a list, `between` them. */
void mpib_cell_join(char *buf, size_t len, const char *between,
		    const json_t *list);

void mpib_columns_init(struct mpib_table *t, const struct mpib_column *columns);
void mpib_columns_row(struct mpib_table *t, const struct mpib_column *columns,
		      const json_t *row);
/* Print a whole table, with one line per element of rows. */
void mpib_columns_print(const struct mpib_column *columns, const json_t *rows,
			unsigned width, FILE *out);

#endif
