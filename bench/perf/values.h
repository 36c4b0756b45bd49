/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of options. Unless said otherwise, a function returns 0, or -EINVAL
 * after a line on stderr with the option, the text and what would be right.
 */
#ifndef PERF_VALUES_H
#define PERF_VALUES_H

#include <stdint.h>

/* Parse "64", "8K", "4M" or "1G"; powers of 1024. On -EINVAL or -ERANGE it
 * prints nothing and leaves *size unchanged. */
int perf_parse_size(const char *text, uint64_t *size);

int perf_get_size(const char *opt, const char *text, uint64_t *size);
int perf_get_number(const char *opt, const char *text, uint64_t lo, uint64_t hi,
		    uint64_t *out);
int perf_get_int(const char *opt, const char *text, int lo, int hi, int *out);

/* Parse "1.5" or "1.5s": above 0, at most a million. */
int perf_get_seconds(const char *opt, const char *text, double *out);

#endif
