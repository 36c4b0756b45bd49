/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of options that are words. They return 0, or -EINVAL after a line on
 * stderr with the option, the text and what would be right.
 */
#ifndef PERF_WORDS_H
#define PERF_WORDS_H

#include "perf/options.h"

int perf_get_pattern(const char *text, enum perf_pattern *pattern);
int perf_get_order(const char *text, bool *block);
int perf_get_memory(const char *text, bool *sealed);
int perf_get_env(struct perf_options *opt, const char *text);
int perf_get_steady(struct perf_options *opt, const char *text);
int perf_get_launcher(const char *text, bool *none);
int perf_get_expect(const char *text, double *expect);

/* Make list the names in text, separated by commas; opt is the option. */
int perf_get_list(const char *opt, char **list, int *n, const char *text);

/* Add the names in text to list. -1 if they are more than PERF_NODES_MAX. */
int perf_options_list(char **list, int *n, const char *text);

#endif
