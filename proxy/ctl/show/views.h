/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MPIB_CTL_VIEWS_H
#define MPIB_CTL_VIEWS_H

#include <jansson.h>
#include <stdio.h>

#include "ctl/show/columns.h"

/* How mpibctl prints the proxy's answer for one noun. Missing fields show as
 * nothing, so that the tool also works with an older proxy. */
struct mpib_ctl_view {
	const char *noun;
	const char *rows; /* key of the rows in data; NULL: data is the rows */
	const char *faulty; /* key of how many have faults, by which the tool
			       ends with 1, too; NULL: none */
	const struct mpib_column *columns; /* of a table of the rows, or NULL */
	void (*print)(const json_t *data, unsigned width,
		      FILE *out); /* what is below the table, or NULL */
};

/* views_moving.c, views_history.c, views_cluster.c */
extern const struct mpib_column mpib_ctl_rails[], mpib_ctl_clients[],
	mpib_ctl_jobs[], mpib_ctl_history[], mpib_ctl_cluster[];

/* views_agent.c, views_cluster.c, views_counters.c, views_hist.c,
 * views_events.c, views_info.c, views_stuck.c */
void mpib_ctl_print_agent(const json_t *data, unsigned width, FILE *out);
void mpib_ctl_print_cluster(const json_t *data, unsigned width, FILE *out);
void mpib_ctl_print_counters(const json_t *data, unsigned width, FILE *out);
void mpib_ctl_print_hist(const json_t *data, unsigned width, FILE *out);
void mpib_ctl_print_events(const json_t *data, unsigned width, FILE *out);
void mpib_ctl_print_info(const json_t *data, unsigned width, FILE *out);
void mpib_ctl_print_stuck(const json_t *data, unsigned width, FILE *out);
void mpib_ctl_print_upgrade(const json_t *data, unsigned width, FILE *out);

extern const struct mpib_ctl_view mpib_ctl_views[];
extern const unsigned mpib_ctl_view_count;

/* NULL when there is no view for noun. */
const struct mpib_ctl_view *mpib_ctl_view(const char *noun);
void mpib_ctl_view_print(const struct mpib_ctl_view *view, const json_t *data,
			 unsigned width, FILE *out);

#endif
