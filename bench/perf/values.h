/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of options. Unless its comment says otherwise, a function returns 0,
 * or prints a line to stderr and returns -EINVAL. The line has the option, the
 * text, and which values are valid.
 */
#ifndef PERF_VALUES_H
#define PERF_VALUES_H

#include "perf/options.h"

/* Parse a size such as "64", "8K", "4M" or "1G", with powers of 1024. On
 * -EINVAL or -ERANGE it prints nothing and does not change *size. */
int perf_parse_size(const char *text, uint64_t *size);

int perf_get_size(const char *opt, const char *text, uint64_t *size);
int perf_get_number(const char *opt, const char *text, uint64_t lo, uint64_t hi,
		    uint64_t *out);
int perf_get_int(const char *opt, const char *text, int lo, int hi, int *out);

/* Parse a time such as "1.5" or "1.5s": above 0, at most a million seconds. */
int perf_get_seconds(const char *opt, const char *text, double *out);

int perf_get_pattern(const char *text, enum perf_pattern *pattern);
int perf_get_order(const char *text, bool *block);
int perf_get_memory(const char *text, bool *sealed);
int perf_get_env(struct perf_options *opt, const char *text);
int perf_get_steady(struct perf_options *opt, const char *text);
int perf_get_launcher(const char *text, bool *none);
int perf_get_expect(const char *text, double *expect);

/* Set `list` to the names in `text`, which are separated by commas. `opt` is
 * the name of the option. */
int perf_get_list(const char *opt, char **list, int *n, const char *text);

/* Add the names in `text` to `list`. Returns -1 if there are more than
 * PERF_NODES_MAX. */
int perf_options_list(char **list, int *n, const char *text);

#endif
