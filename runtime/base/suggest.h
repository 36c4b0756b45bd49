/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MPIB_BASE_SUGGEST_H
#define MPIB_BASE_SUGGEST_H

/* Insertions, removals and replacements between a and b; large where one is
 * longer than 63 bytes. Any thread. */
unsigned mpib_edit_distance(const char *a, const char *b);

/* A name for what somebody mistyped: feed every candidate, then ask. */
struct mpib_suggest {
	const char *typed, *best;
	unsigned distance;
};

void mpib_suggest_try(struct mpib_suggest *s, const char *candidate);
/* NULL when nothing is near. */
const char *mpib_suggest_best(const struct mpib_suggest *s);

#endif
