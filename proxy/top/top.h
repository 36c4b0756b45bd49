/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpib-top: mpibctl's tables with rates, taken again and again. screen.c shows one at a
 * time on a terminal; main.c prints them as text.
 */
#ifndef MPIB_TOP_TOP_H
#define MPIB_TOP_TOP_H

#include "ctl/dial.h"

/* What mpib-top can show, nouns of mpibctl. */
#define TOP_NOUNS 8
extern const char *const top_nouns[TOP_NOUNS];

/* A noun's latest answer. */
struct top_table {
	const char *noun;
	json_t *data; /* with rates; NULL: none yet */
	uint64_t at; /* mpib_now_ns() of data */
	bool unsorted; /* leave rows as the proxy lists them */
};

/* Ask the proxy, and compare with the answer before. An exit status as of dial.h; on
 * failure the answer before stays. */
int top_take(struct mpib_dial *d, struct top_table *t);
/* Print the table. Rows are sorted by what they send and receive, most first. */
void top_print(const struct top_table *t, unsigned width, FILE *out);
void top_free(struct top_table *t);

/* Show tables on the terminal until the user quits, beginning with that of this number,
 * and ask every so many seconds. Returns the exit status. If the proxy does not answer at
 * first, a line on stderr says so and no screen is shown. */
int top_screen(const char *run_dir, unsigned noun, double seconds);

#endif
