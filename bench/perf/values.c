/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing the values of options. */
#include "perf/values.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "perf/options.h"

static const char digits[] = "0123456789";

int perf_parse_size(const char *text, uint64_t *size)
{
	static const char suffixes[] = "KMGkmg";
	size_t len = strspn(text, digits);
	unsigned shift = 0;
	const char *hit;
	uint64_t n;

	if (len == 0)
		return -EINVAL;
	if (text[len]) {
		hit = strchr(suffixes, text[len]);
		if (!hit || text[len + 1])
			return -EINVAL;
		shift = 10 * (unsigned)((hit - suffixes) % 3 + 1);
	}
	errno = 0;
	n = strtoull(text, NULL, 10);
	if (errno || n > UINT64_MAX >> shift)
		return -ERANGE;
	*size = n << shift;
	return 0;
}

int perf_get_size(const char *opt, const char *text, uint64_t *size)
{
	if (perf_parse_size(text, size) < 0 || *size > PERF_SIZE_MAX)
		return perf_bad(
			"--%s: \"%s\" is no size (give bytes, or K, M, G, up to 1024G)",
			opt, text);
	return 0;
}

int perf_get_number(const char *opt, const char *text, uint64_t lo, uint64_t hi,
		    uint64_t *out)
{
	if (perf_parse_size(text, out) < 0 || *out < lo || *out > hi)
		return perf_bad(
			"--%s: \"%s\" is out of range (give %llu..%llu)", opt,
			text, (unsigned long long)lo, (unsigned long long)hi);
	return 0;
}

int perf_get_int(const char *opt, const char *text, int lo, int hi, int *out)
{
	uint64_t n;

	if (perf_get_number(opt, text, (uint64_t)lo, (uint64_t)hi, &n) < 0)
		return -EINVAL;
	*out = (int)n;
	return 0;
}

int perf_get_seconds(const char *opt, const char *text, double *out)
{
	size_t len = strspn(text, "0123456789.");
	char *end;

	*out = strtod(text, &end);
	if (!len || end != text + len || (*end && strcmp(end, "s") != 0) ||
	    !(*out > 0) || *out > 1e6)
		return perf_bad(
			"--%s: \"%s\" is no time (give seconds above 0)", opt,
			text);
	return 0;
}
