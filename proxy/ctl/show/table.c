/* SPDX-License-Identifier: Apache-2.0 */
/* Text tables for a terminal, and numbers with units. */
#include "ctl/show/table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define GAP 2
#define SHORTEST 6 /* a shortened column stays that wide */

void mpib_table_init(struct mpib_table *t, const char *const *heads)
{
	*t = (struct mpib_table){ 0 };
	for (; heads[t->columns]; t->columns++) {
		const char *head = heads[t->columns];

		t->number[t->columns] = head[0] == '#';
		snprintf(t->head[t->columns], sizeof(t->head[0]), "%s",
			 head + t->number[t->columns]);
	}
}

void mpib_table_fini(struct mpib_table *t)
{
	free(t->cell);
	t->cell = NULL;
}

void mpib_table_row(struct mpib_table *t)
{
	if (t->rows == t->room) {
		t->room = t->room ? t->room * 2 : 16;
		t->cell = reallocarray(t->cell, t->room,
				       t->columns * sizeof(*t->cell));
		if (!t->cell) {
			fprintf(stderr, "mpibctl: table: out of memory\n");
			exit(1);
		}
	}
	memset(t->cell[(size_t)t->rows++ * t->columns], 0,
	       t->columns * sizeof(*t->cell));
}

void mpib_plain(char *text)
{
	for (unsigned char *c = (unsigned char *)text; *c; c++) {
		if (*c < ' ' || *c == 0x7f) {
			*c = '?';
		} else if (*c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0) {
			/* U+0080 to U+009F, among them another ESC [. */
			*c++ = '?';
			*c = '?';
		}
	}
}

void mpib_table_set(struct mpib_table *t, unsigned column, const char *fmt, ...)
{
	char *cell = t->cell[(t->rows - 1) * t->columns + column];
	va_list ap;

	va_start(ap, fmt);
	if (vsnprintf(cell, MPIB_CELL_MAX, fmt, ap) >= MPIB_CELL_MAX)
		cell[MPIB_CELL_MAX - 2] = '~';
	va_end(ap);
	mpib_plain(cell);
}

static unsigned table_measure(const struct mpib_table *t, unsigned *width)
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
		sum += width[c] + (c ? GAP : 0);
	}
	return sum;
}

/* Make the widest text column narrower by 1. False when no text column can
 * become narrower. */
static bool table_shrink(const struct mpib_table *t, unsigned *width)
{
	unsigned widest = t->columns;

	for (unsigned c = 0; c < t->columns; c++) {
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

static void print_line(const struct mpib_table *t, const unsigned *width,
		       const char *text, size_t stride, FILE *out)
{
	char line[MPIB_TABLE_COLUMNS * (MPIB_CELL_MAX + GAP) + 1];
	size_t at = 0;

	for (unsigned c = 0; c < t->columns; c++, text += stride) {
		int w = (int)width[c];
		const char *gap = c ? "  " : "";
		int n;

		if (strlen(text) > width[c])
			n = sprintf(line + at, "%s%.*s~", gap, w - 1, text);
		else if (t->number[c])
			n = sprintf(line + at, "%s%*s", gap, w, text);
		else
			n = sprintf(line + at, "%s%-*s", gap, w, text);
		at += (size_t)n;
	}
	while (at > 0 && line[at - 1] == ' ')
		at--;
	line[at] = '\0';
	fprintf(out, "%s\n", line);
}

void mpib_table_print(const struct mpib_table *t, unsigned width, FILE *out)
{
	unsigned column[MPIB_TABLE_COLUMNS];
	unsigned sum = table_measure(t, column);

	while (sum > width && table_shrink(t, column))
		sum--;
	print_line(t, column, t->head[0], sizeof(t->head[0]), out);
	for (unsigned r = 0; r < t->rows; r++)
		print_line(t, column, t->cell[(size_t)r * t->columns],
			   MPIB_CELL_MAX, out);
}

/* Write n with three digits and a unit; below the first unit, exactly. */
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

const char *mpib_human_bytes(uint64_t n, char *buf, size_t len)
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
