/* SPDX-License-Identifier: Apache-2.0 */
#include "base/suggest.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#define WORD_MAX 63

static unsigned suggest_min3(unsigned a, unsigned b, unsigned c)
{
	unsigned m = a < b ? a : b;

	return m < c ? m : c;
}

unsigned mpib_edit_distance(const char *a, const char *b)
{
	size_t la = strlen(a), lb = strlen(b);
	unsigned row[WORD_MAX + 1];

	if (la > WORD_MAX || lb > WORD_MAX)
		return WORD_MAX;

	for (size_t j = 0; j <= lb; j++)
		row[j] = (unsigned)j;
	for (size_t i = 1; i <= la; i++) {
		unsigned corner = row[0];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= lb; j++) {
			unsigned up = row[j];

			row[j] = suggest_min3(up + 1, row[j - 1] + 1,
					      corner + (a[i - 1] != b[j - 1]));
			corner = up;
		}
	}
	return row[lb];
}

void mpib_suggest_try(struct mpib_suggest *s, const char *candidate)
{
	unsigned d = mpib_edit_distance(s->typed, candidate);

	if (!s->best || d < s->distance) {
		s->best = candidate;
		s->distance = d;
	}
}

const char *mpib_suggest_best(const struct mpib_suggest *s)
{
	size_t len = strlen(s->typed);

	/* Near means: half of the letters of a short word differ, or three of a
	 * long one. */
	return s->best && s->distance <= (len > 6 ? 3 : len / 2) ? s->best
								 : NULL;
}

const char *mpib_suggest_remedy(const struct mpib_suggest *s,
				const char *otherwise, char *buf, size_t len)
{
	const char *best = mpib_suggest_best(s);

	if (!best)
		return otherwise;
	snprintf(buf, len, "did you mean %s?", best);
	return buf;
}

const char *mpib_option_word(char **argv, const char *shorts)
{
	const char *at = argv[optind];

	/* It stays at a word that has letters left, and is behind any other. */
	if (optopt > 0 && optopt < 256 && !strchr(shorts, optopt) && at &&
	    at[0] == '-' && at[1] != '-' && strchr(at, optopt))
		return at;
	return argv[optind - 1];
}
