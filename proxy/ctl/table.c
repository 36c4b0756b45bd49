/* SPDX-License-Identifier: Apache-2.0 */
/* Text tables for a terminal, and numbers with units. */
#include "ctl/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "base/xalloc.h"
#include "ctl/dial.h"

#define GAP 2
#define SHORTEST 6 /* minimum width of a shortened column */
#define WRAPPED 24 /* minimum width of a wrapped column with long text */

struct table {
	unsigned columns, rows;
	const char *head[MPIB_TABLE_COLUMNS];
	bool number[MPIB_TABLE_COLUMNS];
	bool wraps; /* the last column's text continues on the next lines */
	char (*cell)[MPIB_CELL_MAX]; /* the texts of all cells, row by row */
};

/* Replace the control characters in UTF-8 text with '?'. The text may come from
 * another user, and a terminal would execute the control characters. */
static void table_plain(char *text)
{
	for (unsigned char *c = (unsigned char *)text; *c; c++) {
		if (*c < ' ' || *c == 0x7f) {
			*c = '?';
		} else if (*c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0) {
			/* U+0080 to U+009F; U+009B means the same as ESC [. */
			*c++ = '?';
			*c = '?';
		}
	}
}

void mpib_wrap(const char *text, unsigned at, unsigned indent, unsigned width,
	       FILE *out)
{
	while (*text) {
		unsigned len = (unsigned)strcspn(text, " ");

		if (at > indent && at + 1 + len > width) {
			fprintf(out, "\n%*s", (int)indent, "");
			at = indent;
		} else if (at > indent) {
			fputc(' ', out);
			at++;
		}
		fprintf(out, "%.*s", (int)len, text);
		at += len;
		text += len + strspn(text + len, " ");
	}
	fputc('\n', out);
}

void mpib_rows_sort(json_t *rows, int (*compare)(const void *, const void *))
{
	size_t n = json_array_size(rows);
	json_t **row = mpib_xcalloc((n + 1) * sizeof(json_t *));

	for (size_t i = 0; i < n; i++)
		row[i] = json_incref(json_array_get(rows, i));
	qsort(row, n, sizeof(json_t *), compare);
	for (size_t i = 0; i < n; i++)
		json_array_set_new(rows, i, row[i]);
	free(row);
}

void mpib_rows_keep(json_t *rows, bool (*keep)(const json_t *row))
{
	size_t i = 0;

	while (i < json_array_size(rows)) {
		if (keep(json_array_get(rows, i)))
			i++;
		else
			json_array_remove(rows, i);
	}
}

static unsigned table_measure(const struct table *t, unsigned *width)
{
	unsigned sum = 0;

	for (unsigned c = 0; c < t->columns; c++) {
		width[c] = (unsigned)strlen(t->head[c]);
		for (unsigned r = 0; r < t->rows; r++) {
			unsigned len =
				(unsigned)strlen(t->cell[r * t->columns + c]);

			if (len > width[c])
				width[c] = len;
		}
		if (t->wraps && c + 1 == t->columns && width[c] > WRAPPED)
			width[c] = WRAPPED;
		sum += width[c] + (c ? GAP : 0);
	}
	return sum;
}

/* Make the widest text column narrower by 1. The first column names the row and
 * is the last to become narrower. Returns false if no text column can become
 * narrower. */
static bool table_shrink(const struct table *t, unsigned *width)
{
	unsigned widest = t->columns;

	for (unsigned i = 1; i <= t->columns; i++) {
		unsigned c = i % t->columns;

		if (c == 0 && widest < t->columns)
			break;
		if (!t->number[c] && width[c] > SHORTEST &&
		    width[c] > strlen(t->head[c]) &&
		    (widest == t->columns || width[c] > width[widest]))
			widest = c;
	}
	if (widest == t->columns)
		return false;
	width[widest]--;
	return true;
}

/* Print the first `len` bytes of `line`, then `text`. If the line has little
 * room left, `text` starts on the next line. */
static void print_wrapped(const char *line, size_t len, const char *text,
			  unsigned room, FILE *out)
{
	unsigned at = (unsigned)len + GAP;

	if (at + strlen(text) > room && at + WRAPPED > room) {
		while (len > 0 && line[len - 1] == ' ')
			len--;
		at = 4;
		fprintf(out, "%.*s\n    ", (int)len, line);
	} else {
		fprintf(out, "%.*s  ", (int)len, line);
	}
	mpib_wrap(text, at, at, room, out);
}

/* Print a line of the table. `text` has the text of each column. */
static void print_line(const struct table *t, const unsigned *width,
		       const char *const *text, unsigned room, FILE *out)
{
	char line[MPIB_TABLE_COLUMNS * (MPIB_CELL_MAX + GAP) + 1];
	size_t at = 0;

	for (unsigned c = 0; c < t->columns; c++) {
		int w = (int)width[c];
		const char *gap = c ? "  " : "";
		int n;

		if (t->wraps && c + 1 == t->columns && *text[c]) {
			print_wrapped(line, at, text[c], room, out);
			return;
		}
		if (strlen(text[c]) > width[c])
			n = sprintf(line + at, "%s%.*s~", gap, w - 1, text[c]);
		else if (t->number[c])
			n = sprintf(line + at, "%s%*s", gap, w, text[c]);
		else
			n = sprintf(line + at, "%s%-*s", gap, w, text[c]);
		at += (size_t)n;
	}
	while (at > 0 && line[at - 1] == ' ')
		at--;
	line[at] = '\0';
	fprintf(out, "%s\n", line);
}

static void table_print(const struct table *t, unsigned width, FILE *out)
{
	const char *text[MPIB_TABLE_COLUMNS];
	unsigned column[MPIB_TABLE_COLUMNS];
	unsigned sum = table_measure(t, column);

	while (sum > width && table_shrink(t, column))
		sum--;
	print_line(t, column, t->head, width, out);
	for (unsigned r = 0; r < t->rows; r++) {
		for (unsigned c = 0; c < t->columns; c++)
			text[c] = t->cell[(size_t)r * t->columns + c];
		print_line(t, column, text, width, out);
	}
}

/* Write `n` with three digits and a unit. A number without a prefix such as k
 * is exact. */
static const char *table_human(uint64_t n, unsigned base,
			       const char *const *units, char *buf, size_t len)
{
	double v = (double)n;
	unsigned u = 0;

	/* A value that would round to 1000 gets the next unit. */
	while (v >= (base == 1024 && u == 0 ? 1024 : 999.5) && units[u + 1]) {
		v /= base;
		u++;
	}
	if (u == 0)
		snprintf(buf, len, "%" PRIu64 "%s", n, units[0]);
	else
		snprintf(buf, len, "%.*f%s",
			 v < 9.995   ? 2
			 : v < 99.95 ? 1
				     : 0,
			 v, units[u]);
	return buf;
}

static const char *human_bytes(uint64_t n, char *buf, size_t len)
{
	static const char *const units[] = { " B",   " KiB", " MiB", " GiB",
					     " TiB", " PiB", " EiB", NULL };

	return table_human(n, 1024, units, buf, len);
}

const char *mpib_human_count(uint64_t n, char *buf, size_t len)
{
	static const char *const units[] = { "",   " k", " M", " G",
					     " T", " P", " E", NULL };

	return table_human(n, 1000, units, buf, len);
}

const char *mpib_human_duration(double ns, char *buf, size_t len)
{
	static const char *const unit[] = { "ns", "us", "ms", "s" };
	unsigned u = 0;

	for (; ns >= 999.5 && u < 3; u++)
		ns /= 1000;
	snprintf(buf, len, "%.*f %s",
		 ns < 9.995 && u   ? 2
		 : ns < 99.95 && u ? 1
				   : 0,
		 ns, unit[u]);
	return buf;
}

static bool show_wide, show_rates;

void mpib_columns_show(bool wide, bool rates)
{
	show_wide = wide;
	show_rates = rates;
}

static bool column_shown(const struct mpib_column *c)
{
	if (c->when == MPIB_WHEN_WIDE)
		return show_wide;
	if (c->when == MPIB_WHEN_RATES)
		return show_rates;
	return c->when != MPIB_WHEN_NO_RATES || show_wide || !show_rates;
}

/* The result of a search: the field at a path, and the last key of the path. */
struct found {
	json_t *value;
	char key[64];
};

static struct found field_at(const json_t *row, const char *path, size_t len)
{
	struct found f = { .value = NULL };

	for (size_t at = 0; row && at < len; row = f.value) {
		size_t n = strcspn(path + at, ".,|:}");

		snprintf(f.key, sizeof(f.key), "%.*s", (int)n, path + at);
		if (json_is_array(row))
			f.value = json_array_get(row, (size_t)(f.key[0] - '0'));
		else
			f.value = json_object_get(row, f.key);
		at += n + 1;
	}
	return f;
}

/* Return an integer field. If `v` is an object with a number for each rail or
 * cause, return the sum of the numbers. */
static json_int_t field_sum(json_t *v)
{
	json_int_t sum = json_integer_value(v);
	const char *key;
	json_t *one;

	json_object_foreach(v, key, one) sum += json_integer_value(one);
	return sum;
}

static double field_number(json_t *v)
{
	return json_is_real(v) ? json_real_value(v)
			       : (double)(uint64_t)field_sum(v);
}

/* Return whether the field exists and is neither 0, false nor empty. */
static bool says(json_t *value)
{
	if (json_is_string(value))
		return *json_string_value(value);
	if (json_is_array(value))
		return json_array_size(value) > 0;
	return json_is_true(value) || field_number(value) > 0;
}

/* Append the texts of a list to buf, separated by `between`. */
static void put_list(char *buf, size_t len, const char *between,
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

/* Write a point in time. Return false if `form` is not a format of times. */
static bool put_moment(char *buf, size_t len, const char *form, double at)
{
	time_t when = (time_t)at, now = time(NULL);
	struct tm tm;

	localtime_r(&when, &tm);
	if (!strcmp(form, "time"))
		strftime(buf, len, "%m-%d %H:%M:%S", &tm);
	else if (!strcmp(form, "date"))
		strftime(buf, len, "%m-%d %H:%M", &tm);
	else if (!strcmp(form, "since"))
		snprintf(buf, len, "%lld s",
			 now > when ? (long long)(now - when) : 0);
	else
		return false;
	return true;
}

static void put_age(char *buf, size_t len, double s)
{
	if (s < 100)
		snprintf(buf, len, "%.1f s", s);
	else if (s < 6000)
		snprintf(buf, len, "%.0f min", s / 60);
	else
		snprintf(buf, len, "%.0f h", s / 3600);
}

/* Write a number. Return false if `form` is not a format of numbers. */
static bool put_form(char *buf, size_t len, const char *form, json_t *value)
{
	double n = field_number(value);

	if (!strcmp(form, "bytes"))
		human_bytes((uint64_t)field_sum(value), buf, len);
	else if (!strcmp(form, "count"))
		mpib_human_count((uint64_t)field_sum(value), buf, len);
	else if (!strcmp(form, "rate"))
		snprintf(buf, len, "%.*f", n < 99.995 ? 2 : 1, n);
	else if (!strcmp(form, "gbps"))
		snprintf(buf, len, "%.0f", n / 1000);
	else if (!strcmp(form, "s"))
		snprintf(buf, len, "%.1f s", n);
	else if (!strcmp(form, "ms"))
		snprintf(buf, len, "%.1f ms", n * 1000);
	else if (!strcmp(form, "age"))
		put_age(buf, len, n);
	else if (!strcmp(form, "ns"))
		mpib_human_duration(n, buf, len);
	else if (!strcmp(form, "us"))
		snprintf(buf, len, n > 0 ? "%.0f" : "-", n / 1000);
	else if (!strcmp(form, "percent"))
		snprintf(buf, len, "%.1f %%", n * 100);
	else
		return put_moment(buf, len, form, n);
	return true;
}

static void put_json(char *buf, size_t len, const struct found *f,
		     const char *form)
{
	json_t *v = f->value;
	const char *text = json_string_value(v), *inner;

	if (!v || json_is_null(v)) {
		snprintf(buf, len, "-");
	} else if (text && !strcmp(form, "inner")) {
		inner = strchr(text, '(');
		text = inner ? inner + 1 : text;
		snprintf(buf, len, "%.*s", (int)strcspn(text, ")"), text);
	} else if (text) {
		snprintf(buf, len, "%s", text);
	} else if (json_is_boolean(v)) {
		snprintf(buf, len, "%s", json_is_true(v) ? f->key : "");
	} else if (json_is_array(v)) {
		put_list(buf, len, *form ? form : ", ", v);
	} else if (!put_form(buf, len, form, v)) {
		if (json_is_real(v))
			snprintf(buf, len, "%.6g", field_number(v));
		else
			snprintf(buf, len, "%" PRIu64, (uint64_t)field_sum(v));
	}
}

/* Write the text for a {FIELD} of a template. Return false if the field is
 * empty or 0. */
static bool put_field(char *buf, size_t len, const char *text, size_t size,
		      const json_t *row)
{
	bool quiet = *text == '?';
	size_t names = strcspn(text, ":}"), at = quiet, n;
	struct found f = { .value = NULL };
	char form[16] = "";

	if (names < size)
		snprintf(form, sizeof(form), "%.*s", (int)(size - names - 1),
			 text + names + 1);
	for (; at < names && !says(f.value); at += n + 1) {
		n = strcspn(text + at, "|:}");
		if (text[at] == '=') {
			snprintf(buf, len, "%.*s", (int)n - 1, text + at + 1);
			return true;
		}
		f = field_at(row, text + at, n);
	}
	if (!quiet)
		put_json(buf, len, &f, form);
	return says(f.value);
}

void mpib_fill_in(char *buf, size_t len, const char *text, const json_t *row)
{
	size_t at = 0, group = 0;
	bool skip = false;

	buf[0] = '\0';
	for (; *text && at + 1 < len; text++) {
		if (*text == '[') {
			group = at;
			skip = false;
		} else if (*text == ']') {
			at = skip ? group : at;
		} else if (*text == '{') {
			size_t size = strcspn(++text, "}");

			buf[at] = '\0';
			skip |= !put_field(buf + at, len - at, text, size, row);
			at += strlen(buf + at);
			text += size;
		} else {
			buf[at++] = *text;
		}
	}
	buf[at] = '\0';
	table_plain(buf);
}

static void table_init(struct table *t, const struct mpib_column *columns)
{
	*t = (struct table){ 0 };
	for (; columns->head; columns++) {
		const char *head = columns->head;

		if (!column_shown(columns))
			continue;
		t->number[t->columns] = head[0] == '#';
		t->wraps = head[0] == '!';
		t->head[t->columns] = head + (strchr("#!", head[0]) != NULL);
		t->columns++;
	}
}

/* Add a row. A cell that is too long is cut and marked "~". */
static void add_row(struct table *t, const struct mpib_column *columns,
		    const json_t *row)
{
	char(*cell)[MPIB_CELL_MAX] = &t->cell[(size_t)t->rows++ * t->columns];

	for (; columns->head; columns++) {
		if (!column_shown(columns))
			continue;
		mpib_fill_in(*cell, sizeof(*cell), columns->text, row);
		if (strlen(*cell) == sizeof(*cell) - 1)
			(*cell)[sizeof(*cell) - 2] = '~';
		cell++;
	}
}

static void add_rows(struct table *t, const struct mpib_column *columns,
		     const json_t *rows, const char *but)
{
	const json_t *row;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		if (!but || says(json_object_get(row, but)))
			add_row(t, columns, row);
	}
}

void mpib_rows_print(const struct mpib_column *columns, const json_t *rows,
		     const json_t *more, const char *but, unsigned width,
		     FILE *out)
{
	size_t most = json_array_size(rows) + json_array_size(more);
	struct table t;

	table_init(&t, columns);
	t.cell = mpib_xcalloc((most + 1) * t.columns * sizeof(*t.cell));
	add_rows(&t, columns, rows, but);
	add_rows(&t, columns, more, but);
	table_print(&t, width, out);
	if (t.rows == 0)
		fprintf(out, "(none)\n");
	free(t.cell);
}

/* Option -o: print the chosen fields of an answer, one row per line. */

/* Return the next name of a list; NULL: there is none. */
static const char *next_name(const char *name)
{
	name += strcspn(name, ",");
	return *name ? name + 1 : NULL;
}

/* Return the field of `row` with the first name of a list, such as
 * "tx_bytes.sout", or NULL. */
static const json_t *fields_find(const json_t *row, const char *name)
{
	return field_at(row, name, strcspn(name, ",")).value;
}

/* Copy a text. Replace control characters, and replace field separators with
 * blanks. */
static char *fields_plain(const char *from)
{
	size_t len = strlen(from) + 1;
	char *text = memcpy(mpib_xcalloc(len), from, len);

	for (char *c = text; (c = strpbrk(c, "\t\r\n")); c++)
		*c = ' ';
	table_plain(text);
	return text;
}

static void print_value(const json_t *v, FILE *out)
{
	if (json_is_string(v)) {
		/* Tabs and newlines in a text would be separators for a
		 * script. */
		char *text = fields_plain(json_string_value(v));

		fputs(text, out);
		free(text);
	} else if (v && !json_is_null(v)) {
		json_dumpf(v, out,
			   JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII |
				   MPIB_JSON_DIGITS);
	} else {
		fputc('-', out);
	}
}

static void print_row(const json_t *row, const char *list, FILE *out)
{
	for (const char *name = list; name; name = next_name(name)) {
		if (name != list)
			fputc('\t', out);
		print_value(fields_find(row, name), out);
	}
	fputc('\n', out);
}

/* Report that no row has a field `name`. Suggest the field with the most
 * similar name, or list some fields. */
static void fields_complain(json_t *row, const char *name, char *why,
			    size_t len)
{
	struct mpib_suggest s = { .typed = name };
	char some[160] = "";
	const char *key;
	json_t *value;

	json_object_foreach(row, key, value)
	{
		size_t at = strlen(some);

		mpib_suggest_try(&s, key);
		if (at + strlen(key) + 3 < sizeof(some))
			snprintf(some + at, sizeof(some) - at, "%s%s",
				 at ? ", " : "", key);
	}
	if (mpib_suggest_best(&s))
		snprintf(why, len,
			 "field \"%s\": the answer has no such field (did you "
			 "mean %s?)",
			 name, mpib_suggest_best(&s));
	else
		snprintf(why, len,
			 "field \"%s\": the answer has no such field (it has "
			 "%s, ...; see -j)",
			 name, some);
	table_plain(why);
}

/* Return whether any row has the field. Rows may have different fields. */
static bool some_has(const json_t *rows, const char *name)
{
	const json_t *row;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		if (fields_find(row, name))
			return true;
	}
	return false;
}

bool mpib_fields_print(json_t *data, const char *list, FILE *out, char *why,
		       size_t len)
{
	json_t *rows = json_is_array(data) ? json_incref(data)
					   : json_pack("[O]", data);
	const json_t *row;
	bool good = true;
	size_t i;

	for (const char *name = list; good && name; name = next_name(name)) {
		char typed[64];

		snprintf(typed, sizeof(typed), "%.*s", (int)strcspn(name, ","),
			 name);
		good = !json_array_size(rows) || some_has(rows, name);
		if (!*typed)
			snprintf(
				why, len,
				"fields \"%.64s\": not a list (give names with "
				"a comma between them)",
				list);
		else if (!good)
			fields_complain(json_array_get(rows, 0), typed, why,
					len);
		good = good && *typed;
	}
	json_array_foreach(rows, i, row)
	{
		if (good)
			print_row(row, list, out);
	}
	json_decref(rows);
	return good;
}
