/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/show/columns.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

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

/* The field at a path, and the last key of it. */
struct found {
	json_t *value;
	char key[40];
};

static struct found field_at(const json_t *row, const char *path, size_t len)
{
	struct found f = { .value = NULL };

	for (size_t at = 0; row && at < len; row = f.value) {
		size_t n = strcspn(path + at, ".|:}");

		snprintf(f.key, sizeof(f.key), "%.*s", (int)n, path + at);
		if (json_is_array(row))
			f.value = json_array_get(row, (size_t)(f.key[0] - '0'));
		else
			f.value = json_object_get(row, f.key);
		at += n + 1;
	}
	return f;
}

/* Exact; of a number per rail or cause, the sum. */
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

bool mpib_says(json_t *value)
{
	if (json_is_string(value))
		return *json_string_value(value);
	if (json_is_array(value))
		return json_array_size(value) > 0;
	return json_is_true(value) || field_number(value) > 0;
}

void mpib_join(char *buf, size_t len, const char *between, const json_t *list)
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

/* False: form is none of a moment. */
static bool put_moment(char *buf, size_t len, const char *form, double at)
{
	time_t when = (time_t)at, now = time(NULL);
	struct tm tm;

	localtime_r(&when, &tm);
	if (!strcmp(form, "time"))
		strftime(buf, len, "%H:%M:%S", &tm);
	else if (!strcmp(form, "date"))
		strftime(buf, len, "%m-%d %H:%M:%S", &tm);
	else if (!strcmp(form, "day"))
		strftime(buf, len, "%F %T", &tm);
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

/* False: form is none of a number. */
static bool put_form(char *buf, size_t len, const char *form, json_t *value)
{
	double n = field_number(value);

	if (!strcmp(form, "bytes"))
		mpib_human_bytes((uint64_t)field_sum(value), buf, len);
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
		mpib_join(buf, len, *form ? form : ", ", v);
	} else if (!put_form(buf, len, form, v)) {
		if (json_is_real(v))
			snprintf(buf, len, "%.6g", field_number(v));
		else
			snprintf(buf, len, "%" PRIu64, (uint64_t)field_sum(v));
	}
}

/* Write what is between { and }. False: it says nothing. */
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
	for (; at < names && !mpib_says(f.value); at += n + 1) {
		n = strcspn(text + at, "|:}");
		if (text[at] == '=') {
			snprintf(buf, len, "%.*s", (int)n - 1, text + at + 1);
			return true;
		}
		f = field_at(row, text + at, n);
	}
	if (!quiet)
		put_json(buf, len, &f, form);
	return mpib_says(f.value);
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
	mpib_plain(buf);
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
		char text[MPIB_CELL_MAX + 1] = "";

		if (!column_shown(columns))
			continue;
		if (columns->cell)
			columns->cell(text, sizeof(text), row);
		else
			mpib_fill_in(text, sizeof(text), columns->text, row);
		mpib_table_set(t, at++, "%s", text);
	}
}
