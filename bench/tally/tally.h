/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench-tally: turns the samples of several repetitions into medians and
 * ranges, as a Markdown table, JSON and files for gnuplot.
 *
 * A sample is a line "REP ROW METRIC VALUE". A metric with "@X" is a point of
 * a series over X, as in bw@65536. The layout has one item per line, with tabs
 * between its words:
 *
 *   title TEXT                          note TEXT
 *   column METRIC HEADING [DIGITS]      row ROW LABEL
 *   derive ROW METRIC FACTOR FROMROW FROMMETRIC
 *   mark TEXT >=|<= LIMIT ROW METRIC [DIVROW DIVMETRIC]
 *
 * A mark with a divisor takes the ratio of two samples of the same repetition,
 * since these were measured close together, and then the median of the ratios.
 */
#ifndef BENCH_TALLY_H
#define BENCH_TALLY_H

#include <stdbool.h>
#include <stddef.h>

#define TALLY_WORDS 8
#define TALLY_REPS 1000

struct tally_item {
	char *line; /* word[] points into the line */
	char *word[TALLY_WORDS];
	unsigned words;
};

struct tally_layout {
	struct tally_item *item;
	size_t count;
};

struct tally_sample {
	unsigned rep;
	char row[48], metric[48];
	double value;
};

struct tally_samples {
	struct tally_sample *sample;
	size_t count;
};

/* Median and range over the n repetitions that have a sample. */
struct tally_stat {
	unsigned n;
	double median, min, max;
};

/* These two end the program, with a line on stderr, when a file cannot be read
 * or is malformed. */
void tally_read_layout(struct tally_layout *l, const char *path);
void tally_read_samples(struct tally_samples *s, const char *path);
void tally_derive(struct tally_samples *s, const struct tally_layout *l);

void tally_free(struct tally_layout *l, struct tally_samples *s);

/* The statistics of a metric of a row; with divrow, of the ratio per
 * repetition. */
struct tally_stat tally_stat(const struct tally_samples *s, const char *row,
			     const char *metric, const char *divrow,
			     const char *divmetric);

/* The next item of kind at or after *at (start with 0), or NULL. */
const struct tally_item *tally_next(const struct tally_layout *l, size_t *at,
				    const char *kind);

/* Write the table to path; NULL means stdout. */
void tally_markdown(const struct tally_layout *l, const struct tally_samples *s,
		    const char *path);
void tally_json(const struct tally_layout *l, const struct tally_samples *s,
		const char *path);
/* Write DIR/METRIC.ROW.dat for each series, lines "x median min max", and
 * DIR/METRIC.dat for each column, a line "label median min max" per row. */
void tally_plots(const struct tally_layout *l, const struct tally_samples *s,
		 const char *dir);

void tally_die(const char *fmt, ...)
	__attribute__((format(printf, 1, 2), noreturn));

#endif
