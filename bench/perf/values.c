/* SPDX-License-Identifier: Apache-2.0 */
/* Parse the values of options. */
#include "perf/values.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

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

int perf_get_pattern(const char *text, enum perf_pattern *pattern)
{
	for (int i = 0; i < PERF_PATTERNS; i++) {
		if (strcmp(text, perf_pattern_name(i)) == 0) {
			*pattern = i;
			return 0;
		}
	}
	return perf_bad(
		"--pattern: there is no \"%s\" (use sendrecv, stream, ring, reduce-scatter, all-gather, alltoall, pingpong or nccl)",
		text);
}

/* Parse a text that is one of two words. Set *is_second to whether the text is
 * the second word. */
static int one_of_two(const char *option, const char *text, const char *first,
		      const char *second, bool *is_second)
{
	*is_second = strcmp(text, second) == 0;
	if (!*is_second && strcmp(text, first) != 0)
		return perf_bad("%s: there is no \"%s\" (use %s or %s)", option,
				text, first, second);
	return 0;
}

int perf_get_order(const char *text, bool *block)
{
	return one_of_two("--order", text, "cyclic", "block", block);
}

int perf_get_memory(const char *text, bool *sealed)
{
	return one_of_two("--memory", text, "private", "sealed", sealed);
}

int perf_options_list(char **list, int *n, const char *text)
{
	while (*text) {
		size_t len = strcspn(text, ",");

		if (len && *n == PERF_NODES_MAX)
			return -1;
		if (len)
			list[(*n)++] = strndup(text, len);
		text += len + (text[len] == ',');
	}
	return 0;
}

int perf_get_list(const char *opt, char **list, int *n, const char *text)
{
	while (*n)
		free(list[--*n]);
	if (perf_options_list(list, n, text) < 0)
		return perf_bad("--%s: more than %d (give fewer)", opt,
				PERF_NODES_MAX);
	if (!*n)
		return perf_bad(
			"--%s: it lists no names (separate them by commas)",
			opt);
	return 0;
}

int perf_get_env(struct perf_options *opt, const char *text)
{
	struct perf_env *env = &opt->env[opt->nenv];
	const char *name = text, *eq;
	size_t len = strspn(text, digits);

	if (opt->nenv == PERF_ENV_MAX)
		return perf_bad("--env: more than %d (give fewer)",
				PERF_ENV_MAX);
	env->node = -1;
	if (len) {
		/* atoi() is safe for up to 9 digits. A longer number becomes
		 * INT_MAX, which is refused later as a node that does not
		 * exist. */
		env->node = len > 9 ? INT_MAX : atoi(text);
		name = text[len] == ':' ? text + len + 1 : "";
	}
	eq = strchr(name, '=');
	if (!eq || eq == name || name + strcspn(name, ": \t\n") < eq)
		return perf_bad(
			"--env: \"%s\" sets nothing (give K=V or NODE:K=V)",
			text);
	env->name = strndup(name, (size_t)(eq - name));
	env->value = eq + 1;
	opt->nenv++;
	return 0;
}

int perf_get_steady(struct perf_options *opt, const char *text)
{
	size_t len = strlen(text);

	opt->steady_count = 0;
	opt->steady_seconds = 0;
	if (len && text[len - 1] == 's')
		return perf_get_seconds("steady", text, &opt->steady_seconds);
	return perf_get_number("steady", text, 1, UINT32_MAX,
			       &opt->steady_count);
}

int perf_get_launcher(const char *text, bool *none)
{
	return one_of_two("--launcher", text, "auto", "none", none);
}

int perf_get_expect(const char *text, double *expect)
{
	if (strcmp(text, "0") != 0)
		return perf_get_seconds("expect", text, expect);
	*expect = 0;
	return 0;
}
