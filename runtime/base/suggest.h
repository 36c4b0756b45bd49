/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MPIB_BASE_SUGGEST_H
#define MPIB_BASE_SUGGEST_H

#include <stddef.h>

/* The number of insertions, removals and replacements that make b out of a; 63
 * if either is longer than 63 bytes. Any thread. */
unsigned mpib_edit_distance(const char *a, const char *b);

/* Finds the name that a mistyped word was meant to be: set typed, try every
 * candidate, then ask for the best. Any thread. */
struct mpib_suggest {
	const char *typed, *best;
	unsigned distance;
};

void mpib_suggest_try(struct mpib_suggest *s, const char *candidate);
/* NULL if no candidate is near. */
const char *mpib_suggest_best(const struct mpib_suggest *s);
/* "did you mean NAME?", in buf, or otherwise if no candidate is near. */
const char *mpib_suggest_remedy(const struct mpib_suggest *s,
				const char *otherwise, char *buf, size_t len);

/* The word that getopt_long() has just refused; shorts are the letters that it knows. */
const char *mpib_option_word(char **argv, const char *shorts);

#endif
