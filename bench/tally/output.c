/* SPDX-License-Identifier: Apache-2.0 */
/* Results as a Markdown table, as JSON and as files for gnuplot. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tally/tally.h"

static FILE *open_output(const char *path)
{
	FILE *f = path ? fopen(path, "we") : stdout;

	if (!f)
		tally_die("cannot write %s: %s", path, strerror(errno));
	return f;
}

static void close_output(FILE *f, const char *path)
{
	if (fflush(f) || (f != stdout && fclose(f)))
		tally_die("cannot write %s: %s", path ? path : "stdout",
			  strerror(errno));
}

static int digits_of(const struct tally_item *column)
{
	return column->words > 3 ? atoi(column->word[3]) : 2;
}

static void cell(FILE *f, const struct tally_stat *st, int digits)
{
	if (st->n == 0)
		fprintf(f, " - |");
	else if (st->n == 1)
		fprintf(f, " %.*f |", digits, st->median);
	else
		fprintf(f, " %.*f [%.*f–%.*f] |", digits, st->median, digits,
			st->min, digits, st->max);
}

static void print_rows(FILE *f, const struct tally_layout *l,
		       const struct tally_samples *s)
{
	const struct tally_item *row, *col;
	size_t at = 0, c = 0;

	fprintf(f, "| |");
	while ((col = tally_next(l, &c, "column")))
		fprintf(f, " %s |", col->word[2]);
	fprintf(f, "\n|---|");
	c = 0;
	while (tally_next(l, &c, "column"))
		fprintf(f, "---|");
	fprintf(f, "\n");
	while ((row = tally_next(l, &at, "row"))) {
		fprintf(f, "| %s |", row->word[2]);
		c = 0;
		while ((col = tally_next(l, &c, "column"))) {
			struct tally_stat st = tally_stat(
				s, row->word[1], col->word[1], NULL, NULL);

			cell(f, &st, digits_of(col));
		}
		fprintf(f, "\n");
	}
}

static bool holds(const struct tally_item *mark, double value)
{
	double limit = strtod(mark->word[3], NULL);

	return mark->word[2][0] == '>' ? value >= limit : value <= limit;
}

static struct tally_stat mark_stat(const struct tally_samples *s,
				   const struct tally_item *mark)
{
	return tally_stat(s, mark->word[4], mark->word[5],
			  mark->words == 8 ? mark->word[6] : NULL,
			  mark->words == 8 ? mark->word[7] : NULL);
}

static void print_marks(FILE *f, const struct tally_layout *l,
			const struct tally_samples *s)
{
	const struct tally_item *mark;
	size_t at = 0;

	if (!tally_next(l, &at, "mark"))
		return;
	at = 0;
	fprintf(f, "\n| mark | want | is | |\n|---|---|---|---|\n");
	while ((mark = tally_next(l, &at, "mark"))) {
		struct tally_stat st = mark_stat(s, mark);

		fprintf(f, "| %s | %s %s |", mark->word[1], mark->word[2],
			mark->word[3]);
		cell(f, &st, 3);
		fprintf(f, " %s |\n",
			st.n == 0		 ? "not measured"
			: holds(mark, st.median) ? "holds"
						 : "does not hold");
	}
}

void tally_markdown(const struct tally_layout *l, const struct tally_samples *s,
		    const char *path)
{
	FILE *f = open_output(path);
	const struct tally_item *it;
	size_t at = 0;

	while ((it = tally_next(l, &at, "title")))
		fprintf(f, "%s\n\n", it->word[1]);
	print_rows(f, l, s);
	print_marks(f, l, s);
	at = 0;
	while ((it = tally_next(l, &at, "note")))
		fprintf(f, "\n%s\n", it->word[1]);
	close_output(f, path);
}

static json_t *json_stat(const struct tally_stat *st)
{
	return json_pack("{s:i,s:f,s:f,s:f}", "n", (int)st->n, "median",
			 st->median, "min", st->min, "max", st->max);
}

/* All metrics of a row that have samples, with or without a column. */
static json_t *json_row(const struct tally_samples *s, const char *row)
{
	json_t *all = json_object();

	for (size_t i = 0; i < s->count; i++) {
		const struct tally_sample *one = &s->sample[i];
		struct tally_stat st;

		if (strcmp(one->row, row) || json_object_get(all, one->metric))
			continue;
		st = tally_stat(s, row, one->metric, NULL, NULL);
		json_object_set_new(all, one->metric, json_stat(&st));
	}
	return all;
}

static json_t *json_marks(const struct tally_layout *l,
			  const struct tally_samples *s)
{
	json_t *all = json_array();
	const struct tally_item *mark;
	size_t at = 0;

	while ((mark = tally_next(l, &at, "mark"))) {
		struct tally_stat st = mark_stat(s, mark);

		json_array_append_new(
			all, json_pack("{s:s,s:s,s:f,s:o,s:b}", "mark",
				       mark->word[1], "want", mark->word[2],
				       "limit", strtod(mark->word[3], NULL),
				       "is", json_stat(&st), "holds",
				       st.n > 0 && holds(mark, st.median)));
	}
	return all;
}

void tally_json(const struct tally_layout *l, const struct tally_samples *s,
		const char *path)
{
	json_t *rows = json_object(), *texts = json_array(), *all;
	const struct tally_item *it;
	FILE *f = open_output(path);
	size_t at = 0;

	while ((it = tally_next(l, &at, "row")))
		json_object_set_new(rows, it->word[1],
				    json_row(s, it->word[1]));
	for (size_t i = 0; i < l->count; i++) {
		it = &l->item[i];
		if (!strcmp(it->word[0], "title") ||
		    !strcmp(it->word[0], "note"))
			json_array_append_new(texts, json_string(it->word[1]));
	}
	all = json_pack("{s:o,s:o,s:o}", "about", texts, "rows", rows, "marks",
			json_marks(l, s));
	if (!all || json_dumpf(all, f, JSON_INDENT(1)) < 0)
		tally_die("cannot write %s", path);
	fputc('\n', f);
	json_decref(all);
	close_output(f, path);
}

static FILE *open_in(const char *dir, const char *metric, size_t len,
		     const char *row, const char *mode)
{
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%.*s%s%s.dat", dir, (int)len, metric,
		 row ? "." : "", row ? row : "");
	f = fopen(path, mode);
	if (!f)
		tally_die("cannot write %s: %s", path, strerror(errno));
	return f;
}

/* Whether sample i repeats a row and metric of an earlier sample. Points are
 * written at their first sample, so they are in the order measured. */
static bool seen_before(const struct tally_samples *s, size_t i)
{
	const struct tally_sample *one = &s->sample[i];

	for (size_t k = 0; k < i; k++) {
		if (!strcmp(s->sample[k].row, one->row) &&
		    !strcmp(s->sample[k].metric, one->metric))
			return true;
	}
	return false;
}

static void plot_series(const struct tally_samples *s, const char *dir)
{
	for (size_t i = 0; i < s->count; i++) {
		const struct tally_sample *one = &s->sample[i];
		const char *x = strchr(one->metric, '@');
		struct tally_stat st;
		FILE *f;

		if (!x || seen_before(s, i))
			continue;
		st = tally_stat(s, one->row, one->metric, NULL, NULL);
		f = open_in(dir, one->metric, (size_t)(x - one->metric),
			    one->row, "ae");
		fprintf(f, "%s %.6g %.6g %.6g\n", x + 1, st.median, st.min,
			st.max);
		close_output(f, dir);
	}
}

void tally_plots(const struct tally_layout *l, const struct tally_samples *s,
		 const char *dir)
{
	const struct tally_item *row, *col;
	size_t c = 0;

	while ((col = tally_next(l, &c, "column"))) {
		FILE *f = open_in(dir, col->word[1], strlen(col->word[1]), NULL,
				  "we");
		size_t r = 0;

		while ((row = tally_next(l, &r, "row"))) {
			struct tally_stat st = tally_stat(
				s, row->word[1], col->word[1], NULL, NULL);

			if (st.n)
				fprintf(f, "\"%s\" %.6g %.6g %.6g\n",
					row->word[2], st.median, st.min,
					st.max);
		}
		close_output(f, dir);
	}
	plot_series(s, dir);
}
