/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MPIB_CTL_VIEWS_H
#define MPIB_CTL_VIEWS_H

#include <jansson.h>
#include <stdio.h>

/* What a noun shows of the data that the proxy answered. Missing fields show
 * as nothing, so that an older proxy can be looked at too. */
struct mpib_ctl_view {
	const char *noun;
	const char *rows; /* the key of its rows, NULL: data itself */
	void (*print)(const json_t *data, unsigned width, FILE *out);
};

/* views_hist.c, views_events.c, views_info.c */
void mpib_ctl_print_hist(const json_t *data, unsigned width, FILE *out);
void mpib_ctl_print_events(const json_t *data, unsigned width, FILE *out);
void mpib_ctl_print_info(const json_t *data, unsigned width, FILE *out);

extern const struct mpib_ctl_view mpib_ctl_views[];
extern const unsigned mpib_ctl_view_count;

/* NULL when there is none of that name. */
const struct mpib_ctl_view *mpib_ctl_view(const char *noun);

#endif
