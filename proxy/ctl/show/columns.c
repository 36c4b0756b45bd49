/* SPDX-License-Identifier: Apache-2.0 */
/* Printing JSON rows as a table, by a description of its columns. */
#include "ctl/show/columns.h"

#include <inttypes.h>
#include <string.h>

static bool show_wide, show_rates;

void mpib_columns_show(bool wide, bool rates)
{
	show_wide = wide;
	show_rates = rates;
}

bool mpib_columns_have_rates(void)
{
	return show_rates;
}

static bool column_shown(const struct mpib_column *c)
{
	if (c->when == MPIB_WHEN_WIDE)
		return show_wide;
	if (c->when == MPIB_WHEN_RATES)
		return show_rates;
	return c->when != MPIB_WHEN_NO_RATES || show_wide || !show_rates;
}

void mpib_cell_text(struct mpib_table *t, unsigned column, const json_t *row,
		    const char *key)
{
	mpib_table_set(t, column, "%s", mpib_json_str(row, key));
}

void mpib_cell_number(struct mpib_table *t, unsigned column, const json_t *row,
		      const char *key)
{
	mpib_table_set(t, column, "%" PRIu64, mpib_json_num(row, key));
}

void mpib_cell_bytes(struct mpib_table *t, unsigned column, const json_t *row,
		     const char *key)
{
	char buf[16];

	mpib_table_set(
		t, column, "%s",
		mpib_human_bytes(mpib_json_num(row, key), buf, sizeof(buf)));
}

void mpib_cell_count(struct mpib_table *t, unsigned column, const json_t *row,
		     const char *key)
{
	char buf[16];

	mpib_table_set(
		t, column, "%s",
		mpib_human_count(mpib_json_num(row, key), buf, sizeof(buf)));
}

void mpib_cell_bytes_sout(struct mpib_table *t, unsigned column,
			  const json_t *row, const char *key)
{
	mpib_cell_bytes(t, column, json_object_get(row, key), "sout");
}

void mpib_cell_bytes_sup(struct mpib_table *t, unsigned column,
			 const json_t *row, const char *key)
{
	mpib_cell_bytes(t, column, json_object_get(row, key), "sup");
}

void mpib_cell_number_known(struct mpib_table *t, unsigned column,
			    const json_t *row, const char *key)
{
	if (json_is_integer(json_object_get(row, key)))
		mpib_cell_number(t, column, row, key);
	else
		mpib_table_set(t, column, "-");
}

/* Gb/s, as ctl/rates.c has added it; "-" where it is not known. */
void mpib_cell_rate(struct mpib_table *t, unsigned column, const json_t *row,
		    const char *key)
{
	const json_t *v = json_object_get(row, key);

	if (json_is_number(v))
		mpib_table_set(t, column, "%.*f",
			       json_number_value(v) < 99.995 ? 2 : 1,
			       json_number_value(v));
	else
		mpib_table_set(t, column, "-");
}

void mpib_cell_join(char *buf, size_t len, const char *between,
		    const json_t *list)
{
	size_t at = strlen(buf), i;
	const json_t *item;

	json_array_foreach(list, i, item)
	{
		const char *text = json_string_value(item);
		int n = snprintf(buf + at, len - at, "%s%s", at ? between : "",
				 text ? text : "");

		at += n > 0 ? (size_t)n : 0;
		if (at >= len)
			return;
	}
}

void mpib_columns_init(struct mpib_table *t, const struct mpib_column *columns)
{
	const char *heads[MPIB_TABLE_COLUMNS + 1];
	unsigned n = 0;

	for (; columns->head; columns++) {
		if (column_shown(columns))
			heads[n++] = columns->head;
	}
	heads[n] = NULL;
	mpib_table_init(t, heads);
}

void mpib_columns_row(struct mpib_table *t, const struct mpib_column *columns,
		      const json_t *row)
{
	unsigned at = 0;

	mpib_table_row(t);
	for (; columns->head; columns++) {
		if (!column_shown(columns))
			continue;
		if (columns->cell)
			columns->cell(t, at, row, columns->key);
		at++;
	}
}

void mpib_columns_print(const struct mpib_column *columns, const json_t *rows,
			unsigned width, FILE *out)
{
	struct mpib_table t;
	const json_t *row;
	size_t i;

	mpib_columns_init(&t, columns);
	json_array_foreach(rows, i, row) mpib_columns_row(&t, columns, row);
	mpib_table_print(&t, width, out);
	if (t.rows == 0)
		fprintf(out, "(none)\n");
	mpib_table_fini(&t);
}
