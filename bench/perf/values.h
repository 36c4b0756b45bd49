/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of options. Each function returns 0, or -EINVAL after a line on stderr
 * that names the option --opt, the text and what would be right.
 */
#ifndef PERF_VALUES_H
#define PERF_VALUES_H

#include <stdint.h>

/* "64", "8K", "4M", "1G"; powers of 1024. -EINVAL or -ERANGE, and no line;
 * then *size is as it was. */
int perf_parse_size(const char *text, uint64_t *size);

int perf_get_size(const char *opt, const char *text, uint64_t *size);
int perf_get_number(const char *opt, const char *text, uint64_t lo, uint64_t hi,
		    uint64_t *out);
int perf_get_int(const char *opt, const char *text, int lo, int hi, int *out);

/* "1.5" or "1.5s", above 0 and up to a million. */
int perf_get_seconds(const char *opt, const char *text, double *out);

#endif
