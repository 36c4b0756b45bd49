/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of its own for each test, gone afterwards. */
#ifndef MPIB_TESTS_SCRATCH_H
#define MPIB_TESTS_SCRATCH_H

extern char scratch[64];

/* cmocka's setup and teardown. */
int scratch_make(void **state);
int scratch_remove(void **state);

/* The path of name in it, until the next call. */
const char *scratch_path(const char *name);
/* Both make the directories that lead there as well. */
void scratch_dir(const char *name);
void scratch_write(const char *name, const char *text);

#endif
